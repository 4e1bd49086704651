"""Physical time for stamps: monotonic time, laid on the wall clock once and slewed since.

A wall clock that is set, by hand or by a time service, must neither stop nor throw the agreed
order. So only its value at the start and its slow drift are taken over.
"""

from typing import Final

SLEW: Final = 500e-6
"""Seconds per second by which the offset moves towards the wall clock, as ntpd's kernel does."""

JUMP_S: Final = 1.0
"""A wall clock that moves by more than this between two looks was set."""


class PhysicalClock:
    """Microseconds that never go back.

    Attributes:
        jumps: how often the wall clock was set since the start.
    """

    __slots__ = ("_last", "_offset_s", "_seen_at", "_seen_error_s", "_set_by_s", "jumps")

    def __init__(self, now: float, wall: float) -> None:
        """Start at a monotonic time `now` and a wall time `wall`, both in seconds."""
        self._offset_s = wall - now
        self._set_by_s = 0.0  # by how much the wall clock was set since the start
        self._seen_at = now
        self._seen_error_s = 0.0
        self._last = 0
        self.jumps = 0

    def read(self, now: float) -> int:
        """Physical time in microseconds, 0 at least."""
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
