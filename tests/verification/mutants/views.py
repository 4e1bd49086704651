"""Wrong ways to go from one view to the next."""

from contextlib import suppress
from typing import Any

import attrs

from groupcomm.config.view import Incarnation, View
from groupcomm.engine.daemon import DaemonCore
from groupcomm.engine.delivery import Delivery
from groupcomm.engine.sessions import LocalSessions
from groupcomm.engine.view_change import ViewChange
from groupcomm.errors import RemoteProtocolError
from groupcomm.groups.announcement import (
    NOTHING,
    Announcement,
    Announcements,
    Rows,
    rows_of,
    slices,
)
from groupcomm.groups.carried import CarriedGroups, OwnAnnouncement
from groupcomm.membership import agreement as agreement_module
from groupcomm.membership import gather as gather_module
from groupcomm.membership.agreement import Agreement
from groupcomm.membership.failure_detector import FailureDetector
from groupcomm.membership.membership import Membership
from groupcomm.membership.peer import PeerDaemon
from groupcomm.membership.proposal import Ready, component, median_reading
from groupcomm.membership.recovered_set import RecoveredSet, RecoveryWalk
from groupcomm.membership.recovery import Recovery
from groupcomm.membership.states import MembershipState
from groupcomm.wire.bundle import Bundle
from groupcomm.wire.data import DataPacket
from groupcomm.wire.membership import Commit, Join, Proposal
from groupcomm.wire.packet import peek_untrusted
from tests.verification.mutants.mutant import Right, mutant


@mutant((RecoveryWalk, "deliverable"))
def transitional_rule_by_the_streams_holes(right: Right) -> Right:
    """After a stream's first hole all its packets are dropped, not only later ones of its
    chains."""

    def deliverable(self: RecoveryWalk, packet: DataPacket) -> list[Bundle]:
        kept: list[Bundle] = right(self, packet)
        return kept if packet.number <= self._limits.prefix[packet.ring] else []

    return deliverable


@mutant((ViewChange, "accept_obligation"))
def own_horizons_at_the_boundary(_right: Right) -> Right:
    """The boundary is found from the horizons and frontiers that a daemon knows itself."""

    def bind(self: ViewChange, union: RecoveredSet, transitional_members: frozenset[int]) -> None:
        self.obligation |= transitional_members | union.obligation

    return bind


@mutant((ViewChange, "accept_obligation"))
def obligations_forgotten(right: Right) -> Right:
    """A daemon that has announced the recovered set has no obligation when the attempt fails."""

    def bind(self: ViewChange, union: RecoveredSet, transitional_members: frozenset[int]) -> None:
        right(self, union, transitional_members)
        self.obligation = frozenset()

    return bind


@mutant((FailureDetector, "_gives_way"), faults="disk,crash")
def remembers_a_start_for_ever(_right: Right) -> Right:
    """A start that was heard counts until a later one comes, however long it has been silent."""

    def gives_way(_: FailureDetector, peer: PeerDaemon, other: Incarnation, now: float) -> bool:
        return not peer.met or peer.precedes(other)

    return gives_way


@mutant((Agreement, "all_recovered"))
def install_before_all_recovered(_right: property) -> property:
    """A view is installed once all have committed, also while some lack packets of the old one."""

    def all_recovered(self: Agreement) -> bool:
        return None not in self.commits()

    return property(all_recovered)


@mutant((Agreement, "commits"))
def stale_commits_count(_right: Right) -> Right:
    """A commit counts for every proposal with the same members, of any attempt."""

    def commits(self: Agreement) -> list[Commit | None]:
        members = [seat.number for seat in self.proposal.seats]
        found = [self._peers[number].commit for number in members if number != self._me]
        return [
            c if c is not None and [s.number for s in c.proposal.seats] == members else None
            for c in found
        ]

    return commits


@mutant((Announcements, "complete"))
def announcements_but_one(_right: property) -> property:
    """A view's groups count as known when the announcement of one daemon is missing."""

    def complete(self: Announcements) -> bool:
        if len(self.whole) < self._daemons - 1:
            return False
        for daemon in range(self._daemons):
            self.whole.setdefault(daemon, NOTHING)
        return True

    return property(complete)


