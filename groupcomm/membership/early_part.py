"""The early part: what a ring's daemons may have delivered in the regular part beyond its boundary.

Pure, and the same at all daemons of a ring that hold one recovered set. The boundary belongs to the
global line. Local packets of the own ring (docs/locality.md) may be ahead of it: they are regular,
too, if what they wait for is below the boundary, or can be delivered by the whole ring, and their
causes are in the recovered set. So are the bundles below AGREED that come before them. Packets go
through in stamp order.
"""

from groupcomm.clocks.stamp import Stamp
from groupcomm.level import ServiceLevel
from groupcomm.membership.minima import Minima
from groupcomm.wire.bundle import Bundle
from groupcomm.wire.data import DataPacket

_RELIABLE = ServiceLevel.RELIABLE
_FIFO = ServiceLevel.FIFO
_CAUSAL = ServiceLevel.CAUSAL
_AGREED = ServiceLevel.AGREED
_NEVER = 2**64


class EarlyPart:
    """The bundles of the regular part beyond the boundary.

    Attributes:
        bundles: these, in their order.
        has_local: whether a local packet is among them; if not, they need not be regular.
    """

    __slots__ = (
        "_boundary",
        "_deliverable",
        "_late",
        "_lost_below",
        "_own",
        "_prefix",
        "_stuck",
        "_stuck_numbers",
        "bundles",
        "has_local",
    )

    def __init__(self, boundary: Stamp, own: int, prefix: list[int], deliverable: int = 0) -> None:
        """Begin.

        Args:
            boundary: the stamp of the first packet of the transitional part.
            own: the ring whose packets may be local.
            prefix: for each ring the number up to which no packet is missing.
            deliverable: all daemons of this ring can deliver its stream up to this number.
        """
        self._boundary = boundary
        self._own = own
        self._prefix = prefix
        self._deliverable = deliverable
        self._late: set[tuple[int, int]] = set()  # sessions of which a bundle is not regular
        self._lost_below = [_NEVER] * len(prefix)  # lowest packet with such a one, FIFO or CAUSAL
        # Local packets that are not regular: by what they wait for, and with their numbers.
        self._stuck = Minima[Stamp, int]()
        self._stuck_numbers = Minima[int, Stamp]()
        self.bundles: list[Bundle] = []
        self.has_local = False

    def is_beyond(self, packet: DataPacket) -> bool:
        """Return whether a packet is beyond the boundary."""
        return (packet.time, packet.ring) >= self._boundary

    def accepts(self, packet: DataPacket, bundle: Bundle, *, whole: bool) -> bool:
        """Return whether the next bundle beyond the boundary is regular.

        Args:
            packet: its packet.
            bundle: the bundle.
            whole: whether all earlier packets of its daemon are there.
        """
        level = bundle.level
        if level == _RELIABLE:
            accepted = True
        elif not whole or ((packet.daemon, bundle.session) in self._late and not bundle.is_notice):
            accepted = False
        elif level < _AGREED:
            accepted = level == _FIFO or self._has_causes(packet)
        else:
            accepted = self._is_early(packet)
            self.has_local |= accepted
        if accepted:
            self.bundles.append(bundle)
        else:
            self.miss(packet, bundle)
        return accepted

    def miss(self, packet: DataPacket, bundle: Bundle) -> None:
        """Note a bundle that is not in the regular part."""
        level, ring = bundle.level, packet.ring
        if level > _RELIABLE:
            self._late.add((packet.daemon, bundle.session))
        if level < _AGREED:
            self._lost_below[ring] = min(self._lost_below[ring], packet.number)
        elif packet.wait is not None:
            self._stuck.add(packet.wait, packet.wait_number)
            self._stuck_numbers.add(packet.number, packet.wait)

    def _is_early(self, packet: DataPacket) -> bool:
        wait = packet.wait
        if wait is None or wait >= self._boundary or packet.wait_number > self._deliverable:
            return False
        # What waits for as little comes before it, at all daemons.
        follows_stuck = self._stuck.has_below(wait, packet.wait_number)
        return self._has_streams(packet) and not follows_stuck

    def _has_causes(self, packet: DataPacket) -> bool:
        """Return whether the causes of a CAUSAL bundle are regular."""
        if packet.vector is None or packet.agreed is None:
            return True
        agreed, own = packet.agreed, packet.vector[self._own]
        if agreed >= self._boundary or not self._has_streams(packet):
            return False
        return not self._stuck_numbers.has_below(own, agreed)

    def _has_streams(self, packet: DataPacket) -> bool:
        """Return whether all up to V is there, and what is below AGREED is regular."""
        if packet.vector is None:
            return True
        return all(
            number <= prefix and number < lost
            for number, prefix, lost in zip(
                packet.vector, self._prefix, self._lost_below, strict=True
            )
        )
