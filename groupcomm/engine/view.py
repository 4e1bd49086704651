"""The state of one view at one daemon: it wires the ring, delivery and links of the view together.

Pure. ``now`` is in seconds. Each view gets a new `ViewState`. While the view is operational,
packets go in and deliveries come out. Once it is frozen, only its `view_change` is used.

Each packet is decoded, then compared with the view, then with the state here, and only after
that anything is changed. So no packet can make a part break a rule of its own.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from math import inf

import attrs

from groupcomm.clocks.ring_clock import LatestTime, RingClock
from groupcomm.config.core import CoreConfig
from groupcomm.config.roster import Roster
from groupcomm.config.versions import LOCALITY, READERS
from groupcomm.config.view import RING, View
from groupcomm.engine import checks
from groupcomm.engine.backlog import Backlog, never_local_only
from groupcomm.engine.checks import Plausibility
from groupcomm.engine.delivery import Delivery
from groupcomm.engine.frozen_view import FrozenView
from groupcomm.engine.leaving import LeaveProgress
from groupcomm.engine.parts import Parts
from groupcomm.engine.unbroken import is_unbroken
from groupcomm.engine.waiting_rings import make_notices
from groupcomm.errors import ProtocolViolation
from groupcomm.events import DaemonView
from groupcomm.groups.carried import OwnAnnouncement
from groupcomm.groups.lines import LineRules
from groupcomm.groups.pruning import DeferredHeaders
from groupcomm.groups.table import Member
from groupcomm.link.forwarding import Forwarding
from groupcomm.link.link import LinkStatus
from groupcomm.link.routes import Routes
from groupcomm.membership.proposal import link_delays_us
from groupcomm.membership.states import MembershipState
from groupcomm.metrics import metric
from groupcomm.ring.ring import Ring
from groupcomm.ring.states import TokenState
from groupcomm.stream.packer import Causes, Packer
from groupcomm.stream.stream import Gaps
from groupcomm.wire.bundle import BundleKind
from groupcomm.wire.data import (
    DataPacket,
    UnreliablePacket,
    decode_data_untrusted,
    decode_headers_untrusted,
    decode_unreliable_untrusted,
)
from groupcomm.wire.horizon import HorizonNotice, decode_horizon_untrusted
from groupcomm.wire.link import decode_ack_untrusted, decode_link_untrusted, decode_resend_untrusted
from groupcomm.wire.packet import PacketKind
from groupcomm.wire.token import (
    decode_held_untrusted,
    decode_request_untrusted,
    decode_rest_untrusted,
    decode_token_untrusted,
)


@attrs.frozen(kw_only=True)
class RingStatus:
    """The ring of the present view.

    Attributes:
        token: the token's state, lower case.
        hop: the number of times that the token was passed on.
        held_by_all: all daemons of the ring hold its packets up to this number.
        held: for each ring of the view the number up to which all packets are here.
        frontiers_least: the stamp up to which all daemons of the view hold everything.
        token_losses, token_retransmissions: their numbers in this view.
    """

    token: str
    hop: int
    held_by_all: int
    held: tuple[int, ...]
    frontiers_least: int
    token_losses: int
    token_retransmissions: int
    waiting_bundles: int = metric(
        "queue_bundles", "Bundles of this daemon's programs that wait for a number of the ring."
    )
    rights: int = metric(
        "rights_to_send",
        "Names to which this daemon's programs send from another site without being members.",
    )


class ViewState:
    """One daemon in one view.

    Args:
        view: the view.
        me: the index of this daemon in the view.
        announcement: that of this daemon, its first bundles in the view.
        majority: whether its members may act for all; None if that is unknown.
        rosters: those by which majorities may have counted since the last complete view; first the
            one that the members have agreed with.
        parts: the parts of the daemon that all its views share.
        config: its settings.
        now: seconds.

    Attributes:
        ring, delivery, streams, links, routes: the parts.
        clock: the clock of the ring.
        view_change: ends the view once it is frozen.
        safe_waits: tells whether SAFE packets wait between two stamps; see Order.
        blocks: what this daemon reports of the horizons of the rings; see RingContext.
        deliverable: what the ring can deliver; see RingContext.
        deadline: the time at which `step` is due; inf once the view is frozen.
        key: the view's key.
        several: whether it has several rings, and so links.
        majority: whether its members may act for all; None if that is unknown.
        rosters: see above.
        delays_us: the delays of its links by which routes are compared now; see View.
    """

    def __init__(
        self,
        view: View,
        me: int,
        announcement: OwnAnnouncement,
        parts: Parts,
        config: CoreConfig,
        now: float,
        *,
        majority: bool | None,
        rosters: Sequence[Roster],
    ) -> None:
        starts, self.view, self.key = config.starts, view, view.key
        self.majority, self.rosters = majority, rosters
        self._me, self._own_ring = me, view.ring_of[me]
        self._parts, self._config = parts, config
        self.several = len(view.rings) > 1  # with one ring no packet is ever forwarded
        self._probe, self._sessions, self._to_network = parts.probe, parts.sessions, parts.sender
        self.counters = parts.counters
        self.ring_counts, self.packet_size = parts.counters.ring, parts.segments.size
        self._names: list[str | None] = [daemon.name for daemon in view.daemons]
        self._indices = {daemon.number: index for index, daemon in enumerate(view.daemons)}
        self._latest = LatestTime(view.clock, parts.physical.read(now), now)
        self.clock = RingClock(parts.physical, view.clock)
        self._first = first = Backlog()
        self._announcement: OwnAnnouncement | None = announcement  # until it is whole
        self._packer = Packer(
            view,
            me,
            self.clock,
            source=first,
            size=self.packet_size,
            base=starts.stream,
            unreliable_base=starts.unreliable,
        )
        self.delivery = self._make_delivery(parts, LineRules(majority, rosters[0]))
        self.streams = self.delivery.streams
        order = self.delivery.order
        self.safe_waits, self.blocks = order.safe_waits, self.delivery.reported
        self.deliverable = order.deliverable
        self._deferred = DeferredHeaders(self.key, self.streams[self._own_ring], view.packet_limit)
        self.delays_us = view.delays_us
        self._usable = view.links
        self.routes = routes = Routes(view, me)
        self._forwarding = Forwarding(view, me, routes, self.streams, config.timing)
        self.links = self._forwarding.links
        self._gaps = self._foreign_gaps(routes.entered)
        self._changed: set[int] = set()  # foreign streams that may have new gaps
        self.ring = self._make_ring(routes.entered, now)
        self.view_change = FrozenView(
            view, me, self.delivery, self.ring.reception, self._forwarding, parts
        )
        self._plausibility = Plausibility(view, me, self.ring, self.delivery, self._latest)
        # The latest notice of each ring. A site hears the multicasts of all its rings, so without
        # this notices would be forwarded in circles. Of packets the streams know the first ones.
        self._noticed, self._shared_noticed = ([(0, 0, 0)] * len(view.rings) for _ in range(2))
        self._handlers = self._by_kind()
        self._sender = me  # index of the daemon that has sent the packet being processed
        self._now = self.deadline = now
        self._announce()

    def _announce(self) -> None:
        """Make some more of the announcement, and have it numbered once it is whole."""
        if self._announcement is not None and (bundles := self._announcement.advance()):
            self._first.extend(bundles)
            self._announcement = None

    def _make_delivery(self, parts: Parts, lines: LineRules) -> Delivery:
        view = self.view
        return Delivery(
            view,
            self._me,
            self._config.starts,
            clock=self.clock,
            sessions=self._sessions,
            on_complete=self._on_complete,
            carried=parts.carried_groups,
            lines=lines,
            handlers={
                BundleKind.KEYS: parts.key_manager.on_report,
                BundleKind.REPORT: partial(parts.reports.accept, view),
                BundleKind.ROSTER: parts.roster_manager.on_step,
            },
            latest=self._latest,
            probe=self._probe,
        )

    def _make_ring(self, entered: frozenset[int], now: float) -> Ring:
        wanted, clock = self.delivery.wanted, self.clock
        self._horizons, self._waiting = make_notices(
            self.view, self._me, self._config, wanted, clock=clock, context=self, now=now
        )
        return Ring(
            self.view,
            self._me,
            self._config,
            horizons=self._horizons,
            streams=self.streams,
            clock=self.clock,
            packer=self._packer,
            gaps=self._gaps,
            entered=entered,
            context=self,
            now=now,
        )

    def _foreign_gaps(self, entered: frozenset[int]) -> list[Gaps]:
        """Return the gaps of foreign streams that this daemon requests within its ring.

        A first request is sent soon, and repeated rarely unless a daemon of the ring holds the
        packet: it may have to cross a link.
        """
        timing = self._config.timing
        again_s = timing.token_retransmit_s
        retry_s = again_s + 2.5 * self.view.longest_delay_s
        return [
            Gaps(stream, delay_s=timing.repair_delay_s, retry_s=retry_s, near_s=again_s)
            for stream in self.streams
            if stream.ring != self._own_ring and stream.ring not in entered
        ]

    def _on_complete(self) -> None:
        """Begin to number clients' packets: the groups are known."""
        view, table = self.view, self.delivery.groups.table
        names = tuple(daemon.name for daemon in view.daemons)
        leaves = self.delivery.wanted.leaves if self.several else None
        self._sessions.begin(
            DaemonView(
                id=view.id,
                daemons=names,
                majority=self.majority,
                by_votes=not self.rosters[0].is_plain,
                unbroken=is_unbroken(view, self._me, self.delivery.announcements, self.rosters),
            ),
            table,
            (table.local.keys() | table.reading.keys()) if self.several else (),
            readers=bool(view.versions.features & READERS),
            leaves=leaves,
            rights=self._config.rights if view.versions.features & LOCALITY else None,
            knows_pauses=view.versions.knows_pauses,
        )
        self._sessions.backlog.is_local_only = (
            self.delivery.wanted.is_local_only if self.several else never_local_only
        )
        self._packer.source = self._sessions.backlog
        self._parts.key_manager.begin_view(names)
        self._parts.roster_manager.begin_view(names, view.id.counter, majority=self.majority)

    def pop_unreached(self) -> list[int]:
        """Return the daemons that packets do not reach over a link; its packets are given up."""
        unreached = sorted(self._forwarding.unreached(self._now))
        for index in unreached:
            self._forwarding.give_up(index)
        return [self.view.daemons[index].number for index in unreached]

    def reroute(self, links: tuple[tuple[int, int], ...], now: float) -> None:
        """Send packets over these links of the view from now on."""
        self._usable = links
        self.routes = routes = Routes(self.view, self._me, links, self.delays_us)
        self._forwarding.reroute(routes, now)
        self._gaps[:] = self._foreign_gaps(routes.entered)
        self.ring.entered = routes.entered
        for gaps in self._gaps:
            gaps.update(now)
        self.deadline = now

    def excuse(self, number: int, now: float) -> None:
        """Do not judge a daemon by its silence so far, of that number: it says that it is busy."""
        index = self._indices[number]
        if index in self.view.rings[self._own_ring]:
            self.ring.monitor.postpone(now + self._config.timing.token_timeout_s)
        elif index in self.links:
            self.links[index].in_flight.in_vain.clear()

    def use_roster(self, config: CoreConfig, now: float) -> None:
        """Compare routes by the links of another roster from now on."""
        self._config = config
        names = [daemon.name for daemon in self.view.daemons]
        joined = [(names[one], names[other]) for one, other in self.view.links]
        self.use_delays(link_delays_us(config, joined), now)

    def use_delays(self, delays_us: tuple[int, ...], now: float) -> bool:
        """Compare routes by these delays of the links from now on; return whether they change.

        Timers keep the longest delay with which the view has begun.
        """
        if delays_us == self.delays_us:
            return False
        self.delays_us = delays_us
        self.reroute(self._usable, now)
        return True

    @property
    def groups(self) -> Mapping[str, Collection[Member]]:
        """Return the members of each group, by the deliveries of this daemon."""
        return self.delivery.groups.table.groups if self.delivery.complete else {}

    @property
    def memberships(self) -> int:
        """Return the number of members of all groups together."""
        return self.delivery.groups.table.memberships if self.delivery.complete else 0

    @property
    def is_settled(self) -> bool:
        """Return whether all local submissions have numbers, and the whole view holds them."""
        waiting = self._announcement or self._packer.source.size
        return not waiting and not self.unsettled_packets

    @property
    def unsettled_packets(self) -> int:
        """Return the number of packets up to the last own one that some member may lack."""
        held = min(self.ring.held_by_all, self.ring.flow.held_remotely)
        return max(0, self._packer.last - held)

    def ring_status(self, waiting: int) -> RingStatus:
        """Return the facts about the ring for operators; so many bundles wait for a number."""
        ring = self.ring
        return RingStatus(
            token=ring.state.name.lower(),
            hop=ring.monitor.hop,
            held_by_all=ring.held_by_all,
            held=tuple(stream.held for stream in self.streams),
            frontiers_least=self.delivery.order.frontiers.least,
            token_losses=ring.monitor.token_losses,
            token_retransmissions=ring.monitor.token_retransmissions,
            waiting_bundles=waiting,
            rights=self._sessions.subscriptions.rights,
        )

    def link_status(self) -> tuple[LinkStatus, ...]:
        """Return the facts about the links that end here for operators."""
        daemons = self.view.daemons
        return tuple(link.status(daemons[at].name) for at, link in self.links.items())

    def leave_progress(
        self, state: MembershipState, *, others_differ: bool, is_missed: bool
    ) -> LeaveProgress:
        """Return the duties that are left before this daemon may leave; see LeaveProgress."""
        return LeaveProgress(
            others_differ=others_differ,
            is_missed=is_missed,
            state=state,
            is_complete=self.delivery.complete,
            is_settled=self.is_settled,
            sessions=self._sessions.unfinished,
            bundles=self._sessions.backlog.size,
            packets=self.unsettled_packets,
        )

    # ---- one step ----

    def step(self, now: float) -> None:
        """Act once for everything that has arrived, except for deliveries."""
        self._now = now
        if self._announcement is not None:
            self._announce()
        if self._sessions.unreliable:
            self._send_unreliable()
        if self._changed:
            self._look_for_gaps(now)
        self.ring.step(now)
        if self.several:
            self._deferred.hurries_safe = self.delivery.order.hurries_staying
            for number, packet in self._deferred.pop_ready(self.ring.held_by_all):
                self._forwarding.forward(self._own_ring, number, packet)
            for destination, packet in self._forwarding.step(now):
                self.send(destination, packet)
            rights_at = self._sessions.subscriptions.review(now)
            self.deadline = min(self.ring.deadline, self._forwarding.deadline, rights_at)
        else:
            self.deadline = self.ring.deadline
        if self._announcement is not None:
            self.deadline = now

    def deliver(self) -> None:
        """Give clients everything that has become deliverable since the last step."""
        delivery, waiting = self.delivery, self._packer.source.size
        if delivery.moved or delivery.unfinished or self._sessions.rest:
            delivery.deliver()
            if delivery.unfinished:
                self.deadline = self._now
            if self.several and self.ring.flow.on_forgotten(self._now) and waiting:
                self.deadline = self._now  # it may be numbered now
        if self._sessions.acceptance.unsettled:
            held = min(self.ring.held_by_all, self.ring.flow.held_remotely)
            if self.several and self._sessions.lines.stages:  # all that others have sent before it
                held = min(held, self.streams[self._own_ring].forgotten)
            self._sessions.acceptance.settle(held, self._now)
        if self._packer.source.size > waiting:
            self.deadline = self._now  # a session has ended, a name is free, or a join may go on

    def deliver_left(self, now: float) -> None:
        """Give clients more of what steps have left, until the end of the view does so."""
        left = not self.view_change.ends and self.delivery.deliver_left()
        self.deadline = now if left else inf

    def _look_for_gaps(self, now: float) -> None:
        for gaps in self._gaps:
            if gaps.stream.ring in self._changed:
                gaps.update(now)
        for ring in self._changed:
            self._forwarding.update_gaps(ring, now)
        self._changed.clear()

    def _forward(self, origin: int, number: int, packet: bytes) -> None:
        """Forward a new packet of any ring; a packet of this ring never comes back."""
        if self.several and self._forwarding.forward(origin, number, packet):
            self.send(RING, packet)

    # ---- packets ----

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
        """Process one packet of this view.

        Args:
            kind: the kind of the packet.
            packet: the whole packet.
            sender: number of the daemon that has sent it.
            now: seconds.

        Raises:
            BadDatagram, ProtocolViolation: it breaks its layout, or the protocol.
        """
        self._now = self._latest.now = now
        handler = self._handlers.get(kind)
        index = self._indices.get(sender)
        if handler is None or index is None:
            raise ProtocolViolation(
                "view", f"a packet of kind {kind} of daemon {sender:x}, unknown or not in the view"
            )
        self._sender = index
        handler(packet)

    def _on_token(self, packet: bytes) -> None:
        token = decode_token_untrusted(packet)
        checks.check_token(token, self.view, self._own_ring)
        if token.hop > self.ring.last_hop:
            self._plausibility.check_token(token)
        self.ring.on_token(token, self._now)

    def _on_request(self, packet: bytes) -> None:
        request = decode_request_untrusted(packet)
        checks.check_request(request, self.view)
        if request.ring == self._own_ring:  # otherwise it is for another ring of this site
            self._plausibility.check_request(request, self._sender)
            self.ring.on_request(request)

    def _on_rest(self, packet: bytes) -> None:
        notice = decode_rest_untrusted(packet)
        checks.check_rest(notice, self.view)
        if notice.ring != self._own_ring:
            return  # the request is for another ring of this site
        self._plausibility.check_rest(notice, self._sender)
        self.ring.on_rest(notice, self._now)
        self.delivery.receive_horizon(notice.ring, notice.horizon, notice.last)
        self.delivery.receive_frontier(notice.ring, min(notice.frontiers))

    def _on_held(self, packet: bytes) -> None:
        notice = decode_held_untrusted(packet)
        checks.check_held(notice, self.view)
        if notice.ring == self._own_ring:  # otherwise it is for another ring of this site
            self._plausibility.check_held(notice, self._sender)
            self.ring.on_held(notice)

    def _on_data(self, raw: bytes) -> None:
        packet = decode_data_untrusted(raw)
        checks.check_data(packet, self.view)
        own = packet.ring == self._own_ring
        if own and packet.pruned:
            return  # a header of this ring is for other rings of this site
        if packet.daemon == self._me:
            self.ring.flow.window.repeated += len(raw)  # another daemon has answered a request
        elif packet.local_only and not own:
            return  # of another ring of this site; its header follows once that ring holds it
        elif self._accept(packet, own=own):
            if own:
                self.ring.on_packet(packet, self._now)
            if packet.local_only:
                self.ring.flow.note_local_only(packet.number)
                self._deferred.defer(packet)
            elif self.several:
                self._forward(packet.ring, packet.number, packet.raw)

    def _on_headers(self, raw: bytes) -> None:
        found = decode_headers_untrusted(raw)
        packets = found.packets
        if packets[0].ring == self._own_ring:
            return  # the packet is for another ring of this site
        is_news = False
        for packet in packets:
            checks.check_data(packet, self.view)
            is_news |= self._accept(packet, own=False, alone=found.alone)
        if is_news:
            self._forward(packets[0].ring, packets[0].number, raw)

    def _accept(self, packet: DataPacket, *, own: bool, alone: bool = False) -> bool:
        """Enter a packet; return False if it is here already."""
        if own and self.ring.state is not TokenState.AWAY:
            self._plausibility.check_given(packet.number)
        if not self.delivery.receive(packet):
            self.counters.duplicates += 1
            return False
        if self.several:
            if not alone:
                self._note_use(packet)
            if packet.ring != self._own_ring:
                self._changed.add(packet.ring)
        return True

    def _note_use(self, packet: DataPacket) -> None:
        """Have notices sent often while the agreed order is used or frontiers are waited for."""
        order = self.delivery.order
        if packet.wait is not None and not (packet.safe and order.hurries_staying):
            return  # its ring delivers it alone, and nobody waits for a promise
        hurried = packet.time in order.hurried
        if self._waiting is not None:
            by_all = hurried or (packet.in_agreed_order and not self.delivery.complete)
            early = packet.number > self.streams[packet.ring].held
            self._waiting.note(packet, self._now, by_all=by_all, early=early)
        elif packet.in_agreed_order or hurried:
            notices = self.ring.notices
            notices.agreed_at = self._now
            if packet.ring != self._own_ring and packet.time > notices.foreign_time:
                notices.foreign_time = packet.time

    # ---- UNRELIABLE packets: without numbers, tokens and repair ----

    def _on_unreliable(self, raw: bytes) -> None:
        packet = decode_unreliable_untrusted(raw)
        checks.check_unreliable(packet, self.view)
        if packet.daemon == self._me:
            return
        ring_of, sender = self.view.ring_of, self._sender
        rings = {ring_of[packet.daemon], ring_of[sender], self._own_ring}
        if sender != packet.daemon and len(rings) == 1:
            raise ProtocolViolation(
                "sender", f"daemon {sender} sends a datagram of daemon {packet.daemon}"
            )
        if not self.delivery.is_new_unreliable(packet):
            return
        self._forward_unreliable(packet, raw)
        self.delivery.deliver_unreliable(packet)

    def _send_unreliable(self) -> None:
        """Send the UNRELIABLE messages of local sessions, once the groups are known."""
        if not self.delivery.complete:
            return
        for packet in self._packer.unreliable(self._sessions.pop_unreliable()):
            raw = packet.encode(self.key)  # before its bundles are delivered and dropped
            self.send(RING, raw)
            self._forward_unreliable(packet, raw)
            self.delivery.deliver_unreliable(packet)

    def _forward_unreliable(self, packet: UnreliablePacket, raw: bytes) -> None:
        """Forward a packet to other rings, an own one only if they have recipients for it."""
        ring = self.view.ring_of[packet.daemon]
        if ring != self._own_ring or not self.delivery.wanted.all_local_only(packet.bundles):
            self._forward(ring, 0, raw)

    # ---- between rings ----

    def _on_horizon(self, packet: bytes) -> None:
        for notice in decode_horizon_untrusted(packet).notices:
            checks.check_horizon(notice, self.view)
            self._plausibility.check_horizon(notice)
            self._accept_notice(notice)

    def _accept_notice(self, notice: HorizonNotice) -> None:
        ring = notice.ring
        stream, own = self.streams[ring], self.ring
        stream.learn(notice.upto)
        self.delivery.receive_horizon(ring, notice.horizon, notice.upto)
        self.delivery.receive_frontier(ring, notice.frontier)
        if ring == self._own_ring:
            own.notices.issued(
                self._now, notice.frontier, notice.horizon, notice.targets, shared=notice.shared
            )
            if self._waiting is not None:
                self._horizons.report.note_reported(notice.held)
        else:
            own.flow.on_held_remotely(ring, notice.held_of(self._own_ring), self._now)
            if notice.unsettled:
                own.notices.asked = True
            if stream.known > stream.held:
                self._changed.add(ring)
        key = (notice.horizon, notice.upto, notice.frontier)
        noticed = self._shared_noticed if notice.shared else self._noticed
        if key > noticed[ring]:
            noticed[ring] = key
            self._forwarding.forward_notice(notice, self._now)

    def _on_resend(self, packet: bytes) -> None:
        request = decode_resend_untrusted(packet)
        checks.check_resend(request, self.view)
        self._plausibility.check_resend(request, self._sender)
        form = self._deferred.form_for_other_ring
        self._forwarding.on_resend_request(request, form, self._now)

    def _on_link(self, raw: bytes) -> None:
        carried = decode_link_untrusted(raw)
        if packet := self._forwarding.on_packet(carried, self._sender, self._now):
            self._handlers[packet[0]](packet)

    def _on_acknowledgement(self, packet: bytes) -> None:
        ack = decode_ack_untrusted(packet)
        self._forwarding.on_acknowledgement(ack, self._sender, self._now)

    # ---- the context of the ring ----

    @property
    def causes(self) -> Causes:
        """Return V and A of a packet numbered now."""
        return self.delivery.order.causes

    @property
    def holds_packets(self) -> bool:
        """Return whether any packet, of any stream, is not yet forgotten here."""
        return self.delivery.holds_packets

    def originate(self, packet: DataPacket) -> None:
        """Process a packet that was numbered just now as received."""
        self.delivery.originate(packet)
        if self.several:
            self._note_use(packet)

    def publish(self, packet: DataPacket) -> None:
        """Send an own packet to the ring and, unless it is local-only, towards every other ring."""
        self._send_data(packet)
        if packet.local_only:
            self._deferred.defer(packet)
        elif self.several:
            self._forwarding.forward(self._own_ring, packet.number, packet.raw)

    def send_again(self, packet: DataPacket) -> None:
        """Send a packet of a stream to the ring once more."""
        self._parts.segments.note_repeated(packet, self._now)
        self._send_data(packet)

    def _send_data(self, packet: DataPacket) -> None:
        if len(self.view.rings[self._own_ring]) > 1:
            self._to_network.send_data(packet)

    def promise(self, value: int, upto: int) -> None:
        """Count a horizon that this daemon has just announced for its ring."""
        self._probe.horizon(self._own_ring, value, upto)
        self.delivery.receive_horizon(self._own_ring, value, upto)

    def ring_frontier(self, value: int) -> None:
        """Note the least frontier of the ring's daemons."""
        self.delivery.receive_frontier(self._own_ring, value)

    def send(self, destination: int, packet: bytes) -> None:
        """Send a packet to a daemon of the view, by its index, or to RING."""
        if destination != RING:
            self._to_network.send(self._names[destination], packet)
        elif len(self.view.rings[self._own_ring]) > 1:
            self._to_network.send(None, packet)

    def announce(self, notice: HorizonNotice) -> None:
        """Send a notice to the ring, and towards every other one."""
        for packet in self._forwarding.announce(notice, self._now):
            self.send(RING, packet)
