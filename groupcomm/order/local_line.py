"""The local line: the agreed packets of the own ring that this ring orders alone.

Pure. A *local* packet goes to programs of its own ring only, and no other ring may send to any of
these (docs/locality.md). It waits for one stamp of the global line, for its causes, for the local
packets of lower numbers that wait for no later stamp, and, if it is SAFE or follows such a one,
until all daemons of the ring can deliver the stream up to a number. It also stays in the heap of
all agreed packets, so it is delivered at its place there at the latest.
"""

from heapq import heappop, heappush

from groupcomm.clocks.stamp import Stamp
from groupcomm.wire.data import DataPacket


class LocalLine:
    """The local packets of one daemon in one view that are not delivered.

    Attributes:
        upto: the number up to which it is known which packets of the own stream are local.
        wanted: the highest number for which a packet waits.
    """

    __slots__ = ("_ready", "_unsafe", "_waiting", "upto", "wanted")

    def __init__(self, upto: int) -> None:
        self.upto = upto
        self.wanted = 0
        self._waiting: list[tuple[Stamp, int, DataPacket]] = []  # a heap, by the stamp waited for
        self._unsafe: list[tuple[int, int, DataPacket]] = []  # a heap, by the number waited for
        self._ready: list[tuple[int, DataPacket]] = []  # a heap, by number

    def follow(self, packet: DataPacket, wait: Stamp | None, number: int = 0) -> None:
        """Note the next packet of the stream, and what it waits for if it is local.

        Args:
            packet: the packet.
            wait: a stamp of the global line; None if it is global.
            number: the number up to which the ring has to be able to deliver its stream.
        """
        self.upto = packet.number
        packet.wait, packet.wait_number = wait, number
        self.wanted = max(self.wanted, number)
        if wait is not None and not packet.done:
            heappush(self._waiting, (wait, packet.number, packet))

    def next(self, done: Stamp, deliverable: int) -> DataPacket | None:
        """Return the next local packet.

        Args:
            done: the global line is delivered up to here.
            deliverable: all daemons of the ring can deliver its stream up to here.
        """
        waiting, unsafe, ready = self._waiting, self._unsafe, self._ready
        while waiting and waiting[0][0] <= done:
            _, number, packet = heappop(waiting)
            heappush(unsafe, (packet.wait_number, number, packet))
        while unsafe and (unsafe[0][0] <= deliverable or unsafe[0][2].done):
            _, number, packet = heappop(unsafe)
            heappush(ready, (number, packet))
        while ready and ready[0][1].done:
            heappop(ready)
        return ready[0][1] if ready else None

    def is_delivered(self, number: int, done: Stamp, deliverable: int) -> bool:
        """Return whether all local packets up to a number are delivered that wait for no stamp
        above `done`."""
        first = self.next(done, deliverable)
        unsafe = self._unsafe and self._unsafe[0][0] <= number  # it is not above its own number
        return number <= self.upto and not unsafe and (first is None or first.number > number)
