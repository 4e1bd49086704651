"""Arrivals: what comes from other daemons in one view, checked and handed to the parts it is for.

Pure. Each packet is decoded, compared with the view, then with what is known here; only after that
anything is changed. So whatever comes, no part is led to break a rule of its own.
"""

from collections.abc import Callable

from groupcomm.clocks.latest import LatestTime
from groupcomm.config.view import View
from groupcomm.engine import checks
from groupcomm.engine.counters import Counters
from groupcomm.engine.deferred_headers import DeferredHeaders
from groupcomm.engine.delivery import Delivery
from groupcomm.engine.outside import Outside
from groupcomm.engine.plausible import Plausible
from groupcomm.errors import ProtocolViolation
from groupcomm.link.forwarding import Forwarding
from groupcomm.ring.ring import Ring
from groupcomm.wire.ack import decode_ack_untrusted
from groupcomm.wire.data import DataPacket, decode_data_untrusted
from groupcomm.wire.headers import decode_headers_untrusted
from groupcomm.wire.held import decode_held_untrusted
from groupcomm.wire.horizon import HorizonNotice, decode_horizon_untrusted
from groupcomm.wire.link import decode_link_untrusted
from groupcomm.wire.packet import PacketKind
from groupcomm.wire.request import decode_request_untrusted
from groupcomm.wire.resend import decode_resend_untrusted
from groupcomm.wire.rest import decode_rest_untrusted
from groupcomm.wire.token import decode_token_untrusted


