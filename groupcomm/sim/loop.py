"""The simulator's event loop: virtual time in whole microseconds, and a heap.

Time is an int so that sums are exact and a trace is the same on every machine. Calls due at the
same microsecond run in the order in which they were asked for.
"""

import itertools
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any

SECOND = 1_000_000
"""Microseconds in a second; all simulated times are multiples of a microsecond."""


def microseconds(seconds: float) -> int:
    """A duration in whole microseconds."""
    return round(seconds * SECOND)


def random_for(seed: int, purpose: str) -> Random:
    """The random source of one purpose in the run of one seed.

    Each purpose has its own, so that one more draw in one place leaves all others as they were.
    A string seeds the same sequence whatever PYTHONHASHSEED is.
    """
    return Random(f"{seed}/{purpose}")


class Loop:
    """Runs calls in the order of their virtual times.

    Attributes:
        now: microseconds since the start; stands still while a call runs.
    """

    __slots__ = ("_heap", "_next", "now")

    def __init__(self) -> None:
        self.now = 0
        self._next = itertools.count().__next__
        self._heap: list[tuple[int, int, Callable[[Any], None], Any]] = []

    def at(self, time: int, call: Callable[[Any], None], argument: Any = None) -> None:
        """Have ``call(argument)`` run at a time, which must not have passed."""
        assert time >= self.now, f"asked at {self.now} us for a call at {time} us"
        heappush(self._heap, (time, self._next(), call, argument))

    @property
    def deadline(self) -> int | None:
        """When the next call is due; None if none is."""
        return self._heap[0][0] if self._heap else None

    def run(self, until: int) -> None:
        """Run everything due up to and including `until`, then stand at that time."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            self.now, _, call, argument = heappop(heap)
            call(argument)
        self.now = max(self.now, until)
