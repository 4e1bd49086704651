"""Versions of the protocol between daemons: the range that one speaks, and what a view uses.

Pure values. Each daemon announces in its joins the lowest and the highest version that it speaks,
and the features that it has. A view uses the highest version that all its members speak, and the
features that all of them have. docs/compatibility.md has the rules by which versions are raised.
"""

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Final

import attrs

from groupcomm.errors import ConfigError

MAX_FEATURES: Final = 64
"""Features are bits of one number."""


@attrs.frozen(kw_only=True)
class Versions:
    """A range of versions, and features.

    Attributes:
        lowest: the lowest version, at least 1.
        highest: the highest version.
        features: bits of features.
    """

    lowest: int = 1
    highest: int = 1
    features: int = 0

    def __attrs_post_init__(self) -> None:
        if not 1 <= self.lowest <= self.highest or not 0 <= self.features < 2**MAX_FEATURES:
            raise ConfigError(
                f"versions {self.lowest} to {self.highest}, features {self.features:#x}: versions"
                f" rise from 1, and there are {MAX_FEATURES} features"
            )

    def __str__(self) -> str:
        if self.lowest == self.highest:
            return f"version {self.lowest}"
        return f"versions {self.lowest} to {self.highest}"

    @property
    def knows_pauses(self) -> bool:
        """Return whether joins that need a quorum are known to all: announcements tell of them."""
        needed = CARRIED | PAUSES
        return self.features & needed == needed

    @property
    def has_local_safe(self) -> bool:
        """Return whether SAFE messages may be local, as AGREED ones are."""
        needed = LOCALITY | LOCAL_SAFE
        return self.features & needed == needed

    def meets(self, other: "Versions") -> bool:
        """Return whether both ranges have a version in common."""
        return max(self.lowest, other.lowest) <= min(self.highest, other.highest)

    def common(self, other: "Versions") -> "Versions":
        """Return the versions and features in common; raise ConfigError without any version."""
        if not self.meets(other):
            raise ConfigError(f"{self} and {other} have none in common")
        return Versions(
            lowest=max(self.lowest, other.lowest),
            highest=min(self.highest, other.highest),
            features=self.features & other.features,
        )


PACKED: Final = 2
"""From this version on announcements may be compressed (groups/announcement.py)."""

INVITATIONS: Final = 1 << 0
"""The feature of daemons that can read rosters with invitations (docs/joining.md)."""

HOST_NAMES: Final = 1 << 1
"""The feature of daemons that look up the names of hosts in rosters."""

READERS: Final = 1 << 2
"""The feature of daemons that know sessions which read a group without being its members."""

CARRIED: Final = 1 << 3
"""The feature of daemons that keep, in a new view, the rows of those that come along with them."""

SEGMENTS: Final = 1 << 4
"""The feature of daemons that join the segments of large datagrams (wire/segments.py)."""

VOTES: Final = 1 << 5
"""The feature of daemons that can read rosters with votes and a policy (config/votes.py)."""

DIGESTS: Final = 1 << 6
"""The feature of daemons that read digests in place of daemons heard, and of proposals."""

# Bit 7 is free: it was a shorter form of the token's rows, before any release.

LOCALITY: Final = 1 << 8
"""The feature of daemons that have a right to send to other rings, whose own messages are local."""

ADDRESSED: Final = 1 << 9
"""The feature of daemons that read horizon notices to some rings, and of the shared tree."""

LINES: Final = 1 << 10
"""The feature of daemons that keep a table of the lines of senders (groups/lines.py)."""

PAUSES: Final = 1 << 11
"""The feature of daemons that know joins which need a quorum (docs/minority.md)."""

LOCAL_SAFE: Final = 1 << 12
"""The feature of daemons that report what they can deliver, by which SAFE messages are local."""

CROWDS: Final = 1 << 13
"""The feature of daemons that send beacons to partners only (membership/vouched.py), and can be in
views of more than 64 rings."""

COLUMNS: Final = 1 << 14
"""The feature of daemons that read tokens by columns (wire/columns.py)."""

FEATURES: Final[Mapping[int, str]] = {
    INVITATIONS: "invitations",
    HOST_NAMES: "host-names",
    READERS: "readers",
    CARRIED: "carried",
    SEGMENTS: "segments",
    VOTES: "votes",
    DIGESTS: "digests",
    LOCALITY: "locality",
    ADDRESSED: "addressed",
    LINES: "lines",
    PAUSES: "pauses",
    LOCAL_SAFE: "local-safe",
    CROWDS: "crowds",
    COLUMNS: "columns",
}
"""The names of features, by their bits."""

SPOKEN: Final = Versions(lowest=1, highest=PACKED, features=sum(FEATURES))
"""The versions and features of this release."""


def shared(found: Iterable[Versions]) -> Versions:
    """Return what daemons have in common; raise ConfigError if they have no version in common.

    Args:
        found: the versions of each, at least one.
    """
    return reduce(Versions.common, found)


def feature_names(features: int) -> list[str]:
    """Return the names of features, sorted; of unknown ones the number of the bit."""
    bits = [bit for bit in range(MAX_FEATURES) if features >> bit & 1]
    return sorted(FEATURES.get(1 << bit, f"feature {bit}") for bit in bits)


def speakers(found: Mapping[int, Versions], me: int) -> frozenset[int]:
    """Return the daemons that can share a view with one daemon, as they share a version.

    All compute the same: the version that most of them speak decides, of several the highest one;
    the daemons that do not speak it do the same among themselves.

    Args:
        found: the versions of all daemons that hear each other, by number.
        me: the number of the daemon, which is among them.
    """
    left = dict(found)
    while True:
        tops = {each.highest for each in left.values()}
        speaking = {
            top: [number for number, each in left.items() if each.lowest <= top <= each.highest]
            for top in tops
        }
        chosen = speaking[max(tops, key=lambda top: (len(speaking[top]), top))]
        if me in chosen:
            return frozenset(chosen)
        left = {number: each for number, each in left.items() if number not in chosen}
