"""The ring's clock: a Lamport clock that stays near physical time, and its limit.

It counts microseconds. Every stamp that is seen is followed, however far ahead (Lamport 1978,
IR2); a holder of the token pulls it up to physical time, then ticks once per packet (IR1). So
stamps extend causality even if physical clocks are wrong, and rings whose clocks agree have near
stamps, which keeps the agreed order quick. The idea is that of Kulkarni et al., "Logical Physical
Clocks", OPODIS 2014, with a plain sum in place of its two parts.

Physical time is monotonic time, laid on the wall clock once and slewed since. A wall clock that is
set, by hand or by a time service, must neither stop nor throw the agreed order. So only its value
at the start and its slow drift are adopted.

A stamp or horizon is followed however far it is ahead of this daemon's own clock, but not by years:
no clock ever showed such a time, and to follow it would take the time of the cluster to a value
above which no number is left. Physical clocks of the members of a view agree within seconds when it
begins, so `LatestTime` knows the latest time that can be true.
"""

from typing import Final

from groupcomm.errors import Contradiction, ProtocolViolation

SLEW: Final = 500e-6
"""Seconds per second by which the offset moves towards the wall clock, as ntpd's kernel does."""

JUMP_S: Final = 1.0
"""A wall clock that moves by more than this between two looks was set."""


class PhysicalClock:
    """Microseconds that never go back.

    Attributes:
        jumps: the number of times that the wall clock was set since the start.
    """

    __slots__ = ("_last", "_offset_s", "_seen_at", "_seen_error_s", "_set_by_s", "jumps")

    def __init__(self, now: float, wall: float) -> None:
        """Start at a monotonic time `now` and a wall time `wall`, both in seconds."""
        self._offset_s = wall - now
        self._set_by_s = 0.0  # the sum of all settings of the wall clock since the start
        self._seen_at = now
        self._seen_error_s = 0.0
        self._last = 0
        self.jumps = 0

    def read(self, now: float) -> int:
        """Return physical time in microseconds, 0 at least."""
        value = int((now + self._offset_s) * 1e6)
        if value > self._last:
            self._last = value
        return self._last

    def correct(self, now: float, reading: int) -> None:
        """Go back to `reading` microseconds: others agree that this clock is far ahead."""
        self._offset_s += reading / 1e6 - (now + self._offset_s)
        self._last = 0

    def observe_wall(self, now: float, wall: float) -> None:
        """Compare with the wall clock: slew towards it, or count that it was set."""
        error = wall - now - self._offset_s - self._set_by_s
        if abs(error - self._seen_error_s) > JUMP_S:
            self.jumps += 1
            self._set_by_s += error
            error = 0.0
        step = SLEW * (now - self._seen_at)
        slewed = max(-step, min(step, error))
        self._offset_s += slewed
        self._seen_at = now
        self._seen_error_s = error - slewed


class RingClock:
    """The clock as one daemon of the ring knows it.

    Attributes:
        value: the time in microseconds; no stamp or horizon that was seen or given is above it.
    """

    __slots__ = ("_physical", "value")

    def __init__(self, physical: PhysicalClock, value: int = 0) -> None:
        self._physical = physical
        self.value = value

    def follow(self, time: int) -> None:
        """Note a stamp or horizon of anyone."""
        if time > self.value:
            self.value = time

    def advance(self, now: float) -> int:
        """Catch up with physical time; return the value, a horizon that may be promised."""
        physical = self._physical.read(now)
        if physical > self.value:
            self.value = physical
        return self.value

    def promise(self, now: float, above: int) -> int:
        """Return a horizon above `above`, so that it is news even while physical time is behind."""
        self.advance(now)
        return self.tick() if self.value <= above else self.value

    def tick(self) -> int:
        """Return the stamp of the next packet, above everything that was seen."""
        self.value += 1
        return self.value


FARTHEST_AHEAD_US: Final = 2**36
"""Some 19 hours: clocks that drift apart by a thousandth need two years for it."""

FASTEST: Final = 2
"""No clock is faster than this many times another one."""


class LatestTime:
    """The latest time that can be true in one view, as one daemon knows it.

    Attributes:
        now: seconds; the owner sets it.
        limit: times up to this one are surely true; `check` decides about others.
    """

    __slots__ = ("_base", "_began", "limit", "now")

    def __init__(self, clock: int, reading: int, now: float) -> None:
        """Begin with the least time of the view's stamps and with this daemon's physical time."""
        self._base = max(clock, reading) + FARTHEST_AHEAD_US
        self.limit = self._base
        self._began = self.now = now

    def check(self, time: int) -> None:
        """Raise ProtocolViolation if this cannot be a time of this view.

        Limits differ from daemon to daemon by seconds. A correct daemon may have accepted, and
        passed on, a time that is just beyond the limit here: that is a contradiction, for which
        nobody is to blame.
        """
        if time > self.limit:
            self.limit = self._base + FASTEST * int((self.now - self._began) * 1e6)
            if time > self.limit:
                text = (
                    f"time {time} is ahead of {self.limit}, the latest time that can be true here"
                )
                if time > self.limit + FARTHEST_AHEAD_US:
                    raise ProtocolViolation("time", text)
                raise Contradiction("time", text)
