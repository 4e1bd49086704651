"""Senders that wait for the position of a message (``ordered=True``).

A position is told once nothing lower can still come to anybody it matters to: for AGREED when the
sender's daemon counts every ring's horizon up to the stamp, for SAFE when every frontier is there.
Telling it at numbering would break the promise over side channels: another ring could still
originate below it.
"""

from heapq import heappop, heappush

from groupcomm.clocks.stamp import Stamp
from groupcomm.level import ServiceLevel
from groupcomm.wire.bundle import Bundle

_SAFE = ServiceLevel.SAFE


class OrderedWaits:
    """Own bundles that are numbered and whose positions their senders wait for.

    Attributes:
        waiting: how many there are.
    """

    __slots__ = ("_agreed", "_safe", "waiting")

    def __init__(self) -> None:
        self.waiting = 0
        self._agreed: list[tuple[int, int, Bundle]] = []  # heaps by (time, place)
        self._safe: list[tuple[int, int, Bundle]] = []

    def add(self, bundle: Bundle) -> None:
        """Wait for a bundle that has just been numbered."""
        heap = self._safe if bundle.level == _SAFE else self._agreed
        self.waiting += 1
        heappush(heap, (bundle.packet.time, bundle.place, bundle))

    def take_rest(self, boundary: Stamp | None) -> tuple[list[Bundle], list[Bundle]]:
        """All that are left, lowest first: their view is over.

        Args:
            boundary: stamp of the first packet of its transitional part; None if there is none.

        Returns:
            Those of the regular and those of the transitional part.
        """
        left = [wait[2] for wait in sorted(self._agreed + self._safe, key=lambda wait: wait[:2])]
        self._agreed, self._safe, self.waiting = [], [], 0
        if boundary is None:
            return left, []
        regular = [b for b in left if (b.packet.time, b.packet.ring) < boundary]
        return regular, left[len(regular) :]

    def take(self, least_block: int, least_frontier: int) -> list[Bundle]:
        """The bundles whose positions may be told by now."""
        ready: list[Bundle] = []
        for heap, reached in ((self._agreed, least_block), (self._safe, least_frontier)):
            while heap and heap[0][0] <= reached:
                ready.append(heappop(heap)[2])
        self.waiting -= len(ready)
        return ready
