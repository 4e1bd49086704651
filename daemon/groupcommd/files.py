"""Files that differ: what is told of daemons that run with other settings than this one.

The core compares (groupcomm/membership/comparison.py); here it becomes sentences, the same for the
log, `groupcomm status` and `groupcomm doctor`. They name the file of this host, the keys, and the
other hosts by daemon and address.
"""

import logging
from collections.abc import Iterable, Sequence
from typing import Any, Final

import attrs

from groupcomm.config.shared import Difference
from groupcomm.engine import Status
from groupcomm.membership.comparison import Other, Verdict
from groupcommd.config_file import DaemonConfig

MAX_KEYS: Final = 5
"""Of settings in one sentence."""

PATIENCE_S: Final = 5.0
"""A daemon has told its settings by then, or its messages are lost."""

_log = logging.getLogger("groupcommd")


@attrs.frozen
class Statement:
    """What is to be said of one configuration that differs.

    Attributes:
        other: that configuration.
        text: what differs, whose file counts, and what comes of it.
        remedy: what to do.
    """

    other: Other
    text: str
    remedy: str


class Files:
    """The other configurations, as one daemon knows them.

    Args:
        config: what it runs with.
    """

    def __init__(self, config: DaemonConfig) -> None:
        self._config = config
        self._logged: dict[tuple[str, ...], str] = {}  # by daemons, the text
        self._since: dict[tuple[str, ...], float] = {}

    def statements(self, status: Status) -> list[Statement]:
        """Return what is to be said."""
        return [self._state(other, status) for other in status.differing]

    def look(self, status: Status) -> None:
        """Log what has changed; call it once a second."""
        now = status.at
        statements = {found.other.daemons: found for found in self.statements(status)}
        self._since = {daemons: self._since.get(daemons, now) for daemons in statements}
        for daemons, found in statements.items():
            waits = not found.other.differences and now < self._since[daemons] + PATIENCE_S
            if not waits and self._logged.get(daemons) != found.text:
                self._logged[daemons] = found.text
                level = logging.ERROR if found.other.excludes else logging.WARNING
                _log.log(
                    level,
                    "%s: %s",
                    found.text,
                    found.remedy,
                    extra={"differ": _fields(found.other)},
                )
        if self._logged and not statements:
            _log.info("no daemon that is heard has other settings any more")
        self._logged = {d: text for d, text in self._logged.items() if d in statements}

    def told(self, status: Status) -> dict[str, Any]:
        """Return what JSON is to hold of them."""
        return {
            "file": None if self._config.file is None else str(self._config.file),
            "differ": [
                {**_fields(found.other), "text": found.text, "remedy": found.remedy}
                for found in self.statements(status)
            ],
        }

    # ---- sentences ----

    def _state(self, other: Other, status: Status) -> Statement:
        ours, theirs = self._ours, self._hosts(other.daemons, status)
        what = _what(other.differences)
        if not other.excludes:
            return Statement(
                other,
                f"{ours} and that of {theirs} differ in {what}; these daemons form views all the"
                " same",
                "make the files equal, then restart the daemons whose files were changed",
            )
        if other.verdict is Verdict.THEIRS:
            return Statement(
                other,
                f"{ours} differs from that of {theirs} in {what}; theirs counts, as more daemons"
                f" have it, so {self._config.name} is left out of their view",
                f"make the files equal, then restart {self._config.name}",
            )
        if other.verdict is Verdict.OURS:
            be = "are" if len(other.daemons) > 1 else "is"
            fellows = " and ".join(("this host", *other.fellows))
            return Statement(
                other,
                f"the file of {theirs} differs from {self._file}, that of {fellows}, in {what};"
                f" ours counts, as more daemons have it, so {_list(other.daemons)} {be} left out"
                " of our view",
                f"make the files equal, then restart {_list(other.daemons)}",
            )
        return Statement(
            other,
            f"{ours} and that of {theirs} differ in {what}; neither counts, as one has no more"
            " daemons than the other, and each has views of its own",
            "make the files equal, then restart the daemons whose files were changed",
        )

    @property
    def _file(self) -> str:
        return "without a file" if self._config.file is None else str(self._config.file)

    @property
    def _ours(self) -> str:
        return f"this host's file {self._file}"

    def _hosts(self, daemons: Iterable[str], status: Status) -> str:
        known = [(name, self._address_of(name, status)) for name in daemons]
        return _list([f"{name} ({address or 'not listed'})" for name, address in known])

    def _address_of(self, name: str, status: Status) -> str | None:
        """Return where a daemon is, as this host's file says, or as the daemon itself does."""
        if name in self._config.addresses:
            return str(self._config.addresses[name])
        for peer in status.peers:
            if peer.name == name:
                ends = f".daemons.{name}"
                return next((v[0] for k, v in peer.advised if k.endswith(ends)), None)
        return None


def _fields(other: Other) -> dict[str, Any]:
    return {
        "daemons": list(other.daemons),
        "same_as_here": list(other.fellows),
        "excludes": other.excludes,
        "counts": other.verdict.name.lower(),
        "settings": [attrs.asdict(found) for found in other.differences],
    }


def _list(names: Sequence[str]) -> str:
    return " and ".join(names)


def _what(differences: Sequence[Difference]) -> str:
    if not differences:
        return "settings that they have not told yet"
    found = ", ".join(_one(difference) for difference in differences[:MAX_KEYS])
    more = len(differences) - MAX_KEYS
    return f"{found}, and {more} more" if more > 0 else found


def _one(difference: Difference) -> str:
    here, there = difference.here, difference.there
    if here is None or there is None:
        where, value = ("there", there) if here is None else ("here", here)
        return f"{difference.key} (only {where}: {', '.join(value or ())})"
    if len(here) == len(there) == 1:
        return f"{difference.key} (here {here[0]}, there {there[0]})"
    sides = (
        ("here", [v for v in here if v not in there]),
        ("there", [v for v in there if v not in here]),
    )
    found = "; ".join(f"only {where}: {', '.join(values)}" for where, values in sides if values)
    return f"{difference.key} ({found})"