@mutant((DaemonCore, "freeze"), (DaemonCore, "install"), (CarriedGroups, "announce"))
def announced_as_of_the_freeze(
    freeze: Right, install: Right, _announce: Right
) -> tuple[Right, Right, Right]:
    """A daemon announces the sessions and groups as they were before the old view's last
    deliveries."""
    seen: list[tuple[Rows, int]] = []  # of the daemon that installs a view now

    def freeze_and_note(self: DaemonCore) -> None:
        freeze(self)
        operation, found = self.view_state, (Rows(), 0)
        if operation is not None and operation.delivery.complete:
            table, me = operation.delivery.groups.table, operation.view_change._me
            found = rows_of(table), table.digests.get(me, 0)
        # With the core, as exploration goes on with copies of it.
        vars(self)["announced"] = found

    def install_with_it(self: DaemonCore, *arguments: Any) -> None:
        seen[:] = [vars(self)["announced"]]
        install(self, *arguments)

    def announce_it(self: CarriedGroups, room: int, view: View) -> OwnAnnouncement:
        rows, digest = seen[0]
        keys = sorted((d.number, d.incarnation.random_id) for d in self._together)
        brought = Announcement(self._completed, tuple(keys), digest)
        return OwnAnnouncement(brought, slices(rows), rows, view.versions, room)

    return freeze_and_note, install_with_it, announce_it


@mutant((Announcements, "together"))
def everybody_came_along(_right: Right) -> Right:
    """The vs_set of a group view names all members, whether they came from the same view or not."""

    def together(self: Announcements, me: int, keys: object) -> frozenset[int]:
        return frozenset(self.whole)

    return together


@mutant((agreement_module, "make_view"))
def merge_keeps_the_lower_counter(right: Right) -> Right:
    """The counter of a new view follows the lowest of its members' counters."""

    def make_view(config: Any, proposal: Any, joins: dict[int, Join]) -> View:
        view: View = right(config, proposal, joins)
        counter = min(join.counter for join in joins.values()) + 1
        return attrs.evolve(view, id=view.id._replace(counter=counter))

    return make_view


@mutant((gather_module, "find_ready"), (agreement_module, "make_view"))
def views_wait_for_every_disk(_right: Right, make_view: Right) -> tuple[Right, Right]:
    """The counter of a view follows physical time, and daemons that have not reserved it are waited
    for."""

    def find_ready(mutual: Any, _claims: object, me: int) -> Ready:
        return Ready(component(mutual, me), 0)

    def make_late_view(config: Any, proposal: Proposal, joins: dict[int, Join]) -> View:
        view: View = make_view(config, proposal, joins)
        counter = max(view.id.counter, median_reading(joins))
        return attrs.evolve(view, id=view.id._replace(counter=counter))

    return find_ready, make_late_view


@mutant((Membership, "_step_operational"), faults="partition,loss")
def beacon_only_when_idle(right: Right) -> Right:
    """Beacons are left out while there are packets to deliver: a busy cluster never merges."""

    def step_operational(self: Membership, now: float) -> None:
        core: Any = self._context
        view, operational = core.view_state, self._operational
        if view is not None and view.holds_packets and now >= operational._beacon_due:
            operational._beacon_due = now + self._timing.beacon_interval_s
        right(self, now)

    return step_operational


@mutant((DaemonCore, "_receive_packet"), (DaemonCore, "_step"), (DaemonCore, "deliver"))
def old_view_goes_on(
    right_receive: Right, right_step: Right, right_deliver: Right
) -> tuple[Right, Right, Right]:
    """While the next view is agreed on, packets of the present one are accepted and delivered."""

    def goes_on(self: DaemonCore) -> bool:
        ended = (MembershipState.OPERATIONAL, MembershipState.LEFT)
        return self.view_state is not None and self.membership.state not in ended

    def receive_packet(self: DaemonCore, sender: int, packet: bytes) -> None:
        kind, key = peek_untrusted(packet)
        if self.view_state is None or not goes_on(self) or key != self.view_state.key:
            right_receive(self, sender, packet)
            return
        with suppress(RemoteProtocolError):
            self.view_state.receive(kind, packet, sender, self._now)

    def step(self: DaemonCore, now: float, *, clients: bool) -> None:
        if self.view_state is not None and goes_on(self):
            self.view_state.step(now)
        right_step(self, now, clients=clients)

    def deliver(self: DaemonCore) -> None:
        if self.view_state is not None and goes_on(self):
            self.view_state.deliver()
        right_deliver(self)

    return receive_packet, step, deliver


