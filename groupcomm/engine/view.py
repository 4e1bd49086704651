"""Operation: everything of one view at one daemon, wired together.

Pure. A new one is made for each view. While the view stands, datagrams go in and deliveries come
out; once it stands still, its `ending` is all that is used.
"""

from groupcomm.clocks.latest import LatestTime
from groupcomm.clocks.ring_clock import RingClock
from groupcomm.config.view import RING, View
from groupcomm.engine.arrivals import Arrivals
from groupcomm.engine.backlog import Backlog, never_local_only
from groupcomm.engine.deferred_headers import DeferredHeaders
from groupcomm.engine.delivery import Delivery
from groupcomm.engine.outside import Outside
from groupcomm.engine.surroundings import ViewContext
from groupcomm.engine.view_change import ViewChange
from groupcomm.events import DaemonView
from groupcomm.link.forwarding import Forwarding
from groupcomm.link.routes import Routes
from groupcomm.ring.ring import Ring
from groupcomm.stream.gaps import Gaps
from groupcomm.stream.packer import Causes, Packer
from groupcomm.wire.bundle import Bundle
from groupcomm.wire.data import DataPacket
from groupcomm.wire.horizon import HorizonNotice


class ViewState:
    """One daemon in one view.

    Args:
        view: the view.
        me: its index there.
        announcement: what it tells the others first.
        around: the daemon.
        now: seconds.

    Attributes:
        ring, delivery, streams, links: the parts.
        clock: of the ring.
        view_change: what is left to do with the view once it stands still.
        receive: takes one packet of this view; see Arrivals.
        safe_waits: tells whether SAFE packets wait between two stamps; see Order.
        deadline: when `step` has something to do.
        key: of the view.
    """

    def __init__(
        self, view: View, me: int, announcement: list[Bundle], context: ViewContext, now: float
    ) -> None:
        starts = context.config.starts
        self.view = view
        self.key = view.key
        self._me = me
        self._context = context
        self._own_ring = view.ring_of[me]
        self._several = len(view.rings) > 1  # else nothing is ever passed on
        self._probe = context.probe
        self._sessions = context.sessions
        self.counters = context.counters
        self._names: list[str | None] = [daemon.name for daemon in view.daemons]
        latest = LatestTime(view.clock, context.physical.read(now), now)
        self.clock = RingClock(context.physical, view.clock)
        first = Backlog()
        first.extend(announcement)
        self._packer = Packer(
            view,
            me,
            self.clock,
            source=first,
            base=starts.stream,
            unreliable_base=starts.unreliable,
        )
        self.delivery = Delivery(
            view,
            me,
            starts,
            clock=self.clock,
            sessions=self._sessions,
            begun=self._on_complete,
            keys=context.key_manager.on_report,
            latest=latest,
            probe=self._probe,
        )
        self.streams = self.delivery.streams
        order = self.delivery.order
        self.safe_waits, self.blocks = order.safe_waits, order.blocks
        self._unreliable = Outside(
            view,
            me,
            delivery=self.delivery,
            packer=self._packer,
            sessions=self._sessions,
            counters=self.counters,
            send=self.send,
            pass_on=self._pass_on,
        )
        self._deferred = DeferredHeaders(self.key, self.streams[self._own_ring], view.packet_limit)
        self.view_change = ViewChange(view, me, self.delivery)
        routes = Routes(view, me)
        self._forwarding = Forwarding(view, me, routes, self.streams, context.config.timing)
        self.links = self._forwarding.links
        self._gaps = self._foreign_gaps(routes.entered)
        self.ring = self._make_ring(routes.entered, now)
        self._arrivals = self._make_arrivals(latest)
        self.receive = self._arrivals.receive
        self._now = self.deadline = now

    def _make_arrivals(self, latest: LatestTime) -> Arrivals:
        return Arrivals(
            self.view,
            self._me,
            ring=self.ring,
            delivery=self.delivery,
            outside=self._unreliable,
            withheld=self._deferred,
            forwarding=self._forwarding,
            counters=self.counters,
            latest=latest,
            pass_on=self._pass_on,
        )

    def _make_ring(self, entered: frozenset[int], now: float) -> Ring:
        return Ring(
            self.view,
            self._me,
            self._context.config,
            streams=self.streams,
            clock=self.clock,
            packer=self._packer,
            gaps=self._gaps,
            entered=entered,
            context=self,
            now=now,
        )

    def _foreign_gaps(self, entered: frozenset[int]) -> list[Gaps]:
        """In the ring one asks soon, and rarely again: it may have to be fetched over a link."""
        timing = self._context.config.timing
        retry_s = timing.token_retransmit_s + 2.5 * self.view.longest_delay_s
        return [
            Gaps(stream, delay_s=timing.repair_delay_s, retry_s=retry_s)
            for stream in self.streams
            if stream.ring != self._own_ring and stream.ring not in entered
        ]

    def _on_complete(self) -> None:
        """All have announced what they bring: the clients' packets may be numbered."""
        view = self.view
        names = tuple(daemon.name for daemon in view.daemons)
        majority = self._context.config.has_majority(len(names))
        own = self.delivery.announcements.whole[self._me]
        self._sessions.begin(
            DaemonView(id=view.id, daemons=names, majority=majority),
            self.delivery.groups.table,
            [group for group, _ in own.groups],
            several=self._several,
        )
        self._sessions.backlog.is_local_only = (
            self.delivery.wanted.is_local_only if self._several else never_local_only
        )
        self._packer.source = self._sessions.backlog
        self._context.key_manager.begin_view(names)

    def reroute(self, links: tuple[tuple[int, int], ...], now: float) -> None:
        """Packets take these links of the view from now on."""
        routes = Routes(self.view, self._me, links)
        self._forwarding.reroute(routes, now)
        self._gaps[:] = self._foreign_gaps(routes.entered)
        self.ring.entered = routes.entered
        for gaps in self._gaps:
            gaps.update(now)
        self.deadline = now

    @property
    def is_settled(self) -> bool:
        """Whether everything that was submitted here has a number, and the whole view holds it."""
        return not self._packer.source.size and not self.unsettled_packets

    @property
    def unsettled_packets(self) -> int:
        """How many packets up to the last own one are not held by the whole view."""
        held = min(self.ring.held_by_all, self.ring.flow.held_remotely)
        return max(0, self._packer.last - held)

    # ---- one step ----

    def step(self, now: float, *, clients: bool) -> None:
        """Act once for all that has come, but for deliveries; `clients`: they did some of it."""
        self._now = now
        if clients or self._sessions.unreliable:
            self._unreliable.send()
        if self._arrivals.changed:
            self._look_for_gaps(now)
        self.ring.step(now)
        if self._several:
            for number, packet in self._deferred.pop_ready(self.ring.held_by_all):
                self._forwarding.forward(self._own_ring, number, packet)
            for destination, packet in self._forwarding.step(now):
                self.send(destination, packet)
        self.deadline = min(self.ring.deadline, self._forwarding.deadline)

    def deliver(self) -> None:
        """Give clients what can be delivered since the last step."""
        waiting = self._packer.source.size
        self.delivery.deliver()
        if self._packer.source.size > waiting:
            self.deadline = self._now  # a session has ended, a name is free, or a join may go on

    def _look_for_gaps(self, now: float) -> None:
        for gaps in self._gaps:
            if gaps.stream.ring in self._arrivals.changed:
                gaps.update(now)
        for ring in self._arrivals.changed:
            self._forwarding.update_gaps(ring, now)
        self._arrivals.changed.clear()

    def _pass_on(self, origin: int, number: int, packet: bytes) -> None:
        """Send on a packet of any ring that is new here; one of the own ring never goes back."""
        if self._several and self._forwarding.forward(origin, number, packet):
            self.send(RING, packet)

    # ---- the host of the ring ----

    @property
    def causes(self) -> Causes:
        """V and A of a packet numbered now."""
        return self.delivery.order.causes

    @property
    def holds_packets(self) -> bool:
        """Whether any packet, of any stream, is not yet forgotten here."""
        return self.delivery.holds_packets

    def originate(self, packet: DataPacket) -> None:
        """Take a packet that was numbered just now as received."""
        self.delivery.originate(packet)
        if self._several:
            self._arrivals.note_use(packet, self._now)

    def publish(self, packet: DataPacket) -> None:
        """Send an originated packet to the ring and, unless it stays, towards every other ring."""
        self.send(RING, packet.raw)
        if packet.local_only:
            self._deferred.defer(packet)
        elif self._several:
            self._forwarding.forward(self._own_ring, packet.number, packet.raw)

    def promise(self, value: int, upto: int) -> None:
        """Count a horizon that this daemon has just announced for its ring."""
        self._probe.horizon(self._own_ring, value, upto)
        self.delivery.receive_horizon(self._own_ring, value, upto)

    def ring_frontier(self, value: int) -> None:
        """Note the least frontier of the ring's daemons."""
        self.delivery.receive_frontier(self._own_ring, value)

    def send(self, destination: int, packet: bytes) -> None:
        """Send a packet to a daemon of the view, or to RING."""
        if destination != RING:
            self._context.seal_and_send(self._names[destination], packet)
        elif len(self.view.rings[self._own_ring]) > 1:
            self._context.seal_and_send(None, packet)

    def announce(self, notice: HorizonNotice) -> None:
        """Send a notice to the ring, and towards every other one."""
        for packet in self._forwarding.announce(notice.encode(), self._now):
            self.send(RING, packet)
