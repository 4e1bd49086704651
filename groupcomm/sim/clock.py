"""A simulated daemon's clocks: a monotonic one of any rate, and a wall clock that jumps."""

from random import Random

from groupcomm.sim.loop import SECOND

EPOCH_S = 1_800_000_000.0
"""What a correct wall clock shows at the start of a run."""

DAY_S = 86_400.0


class Clock:
    """Turns virtual time into what one daemon reads off its clocks.

    Args:
        rng: this daemon's source.
        rate: the monotonic clock runs up to so much too fast or too slow, 0 to 0.1; with a rate
            above 0 the wall clock also starts up to 2 s wrong, and jumps.
        error_s: else the wall clock is up to so many seconds wrong.
    """

    __slots__ = ("_base", "_rate", "_rng", "_wall")

    def __init__(self, rng: Random, rate: float, error_s: float = 0.005) -> None:
        self._rng = rng
        self._base = rng.uniform(0.0, 100_000.0)  # machines have been up for differing times
        self._rate = 1.0 + rng.uniform(-rate, rate)
        error_s = 2.0 if rate else error_s
        self._wall = EPOCH_S + rng.uniform(-error_s, error_s)

    def monotonic(self, now: int) -> float:
        """Seconds on the monotonic clock at a virtual time."""
        return self._base + now * self._rate / SECOND

    def wall(self, now: int) -> float:
        """Seconds since 1970 as this machine believes."""
        return self._wall + now / SECOND

    def jump(self) -> None:
        """The wall clock jumps by up to a day, either way."""
        self._wall += self._rng.uniform(-DAY_S, DAY_S)

    def set_ahead(self, seconds: float) -> None:
        """The wall clock is set by so much; back, if it is below 0."""
        self._wall += seconds

    def set_ahead_of(self, wall_s: float, now: int) -> None:
        """See to it that the wall clock shows more than this."""
        self._wall = max(self._wall, wall_s + 1.0 - now / SECOND)

    def when(self, deadline: float, now: int) -> int:
        """The first virtual time, `now` at the earliest, at which `deadline` is reached.

        `deadline` is in seconds on the monotonic clock, and finite.
        """
        base, rate = self._base, self._rate
        time = int((deadline - base) * SECOND / rate)
        if time < now:
            time = now
        while base + time * rate / SECOND < deadline:
            time += 1
        return time
