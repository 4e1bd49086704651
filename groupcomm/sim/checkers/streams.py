"""What one ring has numbered and promised in one view."""

from collections import deque
from typing import Final

NOTHING: Final = -1

KEPT: Final = 50_000
"""So many horizons are remembered."""


class Stream:
    """The packets of one ring in one view.

    Attributes:
        numbers: of its packets, rising.
        times: their stamps, rising.
        packets: by number, stamp and author.
        horizon: the highest it has announced.
        announced: the latest KEPT pairs (value, upto) that it has announced.
    """

    __slots__ = ("_order", "announced", "horizon", "numbers", "packets", "times")

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.times: list[int] = []
        self.packets: dict[int, tuple[int, str]] = {}
        self.horizon = NOTHING
        self.announced: set[tuple[int, int]] = set()
        self._order: deque[tuple[int, int]] = deque()

    def number(self, number: int, time: int, author: str) -> None:
        """Note a packet; number and time are above those of the last one."""
        self.numbers.append(number)
        self.times.append(time)
        self.packets[number] = (time, author)

    def announce(self, value: int, upto: int) -> None:
        """Note a promise."""
        self.horizon = max(self.horizon, value)
        self.announced.add((value, upto))
        self._order.append((value, upto))
        if len(self._order) > KEPT:
            self.announced.discard(self._order.popleft())
