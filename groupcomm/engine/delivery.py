"""Delivery: from packets to local clients, by way of the streams, the order and the groups.

Packets that were received or numbered enter by `receive` and `originate`, horizons and frontiers by
`receive_horizon` and `receive_frontier`. Once a step, `deliver` then delivers everything that has
become deliverable. Nothing is delivered before the announcements of all daemons are here: it would
meet groups that are not known yet.

Senders wait for the positions of some own bundles: of messages with ``ordered=True``, and of
subscriptions. A position is sent once nothing lower can still come to any daemon that it concerns:
for AGREED when the sender's daemon counts every ring's horizon up to the stamp, or has delivered it
as a local one; for SAFE when every frontier has reached it. To send it at numbering would break the
guarantee for side channels, as another ring could still originate below it. A SUBSCRIBE waits like
SAFE.

View counters and connection numbers are on one line, and none is used twice. The line follows
physical time, in microseconds: a start begins at that time, or at the number that its disk has
reserved if that is higher. docs/membership.md describes disks that were lost, restored or copied.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import heappop, heappush
from typing import Final

from groupcomm.clocks.ring_clock import LatestTime, RingClock
from groupcomm.clocks.stamp import Stamp
from groupcomm.config.core import CounterStarts
from groupcomm.config.versions import LOCALITY
from groupcomm.config.view import View
from groupcomm.engine.probe import Probe
from groupcomm.engine.sessions import LocalSessions
from groupcomm.errors import Contradiction, ProtocolViolation
from groupcomm.groups.announcement import Announcements
from groupcomm.groups.beginning import PIECE, Beginning
from groupcomm.groups.carried import CarriedGroups
from groupcomm.groups.groups import Groups
from groupcomm.groups.lines import NO_LINES, LineRules
from groupcomm.groups.marks import Marks, ReportedFrontier
from groupcomm.groups.pruning import Reach, SharedNames
from groupcomm.groups.ring_table import RingTable
from groupcomm.groups.table import Member
from groupcomm.level import ServiceLevel
from groupcomm.order.order import Order
from groupcomm.ring.context import FrontierSource
from groupcomm.security.layout import ReplayWindow
from groupcomm.stream.stream import Stream
from groupcomm.wire.bundle import SENDS_ONLY, Bundle, BundleKind
from groupcomm.wire.data import DataPacket, UnreliablePacket

MOST_CONNECTIONS: Final = 2**48
"""The most connections of one daemon in a view: one each microsecond for nine years."""


def highest_used(connections: Iterable[int], first: int) -> int:
    """Return the highest possible number of a connection in a view.

    Args:
        connections: the highest connection number of each daemon, as it says.
        first: the number of a connection at the beginning of the view.
    """
    most = first + MOST_CONNECTIONS
    return max((number for number in connections if number <= most), default=0)


_UNRELIABLE = ServiceLevel.UNRELIABLE
_SAFE = ServiceLevel.SAFE
_SUBSCRIBE = BundleKind.SUBSCRIBE
_UNSUBSCRIBE = BundleKind.UNSUBSCRIBE
_WIDE, _LINE = BundleKind.WIDE, BundleKind.LINE


def _is_whole(bundle: Bundle) -> bool:
    """Return whether the messages of a bundle are whole with it."""
    return bundle.kind != BundleKind.FRAGMENT or bundle.index == bundle.count - 1


class OrderedWaits:
    """The own bundles that have numbers and are waited for.

    Attributes:
        waiting: the number of waiting bundles.
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
        """Remove and return all messages that are left, lowest first: their view is over.

        Args:
            boundary: stamp of the first packet of its transitional part; None if there is none.

        Returns:
            The bundles of the regular part, and those of the transitional part.
        """
        waits = sorted(self._agreed + self._safe, key=lambda wait: wait[:2])
        left = [bundle for _, _, bundle in waits if bundle.kind != _SUBSCRIBE]
        self._agreed, self._safe, self.waiting = [], [], 0
        if boundary is None:
            return left, []
        regular, rest = list[Bundle](), list[Bundle]()
        for bundle in left:
            packet = bundle.packet
            early = packet.wait is not None and bundle.released  # of a local packet
            below = (packet.time, packet.ring) < boundary
            (regular if below or early else rest).append(bundle)
        return regular, rest

    def pop_due(self, least_block: int, least_frontier: int) -> list[Bundle]:
        """Remove and return the bundles that need not wait any more."""
        ready: list[Bundle] = []
        for heap, reached in ((self._agreed, least_block), (self._safe, least_frontier)):
            while heap and heap[0][0] <= reached:
                ready.append(heappop(heap)[2])
        self.waiting -= len(ready)
        return ready


