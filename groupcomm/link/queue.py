"""The queues of a link: packets in a fair queue, and horizon notices that leave together.

Pure. ``now`` is in seconds. Retransmissions go first, then each origin gets its share: sites that
send over one link get the same share of it in bytes, however much each has queued (start-time fair
queueing, Goyal, Vin, Cheng, SIGCOMM 1996, with equal weights).
"""

from collections import deque
from math import inf
from typing import Final, NamedTuple

from groupcomm.wire.horizon import (
    HORIZON_HEAD_BYTES,
    HorizonNotice,
    add_targets,
    horizon_packet,
)
from groupcomm.wire.link import LINK_BYTES, LINK_FRAGMENT_BYTES, PROBE_BYTES, LinkFragment

MOST_DROPPABLE_BYTES: Final = 256 * 1024
"""The most bytes of waiting UNRELIABLE packets of one origin. More are dropped, because nothing
holds their senders back."""


class Queued(NamedTuple):
    """A packet on its way over a link.

    Attributes:
        origin: the packet's ring.
        number: its number in the stream of that ring; 0 for a packet outside the streams, which is
            never sent again.
        packet: the bytes; empty for a fragment or a probe.
        fragment: a fragment of the packet, whose others are queued with it; None otherwise.
        zeros: the size of a probe, which has no origin.
    """

    origin: int
    number: int
    packet: bytes
    fragment: LinkFragment | None = None
    zeros: int = 0

    @property
    def size(self) -> int:
        """Return the bytes of the link packet that carries it."""
        if self.fragment is not None:
            return LINK_FRAGMENT_BYTES + len(self.fragment.content)
        return len(self.packet) + LINK_BYTES if self.packet else PROBE_BYTES + self.zeros


class FairQueue:
    """The packets that wait in one direction of a link.

    Attributes:
        bytes: the bytes that wait.
        dropped: the number of UNRELIABLE packets that found no room.
    """

    __slots__ = ("_droppable", "_retransmissions", "_served", "_waiting", "bytes", "dropped")

    def __init__(self) -> None:
        self._retransmissions: deque[Queued] = deque()
        self._waiting: dict[int, deque[Queued]] = {}  # packets by origin; no queue is empty
        self._served: dict[int, int] = {}  # bytes, as if each origin had always had packets
        self._droppable: dict[int, int] = {}  # bytes outside the streams, by origin
        self.bytes = 0
        self.dropped = 0

    def __bool__(self) -> bool:
        return bool(self._retransmissions or self._waiting)

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

    def add_first(self, queued: Queued) -> None:
        """Queue a lost packet, or a fragment, ahead of all packets that were never sent."""
        self._retransmissions.append(queued)
        self.bytes += queued.size

    def clear(self) -> None:
        """Forget all packets that wait."""
        self._retransmissions.clear()
        self._waiting.clear()
        self._droppable.clear()
        self.bytes = 0

    def pop(self) -> Queued:
        """Remove and return the next packet; the queue must not be empty."""
        if self._retransmissions:
            queued = self._retransmissions.popleft()
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


class NoticeQueue:
    """The horizon notices that wait for one link, or for this ring; they leave in few packets.

    Only the newest notice of each ring is of use, so it replaces an older one that waits, and goes
    to the rings of both.

    Attributes:
        due: the time at which the notices leave; inf if none waits.
    """

    __slots__ = ("_encoded", "_key", "_room", "due")

    def __init__(self, key: bytes, packet_limit: int) -> None:
        self._key = key
        self._room = packet_limit - HORIZON_HEAD_BYTES
        # The encoded notice of each ring, that to some rings and that of the shared tree.
        self._encoded: dict[tuple[int, bool], bytes] = {}
        self.due = inf

    def add(self, notice: HorizonNotice, encoded: bytes, due: float) -> None:
        """Queue a notice, to leave at `due` at the latest."""
        place = notice.ring, notice.shared
        if notice.targets and (older := self._encoded.get(place)):
            encoded = add_targets(encoded, older)
        self._encoded[place] = encoded
        self.due = min(self.due, due)

    def pop_due(self, now: float) -> list[bytes]:
        """Remove the notices if they are due; return the packets that carry them."""
        if now < self.due:
            return []
        packets: list[list[bytes]] = [[]]
        room = self._room
        for _, encoded in sorted(self._encoded.items()):
            if len(encoded) > room and packets[-1]:
                packets.append([])
                room = self._room
            packets[-1].append(encoded)
            room -= len(encoded)
        self._encoded.clear()
        self.due = inf
        return [horizon_packet(self._key, packet) for packet in packets]
