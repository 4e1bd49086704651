"""Outbox: the frames that wait for a client, in the parts that they were encoded in.

Parts may be shared with other sessions, and be views of packets: nothing is copied before the
client's socket takes it.
"""

from collections import deque
from itertools import chain
from typing import Final

from groupcomm.wire.raw import Raw


class Outbox:
    """Whole frames, in order.

    Attributes:
        size: bytes of all of them.
        popped: bytes of those that were there before.
    """

    __slots__ = ("_frames", "popped", "size")

    def __init__(self) -> None:
        self._frames: deque[tuple[Raw, ...]] = deque()
        self.size = self.popped = 0

    def add(self, frame: tuple[Raw, ...], size: int) -> None:
        """Queue a frame of so many bytes."""
        self._frames.append(frame)
        self.size += size

    def clear(self) -> None:
        """Forget all."""
        self._frames.clear()
        self.popped += self.size
        self.size = 0

    def pop(self, limit: int) -> list[Raw]:
        """The parts of whole frames, one at least if any waits, until `limit` is reached."""
        if self.size <= limit:
            parts = [*chain.from_iterable(self._frames)]
            self._frames.clear()
            self.popped += self.size
            self.size = 0
            return parts
        parts = []
        popped = 0
        while popped < limit:
            frame = self._frames.popleft()
            popped += sum(map(len, frame))
            parts += frame
        self.size -= popped
        self.popped += popped
        return parts


MOST_REPLIES: Final = 256
"""Refusals that may wait."""


class Replies:
    """Places of replies in what a session has to write: bytes since its begin, behind each.

    Attributes:
        asked: a question has come, and its answer has not been taken yet.
    """

    __slots__ = ("_answer", "_ends", "_forgotten", "asked")

    def __init__(self) -> None:
        self.asked = self._forgotten = False
        self._answer: int | None = None
        self._ends: deque[int] = deque()

    def add(self, end: int) -> None:
        """A refusal waits, up to this place."""
        self._ends.append(end)

    def answer(self, end: int) -> None:
        """The answer waits, up to this place."""
        self._answer = end

    def are_due(self, taken: int) -> bool:
        """Return whether the client has to take replies first, now that it has taken so much."""
        if self._forgotten:
            return False
        if self._answer is not None and self._answer <= taken:
            self._answer, self.asked = None, False
        ends = self._ends
        while ends and ends[0] <= taken:
            ends.popleft()
        return self.asked or len(ends) >= MOST_REPLIES

    def forget(self) -> None:
        """Nobody reads them any more: none is due from now on."""
        self._forgotten = True
