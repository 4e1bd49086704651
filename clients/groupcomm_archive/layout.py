"""Which groups an archive records, and in which logs.

Groups that were named when the folder was made share one log, in the folder itself. A group that
matches a pattern has a log of its own, below ``_groups``, as it may begin at any time; so has one
with limits of its own, as whole files are removed, and one that was named later, as the common log
does not have its past.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Final
from urllib.parse import quote

import attrs

from groupcomm.security.access import parse_pattern
from groupcomm_log.writer import Limits

FOLDER: Final = "_groups"
GROUPS: Final = "_groups.json"
RESERVED: Final = "groupcomm."
"""The start of the names of groups that are recorded only if a pattern or a name says so."""

_LONGEST: Final = 100

ANY: Final = "*"


def matches(pattern: str, group: str) -> bool:
    """Return whether a pattern stands for a group; ``*`` stands for any characters."""
    if group.startswith(RESERVED) and not pattern.startswith(RESERVED):
        return False
    return parse_pattern(pattern).matches(group)


@attrs.frozen
class Keep:
    """How much is kept: of one pattern of groups, or of all.

    Attributes:
        pattern: the groups; None for all that no other entry is for.
        value: seconds, or bytes.
    """

    pattern: str | None
    value: float


@attrs.frozen
class LogSpec:
    """A log of an archive.

    Attributes:
        groups: its groups.
        folder: its folder.
        limits: its limits.
        key: the key of its messages, see `groupcomm_archive.keys.parse_key`; None if it is
            not compacted.
        whole_s: the age in seconds up to which its sealed files are not compacted.
    """

    groups: tuple[str, ...]
    folder: Path
    limits: Limits
    key: str | None = None
    whole_s: float = 0.0


@attrs.frozen
class Layout:
    """What an archive records.

    Attributes:
        folder: the folder of all logs.
        names: the groups, by name.
        patterns: the groups, by patterns.
        limits: the limits of logs, without those of retention.
        keep_s, keep_bytes: retention; the first entry for a group counts, then that for all.
        compact: patterns of groups that are compacted, and their keys; the first one counts.
    """

    folder: Path
    names: tuple[str, ...]
    patterns: tuple[str, ...]
    limits: Limits
    keep_s: tuple[Keep, ...] = ()
    keep_bytes: tuple[Keep, ...] = ()
    compact: tuple[tuple[str, str], ...] = ()

    def records(self, group: str) -> bool:
        """Return whether a pattern stands for a group."""
        return any(matches(pattern, group) for pattern in self.patterns)

    def logs(self) -> list[LogSpec]:
        """Return the logs to open at the start: of all names, and of groups that have one."""
        own = {group: self.own(group) for group in self._known()}
        before = _groups_in(self.folder)
        common = []
        for group in self.names:
            is_old = before is None or group in before
            if group in own or not is_old or self._has_own_limits(group):
                own.setdefault(group, self.own(group))
            else:
                common.append(group)
        found = [LogSpec(tuple(common), self.folder, self._limits(None))] if common else []
        return found + list(own.values())

    def own(self, group: str) -> LogSpec:
        """Return the log of one group."""
        name = quote(group, safe="").replace(".", "%2E")
        if len(name) > _LONGEST:
            name = f"{name[:_LONGEST]}-{sha256(group.encode()).hexdigest()[:32]}"
        key = self._key_of(group)
        limits = self._limits(group)
        whole_s = limits.keep_s or 0.0
        if key is not None:  # what is removed is in the snapshot first
            limits = replace(limits, keep_s=None, keep_bytes=None)
        return LogSpec((group,), self.folder / FOLDER / name, limits, key, whole_s)

    def _key_of(self, group: str) -> str | None:
        return next((key for pattern, key in self.compact if matches(pattern, group)), None)

    def _known(self) -> list[str]:
        """Return the groups that have a log of their own, and are still recorded."""
        found = [
            group
            for folder in sorted((self.folder / FOLDER).glob("*"))
            for group in _groups_in(folder) or ()
        ]
        return [group for group in found if group in self.names or self.records(group)]

    def _has_own_limits(self, group: str) -> bool:
        return self._key_of(group) is not None or any(
            each.pattern is not None and matches(each.pattern, group)
            for each in (*self.keep_s, *self.keep_bytes)
        )

    def _limits(self, group: str | None) -> Limits:
        keep_bytes = _kept(self.keep_bytes, group)
        return Limits(
            seal_bytes=self.limits.seal_bytes,
            seal_s=self.limits.seal_s,
            keep_bytes=None if keep_bytes is None else int(keep_bytes),
            keep_s=_kept(self.keep_s, group),
        )


def _kept(entries: Sequence[Keep], group: str | None) -> float | None:
    """Return the value for a group; for None that for all."""
    for entry in sorted(entries, key=lambda entry: entry.pattern is None):
        if entry.pattern is None or (group is not None and matches(entry.pattern, group)):
            return entry.value
    return None


def note_groups(folder: Path, groups: Collection[str]) -> None:
    """Write into the folder of a log which groups it records from now on.

    Raises:
        OSError: that failed.
    """
    path = folder / GROUPS
    if _groups_in(folder) != tuple(groups):
        path.touch(mode=0o600)
        path.write_text(json.dumps({"groups": list(groups)}))


def _groups_in(folder: Path) -> tuple[str, ...] | None:
    """Return the groups of a log; None if it does not say which."""
    try:
        return tuple(map(str, json.loads((folder / GROUPS).read_bytes())["groups"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
