"""Daemons that are set up otherwise than this one, for the log, `status` and `groupcomm doctor`.

There are two kinds. Daemons with other settings announce them; the core compares
(groupcomm/membership/comparison.py), and `ConfigDifferences` makes sentences of the result, which
name the file of this host, the keys, and the other hosts by daemon and address.

Of other daemons only rejected datagrams are known. The reason of the rejection names the
likely cause, and the source the host to check. A sender without a key can forge both, except
for ``unlisted``. So `RejectedSenders` keeps all addresses for `groupcomm status` and `groupcomm
doctor`, and the log names only sources that the configuration lists, or that have the key.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol

import attrs

from groupcomm.config.shared import Difference
from groupcomm.engine import Status
from groupcomm.host.addresses import Address
from groupcomm.membership.comparison import OtherConfiguration, Verdict
from groupcommd.config.daemon_config import DaemonConfig

MAX_KEYS: Final = 5
"""The most settings in one sentence."""

PATIENCE_S: Final = 5.0
"""The time within which a daemon announces its settings, unless its messages are lost."""

_log = logging.getLogger("groupcommd")


@attrs.frozen
class DifferenceReport:
    """The report on one configuration that differs.

    Attributes:
        other: the configuration.
        text: the differences, whose file counts, and the consequences.
        remedy: the remedy.
    """

    other: OtherConfiguration
    text: str
    remedy: str


class ConfigDifferences:
    """The other configurations that one daemon knows.

    Args:
        config: returns its own configuration.
    """

    def __init__(self, config: Callable[[], DaemonConfig]) -> None:
        self._config = config
        self._logged: dict[tuple[str, ...], str] = {}  # the logged text by daemons
        self._since: dict[tuple[str, ...], float] = {}

    def statements(self, status: Status) -> list[DifferenceReport]:
        """Return a report for each configuration that differs."""
        return [self._state(other, status) for other in status.differing]

    def check(self, status: Status) -> None:
        """Log changes; called once a second."""
        now, config = status.at, self._config()
        statements = {found.other.daemons: found for found in self.statements(status)}
        self._since = {daemons: self._since.get(daemons, now) for daemons in statements}
        for daemons, found in statements.items():
            learns = found.other.excludes and config.core.agreed is not None  # the roster
            unknown = learns or not found.other.differences
            waits = unknown and now < self._since[daemons] + PATIENCE_S
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
            _log.info("all daemons that are heard have the same settings again")
        self._logged = {d: text for d, text in self._logged.items() if d in statements}

    def report(self, status: Status) -> dict[str, Any]:
        """Return the file of this host and all differences, as plain values."""
        return {
            "file": None if self._config().file is None else str(self._config().file),
            "differ": [
                {**_fields(found.other), "text": found.text, "remedy": found.remedy}
                for found in self.statements(status)
            ],
        }

    # ---- sentences ----

    def _state(self, other: OtherConfiguration, status: Status) -> DifferenceReport:
        ours, theirs = self._ours, self._hosts(other.daemons, status)
        what = _what(other.differences)
        if not other.excludes:
            return DifferenceReport(
                other,
                f"{ours} and that of {theirs} differ in {what}; these daemons form views "
                "together nevertheless",
                "make the files equal, then restart the daemons whose files were changed",
            )
        if other.verdict is Verdict.THEIRS:
            return DifferenceReport(
                other,
                f"{ours} differs from that of {theirs} in {what}; theirs counts, as more daemons"
                f" have it, so {self._config().name} is left out of their view",
                f"make the files equal, then restart {self._config().name}",
            )
        if other.verdict is Verdict.OURS:
            be = "are" if len(other.daemons) > 1 else "is"
            alike = " and ".join(("this host", *other.alike))
            return DifferenceReport(
                other,
                f"the file of {theirs} differs from {self._file}, that of {alike}, in {what};"
                f" ours counts, as more daemons have it, so {_list(other.daemons)} {be} left out"
                " of our view",
                f"make the files equal, then restart {_list(other.daemons)}",
            )
        return DifferenceReport(
            other,
            f"{ours} and that of {theirs} differ in {what}; neither counts, as one has no more"
            " daemons than the other, and each has views of its own",
            "make the files equal, then restart the daemons whose files were changed",
        )

    @property
    def _file(self) -> str:
        return "without a file" if self._config().file is None else str(self._config().file)

    @property
    def _ours(self) -> str:
        return f"this host's file {self._file}"

    def _hosts(self, daemons: Iterable[str], status: Status) -> str:
        known = [(name, self._address_of(name, status)) for name in daemons]
        return _list([f"{name} ({address or 'not listed'})" for name, address in known])

    def _address_of(self, name: str, status: Status) -> str | None:
        """Return the address of a daemon from this host's file, or else from the daemon itself."""
        if name in self._config().addresses:
            return str(self._config().addresses[name])
        for peer in status.peers:
            if peer.name == name:
                ends = f".daemons.{name}"
                return next((v[0] for k, v in peer.advised if k.endswith(ends)), None)
        return None


def _fields(other: OtherConfiguration) -> dict[str, Any]:
    return {
        "daemons": list(other.daemons),
        "same_as_here": list(other.alike),
        "excludes": other.excludes,
        "counts": other.verdict.name.lower(),
        "settings": [attrs.asdict(found) for found in other.differences],
    }


def _list(names: Sequence[str]) -> str:
    return " and ".join(names)


def _what(differences: Sequence[Difference]) -> str:
    if not differences:
        return "settings that they have not reported yet"
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


LEARN_S: Final = 1.0
"""The time within which a daemon that starts learns the roster, which lists more daemons."""

MAX_SENDERS: Final = 32
"""The number of sources and reasons that are kept, the latest ones; more are junk."""

