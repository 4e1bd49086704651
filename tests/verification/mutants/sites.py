"""Wrong ways to know the progress of other sites, and their presence."""

from typing import Any

from msgspec import structs

from groupcomm.config.view import View
from groupcomm.engine.view import ViewState
from groupcomm.membership.failure_detector import FailureDetector
from groupcomm.membership.operational import LinkStates
from groupcomm.membership.recovery import Recovery
from groupcomm.ring.flow_control import FlowControl
from groupcomm.ring.horizon_notices import HorizonNotices
from groupcomm.wire.horizon import HorizonNotice, decode_horizon_untrusted
from tests.verification.mutants.mutant import Right, site_mutant


@site_mutant((FailureDetector, "watch"))
def far_end_unwatched(right: Right) -> Right:
    """A daemon watches the members of its ring only, not the other ends of its links."""

    def watch(self: FailureDetector, view: View, gathered_at: float, now: float) -> None:
        right(self, view, gathered_at, now)
        numbers = [daemon.number for daemon in view.daemons]
        ring = view.rings[view.ring_of[numbers.index(self.key[0])]]
        fellows = {numbers[i] for i in ring}
        self._watched = [entry for entry in self._watched if entry[0].number in fellows]

    return watch


@site_mutant((ViewState, "ring_frontier"))
def forgotten_by_own_site(right: Right) -> Right:
    """A packet is forgotten once all daemons of the own site can deliver it, whatever others
    lack."""

    def ring_frontier(self: ViewState, value: int) -> None:
        right(self, value)
        for stream in self.streams:
            stream.forget(min(value, self.blocks.least))

    return ring_frontier


@site_mutant((HorizonNotices, "horizon_if_due"))
def frontier_of_the_sender(right: Right) -> Right:
    """A horizon notice has the frontier of its sender, not of the sender's ring."""

    def horizon_if_due(
        self: HorizonNotices, last: int, held: list[int], _frontier: int, now: float
    ) -> None:
        right(self, last, held, self._context.blocks.least, now)

    return horizon_if_due


@site_mutant((ViewState, "_on_horizon"))
def gateway_counts_at_once(right: Right) -> Right:
    """Where a notice enters a site it counts although packets that it covers are missing."""

    def on_horizon(self: ViewState, packet: bytes) -> None:
        right(self, packet)
        for notice in decode_horizon_untrusted(packet).notices:
            if notice.ring in self.ring.entered:
                self.delivery.order.blocks._count(notice.ring, notice.horizon, notice.upto)
                self.delivery.moved = True

    return on_horizon


@site_mutant((FlowControl, "on_held_remotely"))
def held_far_unheard(_right: Right) -> Right:
    """A ring does not receive the reports of the packets of its stream that others hold."""

    def on_held_remotely(_self: FlowControl, _ring: int, _number: int, _now: float) -> None:
        """Forget it."""

    return on_held_remotely


@site_mutant((HorizonNotice, "encode"))
def horizon_taken_for_frontier(right: Right) -> Right:
    """A horizon notice has the ring's horizon in place of its frontier."""

    def encode(self: HorizonNotice) -> bytes:
        self.frontier = self.horizon
        encoded: bytes = right(self)
        return encoded

    return encode


@site_mutant((FailureDetector, "pass_on_targets"))
def membership_not_passed_on(_right: Right) -> Right:
    """Control messages are not passed on to daemons that do not hear their origin."""

    def lacking(*_: object) -> list[int]:
        return []

    return lacking


@site_mutant((HorizonNotices, "horizon_if_due"))
def notice_of_what_is_held(right: Right) -> Right:
    """A horizon notice covers the packets that all its ring holds, not all with numbers."""

    def horizon_if_due(
        self: HorizonNotices, _last: int, held: list[int], frontier: int, now: float
    ) -> None:
        right(self, held[self._ring], held, frontier, now)

    return horizon_if_due


@site_mutant((Recovery, "__init__"))
def recovery_within_the_site(right: Right) -> Right:
    """When a view ends, only daemons of one site repair each other's packets."""

    def init(
        self: Recovery,
        host: Any,
        old: View | None,
        me: int,
        proposal: Any,
        *joins: Any,
        **more: Any,
    ) -> None:
        if old is not None:
            numbers = {d.number: i for i, d in enumerate(old.daemons)}
            ring = old.rings[old.ring_of[numbers[me]]]
            present = {old.daemons[i].number for i in ring}
            seats = [seat for seat in proposal.seats if seat.number in present]
            proposal = structs.replace(proposal, seats=seats)
        right(self, host, old, me, proposal, *joins, **more)

    return init


@site_mutant((LinkStates, "join_all"))
def view_stands_without_a_way(_right: property) -> property:
    """A view stands although its links do not join all its rings any more."""

    def join_all(_self: LinkStates) -> bool:
        return True

    return property(join_all)


BUGS = (
    far_end_unwatched,
    forgotten_by_own_site,
    frontier_of_the_sender,
    gateway_counts_at_once,
    held_far_unheard,
    horizon_taken_for_frontier,
    membership_not_passed_on,
    notice_of_what_is_held,
    recovery_within_the_site,
    view_stands_without_a_way,
)
