"""What an archive holds of its groups: the intervals of each of its logs. Pure."""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from groupcomm.clocks.stamp import Position
from groupcomm_client.history.frames import Interval


class Holding:
    """What one log holds.

    Attributes:
        groups: the groups of the log.
        intervals: see `Interval`; in order.
        is_live: whether the log gets the events of the line as they happen.
        compacted: the part of which the last message of each key is held; None if there is none.
    """

    def __init__(self, groups: Collection[str], intervals: Iterable[Interval]) -> None:
        """Begin with what the log holds already."""
        self.groups = frozenset(groups)
        self.intervals: list[Interval] = list(intervals)
        self.is_live = False
        self.compacted: Interval | None = None

    @property
    def offered(self) -> Interval | None:
        """Return the compacted part, if everything behind it is held."""
        if self.compacted is None:
            return None
        horizon = self.compacted[1]
        is_joined = any(first <= horizon <= last for first, last in self.intervals)
        return self.compacted if is_joined else None

    def begin_interval(self, first: Position) -> None:
        """Note that the next events are behind a gap."""
        self.intervals.append((first, first))

    def stored(self, upto: Position) -> bool:
        """Note that everything up to a place is stored; return whether that is news."""
        first, last = self.intervals[-1]
        if upto > last:
            self.intervals[-1] = first, upto
        return upto > last

    def removed(self, first: Position) -> None:
        """Note that everything up to a place was removed."""
        kept = [(max(begin, first), last) for begin, last in self.intervals if last > first]
        self.intervals = kept or [(first, first)]


class Held(NamedTuple):
    """An interval that several logs have in common.

    Attributes:
        first, last: see `Interval`.
        grows: whether its end moves on as events are stored.
    """

    first: Position
    last: Position
    grows: bool


def held_by_all(holdings: Sequence[Holding]) -> list[Held]:
    """Return the intervals that logs, at least one, have in common, in order."""
    found = _held(holdings[0])
    for holding in holdings[1:]:
        found = [
            Held(first, last, _ends(one, last) and _ends(other, last))
            for one in found
            for other in _held(holding)
            if (first := max(one.first, other.first)) <= (last := min(one.last, other.last))
        ]
    return found


def _held(holding: Holding) -> list[Held]:
    final = len(holding.intervals) - 1
    return [Held(*each, place == final) for place, each in enumerate(holding.intervals)]


def _ends(held: Held, last: Position) -> bool:
    """Return whether an interval can have more behind a place in it."""
    return held.grows or held.last > last
