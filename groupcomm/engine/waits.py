"""Own bundles that somebody here waits for: positions (``ordered=True``), and subscriptions.

A position is told once nothing lower can still come to anybody it matters to: for AGREED when the
sender's daemon counts every ring's horizon up to the stamp, for SAFE when every frontier is there.
Telling it at numbering would break the promise over side channels: another ring could still
originate below it. A SUBSCRIBE waits like SAFE.
"""

from heapq import heappop, heappush

from groupcomm.clocks.stamp import Stamp
from groupcomm.level import ServiceLevel
from groupcomm.wire.bundle import Bundle, BundleKind

_SAFE = ServiceLevel.SAFE
_SUBSCRIBE = BundleKind.SUBSCRIBE


class OrderedWaits:
    """Own bundles that are numbered and waited for.

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
        as_safe = bundle.level == _SAFE or bundle.kind == _SUBSCRIBE
        heap = self._safe if as_safe else self._agreed
        self.waiting += 1
        heappush(heap, (bundle.packet.time, bundle.place, bundle))

    def pop_rest(self, boundary: Stamp | None) -> tuple[list[Bundle], list[Bundle]]:
        """All messages that are left, lowest first: their view is over.

        Args:
            boundary: stamp of the first packet of its transitional part; None if there is none.

        Returns:
            Those of the regular and those of the transitional part.
        """
        waits = sorted(self._agreed + self._safe, key=lambda wait: wait[:2])
        left = [bundle for _, _, bundle in waits if bundle.kind != _SUBSCRIBE]
        self._agreed, self._safe, self.waiting = [], [], 0
        if boundary is None:
            return left, []
        regular = [b for b in left if (b.packet.time, b.packet.ring) < boundary]
        return regular, left[len(regular) :]

    def pop_due(self, least_block: int, least_frontier: int) -> list[Bundle]:
        """The bundles that need not wait any more."""
        ready: list[Bundle] = []
        for heap, reached in ((self._agreed, least_block), (self._safe, least_frontier)):
            while heap and heap[0][0] <= reached:
                ready.append(heappop(heap)[2])
        self.waiting -= len(ready)
        return ready