class Arrivals:
    """Of one daemon in one view.

    Args:
        view: the view.
        me: index of this daemon.
        ring, delivery, outside, withheld, forwarding, counters: of this daemon.
        latest: the latest time that can be true.
        pass_on: a packet (ring, number, whole) on its way from ring to ring.

    Attributes:
        changed: the foreign streams that may have new gaps.
    """

    __slots__ = (
        "_counters",
        "_deferred",
        "_delivery",
        "_forwarding",
        "_handlers",
        "_indices",
        "_latest",
        "_me",
        "_noticed",
        "_now",
        "_own_ring",
        "_pass_on",
        "_plausible",
        "_ring",
        "_sender",
        "_several",
        "_unreliable",
        "_view",
        "changed",
    )

    def __init__(
        self,
        view: View,
        me: int,
        *,
        ring: Ring,
        delivery: Delivery,
        outside: Outside,
        withheld: DeferredHeaders,
        forwarding: Forwarding,
        counters: Counters,
        latest: LatestTime,
        pass_on: Callable[[int, int, bytes], None],
    ) -> None:
        self._view = view
        self._me = me
        self._own_ring = view.ring_of[me]
        self._several = len(view.rings) > 1
        self._ring = ring
        self._delivery = delivery
        self._unreliable = outside
        self._deferred = withheld
        self._forwarding = forwarding
        self._counters = counters
        self._latest = latest
        self._pass_on = pass_on
        self._plausible = Plausible(view, me, ring, delivery, latest)
        self._indices = {daemon.number: index for index, daemon in enumerate(view.daemons)}
        self.changed: set[int] = set()
        # The latest notice of each ring: a site hears the multicasts of all its rings, so without
        # this notices would be passed on in circles. Of packets the streams know the first.
        self._noticed = [(0, 0, 0)] * len(view.rings)
        self._handlers = self._by_kind()
        self._sender = me  # of what is being taken
        self._now = 0.0

    def _by_kind(self) -> dict[int, Callable[[bytes], None]]:
        return {
            PacketKind.DATA: self._on_data,
            PacketKind.UNRELIABLE: self._on_unreliable,
            PacketKind.TOKEN: self._on_token,
            PacketKind.REST: self._on_rest,
            PacketKind.REQUEST: self._on_request,
            PacketKind.HORIZON: self._on_horizon,
            PacketKind.RESEND: self._on_resend,
            PacketKind.LINK: self._on_link,
            PacketKind.ACK: self._on_acknowledgement,
            PacketKind.HEADERS: self._on_headers,
            PacketKind.HELD: self._on_held,
        }

    def receive(self, kind: int, packet: bytes, sender: int, now: float) -> None:
        """Take one packet of this view.

        Args:
            kind: of the packet.
            packet: whole.
            sender: number of the daemon that has sent it.
            now: seconds.

        Raises:
            BadDatagram, ProtocolViolation: it breaks its layout, or the protocol.
        """
        self._now = self._latest.now = now
        handler = self._handlers.get(kind)
        index = self._indices.get(sender)
        if handler is None or index is None:
            raise ProtocolViolation("view", f"a packet of kind {kind} by daemon {sender:x}")
        self._sender = index
        handler(packet)

    # ---- the ring ----

    def _on_token(self, packet: bytes) -> None:
        token = decode_token_untrusted(packet)
        checks.check_token(token, self._view, self._own_ring)
        if token.hop > self._ring.last_hop:
            self._plausible.check_token(token)
        self._ring.on_token(token, self._now)

    def _on_request(self, packet: bytes) -> None:
        request = decode_request_untrusted(packet)
        checks.check_request(request, self._view)
        if request.ring == self._own_ring:  # else of another ring of this site
            self._plausible.check_request(request, self._sender)
            self._ring.on_request(request)

    def _on_rest(self, packet: bytes) -> None:
        notice = decode_rest_untrusted(packet)
        checks.check_rest(notice, self._view)
        if notice.ring != self._own_ring:
            return  # another ring of this site
        self._plausible.check_rest(notice, self._sender)
        self._ring.on_rest(notice, self._now)
        self._delivery.receive_horizon(notice.ring, notice.horizon, notice.last)
        self._delivery.receive_frontier(notice.ring, min(notice.frontiers))

    def _on_held(self, packet: bytes) -> None:
        notice = decode_held_untrusted(packet)
        checks.check_held(notice, self._view)
        if notice.ring == self._own_ring:  # else of another ring of this site
            self._plausible.check_held(notice, self._sender)
            self._ring.on_held(notice)

    # ---- messages ----

    def _on_unreliable(self, packet: bytes) -> None:
        self._unreliable.receive(packet, self._sender)

    def _on_data(self, raw: bytes) -> None:
        packet = decode_data_untrusted(raw)
        checks.check_data(packet, self._view)
        own = packet.ring == self._own_ring
        if own and packet.pruned:
            return  # of the own ring, for another one of this site
        if packet.daemon == self._me:
            self._ring.flow.window.repeated += len(raw)  # a fellow has answered a request for it
        elif packet.local_only and not own:
            return  # of another ring of this site; the header comes once that whole ring has it
        elif self._accept(packet, own=own):
            if own:
                self._ring.on_packet(packet, self._now)
            if packet.local_only:
                self._ring.flow.note_local_only(packet.number)
                self._deferred.defer(packet)
            else:
                self._pass_on(packet.ring, packet.number, packet.raw)

    def _on_headers(self, raw: bytes) -> None:
        packets = decode_headers_untrusted(raw).packets
        if packets[0].ring == self._own_ring:
            return  # for another ring of this site
        news = False
        for packet in packets:
            checks.check_data(packet, self._view)
            news |= self._accept(packet, own=False)
        if news:
            self._pass_on(packets[0].ring, packets[0].number, raw)

    def _accept(self, packet: DataPacket, *, own: bool) -> bool:
        if own:
            self._plausible.check_given(packet.number)
        if not self._delivery.receive(packet):
            self._counters.duplicates += 1
            return False
        if self._several:
            self.note_use(packet, self._now)
            if packet.ring != self._own_ring:
                self.changed.add(packet.ring)
        return True

    def note_use(self, packet: DataPacket, now: float) -> None:
        """While the agreed order is in use, or frontiers are waited for, notices come often."""
        if packet.in_agreed_order or packet.time in self._delivery.order.hurried:
            notices = self._ring.notices
            notices.agreed_at = now
            if packet.ring != self._own_ring and packet.time > notices.foreign_time:
                notices.foreign_time = packet.time

    # ---- between rings ----

    def _on_horizon(self, packet: bytes) -> None:
        for notice in decode_horizon_untrusted(packet).notices:
            checks.check_horizon(notice, self._view)
            self._plausible.check_horizon(notice)
            self._accept_notice(notice)

    def _accept_notice(self, notice: HorizonNotice) -> None:
        ring = notice.ring
        stream, own = self._delivery.streams[ring], self._ring
        stream.learn(notice.upto)
        self._delivery.receive_horizon(ring, notice.horizon, notice.upto)
        self._delivery.receive_frontier(ring, notice.frontier)
        if ring == self._own_ring:
            own.notices.issued(self._now, notice.frontier, notice.horizon)
        else:
            own.flow.on_held_remotely(ring, notice.told(self._own_ring), self._now)
            if notice.unsettled:
                own.notices.asked = True
            if stream.known > stream.held:
                self.changed.add(ring)
        news = (notice.horizon, notice.upto, notice.frontier)
        if news > self._noticed[ring]:
            self._noticed[ring] = news
            self._forwarding.forward_notice(ring, notice.encode(), self._now)

    def _on_resend(self, packet: bytes) -> None:
        request = decode_resend_untrusted(packet)
        checks.check_resend(request, self._view)
        self._plausible.check_resend(request, self._sender)
        self._forwarding.on_resend_request(request, self._deferred.form_for_other_ring, self._now)

    def _on_link(self, raw: bytes) -> None:
        carried = decode_link_untrusted(raw)
        if packet := self._forwarding.on_packet(carried, self._sender, self._now):
            self._handlers[packet[0]](packet)

    def _on_acknowledgement(self, packet: bytes) -> None:
        self._forwarding.on_acknowledgement(decode_ack_untrusted(packet), self._sender, self._now)
