"""The jobs that the state of a worker set has heard of, in stretches of the agreed order.

Pure. A state that has a job no longer, and has heard of it, says with that that the job is done;
so a stretch never has a job in it that the state has not heard of. Stretches that share a job
are one.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

from groupcomm_client.coordination.work_messages import JobId, Stretch

MOST_STRETCHES: Final = 4000
"""The stretches that a state remembers, each of some 100 bytes; it forgets the earliest ones."""


class Seen:
    """The jobs that one state has heard of.

    Attributes:
        stretches: rising; no two of them share a job.
    """

    def __init__(self, stretches: Iterable[Stretch] = ()) -> None:
        self.stretches = list(stretches)

    def note(self, id: JobId, *, transitional: bool) -> None:
        """Add a job, later than all others.

        Args:
            id: the job.
            transitional: whether jobs before it may be missing here; such a job is a stretch of
                its own. Otherwise every job of its view is heard of from the first one on.
        """
        stretches = self.stretches
        if not transitional and stretches and stretches[-1][1].view == id.view:
            stretches[-1] = (stretches[-1][0], id)
            return
        stretches.append((id, id))
        del stretches[:-MOST_STRETCHES]

    def __contains__(self, id: JobId) -> bool:
        """Return whether the state has heard of a job, and has not forgotten that."""
        place = bisect_right(self.stretches, id, key=_first) - 1
        return place >= 0 and id <= self.stretches[place][1]


def unite(parts: Iterable[Iterable[Stretch]]) -> list[Stretch]:
    """Return the jobs that several states have heard of together; the earliest are forgotten."""
    united: list[Stretch] = []
    for first, last in sorted(stretch for part in parts for stretch in part):
        if united and first <= united[-1][1]:
            united[-1] = (united[-1][0], max(united[-1][1], last))
        else:
            united.append((first, last))
    return united[-MOST_STRETCHES:]


def _first(stretch: Stretch) -> JobId:
    return stretch[0]
