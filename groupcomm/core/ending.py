"""The end of a view at one daemon: what it holds, what it takes from fellows, what it delivers.

Pure. From `past` on nothing of the view changes but by recovery, until `finish` walks the union.
"""

from bisect import bisect_left
from collections.abc import Callable

from groupcomm.clocks.stamp import Stamp
from groupcomm.config.view import View
from groupcomm.core import checks
from groupcomm.core.delivery import Delivery
from groupcomm.errors import BadDatagram
from groupcomm.level import ServiceLevel
from groupcomm.membership.union import Union
from groupcomm.membership.walk import Limits, Walk, find_boundary
from groupcomm.stream.ranges import Range, ranges_of, without
from groupcomm.stream.stream import Stream
from groupcomm.wire.bundle import Bundle, BundleKind
from groupcomm.wire.data import DataPacket, decode_data_untrusted
from groupcomm.wire.membership import Holding, Past

_AGREED = ServiceLevel.AGREED
_STATE = BundleKind.STATE
_NEVER = 2**64


class Ending:
    """What remains to be done with a view that stands still.

    Attributes:
        fellows: indices of those with whom this daemon is bound to treat the view alike.
    """

    __slots__ = ("_delivery", "_own_ring", "_view", "fellows")

    def __init__(self, view: View, me: int, delivery: Delivery) -> None:
        self._view = view
        self._own_ring = view.ring_of[me]
        self._delivery = delivery
        self.fellows: frozenset[int] = frozenset()

    # ---- what is held ----

    @property
    def past(self) -> Past:
        """What this daemon tells others that it holds."""
        order = self._delivery.order
        holdings = tuple(
            Holding(
                forgotten=stream.forgotten,
                spans=tuple(_spans(stream)),
                notices=tuple(order.blocks.notices(stream.ring)),
                frontier=order.frontiers.values[stream.ring],
            )
            for stream in self._delivery.streams
        )
        return Past(self._view.key, holdings, tuple(sorted(self.fellows)))

    def missing(self, union: Union) -> list[list[Range]]:
        """Per ring what of the union is not here."""
        return [
            without(union.spans[stream.ring], [(0, stream.forgotten), *_spans(stream)])
            for stream in self._delivery.streams
        ]

    def bind(self, union: Union, fellows: frozenset[int]) -> None:
        """Take over what the others know: this daemon holds the union, and tells them so."""
        self.fellows |= fellows | union.fellows
        order = self._delivery.order
        for stream in self._delivery.streams:
            ring, held = stream.ring, stream.held
            if held > stream.forgotten:
                order.blocks.stream_advanced(ring, held, stream.packets[held].time)
            for upto, value in union.notices[ring]:
                self._delivery.count(ring, value, upto)
            order.frontiers.raise_to(ring, union.frontiers[ring])

    def take(self, raw: bytes, union: Union) -> tuple[int, int] | None:
        """Take a packet of the view from a fellow; its ring and number, None if it is no news.

        Only what is of the union may come in: the boundary is found from what is held here.

        Raises:
            BadDatagram, RemoteProtocolError: it is none.
        """
        packet = decode_data_untrusted(raw)
        if raw[1:17] != self._view.key:
            raise BadDatagram("view", "a recovered packet of another view")
        checks.check_data(packet, self._view, self._own_ring)
        known = union.holds(packet.ring, packet.number)
        is_news = known and self._delivery.take_recovered(packet)
        return (packet.ring, packet.number) if is_news else None

    # ---- what is delivered ----

    def finish(self, union: Union, fellows: frozenset[int], turn: Callable[[], None]) -> bool:
        """Deliver what is left of the view; `turn` is called where its regular part ends.

        Returns:
            Whether anything could be delivered: else not all announcements are here, nor at
            any of those who come along, and the view remains as if it had never been.
        """
        packets = self._packets(union)
        self._hear_announcements(packets)
        if not self._delivery.complete:
            turn()
            return False
        limits = Limits(
            forgotten=union.forgotten,
            prefix=union.prefix,
            horizon=self._delivery.order.blocks.least,
            frontier=self._delivery.order.frontiers.least,
            fellows=fellows | union.fellows,
        )
        boundary = find_boundary(packets, limits)
        walk = Walk(limits, self._delivery.order.resolve)
        later = len(packets)
        if boundary is not None:
            later = bisect_left(
                packets, boundary, key=lambda packet: Stamp(packet.time, packet.ring)
            )
        for packet in packets[:later]:
            self._deliver(packet, walk.deliverable(packet), regular=True)
        waits = self._delivery.tell_positions(boundary)
        turn()
        for packet in packets[later:]:
            self._deliver(packet, walk.deliverable(packet), regular=False)
        self._delivery.tell_transitional(waits)
        self._delivery.groups.end()
        return True

    def _packets(self, union: Union) -> list[DataPacket]:
        """The packets of the union that are not forgotten here, in stamp order."""
        packets = [
            packet
            for stream in self._delivery.streams
            for number, packet in stream.packets.items()
            if union.holds(stream.ring, number)
        ]
        packets.sort(key=lambda packet: Stamp(packet.time, packet.ring))
        return packets

    def _hear_announcements(self, packets: list[DataPacket]) -> None:
        for packet in packets:
            for bundle in packet.bundles:
                if bundle.kind == _STATE and not bundle.given:
                    bundle.given = True
                    self._delivery.hear(bundle)

    def _deliver(self, packet: DataPacket, kept: list[Bundle], *, regular: bool) -> None:
        if len(kept) < len(packet.bundles):
            for bundle in packet.bundles:
                dropped = bundle not in kept
                assert not (dropped and bundle.given), f"{bundle!r} is dropped, and was delivered"
                assert not (dropped and regular and bundle.level >= _AGREED), (
                    f"{bundle!r} is below the boundary, and would be dropped"
                )
        for bundle in kept:
            if not bundle.given:
                bundle.given = True
                self._delivery.release(bundle)


def _spans(stream: Stream) -> list[Range]:
    """The numbers above the forgotten ones that a stream holds."""
    spans: list[Range] = []
    if stream.held > stream.forgotten:
        spans.append((stream.forgotten + 1, stream.held))
    return spans + ranges_of(number for number in stream.packets if number > stream.held)
