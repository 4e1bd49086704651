"""The latest time that can be true in a view, as one daemon knows it.

A stamp or horizon is followed however far ahead it is of this daemon's own clock. What is ahead
of it by years was never read from a clock: followed, it would take the time of the cluster to where
no number is left. Physical clocks of the members of a view agree within seconds when it begins.
"""

from typing import Final

from groupcomm.errors import Contradiction, ProtocolViolation

FARTHEST_AHEAD_US: Final = 2**36
"""Some 19 hours: clocks that drift apart by a thousandth need two years for it."""

FASTEST: Final = 2
"""No clock is faster than this many times another one."""


class LatestTime:
    """The limit of one view.

    Attributes:
        now: seconds; its owner sets it.
    """

    __slots__ = ("_base", "_began", "_limit", "now")

    def __init__(self, clock: int, reading: int, now: float) -> None:
        """Begin with the least time of the view's stamps and with this daemon's physical time."""
        self._base = max(clock, reading) + FARTHEST_AHEAD_US
        self._limit = self._base
        self._began = self.now = now

    def check(self, time: int) -> None:
        """Raise ProtocolViolation if this cannot be a time of this view.

        Limits differ from daemon to daemon by seconds. One that is just beyond may have been taken
        by whoever passes it on: it is a contradiction, for which nobody is to blame.
        """
        if time > self._limit:
            self._limit = self._base + FASTEST * int((self.now - self._began) * 1e6)
            if time > self._limit:
                text = f"{time}, where {self._limit} is the latest"
                if time > self._limit + FARTHEST_AHEAD_US:
                    raise ProtocolViolation("time", text)
                raise Contradiction("time", text)
