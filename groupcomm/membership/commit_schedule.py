"""When a daemon says its commit again: what others may not have heard, and no more than that.

Pure. ``now`` is in seconds. A recovery may take seconds. The commits of all, passed on where two
daemons do not hear each other, would leave little room on a narrow way for what is being recovered.
"""

from math import inf
from typing import Final

from msgspec import structs

from groupcomm.config.core import Timing
from groupcomm.wire.membership import Commit

QUICK_REPEATS: Final = 4
"""So many times a commit is said again at the same intervals; from then on they grow."""


class CommitSchedule:
    """Of the commits of one daemon, one after the other.

    Attributes:
        due: when the last one is to be said again.
    """

    __slots__ = ("_repeats", "_sent", "_timing", "due")

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._sent: Commit | None = None  # the last one
        self._repeats = 0  # how often it was said again
        self.due = -inf

    def on_sent(self, commit: Commit, now: float) -> None:
        """This one is said now: if it is as before it is said ever more rarely."""
        said, self._sent = self._sent, commit
        self._repeats = self._repeats + 1 if commit == said else 0
        if said is not None and _asks_anew(said, commit):
            wait_s = self._timing.repair_again_s / 2  # what is on its way is not sent again before
        else:
            wait_s = self._timing.repeat_s * max(1.0, self._repeats / QUICK_REPEATS)
        self.due = now + wait_s


def _asks_anew(before: Commit, now: Commit) -> bool:
    """Whether only what is still lacking has changed."""
    if before.missing == now.missing:
        return False
    return structs.replace(before, missing=now.missing) == now
