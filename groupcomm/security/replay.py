"""A window against datagrams that come twice (RFC 4303, section 3.4.3, without its 32 bits)."""

from typing import Final

WINDOW: Final = 4096
"""Counters behind the highest that are still taken, each once."""

_MASK: Final = (1 << WINDOW) - 1


class ReplayWindow:
    """Which counters of one sender were taken. The first above `floor` may be anything.

    Args:
        floor: this counter and all below it are taken; -1: none is.

    Attributes:
        highest: the highest counter that was taken; the floor before the first. A counter above it
            is new, which most are, so callers look at this before they call `check`.
    """

    __slots__ = ("_seen", "highest")

    def __init__(self, floor: int = -1) -> None:
        self.highest = floor
        self._seen = 0 if floor < 0 else _MASK  # bit i: counter highest - i was taken

    def check(self, counter: int) -> bool:
        """Whether this counter is new; changes nothing."""
        behind = self.highest - counter
        if behind < 0:
            return True
        return behind < WINDOW and not self._seen >> behind & 1

    def accept(self, counter: int) -> None:
        """Note a counter that `check` called new, once its datagram is known to be authentic."""
        ahead = counter - self.highest
        if ahead <= 0:
            self._seen |= 1 << -ahead
        elif ahead >= WINDOW:
            self._seen = 1
            self.highest = counter
        else:
            self._seen = (self._seen << ahead | 1) & _MASK
            self.highest = counter
