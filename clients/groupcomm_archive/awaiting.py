"""Who waits until this archive holds a place of the line on its disk. Pure."""

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from typing import Final, TypeAlias

import attrs

from groupcomm.clocks.stamp import Position
from groupcomm.events import MemberId
from groupcomm.level import ServiceLevel
from groupcomm_archive.holdings import Held
from groupcomm_client.history.frames import AwaitKept, Kept, encode
from groupcomm_client.history.subscriber import Send

MOST: Final = 10_000
"""The questions that wait; others are dropped, and their programs repeat them."""

WAIT_S: Final = 60.0
"""The time after which a question is forgotten; programs repeat theirs sooner."""

Groups: TypeAlias = tuple[str, ...]
_Asked: TypeAlias = tuple[Position, float, MemberId, int]


@attrs.frozen
class Disk:
    """What an archive says of itself to those who want to know who keeps their messages.

    Attributes:
        name: the name of its folder; see `Kept`.
        archives: how many archives there are to be, 0 if that is unknown.
    """

    name: bytes
    archives: int


class Awaiting:
    """The questions that wait, by their groups: the lowest place first."""

    def __init__(self, disk: Disk) -> None:
        """Begin without any."""
        self._disk = disk
        self._of: dict[Groups, list[_Asked]] = {}
        self._known: set[tuple[MemberId, int]] = set()

    @property
    def count(self) -> int:
        """Return the number of questions that wait."""
        return len(self._known)

    def add(self, sender: MemberId, question: AwaitKept, now: float) -> None:
        """Add a question, unless it waits already; call `pop_held` then."""
        if self.count < MOST and (sender, question.number) not in self._known:
            self._known.add((sender, question.number))
            of_groups = self._of.setdefault(question.groups, [])
            heappush(of_groups, (question.place, now, sender, question.number))

    def pop_held(self, held: Callable[[Groups], Sequence[Held]]) -> list[Send]:
        """Remove the questions whose places are held, or never will be; return the answers.

        Args:
            held: returns the intervals that are on the disk, of some groups.
        """
        answers: list[Send] = []
        for groups, asked in list(self._of.items()):
            intervals = held(groups)
            while asked and intervals and asked[0][0] <= intervals[-1].last:
                place, _, sender, number = heappop(asked)
                self._known.remove((sender, number))
                if any(each.first < place <= each.last for each in intervals):
                    kept = Kept(number, self._disk.name, self._disk.archives)
                    answers.append(Send(sender.name, encode(kept), ServiceLevel.FIFO))
            if not asked:
                del self._of[groups]
        return answers

    def expire(self, now: float) -> None:
        """Forget the questions that are too old."""
        for groups, asked in list(self._of.items()):
            asked[:] = [each for each in asked if now < each[1] + WAIT_S]
            heapify(asked)
            if not asked:
                del self._of[groups]
        self._known = {each[2:] for asked in self._of.values() for each in asked}
