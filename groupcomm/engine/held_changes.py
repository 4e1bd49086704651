"""Held changes: changes of groups that follow each other fast are written together.

Pure. ``now`` is in seconds. Where N programs join a group at once, each of the N members gets N
changes, and to write each one by itself would be most of the work of its daemon. The first change
after a quiet time goes out at once; those that follow wait in the outbox of their session, and go
out with whatever else it gets meanwhile. So no order changes, and a change is told a little later
at most: the more members wait for it, the longer, so that these writes take a small part of the
processor however large the group is.
"""

from math import inf
from typing import Final

MANY: Final = 64
"""The local members from which on changes of a group are held: to fewer they go out at once."""

WRITES_A_S: Final = 5_000
"""The writes of held changes in a second: a tenth of a processor."""

MOST_HOLD_S: Final = 0.5
"""The longest time for which a change waits, however many members get it."""

HELD_A_FRAME: Final = 4
"""The changes that are put into outboxes in the time that a frame takes with its write."""


def hold_s(receivers: int) -> float:
    """Return the time for which changes wait once so many sessions have got one."""
    return min(MOST_HOLD_S, receivers / WRITES_A_S)


class HeldChanges:
    """The sessions whose outboxes have changes that wait.

    Attributes:
        waiting: their connections.
        due: when they go out; inf if nothing waits.
    """

    __slots__ = ("_quiet_from", "due", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[int, None] = {}
        self.due = inf
        self._quiet_from = -inf  # from then on a change goes out at once

    def must_wait(self, receivers: int, now: float) -> bool:
        """Return whether a change waits that is delivered now, to so many sessions."""
        if receivers < MANY:
            return False
        if now < self._quiet_from:
            return True
        self._quiet_from = now + hold_s(receivers)
        return False

    def hold(self, connection: int) -> None:
        """Note that changes for a session wait in its outbox."""
        self.waiting[connection] = None
        self.due = self._quiet_from

    def pop_due(self, now: float) -> dict[int, None]:
        """Return the sessions whose changes have waited long enough."""
        if now < self.due:
            return {}
        found, self.waiting = self.waiting, {}
        self.due, self._quiet_from = inf, now + hold_s(len(found))
        return found