@mutant((ViewChange, "_deliver"))
def walked_twice(right: Right) -> Right:
    """Messages delivered before the view ended are delivered once more at its end."""

    def deliver(self: ViewChange, bundles: list[Bundle]) -> None:
        for stream in self._delivery.streams:
            for packet in stream.packets.values():
                for bundle in packet.bundles:
                    if bundle.released and bundle.kind <= 1:
                        self._delivery.deliver_bundle(bundle)
        right(self, bundles)

    return deliver


@mutant((LocalSessions, "end"))
def fragments_go_on(_right: Right) -> Right:
    """A message in fragments goes on in the next view where it was, not from its beginning."""

    def end(self: LocalSessions) -> None:
        for session in self.by_connection.values():
            session.numbered.clear()

    return end


@mutant((LocalSessions, "end"))
def waiting_lost_with_the_view(right: Right) -> Right:
    """Bundles that wait for a number when a view ends are forgotten."""

    def end(self: LocalSessions) -> None:
        right(self)
        kept = [b for b in self.backlog.clear() if not b.groups or b.kind > 1]
        self.backlog.extend(kept)

    return end


@mutant((LocalSessions, "end"))
def credit_lost_with_the_view(right: Right) -> Right:
    """Bundles that wait when a view ends are charged to their session once more, for good."""

    def end(self: LocalSessions) -> None:
        right(self)
        for bundle in self.backlog:
            session = self.by_connection.get(bundle.session)
            if session is not None:
                session.backlog_bytes += 64 * 1024

    return end


@mutant((ViewChange, "prepare"))
def safe_whatever_the_frontier(right: Right) -> Right:
    """Before the boundary SAFE messages are delivered that some daemon may not hold."""

    def prepare(self: ViewChange, union: Any, transitional_members: frozenset[int]) -> bool:
        for ring in range(len(self._delivery.streams)):
            self._delivery.order.frontiers.raise_to(ring, self._delivery.order.blocks.least)
        sound: bool = right(self, union, transitional_members)
        return sound

    return prepare


@mutant((DaemonCore, "__init__"))
def view_counters_forgotten(right: Right) -> Right:
    """A daemon that starts does not look on its disk which view counters it has used."""

    def init(self: DaemonCore, config: Any, start: Any, **more: Any) -> None:
        right(self, config, attrs.evolve(start, counter=0), **more)

    return init


@mutant((Recovery, "__init__"))
def members_by_name_alone(right: Right) -> Right:
    """All members of the old view count as coming from it, wherever they have been since."""

    def init(
        self: Recovery,
        host: Any,
        old: View | None,
        me: int,
        proposal: Any,
        *joins: Any,
        **more: Any,
    ) -> None:
        right(self, host, old, me, proposal, *joins, **more)
        if old is not None:
            present = {(seat.number, seat.random_id) for seat in proposal.seats}
            self.transitional = frozenset(
                index
                for index, daemon in enumerate(old.daemons)
                if (daemon.number, daemon.incarnation.random_id) in present
            )

    return init


@mutant((Delivery, "_on_release"))
def delivery_before_announcements(right: Right) -> Right:
    """Messages are delivered while groups of the view are not known yet."""

    def release(self: Delivery, bundle: Bundle) -> None:
        if not self.complete and bundle.groups:
            self.deliver_bundle(bundle)
        else:
            right(self, bundle)

    return release


BUGS = (
    transitional_rule_by_the_streams_holes,
    own_horizons_at_the_boundary,
    obligations_forgotten,
    remembers_a_start_for_ever,
    install_before_all_recovered,
    stale_commits_count,
    announcements_but_one,
    announced_as_of_the_freeze,
    everybody_came_along,
    merge_keeps_the_lower_counter,
    views_wait_for_every_disk,
    beacon_only_when_idle,
    old_view_goes_on,
    walked_twice,
    fragments_go_on,
    waiting_lost_with_the_view,
    credit_lost_with_the_view,
    safe_whatever_the_frontier,
    view_counters_forgotten,
    members_by_name_alone,
    delivery_before_announcements,
)
