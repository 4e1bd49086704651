"""Virtual time: the simulator's event loop, and the clocks of simulated daemons.

Time is an int, in whole microseconds, so that sums are exact and a trace is the same on every
machine. Calls due at the same microsecond run in the order in which they were asked for. A daemon
reads a monotonic clock of any rate, and a wall clock that jumps.
"""

import itertools
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any

SECOND = 1_000_000
"""Microseconds in a second; all simulated times are multiples of a microsecond."""


def microseconds(seconds: float) -> int:
    """Return a duration in whole microseconds."""
    return round(seconds * SECOND)


def random_for(seed: int, purpose: str) -> Random:
    """Return the random source of one purpose in the run of one seed.

    Each purpose has its own, so that one more draw in one place leaves all others as they were.
    A string seeds the same sequence whatever PYTHONHASHSEED is.
    """
    return Random(f"{seed}/{purpose}")


class Loop:
    """An event loop that runs calls in the order of their virtual times.

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
        assert time >= self.now, (
            f"a call at {time} us was requested at {self.now} us, which is later"
        )
        heappush(self._heap, (time, self._next(), call, argument))

    @property
    def deadline(self) -> int | None:
        """Return the time of the next call; None if there is none."""
        return self._heap[0][0] if self._heap else None

    def run(self, until: int) -> None:
        """Run all calls due up to and including `until`, then stop at that time."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            self.now, _, call, argument = heappop(heap)
            call(argument)
        self.now = max(self.now, until)


EPOCH_S = 1_800_000_000.0
"""The time of a correct wall clock at the start of a run."""

DAY_S = 86_400.0


class Clock:
    """The clocks of one daemon, read at virtual times.

    Args:
        rng: the random source of this daemon.
        rate: the largest error of the monotonic clock's speed, 0 to 0.1; with a rate
            above 0 the wall clock also starts up to 2 s wrong, and jumps.
        error_s: with rate 0 the largest error of the wall clock, in seconds.
    """

    __slots__ = ("_base", "_frozen", "_rate", "_rng", "_wall")

    def __init__(self, rng: Random, rate: float, error_s: float = 0.005) -> None:
        self._rng = rng
        self._base = rng.uniform(0.0, 100_000.0)  # the machines have been up for different times
        self._rate = 1.0 + rng.uniform(-rate, rate)
        error_s = 2.0 if rate else error_s
        self._wall = EPOCH_S + rng.uniform(-error_s, error_s)
        self._frozen: float | None = None  # the time at which the wall clock stands still

    def monotonic(self, now: int) -> float:
        """Return seconds on the monotonic clock at a virtual time."""
        return self._base + now * self._rate / SECOND

    def wall(self, now: int) -> float:
        """Return seconds since 1970 by this machine's wall clock."""
        return self._wall + now / SECOND if self._frozen is None else self._frozen

    def freeze(self, now: int) -> None:
        """Have the wall clock stand still."""
        self._frozen = self.wall(now)

    def thaw(self) -> None:
        """Have the wall clock go on, at the time that it would have without that."""
        self._frozen = None

    def jump(self) -> None:
        """Make the wall clock jump by up to a day, either way."""
        self._wall += self._rng.uniform(-DAY_S, DAY_S)

    def set_ahead(self, seconds: float) -> None:
        """Advance the wall clock by some time; set it back if the time is below 0."""
        self._wall += seconds

    def set_ahead_of(self, wall_s: float, now: int) -> None:
        """Set the wall clock ahead of a time, unless it is ahead already."""
        self._wall = max(self._wall, wall_s + 1.0 - now / SECOND)

    def when(self, deadline: float, now: int) -> int:
        """Return the first virtual time, `now` at the earliest, at which `deadline` is reached.

        `deadline` is in seconds on the monotonic clock, and finite.
        """
        base, rate = self._base, self._rate
        time = int((deadline - base) * SECOND / rate)
        if time < now:
            time = now
        while base + time * rate / SECOND < deadline:
            time += 1
        return time
