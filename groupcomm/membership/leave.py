"""The times at which a daemon that leaves says so. Pure; ``now`` is in seconds."""

from math import inf
from typing import Final

LEAVE_REPEATS: Final = 4
"""A daemon that leaves says so this many times; a daemon that misses all notices its silence."""

LEAVE_INTERVAL_S: Final = 0.002


class LeaveSchedule:
    """The times at which a daemon that leaves says so.

    Attributes:
        begun: whether the daemon leaves; it does nothing else any more.
        due: the time of the next LEAVE; inf if none is due.
    """

    __slots__ = ("_left", "begun", "due")

    def __init__(self) -> None:
        self.begun = False
        self.due = inf
        self._left = LEAVE_REPEATS

    def begin(self, now: float) -> None:
        """Leave from now on."""
        if not self.begun:
            self.begun = True
            self.due = now

    def count_sent(self, now: float) -> bool:
        """Count a leave message that is being sent; return whether it is the last."""
        self._left -= 1
        self.due = now + LEAVE_INTERVAL_S if self._left else inf
        return not self._left
