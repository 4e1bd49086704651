"""What waits to be sent over a link: retransmissions first, then each origin its share.

Pure. Sites that send through one link get the same share of it in bytes, however much each has
queued (start-time fair queueing, Goyal, Vin, Cheng, SIGCOMM 1996, with equal weights).
"""

from collections import deque
from typing import Final, NamedTuple

from groupcomm.wire.link import LINK_BYTES, PIECE_BYTES, PROBE_BYTES, Piece

MOST_DROPPABLE_BYTES: Final = 256 * 1024
"""UNRELIABLE packets of one origin that wait; more are lost: nothing holds their senders back."""


class Queued(NamedTuple):
    """A packet on its way over a link.

    Attributes:
        origin: the ring that it comes from.
        number: in that ring's stream; 0 for one outside the streams, which is never repeated.
        packet: the bytes; empty for a piece of one, or a probe.
        piece: a piece of the packet, whose others are queued with it.
        zeros: of a probe, which has no origin.
    """

    origin: int
    number: int
    packet: bytes
    piece: Piece | None = None
    zeros: int = 0

    @property
    def size(self) -> int:
        """Bytes of the link's packet that carries it."""
        if self.piece is not None:
            return PIECE_BYTES + len(self.piece.content)
        return len(self.packet) + LINK_BYTES if self.packet else PROBE_BYTES + self.zeros


class FairQueue:
    """The queue of one direction of a link.

    Attributes:
        bytes: that wait.
        dropped: UNRELIABLE packets that found no room.
    """

    __slots__ = ("_again", "_droppable", "_served", "_waiting", "bytes", "dropped")

    def __init__(self) -> None:
        self._again: deque[Queued] = deque()
        self._waiting: dict[int, deque[Queued]] = {}  # by origin; none is empty
        self._served: dict[int, int] = {}  # bytes, as if all had always waited
        self._droppable: dict[int, int] = {}  # bytes outside the streams, by origin
        self.bytes = 0
        self.dropped = 0

    def __bool__(self) -> bool:
        return bool(self._again or self._waiting)

    def add(self, queued: Queued) -> None:
        """Queue a packet, or drop one outside the streams that finds no room."""
        origin, size = queued.origin, queued.size
        if not queued.number:
            waiting = self._droppable.get(origin, 0)
            if waiting + size > MOST_DROPPABLE_BYTES:
                self.dropped += 1
                return
            self._droppable[origin] = waiting + size
        queue = self._waiting.get(origin)
        if queue is None:
            queue = self._waiting[origin] = deque()
            least = min((self._served[o] for o in self._waiting if o != origin), default=0)
            self._served[origin] = max(self._served.get(origin, 0), least)
        queue.append(queued)
        self.bytes += size

    def again(self, queued: Queued) -> None:
        """Queue a packet that was lost on its way, before all others."""
        self._again.append(queued)
        self.bytes += queued.size

    def take(self) -> Queued:
        """The next packet; there is one."""
        if self._again:
            queued = self._again.popleft()
            self.bytes -= queued.size
            return queued
        origin = min(self._waiting, key=self._served.__getitem__)
        queue = self._waiting[origin]
        queued = queue.popleft()
        if not queue:
            del self._waiting[origin]
        size = queued.size
        self._served[origin] += size
        self.bytes -= size
        if not queued.number:
            self._droppable[origin] -= size
        return queued
