"""DaemonCore: one whole daemon as a state machine.

Pure. Datagrams, what clients did, and the time go in; datagrams, what clients are to be told, and
one deadline come out. It wires the parts together and decides nothing that a part could decide.

One call of `handle` is one step: first everything that has arrived is taken, then the ring acts
once, then everything that can be delivered is. So the work for a burst is done once, not per
datagram. In this form the view never changes; membership will start and end what is built here.
"""

from collections.abc import Callable, Sequence

from groupcomm.clocks.physical import PhysicalClock
from groupcomm.clocks.ring_clock import RingClock
from groupcomm.config.core import CoreConfig
from groupcomm.config.view import RING, View
from groupcomm.core import checks
from groupcomm.core.counters import Counters
from groupcomm.core.delivery import Delivery
from groupcomm.core.desk import ClientInput, Desk
from groupcomm.core.gate import Gate
from groupcomm.core.probe import NoProbe, Probe
from groupcomm.errors import BadDatagram, RemoteProtocolError
from groupcomm.hop.handover import Handover
from groupcomm.ring.ring import Ring
from groupcomm.security.keys import KeyRing
from groupcomm.session.daemon import SessionLimits
from groupcomm.stream.gaps import Gaps
from groupcomm.stream.packer import Causes, Packer
from groupcomm.wire.data import DataPacket, decode_data_untrusted
from groupcomm.wire.horizon import decode_horizon_untrusted
from groupcomm.wire.packet import PacketKind
from groupcomm.wire.request import decode_request_untrusted
from groupcomm.wire.resend import decode_resend_untrusted
from groupcomm.wire.rest import decode_rest_untrusted
from groupcomm.wire.token import decode_token_untrusted
from groupcomm.wire.unreliable import decode_unreliable_untrusted

Transmission = tuple[int, bytes]
"""A sealed datagram and where it goes: a daemon's index in the view, or RING."""


