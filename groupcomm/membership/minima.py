"""The minimal ones of many pairs, of which it is asked whether any lies at or below a given one.

H. T. Kung, Luccio and Preparata, "On finding the maxima of a set of vectors", Journal of the ACM
22(4), 1975: of pairs in the order of their first parts, the minimal ones have falling second parts.
"""

from bisect import bisect_left, bisect_right
from typing import Generic, TypeVar

from groupcomm.clocks.stamp import Stamp

A = TypeVar("A", Stamp, int)
B = TypeVar("B", Stamp, int)


class Minima(Generic[A, B]):
    """The minimal ones of all pairs that were added; each pair that is added or asked for costs the
    logarithm of their number."""

    __slots__ = ("_first", "_second")

    def __init__(self) -> None:
        self._first: list[A] = []  # rising
        self._second: list[B] = []  # falling

    def add(self, first: A, second: B) -> None:
        """Add a pair."""
        if self.has_below(first, second):
            return
        start = end = bisect_left(self._first, first)
        while end < len(self._second) and self._second[end] >= second:
            end += 1
        self._first[start:end] = [first]
        self._second[start:end] = [second]

    def has_below(self, first: A, second: B) -> bool:
        """Return whether both parts of some pair are at or below these."""
        at = bisect_right(self._first, first)
        return at > 0 and self._second[at - 1] <= second
