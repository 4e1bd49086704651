"""An abstract daemon over changing views: one start of it, from boot to its end.

In a view it follows the rules of the one-view daemon, with two differences. It knows only the
frontiers that others told (`frontiers`); and a message at FIFO or above waits for its daemon's
chain of packets, as the end of a view asks for that, too.
"""

from collections import Counter, deque

from groupcomm.trace.events import Conf
from tests.verification.generators.changing.records import (
    Announcement,
    GeneratedRecovery,
    View,
    ViewPacket,
)
from tests.verification.generators.changing.sessions import ChangingSessions
from tests.verification.generators.changing.walk import Walk, find_boundary, last_whole
from tests.verification.generators.daemon import Daemon
from tests.verification.generators.records import (
    AGREED,
    FIFO,
    FRAGMENT,
    Bundle,
    Log,
    Notice,
    Session,
)


class ChangingDaemon(Daemon):
    """One start of a daemon.

    Attributes:
        alive: it runs.
        leaving: it has begun to leave in order.
        frozen: it has no view, or its view stands still.
        config: the regular view installed last; None before the first.
        complete: all announcements of that view are here.
        heard: all horizons heard in it.
        frontiers: for each ring the frontier of all its daemons, as far as known.
        fellows: the transitional members that it has an obligation to, by attempts that failed.
        counter: the highest counter of a view that it has taken part in agreeing on.
        unreliable: bundles of its own clients that need no number.
    """

    desk: ChangingSessions

    def __init__(self, identity: str, incarnation: str, counter: int, log: Log) -> None:
        super().__init__(identity, 0, "", log)
        self.desk = ChangingSessions(identity, log)
        self.incarnation = incarnation
        self.alive = True
        self.leaving = False
        self.frozen = True
        self.config: View | None = None
        self.complete = False
        self.heard: list[Notice] = []
        self.frontiers: list[int] = []
        self.fellows: frozenset[str] = frozenset()
        self.counter = counter
        self.unreliable: deque[Bundle] = deque()
        self.packets: dict[tuple[int, int], ViewPacket] = {}
        self._completed = ""
        self._together: frozenset[str] = frozenset()
        self._start = 0
        self._given: set[Bundle] = set()
        self._parts_here: Counter[str] = Counter()  # the announcement parts that came, by daemon
        self._announced = 0  # the number of its own announcement parts
        self._last: int | None = None  # the number of its previous packet
        self._numbered: dict[Session, int] = {}  # bundles at FIFO or above, by client
        self._open: dict[Session, list[Bundle]] = {}  # fragments of messages without their last one

    @property
    def operates(self) -> bool:
        """Return whether it takes part in a view that goes on."""
        return self.alive and not self.frozen

    @property
    def whole(self) -> bool:
        """Return whether it operates in a view whose groups it knows."""
        return self.operates and self.complete

    # ---- a view begins ----

    def install(self, view: View) -> None:
        """Begin with a view, and with an announcement for it."""
        rings = view.rings
        self.ring = next(index for index, ring in enumerate(rings) if self in ring)
        self._log.add(Conf(self._log.tick(), self.identity, "R", view.text, view.shape))
        sessions, groups = self.desk.announce()
        brought = Announcement(self._completed, self._together, sessions, groups)
        view.announcements[self.identity] = brought
        self.join_view([], len(rings), view.start)
        self.view, self.config, self._start = view.text, view, view.start
        self.complete = self.frozen = False
        self.held, self.done = 0, (0, 0, 0)
        self.frontiers = [0] * len(rings)
        self.fellows = frozenset()
        for kept in (self.heard, self.notices, self.low, self.agreed, self.answers, self.checks):
            kept.clear()
        for known in (self.packets, self.ranks, self._numbered, self._open):
            known.clear()
        self._given.clear()
        self._parts_here.clear()
        self._announced, self._last = 0, None

    def _complete(self) -> None:
        assert self.config is not None
        self.complete = True
        announced = self.config.announcements
        own = announced[self.identity]
        together = {
            identity
            for identity, other in announced.items()
            if own.completed
            and other.completed == own.completed
            and identity in own.together
            and self.identity in other.together
        }
        self.desk.begin(self.config, together | {self.identity})

    # ---- input ----

    def receive(self, packet: ViewPacket) -> None:
        """Accept a packet, unless it is here already."""
        if (packet.ring, packet.number) in self.packets:
            return
        self.packets[packet.ring, packet.number] = packet
        self._parts_here[packet.daemon.identity] += packet.announces
        self.hold(packet)

    def receive_notice(self, notice: Notice) -> None:
        """Accept a horizon."""
        super().receive_notice(notice)
        self.heard.append(notice)

    def release_all(self) -> None:
        """Release all deliverable bundles, once all announcements are here."""
        if not self.operates:
            return
        self.count()
        if not self.complete and self._knows_all():
            self._complete()
        if self.complete:
            super().release_all()

    def _knows_all(self) -> bool:
        assert self.config is not None
        return all(self._parts_here[p] == parts for p, parts in self.config.parts.items())

    # ---- releases ----

    def _is_stable(self, bundle: Bundle) -> bool:
        packet = self.packets[bundle.ring, bundle.number]
        return self.least >= bundle.time and (
            not packet.is_safe or min(self.frontiers) >= bundle.time
        )

    def _is_next(self, bundle: Bundle) -> bool:
        packet = self.packets[bundle.ring, bundle.number]
        return super()._is_next(bundle) and (bundle.level < FIFO or self._has_chain(packet))

    def _has_chain(self, packet: ViewPacket) -> bool:
        previous = packet.previous
        while previous is not None:
            before = self.packets.get((packet.ring, previous))
            if before is None:
                return False
            previous = before.previous
        return True

    def _release(self, bundle: Bundle) -> None:
        super()._release(bundle)
        self._given.add(bundle)

    # ---- numbers ----

    @property
    def wants_number(self) -> bool:
        """Return whether it has something for a packet."""
        if not self.operates or self.config is None:
            return False
        announces = self._announced < self.config.parts[self.identity]
        return announces or (self.complete and bool(self.waiting))

    def make_packet(self, count: int, number: int, time: int) -> ViewPacket:
        """Number a part of the announcement, or up to `count` bundles."""
        assert self.config is not None
        bundles: list[Bundle] = []
        if self._announced < self.config.parts[self.identity]:
            self._announced += 1
        else:
            bundles = [self.waiting.popleft() for _ in range(min(count, len(self.waiting)))]
        packet = ViewPacket(self, self._last, number, time, bundles)
        packet.causes = (tuple(self.highest), self.done)
        self._last = number
        for bundle in bundles:
            if bundle.level >= FIFO:
                rank = self._numbered.get(bundle.client, 0) + 1
                bundle.rank = self._numbered[bundle.client] = rank
            if bundle.kind == FRAGMENT:
                self._open.setdefault(bundle.client, []).append(bundle)
                if bundle.index == bundle.messages[0].parts - 1:
                    del self._open[bundle.client]
        self.number(packet)
        self.receive(packet)
        return packet

    def accept_unreliable(self, bundle: Bundle) -> None:
        """Release bundles without a place in the order."""
        if self.whole:
            super().accept_unreliable(bundle)

    # ---- the view ends ----

    def bind(self, union: GeneratedRecovery) -> None:
        """Say that the union is held here."""
        self.fellows |= union.fellows
        known = {(n.ring, n.value, n.upto) for n in self.heard}
        for notice in union.notices:
            if (notice.ring, notice.value, notice.upto) not in known:
                self.receive_notice(notice)
        self.count()
        for ring, frontier in enumerate(union.frontiers):
            self.frontiers[ring] = max(self.frontiers[ring], frontier)

    def finish(self, union: GeneratedRecovery, fellows: tuple[str, ...], coming: str) -> None:
        """Deliver the rest of the view, like all that come along."""
        assert self.config is not None
        if not self.complete and self._knows_all():
            self._complete()
        if not self.complete:
            self._turn(fellows, coming)
        else:
            self._walk(union, fellows, coming)
            self._completed = self.view
            self._together = frozenset(daemon.identity for daemon in self.config.daemons)
        self._together &= frozenset(fellows)
        for session, bundles in self._open.items():
            if session not in self.desk.gone:
                self.waiting.extendleft(bundle.again() for bundle in reversed(bundles))

    def _turn(self, fellows: tuple[str, ...], coming: str) -> None:
        self._log.add(Conf(self._log.tick(), self.identity, "T", coming, (fellows,), self.view))

    def _walk(self, union: GeneratedRecovery, fellows: tuple[str, ...], coming: str) -> None:
        walk = Walk(union, self._start)
        horizons = [
            max([n.value for n in union.notices if n.ring == ring and n.upto <= prefix], default=0)
            for ring, prefix in enumerate(union.prefix)
        ]
        horizons = list(map(max, horizons, last_whole(union)))
        boundary = find_boundary(union, min(horizons), min(union.frontiers))
        regular = True
        for packet in union.packets:
            if regular and (packet.time, packet.ring) == boundary:
                regular = False
                self._end_regular(fellows, coming)
            kept = walk.deliverable(packet)
            for bundle in packet.bundles:
                if bundle in kept and bundle not in self._given:
                    self._release(bundle)
                assert bundle in kept or bundle not in self._given
                assert bundle in kept or not regular or bundle.level < AGREED
        if regular:
            self._end_regular(fellows, coming)
        for bundle in self.answers:
            if bundle.index == bundle.messages[0].parts - 1:
                self.desk.tell_place(bundle, transitional=True)
        for bundle in self.checks:
            if bundle.index == bundle.messages[0].parts - 1:
                self.desk.bounce(bundle)
        self.desk.end()

    def _end_regular(self, fellows: tuple[str, ...], coming: str) -> None:
        self._answer()
        self._turn(fellows, coming)
        self.desk.end_regular()

    # ---- notices to senders ----

    def _answer(self) -> None:
        for bundle in list(self.answers):
            if bundle in self._given:
                self.answers.remove(bundle)
                if bundle.index == bundle.messages[0].parts - 1:
                    self.desk.tell_place(bundle, transitional=False)
        passed = min(self.least, self.agreed[0].time - 1) if self.agreed else self.least
        for bundle in list(self.checks):
            if bundle.time <= passed:
                self.checks.remove(bundle)
                if bundle.index == bundle.messages[0].parts - 1:
                    self.desk.bounce(bundle)