class DaemonCore:
    """One daemon in one view.

    Args:
        config: its settings; of one cluster all cores have the same.
        view: the view, the same at all its daemons.
        me: its index in the view.
        keys: the key ring, needed with suite 1.
        now: seconds of its monotonic clock.
        wall: seconds of its wall clock.
        limits: caps on sessions.
        probe: an observer for traces.

    Attributes:
        deadline: call `handle` at this time even if nothing arrives; inf if never.
        desk: the local sessions; the shell takes their output.
        counters: what happened so far.
        ring, delivery, streams: the parts, for status pages and tests to read.
    """

    def __init__(
        self,
        config: CoreConfig,
        view: View,
        me: int,
        *,
        keys: KeyRing | None,
        now: float,
        wall: float,
        limits: SessionLimits | None = None,
        probe: Probe | None = None,
    ) -> None:
        starts = config.starts
        self._view = view
        self._me = me
        self._own_ring = view.ring_of[me]
        self._probe = probe or NoProbe()
        self._gate = Gate(config, view, me, keys)
        self.counters = Counters()
        self._physical = PhysicalClock(now, wall)
        self._clock = RingClock(self._physical, starts.clock)
        self._packer = Packer(
            view, me, self._clock, base=starts.stream, unreliable_base=starts.unreliable
        )
        self.desk = Desk(
            view,
            me,
            self._packer.waiting,
            first_connection=starts.connection,
            limits=limits or SessionLimits(),
            probe=self._probe,
        )
        self.delivery = Delivery(view, me, starts, self._clock, self.desk, self._probe)
        self.streams = self.delivery.streams
        is_gateway = view.gateway(self._own_ring) == me and len(view.rings) > 1
        self._handover: Handover | None = None
        if is_gateway:
            self._handover = Handover(view, self._own_ring, self.streams, config.timing)
        self._gaps = [] if is_gateway else self._foreign_gaps(config)
        self.ring = Ring(
            view,
            me,
            config,
            streams=self.streams,
            clock=self._clock,
            packer=self._packer,
            gaps=self._gaps,
            host=self,
            now=now,
        )
        self._changed: set[int] = set()  # foreign streams that may have new gaps
        self._out: list[Transmission] = []
        self._handlers = self._all_handlers()
        self._now = now
        self.deadline = now

    def _all_handlers(self) -> dict[int, Callable[[bytes], None]]:
        """What takes each kind of packet; control packets have no place in a fixed view."""
        return {
            PacketKind.DATA: self._on_data,
            PacketKind.UNRELIABLE: self._on_unreliable,
            PacketKind.TOKEN: self._on_token,
            PacketKind.REST: self._on_rest,
            PacketKind.REQUEST: self._on_request,
            PacketKind.HORIZON: self._on_horizon,
            PacketKind.RESEND: self._on_resend,
        }

    def _foreign_gaps(self, config: CoreConfig) -> list[Gaps]:
        """In the ring one asks soon, and rarely again: the gateway may have to fetch it first."""
        timing = config.timing
        retry_s = timing.token_retransmit_s + 2.5 * self._view.longest_delay_s
        return [
            Gaps(stream, delay_s=timing.repair_delay_s, retry_s=retry_s)
            for stream in self.streams
            if stream.ring != self._own_ring
        ]

    # ---- one step ----

    def handle(
        self, now: float, datagrams: Sequence[bytes], clients: Sequence[ClientInput]
    ) -> list[Transmission]:
        """Take everything that has arrived, act once, and return what to send.

        Args:
            now: seconds of the monotonic clock, never less than before.
            datagrams: as received; whatever bytes they are, nothing is raised.
            clients: what local clients did; whatever bytes they sent, nothing is raised.
        """
        self._now = now
        out: list[Transmission] = []
        self._out = out
        for datagram in datagrams:
            self._receive(datagram)
        for event in clients:
            self.desk.feed(event)
        if clients:
            self._send_unreliable()
        self._step(now)
        self.counters.sent += len(out)
        return out

    def open(self) -> int:
        """The connection number for a client that connects now."""
        return self.desk.open()

    def observe_wall(self, now: float, wall: float) -> None:
        """Compare the wall clock now and then; jumps change nothing and are counted."""
        self._physical.observe_wall(now, wall)

    def _step(self, now: float) -> None:
        if self._changed:
            self._look_for_gaps(now)
        self.ring.step(now)
        if self._handover is not None:
            for destination, packet in self._handover.requests(now):
                self.send(destination, packet)
        waiting = len(self._packer.waiting)
        self.delivery.deliver()
        deadline = self.ring.deadline
        if self._handover is not None and self._handover.deadline < deadline:
            deadline = self._handover.deadline
        if len(self._packer.waiting) > waiting:
            deadline = now  # a delivery has ended a session, or freed a name for the next one
        self.deadline = deadline

    def _look_for_gaps(self, now: float) -> None:
        for gaps in self._gaps:
            if gaps.stream.ring in self._changed:
                gaps.update(now)
        if self._handover is not None:
            for ring in self._changed:
                self._handover.update(ring, now)
        self._changed.clear()

    # ---- datagrams ----

    def _receive(self, datagram: bytes) -> None:
        self.counters.received += 1
        try:
            kind, packet = self._gate.open_untrusted(datagram)
            self._dispatch(kind, packet)
        except BadDatagram as error:
            self.counters.rejected[error.reason] += 1
        except RemoteProtocolError:
            self.counters.violations += 1

    def _dispatch(self, kind: int, packet: bytes) -> None:
        handler = self._handlers.get(kind)
        if handler is None:
            raise RemoteProtocolError(f"packet of kind {kind} has no place in a fixed view")
        handler(packet)

    def _on_token(self, packet: bytes) -> None:
        token = decode_token_untrusted(packet)
        checks.check_token(token, self._view, self._own_ring)
        self.ring.on_token(token, self._now)

    def _on_request(self, packet: bytes) -> None:
        request = decode_request_untrusted(packet)
        checks.check_request(request, self._view, self._own_ring)
        self.ring.on_request(request)

    def _on_data(self, raw: bytes) -> None:
        packet = decode_data_untrusted(raw)
        checks.check_data(packet, self._view)
        if packet.daemon == self._me:
            return
        if not self.delivery.take(packet):
            self.counters.duplicates += 1
            return
        self._note_use(packet)
        if packet.ring == self._own_ring:
            self.ring.on_packet(packet.number)
        else:
            self._changed.add(packet.ring)
        self._pass_on(packet.ring, packet.raw)

    def _note_use(self, packet: DataPacket) -> None:
        """While the agreed order is in use, notices come often."""
        if packet.in_agreed_order:
            self.ring.notices.agreed_at = self._now

    def _pass_on(self, origin: int, packet: bytes) -> None:
        if self._handover is not None:
            for destination, raw in self._handover.pass_on(origin, packet):
                self.send(destination, raw)

    def _on_unreliable(self, raw: bytes) -> None:
        packet = decode_unreliable_untrusted(raw)
        checks.check_unreliable(packet, self._view)
        if packet.daemon == self._me:
            return
        if not self.delivery.is_new(packet):
            self.counters.unreliable_duplicates += 1
            return
        self.delivery.release_unreliable(packet)
        self._pass_on(self._view.ring_of[packet.daemon], raw)

    def _on_rest(self, packet: bytes) -> None:
        notice = decode_rest_untrusted(packet)
        checks.check_rest(notice, self._view, self._own_ring)
        self.ring.on_rest(notice, self._now)
        self.delivery.count(notice.ring, notice.horizon, notice.last)
        self.delivery.reach(notice.ring, min(notice.frontiers))

    def _on_horizon(self, packet: bytes) -> None:
        notice = decode_horizon_untrusted(packet)
        checks.check_horizon(notice, self._view)
        ring = notice.ring
        self.streams[ring].learn(notice.upto)
        self.delivery.count(ring, notice.horizon, notice.upto)
        self.delivery.reach(ring, notice.frontier)
        if ring == self._own_ring:
            self.ring.notices.issued(self._now, notice.frontier)
        else:
            self.ring.flow.hear_held(ring, notice.held[self._own_ring])
            if notice.unsettled:
                self.ring.notices.asked = True
            if self.streams[ring].known > self.streams[ring].held:
                self._changed.add(ring)
        self._pass_on(ring, packet)

    def _on_resend(self, packet: bytes) -> None:
        request = decode_resend_untrusted(packet)
        checks.check_resend(request, self._view)
        if self._handover is not None:
            for destination, raw in self._handover.answer(request):
                self.send(destination, raw)

    def _send_unreliable(self) -> None:
        for packet in self._packer.unreliable(self.desk.take_unreliable()):
            self.delivery.release_unreliable(packet)
            raw = packet.encode(self._view.key)
            self.send(RING, raw)
            self._pass_on(self._own_ring, raw)

    # ---- the host of the ring ----

    @property
    def frontier(self) -> int:
        """Everything at or below this time is held here, and nothing of it can still come."""
        return self.delivery.order.blocks.least

    @property
    def causes(self) -> Causes:
        """V and A of a packet numbered now."""
        return self.delivery.order.causes

    def safe_waits(self, above: int, upto: int) -> bool:
        """Whether a SAFE packet waits here with a stamp above the one and not above the other."""
        return self.delivery.order.safe_waits(above, upto)

    @property
    def holds_packets(self) -> bool:
        """Whether any packet, of any stream, is not yet forgotten here."""
        return self.delivery.holds_packets

    def originate(self, packet: DataPacket) -> None:
        """Take a packet that was numbered just now as received."""
        self.delivery.originate(packet)
        self._note_use(packet)

    def publish(self, packet: DataPacket) -> None:
        """Send an originated packet to the ring and towards every other ring."""
        self.send(RING, packet.raw)
        self._pass_on(self._own_ring, packet.raw)

    def promise(self, value: int, upto: int) -> None:
        """Count a horizon that this daemon has just announced for its ring."""
        self._probe.horizon(self._own_ring, value, upto)
        self.delivery.count(self._own_ring, value, upto)

    def ring_frontier(self, value: int) -> None:
        """Note the least frontier of the ring's daemons."""
        self.delivery.reach(self._own_ring, value)

    def send(self, destination: int, packet: bytes) -> None:
        """Seal and send a packet to a daemon of the view, or to RING."""
        if destination == RING and len(self._view.rings[self._own_ring]) == 1:
            return
        self._out.append((destination, self._gate.seal(destination, packet)))

    def send_rings(self, packet: bytes) -> None:
        """Seal and send a packet towards every other ring."""
        self._pass_on(self._own_ring, packet)
