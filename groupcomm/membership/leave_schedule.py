"""The schedule of leave messages: a daemon that leaves sends some of them."""

from math import inf

REPEATS = 4
"""Who hears none of them finds its silence."""

INTERVAL_S = 0.002


class LeaveSchedule:
    """The times at which a daemon that leaves says so.

    Attributes:
        begun: the daemon leaves; it does nothing else any more.
        due: when to say so next; inf if not at all.
    """

    __slots__ = ("_left", "begun", "due")

    def __init__(self) -> None:
        self.begun = False
        self.due = inf
        self._left = REPEATS

    def begin(self, now: float) -> None:
        """Leave from now on."""
        if not self.begun:
            self.begun = True
            self.due = now

    def count_sent(self, now: float) -> bool:
        """Count a leave message that is being sent; return whether it is the last."""
        self._left -= 1
        self.due = now + INTERVAL_S if self._left else inf
        return not self._left
