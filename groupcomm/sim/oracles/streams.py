"""What one ring has numbered and promised in one view."""

from bisect import bisect_left
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
        authors: who numbered them.
        horizon: the highest it has announced.
        announced: the latest KEPT pairs (value, upto) that it has announced.
    """

    __slots__ = ("_order", "announced", "authors", "horizon", "numbers", "times")

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.times: list[int] = []
        self.authors: list[str] = []
        self.horizon = NOTHING
        self.announced: set[tuple[int, int]] = set()
        self._order: deque[tuple[int, int]] = deque()

    def _index(self, number: int) -> int:
        numbers = self.numbers
        if not numbers:
            return NOTHING
        at = number - numbers[0]
        if 0 <= at < len(numbers) and numbers[at] == number:
            return at
        at = bisect_left(numbers, number)
        return at if at < len(numbers) and numbers[at] == number else NOTHING

    def time_of(self, number: int) -> int:
        """The stamp of a packet; -1 if there is none of that number."""
        at = self._index(number)
        return self.times[at] if at >= 0 else NOTHING

    def author_of(self, number: int) -> str | None:
        """Who numbered a packet."""
        at = self._index(number)
        return self.authors[at] if at >= 0 else None

    def announce(self, value: int, upto: int) -> None:
        """Note a promise."""
        self.horizon = max(self.horizon, value)
        self.announced.add((value, upto))
        self._order.append((value, upto))
        if len(self._order) > KEPT:
            self.announced.discard(self._order.popleft())
