"""Outbox: the frames that wait for a client, in the parts that they were encoded in.

Parts may be shared with other sessions, and be views of packets: nothing is copied before the
client's socket takes it.
"""

from collections import deque
from itertools import chain

from groupcomm.wire.raw import Raw


class Outbox:
    """Whole frames, in order.

    Attributes:
        size: bytes of all of them.
        taken: bytes of those that were there before.
    """

    __slots__ = ("_frames", "size", "taken")

    def __init__(self) -> None:
        self._frames: deque[tuple[Raw, ...]] = deque()
        self.size = self.taken = 0

    def add(self, frame: tuple[Raw, ...], size: int) -> None:
        """Queue a frame of so many bytes."""
        self._frames.append(frame)
        self.size += size

    def clear(self) -> None:
        """Forget all."""
        self._frames.clear()
        self.taken += self.size
        self.size = 0

    def take(self, limit: int) -> list[Raw]:
        """The parts of whole frames, one at least if any waits, until `limit` is reached."""
        if self.size <= limit:
            parts = [*chain.from_iterable(self._frames)]
            self._frames.clear()
            self.taken += self.size
            self.size = 0
            return parts
        parts = []
        taken = 0
        while taken < limit:
            frame = self._frames.popleft()
            taken += sum(map(len, frame))
            parts += frame
        self.size -= taken
        self.taken += taken
        return parts