LOOK_S: Final = 0.1
"""The time between two searches for a source: junk comes in masses, and a search costs time."""

FRESH_S: Final = 10.0
"""Older datagrams are not reported."""


@attrs.frozen
class RejectionCause:
    """The likely cause of datagrams that are dropped.

    Attributes:
        what: the kind of the datagrams.
        keys: the keys of the configuration that differ.
        remedy: the remedy.
        proven: whether the sender has the key, so that it is a daemon of the cluster.
    """

    what: str
    keys: str
    remedy: str
    proven: bool = False


CAUSES: Final = {
    "tag": RejectionCause(
        "were sealed with another key",
        "key_file",
        "give all daemons the same key file, and restart them",
    ),
    "key": RejectionCause(
        "name a key that this daemon lacks",
        "key_file",
        "copy another host's key file, and: groupcomm keys add FILE --from COPY",
    ),
    "suite": RejectionCause(
        "are sealed in another way: without keys, with keys, or with keys and identities",
        "insecure, key_file, identity and identities",
        "give all daemons the same of insecure, key_file, identity and identities",
    ),
    "identity": RejectionCause(
        "are of daemons without an identity that counts here",
        "identities",
        "list their public keys at all hosts, unless they were evicted: groupcomm identity add",
        proven=True,
    ),
    "cluster": RejectionCause(
        "are of another cluster",
        "cluster",
        "give the clusters different ports, or one cluster name",
    ),
    "unlisted": RejectionCause(
        "are of daemons that are not listed",
        "sites.*.daemons",
        "stop them, or add them with: groupcomm daemons add; if no daemon was ever added so, list"
        " all daemons at all hosts, and restart the daemons whose files were changed",
        proven=True,
    ),
    "version": RejectionCause(
        "are of another release", "", "install the same release at all daemons"
    ),
}
"""By the reason of the rejection, for datagrams that another daemon may send in good faith."""


class DatagramSource(Protocol):
    """The socket that datagrams come from."""

    def source_of(self, index: int) -> Address | None:
        """Return the source of a datagram of the latest drain, by its index; None if unknown."""


@attrs.define
class RejectedSender:
    """A source of datagrams that are dropped for one reason.

    Attributes:
        address: the source.
        name: the daemon that is listed at this address; None if none is.
        reason: the reason for which they are dropped.
        seen_at: the time of the latest one.
    """

    address: Address
    name: str | None
    reason: str
    seen_at: float

    def __str__(self) -> str:
        return f"{self.name} ({self.address})" if self.name is not None else str(self.address)


def listed(config: DaemonConfig) -> list[tuple[str, Address]]:
    """Return each daemon with each of its addresses, those that were looked up last."""
    found = [(name, at) for name, places in config.places.items() for at in places]
    return [*found, *config.located.items()]


class RejectedSenders:
    """The sources of datagrams that one daemon drops.

    Args:
        config: returns its configuration.
    """

    def __init__(self, config: Callable[[], DaemonConfig]) -> None:
        self._config = config
        self._found: dict[tuple[str, Address], RejectedSender] = {}
        self._logged: set[tuple[str, Address]] = set()
        self._since: dict[Address, float] = {}  # of daemons that are not listed
        self._look_at = 0.0

    def note(
        self,
        dropped: Sequence[tuple[bytes, str]],
        datagrams: Sequence[bytes],
        source: DatagramSource,
        now: float,
    ) -> None:
        """Note the sources of datagrams that a step has dropped.

        Args:
            dropped: some of the dropped datagrams, each with the reason.
            datagrams: all datagrams of the step.
            source: the socket that has received them.
            now: seconds.
        """
        if now < self._look_at:
            return
        self._look_at = now + LOOK_S
        names = {at: name for name, at in listed(self._config())}
        for datagram, reason in dropped:
            if reason in CAUSES:
                index = next(at for at, each in enumerate(datagrams) if each is datagram)
                address = source.source_of(index)
                if address is not None:
                    self._note(reason, address, names.get(address), now)

    def _note(self, reason: str, address: Address, name: str | None, now: float) -> None:
        key = reason, address
        self._found.pop(key, None)
        self._found[key] = stranger = RejectedSender(address, name, reason, now)
        if len(self._found) > MAX_SENDERS:
            del self._found[next(iter(self._found))]
        if reason == "unlisted" and now < self._since.setdefault(address, now) + LEARN_S:
            return  # this daemon may be about to learn the roster
        named = name is not None or CAUSES[reason].proven
        if named and key not in self._logged and len(self._logged) < MAX_SENDERS:
            self._logged.add(key)
            self._log(stranger)

    def _log(self, stranger: RejectedSender) -> None:
        cause, file = CAUSES[stranger.reason], self._config().file or "this daemon's settings"
        differs = f"; most likely {cause.keys} differs there from {file}" if cause.keys else ""
        # A sender without a key may have invented them, under any address.
        _log.log(
            logging.ERROR if cause.proven else logging.WARNING,
            "datagrams from %s %s (%s)%s%s: %s",
            stranger,
            cause.what,
            stranger.reason,
            differs,
            "" if cause.proven else "; if that daemon has sent them",
            cause.remedy,
            extra={"address": str(stranger.address), "reason": stranger.reason},
        )

    def report(self, now: float) -> list[dict[str, Any]]:
        """Return the sources of the last FRESH_S seconds, the latest last, as plain values."""
        return [
            {
                "address": str(found.address),
                "name": found.name,
                "reason": found.reason,
                "text": str(found),
                "seen_s": round(now - found.seen_at, 3),
            }
            for found in self._found.values()
            if found.seen_at >= now - FRESH_S
        ]
