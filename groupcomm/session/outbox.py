"""Outbox: the frames that wait for a client, in the parts that they were encoded in.

Parts may be shared with other sessions, and be views of packets: nothing is copied before the
client's socket takes it.
"""

from collections import deque
from itertools import chain
from typing import Final

from groupcomm.wire.packet import Raw


class Outbox:
    """A queue of whole frames.

    Attributes:
        size: the bytes of all queued frames.
        popped: the bytes of all frames that were removed.
    """

    __slots__ = ("_frames", "popped", "size")

    def __init__(self) -> None:
        self._frames: deque[tuple[Raw, ...]] = deque()
        self.size = self.popped = 0

    def add(self, frame: tuple[Raw, ...], size: int) -> None:
        """Queue a frame of `size` bytes."""
        self._frames.append(frame)
        self.size += size

    def clear(self) -> None:
        """Drop all frames."""
        self._frames.clear()
        self.popped += self.size
        self.size = 0

    def pop(self, limit: int) -> list[Raw]:
        """Remove and return the parts of whole frames, one frame at least, up to about `limit`
        bytes.
        """
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
"""The most refusals that may wait."""


class Replies:
    """The replies that a client has not read: the offsets of their ends in the session's output.

    A client that asks, or makes forbidden requests, and does not read the replies would fill its
    daemon's memory with them. So the daemon does not process the frames of a session whose client
    has not taken its replies: one answer, and some refusals, may wait.

    Attributes:
        asked: whether a question has come whose answer the client has not taken yet.
    """

    __slots__ = ("_answer", "_ends", "_forgotten", "asked")

    def __init__(self) -> None:
        self.asked = self._forgotten = False
        self._answer: int | None = None
        self._ends: deque[int] = deque()

    def add(self, end: int) -> None:
        """Note that a refusal is queued, up to this offset."""
        self._ends.append(end)

    def answer(self, end: int) -> None:
        """Note that the answer is queued, up to this offset."""
        self._answer = end

    def are_due(self, taken: int) -> bool:
        """Return whether the client must take replies first; it has taken `taken` bytes so far."""
        if self._forgotten:
            return False
        if self._answer is not None and self._answer <= taken:
            self._answer, self.asked = None, False
        ends = self._ends
        while ends and ends[0] <= taken:
            ends.popleft()
        return self.asked or len(ends) >= MOST_REPLIES

    def forget(self) -> None:
        """Forget all replies, as the client has gone: none is due from now on."""
        self._forgotten = True
