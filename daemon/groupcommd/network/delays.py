"""Delays between the arrival and the delivery of bundles, for the metrics of a daemon."""

from array import array
from time import monotonic
from typing import Final

from groupcomm.config.view import Start
from groupcomm.durations import Durations
from groupcomm.level import ServiceLevel
from groupcomm.wire.bundle import Bundle
from groupcommd.network.flight import FlightRecorder

ARRIVALS: Final = 65_536
"""The packets of a ring whose arrivals are remembered: more than wait in windows; a power of
two."""


class DelayRecorder(FlightRecorder):
    """A flight recorder that also measures the time of bundles between arrival and delivery.

    A packet of this daemon arrives when it is numbered.

    Attributes:
        delays: the delays of each level, weakest first.
    """

    def __init__(self, start: Start) -> None:
        super().__init__(start)
        self.delays = [Durations() for _ in ServiceLevel]
        self._arrived: dict[int, array[float]] = {}  # by ring, then by the low bits of the number

    def held(self, ring: int, number: int, time: int) -> None:
        """See Probe."""
        super().held(ring, number, time)
        arrived = self._arrived.get(ring)
        if arrived is None:
            arrived = self._arrived[ring] = array("d", bytes(8 * ARRIVALS))
        arrived[number & (ARRIVALS - 1)] = monotonic()

    def released(
        self, ring: int, number: int, time: int, bundle_index: int, bundle: Bundle, sender: str
    ) -> None:
        """See Probe."""
        super().released(ring, number, time, bundle_index, bundle, sender)
        arrived = self._arrived.get(ring)
        if number and arrived is not None:  # otherwise the packet is delivered on arrival
            self.delays[bundle.level].add(monotonic() - arrived[number & (ARRIVALS - 1)])