_STATE = BundleKind.STATE

MOST_UNDELIVERED: Final = 256
"""The packets that may wait because a step has no time for them; above it all senders wait."""

MOST_UNRELIABLE: Final = 2**32
"""The most datagrams outside the streams between two that arrive from one daemon: years of them."""


class Delivery:
    """The deliveries of one daemon in one view.

    Args:
        view: the view.
        me: the index of this daemon.
        starts: the values at which counters start.
        clock: the ring's clock.
        sessions: the local sessions.
        on_complete: is called once the groups are known, before anything is delivered.
        carried: the groups that are carried into the view.
        lines: what decides whether lines go on in it.
        handlers: by kind, what is called with each bundle that a daemon itself has sent, besides
            those about groups, and the index of that daemon.
        latest: the latest time that can be true.
        probe: an observer for traces.

    Attributes:
        streams: the streams, by ring.
        clock: the clock of the ring.
        announcements: the announcements of the daemons of the view.
        complete: whether all announcements have come, and the groups are known and shown.
        order: decides when bundles are delivered.
        groups: decide to which sessions.
        wanted: the groups that daemons of other rings want.
        marks: the marks of this ring, if this daemon is its first one, and the view has LOCALITY.
        holds_packets: whether any packet, of any stream, is not yet forgotten here.
        moved: whether something came that may make a packet deliverable.
        unfinished: whether the last `deliver` has left something to the next step.
    """

    def __init__(
        self,
        view: View,
        me: int,
        starts: CounterStarts,
        *,
        clock: RingClock,
        sessions: LocalSessions,
        on_complete: Callable[[], None],
        carried: CarriedGroups,
        lines: LineRules = NO_LINES,
        handlers: Mapping[int, Callable[[int, Bundle], None]],
        latest: LatestTime,
        probe: Probe,
    ) -> None:
        self.streams = [Stream(ring, starts.stream) for ring in range(len(view.rings))]
        self.order = Order(
            self.streams,
            len(view.daemons),
            clock=view.clock,
            on_release=self._on_release,
            counted=probe.counted,
        )
        self.groups = Groups(view, me, sessions)
        self.wanted, self._shared = Reach(view, me), SharedNames(view)
        self._own = self.streams[view.ring_of[me]]
        self._followed = self._own.held  # the ring table has followed the own stream up to here
        self._ring_table: RingTable | None = None
        self.marks: Marks | None = None
        self.announcements = Announcements(len(view.daemons), view.versions)
        self.complete = self.unfinished = False
        self._is_known = False  # whether the groups are known, though maybe not shown
        self._me = me
        self._on_complete = on_complete
        self._carried, self._line_rules = carried, lines
        self._beginning: Beginning | None = None  # from all announcements until it is done
        self._handlers = handlers
        self._latest = latest
        self._early: deque[Bundle] = deque()  # released, and left to a later step
        self._alone: list[DataPacket] = []  # local packets that came ahead of the global line
        self.holds_packets = False
        self._ring_of = view.ring_of
        self.clock = clock
        self._sessions = sessions
        self._probe = probe
        self._waits = OrderedWaits()
        self._unreliable_seen = [ReplayWindow(starts.unreliable) for _ in view.daemons]
        self.moved = False
        self._first_connection = (
            view.id.counter + starts.connection
        )  # the number of a client that connects now
        if len(self.streams) > 1 and view.versions.features & LOCALITY:
            self._begin_locality(view, me)

    def _begin_locality(self, view: View, me: int) -> None:
        ring = view.rings[view.ring_of[me]]
        names = [daemon.name for daemon in view.daemons]
        safe = view.reports_deliverable
        self._ring_table = RingTable(ring, names, safe=safe)
        self.order.begin_local(self._own.ring, self._alone, self._on_risen if safe else None)
        if ring[0] == me:
            self.marks = Marks(ring, names, self._sessions.backlog.append_first, view.clock)

    def _on_risen(self) -> None:
        self.moved = True

    @property
    def reported(self) -> FrontierSource:
        """Return what this daemon reports of the horizons; see RingContext."""
        blocks, marks = self.order.blocks, self.marks
        return blocks if marks is None else ReportedFrontier(blocks, marks)

    @property
    def highest_connection(self) -> int:
        """Return the highest number of a connection that was seen in the view."""
        return highest_used(self.groups.highest, self._first_connection)

    @property
    def is_behind(self) -> bool:
        """Return whether senders have to wait until this daemon has delivered more."""
        return self.unfinished and self.order.waiting + len(self._early) > MOST_UNDELIVERED

    # ---- packets and notices that come ----

    def receive_recovered(self, packet: DataPacket) -> bool:
        """Enter a packet that another member sent after the end of the view, and that is new here.

        Raises:
            ProtocolViolation: it does not fit the packets that are here.
        """
        self._latest.check(packet.time)
        self.order.admission.check_stamp(packet)
        self.streams[packet.ring].accept(packet)
        self.order.classify(packet)
        self._probe.held(packet.ring, packet.number, packet.time)
        return True

    def receive(self, packet: DataPacket) -> bool:
        """Enter a packet that was received; return False if it is here already.

        Raises:
            ProtocolViolation: it does not fit the packets that are here.
        """
        if self.has_packet(packet):
            return False
        if packet.time > self._latest.limit:
            self._latest.check(packet.time)
        self.order.admission.check(packet)
        self._enter(packet)
        return True

    def is_possible_time(self, time: int) -> bool:
        """Return whether a time is possible in this view."""
        try:
            self._latest.check(time)
        except ProtocolViolation:
            return False
        return True

    def has_packet(self, packet: DataPacket) -> bool:
        """Return whether a packet is here; raise Contradiction if its number is another packet's.

        The header of a local-only packet of another ring is as good as the packet.
        """
        stream = self.streams[packet.ring]
        known = stream.packets.get(packet.number)
        if known is not None and known.raw != packet.raw and known.pruned == packet.pruned:
            text = f"packet {packet.number} of ring {packet.ring} comes with two contents"
            raise Contradiction("content", text)
        return known is not None or packet.number <= stream.held

    def _enter(self, packet: DataPacket) -> None:
        stream = self.streams[packet.ring]
        held_before = stream.held
        stream.accept(packet)
        self.moved = self.holds_packets = True
        if packet.time > self.clock.value:
            self.clock.follow(packet.time)
        self._probe.held(packet.ring, packet.number, packet.time)
        self.order.accept(packet, held_before)
        if self._ring_table is not None and self._own.held > self._followed:
            self._follow()

    def _follow(self) -> None:
        """Have the ring table follow the own stream, once it is known where it begins."""
        assert self._ring_table is not None
        while self._is_known and self._followed < self._own.held:
            self._followed += 1
            packet = self._own.packets[self._followed]
            wait = self._ring_table.classify(packet)
            self.order.follow(packet, *(wait or (None, 0)))

    def originate(self, packet: DataPacket) -> None:
        """Enter a packet that was numbered here, and note its bundles that are waited for."""
        self._probe.stamped(packet.ring, packet.number, packet.time)
        self._enter(packet)
        for bundle in packet.bundles:
            if self._sessions.on_numbered(bundle) or bundle.kind == _SUBSCRIBE:
                self._waits.add(bundle)
            elif bundle.kind == _WIDE and self.marks is not None:
                self.marks.numbered()

    def receive_horizon(self, ring: int, value: int, upto: int) -> None:
        """Process a horizon of a ring."""
        if value > self.clock.value:
            self.clock.follow(value)
        if self.order.blocks.announce(ring, value, upto, self.streams[ring].held):
            self.moved = True

    def receive_frontier(self, ring: int, frontier: int) -> None:
        """Process a frontier of a ring."""
        if self.order.frontiers.raise_to(ring, frontier):
            self.moved = True

    def is_new_unreliable(self, packet: UnreliablePacket) -> bool:
        """Return whether an UNRELIABLE packet comes for the first time.

        Raises:
            ProtocolViolation: its daemon cannot have sent that many.
        """
        window = self._unreliable_seen[packet.daemon]
        if packet.counter > window.highest + MOST_UNRELIABLE:
            raise ProtocolViolation(
                "counter", f"counter {packet.counter} is too far ahead of {window.highest}"
            )
        if not window.check(packet.counter):
            return False
        window.accept(packet.counter)
        return True

    # ---- deliveries ----

    def deliver(self) -> None:
        """Deliver everything that packets, blocks or frontiers have made deliverable since last
        time, or as much as one step may; `unfinished` says that more is left."""
        if self._beginning is not None:
            self.unfinished = not self._begin_more()
        elif self._sessions.rest:
            self.unfinished = not self._sessions.go_on()
        if not self.moved or not self.complete:
            return
        self.moved = self.unfinished = not self._deliver_some()
        if self.unfinished:
            return  # nothing may be forgotten yet, and no position is certain here
        order, groups = self.order, self.groups
        if groups.checks:
            groups.settle(order.progress)
        least = order.frontiers.least
        if self._waits.waiting or self._alone or self._sessions.lines.granted:
            self._end_waits(least)
        self.holds_packets = False
        for stream in self.streams:
            if stream.packets:
                stream.forget(least)
                self.holds_packets |= bool(stream.packets)

    def _deliver_some(self) -> bool:
        """Deliver what steps have left, then what the order releases; return whether all."""
        left = self._early or self._sessions.rest or self.groups.departing is not None
        if left and not self._deliver_early():
            return False
        if not self.order.drain(self._sessions.may_deliver) or self._early or self._sessions.rest:
            return False
        return self.groups.departing is None

    def _deliver_early(self) -> bool:
        """Deliver what steps have left, or as much as this step may; return whether all."""
        groups, may_deliver = self.groups, self._sessions.may_deliver
        if not self._sessions.go_on():
            return False
        if groups.departing is not None and not groups.go_on_departing():
            return False
        while self._early and groups.departing is None and may_deliver():
            self.deliver_bundle(self._early.popleft())
        return not (self._early or self._sessions.rest) and groups.departing is None

    def deliver_left(self) -> bool:
        """Deliver what steps have left, while the view ends; return whether there is more.

        So its end has less to do at once.
        """
        if self._beginning is not None:
            return not self._begin_more()
        if not self.complete:
            return not self._sessions.go_on()
        return not self._deliver_early()

    def _end_waits(self, least_frontier: int) -> None:
        for packet in self._alone if self._waits.waiting else ():
            if packet.daemon == self._me:
                for bundle in filter(_is_whole, packet.bundles):
                    self._sessions.send_position(bundle)
        self._alone.clear()
        for bundle in self._waits.pop_due(self.order.blocks.least, least_frontier):
            if bundle.kind == _SUBSCRIBE:
                self._sessions.subscriptions.on_known(bundle)
            else:
                self._sessions.send_position(bundle)
        if self._sessions.lines.granted:
            self._sessions.lines.tell_held(least_frontier)

    def _on_release(self, bundle: Bundle) -> None:
        if bundle.kind == _STATE:
            self.receive_announcement(bundle)
        elif bundle.kind >= _SUBSCRIBE and bundle.kind != _LINE and self._is_known:
            self._receive_from_daemon(bundle.packet, bundle)  # others rely on it from here on
        elif (
            self.complete
            and not self._early
            and self.groups.departing is None
            and self._sessions.may_deliver()
        ):
            self.deliver_bundle(bundle)
        else:
            self._early.append(bundle)
            self.moved = True

    def receive_announcements(self, bundles: Iterable[Bundle]) -> None:
        """Accept the announcements among the bundles of a view that ends."""
        for bundle in bundles:
            if bundle.kind == _STATE and not bundle.released:
                bundle.released = True
                self.receive_announcement(bundle)

    def learn_groups(self, packets: Iterable[DataPacket]) -> None:
        """Learn from the packets of a view that ends which of the own ring's are local.

        Others may have delivered these in the regular part.
        """
        if self._ring_table is None:
            return
        for packet in packets:
            self.receive_announcements(packet.bundles)
        while self._beginning is not None and not self._is_known:
            self._begin_more()
        for number in range(self._followed + 1, self._own.held + 1):
            self.order.resolve(self._own.packets[number])
        self._follow()

    def receive_announcement(self, bundle: Bundle) -> None:
        """Accept a part of a daemon's announcement."""
        if self.announcements.complete:
            return
        self.announcements.accept(bundle.packet.daemon, bundle)
        if self.announcements.complete:
            self._beginning = self.groups.begin(
                self._carried.pop(self._me),
                self.announcements,
                lines=self._line_rules,
                on_session=self._on_session if len(self.streams) > 1 else None,
                on_table=self._on_table,
            )
            self.unfinished = not self._begin_more()

    def _on_session(self, member: Member) -> None:
        """Enter a session with which a view of several rings begins."""
        self.wanted.add(member)
        for group in member.groups:
            self._shared.add(member.daemon, group)
        if self._ring_table is not None:
            self._ring_table.add(member)
        if self.marks is not None:
            self.marks.add(member)

    def _on_table(self) -> None:
        self._on_complete()
        self._is_known = True
        self._note_shared()
        if self.marks is not None:
            self.marks.begin()
        if self._ring_table is not None:
            self._follow()
        early, self._early = self._early, deque()
        for bundle in early:
            self._on_release(bundle)

    def _begin_more(self) -> bool:
        """Do some more of what makes the groups known; return whether that is done."""
        assert self._beginning is not None
        if not self._beginning.advance(PIECE):
            return False
        self._beginning = None
        self.complete = self.moved = True
        self._sessions.review_members()  # a merge brings members that other daemons admitted
        return True

    def catch_up(self) -> Iterator[None]:
        """Deliver what steps have left to later ones, as the view ends; yield where a step has to
        end."""
        while self._beginning is not None and not self._begin_more():
            yield
        yield from self.finish_bundle()
        while self._early and self.complete:
            self.deliver_bundle(self._early.popleft())
            yield from self.finish_bundle()

    def finish_bundle(self) -> Iterator[None]:
        """Deliver what is left of the last bundle; yield where a step has to end."""
        sessions = self._sessions
        while not (sessions.go_on() and self.groups.go_on_departing() and sessions.may_deliver()):
            yield

    def deliver_bundle(self, bundle: Bundle) -> None:
        """Deliver one bundle to its recipients, without regard to its level."""
        packet: DataPacket = bundle.packet
        if bundle.kind >= _SUBSCRIBE:
            if bundle.kind != _LINE:
                self._receive_from_daemon(packet, bundle)
                return
            self.order.hurry(packet.time)  # its session waits until all daemons hold it
        sender = self.groups.sender(bundle)
        if bundle.level == _UNRELIABLE:
            self._probe.released(self._ring_of[packet.daemon], 0, 0, 0, bundle, sender.name)
            self.groups.deliver_unreliable(bundle)
            return
        self._probe.released(
            packet.ring, packet.number, packet.time, bundle.place, bundle, sender.name
        )
        self.groups.deliver(bundle)

    def _receive_from_daemon(self, packet: DataPacket, bundle: Bundle) -> None:
        handler = self._handlers.get(bundle.kind)
        if handler is not None:
            handler(packet.daemon, bundle)
            return
        (name,) = bundle.groups
        if bundle.kind == _SUBSCRIBE:
            if not bundle.flags & SENDS_ONLY:
                self.wanted.subscribe(packet.daemon, name)
            self._shared.add(packet.daemon, name)
            if self.marks is not None:
                self.marks.subscribe(packet.daemon, name, packet.time)
            self.order.hurry(packet.time)
        elif bundle.kind == _UNSUBSCRIBE:
            self.wanted.unsubscribe(packet.daemon, name)
            self._shared.remove(packet.daemon, name)
            if self.marks is not None:
                self.marks.unsubscribe(packet.daemon, name)
        self._note_shared()

    def _note_shared(self) -> None:
        """Let SAFE packets that stay in their ring ask others for nothing while no message of
        another ring can wait behind them."""
        self.order.hurries_staying = self._shared.any or not self.order.deliverable.is_reported

    def deliver_unreliable(self, packet: UnreliablePacket) -> None:
        """Deliver a datagram outside the streams; before all is announced it is lost.

        While many packets wait for deliveries it is lost, too.
        """
        for bundle in packet.bundles if self.complete else ():
            bundle.packet = packet
            if len(self._early) < MOST_UNDELIVERED:
                self._on_release(bundle)
            self.moved |= bool(self._sessions.rest)
        packet.bundles = []  # each bundle refers to its packet, which is of no further use

    # ---- the end of the view ----

    def pop_waits(self, boundary: Stamp | None) -> tuple[list[Bundle], list[Bundle]]:
        """Remove and return the messages whose senders wait for their positions.

        Args:
            boundary: the place at which the transitional part begins; None if there is none.

        Returns:
            Those of the regular part, and those of the transitional part.
        """
        return self._waits.pop_rest(boundary)

    def send_positions(self, bundles: list[Bundle], *, transitional: bool) -> Iterator[None]:
        """Tell senders the positions of messages of the view that ends; yield where a step has to
        end."""
        for bundle in bundles:
            self._sessions.send_position(bundle, transitional=transitional)
            self._sessions.charge(1)
            yield from self.finish_bundle()
