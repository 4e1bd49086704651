"""The local line: the agreed packets of the own ring that this ring orders alone.

Pure. A *local* packet goes to programs of its own ring only, and no other ring may send to any of
these (docs/locality.md). It waits for one stamp of the global line, for its causes, and for the
local packets of lower numbers that wait for no later stamp. It also stays in the heap of all agreed
packets, so it is delivered at its place there at the latest.
"""

from heapq import heappop, heappush

from groupcomm.clocks.stamp import Stamp
from groupcomm.wire.data import DataPacket


class LocalLine:
    """The local packets of one daemon in one view that are not delivered.

    Attributes:
        upto: the number up to which it is known which packets of the own stream are local.
    """

    __slots__ = ("_ready", "_waiting", "upto")

    def __init__(self, upto: int) -> None:
        self.upto = upto
        self._waiting: list[tuple[Stamp, int, DataPacket]] = []  # a heap, by the stamp waited for
        self._ready: list[tuple[int, DataPacket]] = []  # a heap, by number

    def follow(self, packet: DataPacket, wait: Stamp | None) -> None:
        """Note the next packet of the stream; `wait` is the stamp that it waits for if it is
        local."""
        self.upto = packet.number
        packet.wait = wait
        if wait is not None and not packet.done:
            heappush(self._waiting, (wait, packet.number, packet))

    def next(self, done: Stamp) -> DataPacket | None:
        """Return the next local packet, now that the global line is delivered up to `done`."""
        waiting, ready = self._waiting, self._ready
        while waiting and waiting[0][0] <= done:
            _, number, packet = heappop(waiting)
            heappush(ready, (number, packet))
        while ready and ready[0][1].done:
            heappop(ready)
        return ready[0][1] if ready else None

    def is_delivered(self, number: int, done: Stamp) -> bool:
        """Return whether all local packets up to a number are delivered that wait for no stamp
        above `done`."""
        first = self.next(done)
        return number <= self.upto and (first is None or first.number > number)
