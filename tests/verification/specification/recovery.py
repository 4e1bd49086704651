"""The specification of recovery: what each daemon still delivers of a view that it leaves.

It extends that of the order. The actions are those of `groupcomm/membership/membership.py` and
`groupcomm/engine/view_change.py`, as far as they concern the old view:

    gather   a daemon leaves the view, and says in its join what it holds of it
    commit   it agrees to a proposal; the members whose joins are from this view are its
             transitional members, and what these hold together is the recovered set
    repair   it receives a packet of the recovered set
    recover  it holds the recovered set and announces that: from now on it has an obligation to
             these members, also in later attempts
    settle   all members have announced it: it delivers a packet that is still certain for all
    turn     the regular part of the view is over
    rest     it delivers a packet of the transitional part
    finish   the next view begins

The boundary between the parts is found from what the transitional members know together. Beyond it,
packets of members to whom there is an obligation are always delivered. Others may depend on packets
that nobody here holds; the rule by which they are dropped needs their causes. `exact` has it in a
simple form, for the search: a packet is kept if everything that its author had received is here and
kept. The code's rule keeps more (`RecoveryWalk`), so the check of a run only demands that daemons
with one recovered set deliver the same.
"""

import enum
from typing import NamedTuple

import attrs

from tests.verification.specification.order import (
    NOWHERE,
    Held,
    Kind,
    Order,
    OrderCondition,
    OrderState,
    PacketId,
    Place,
)

Seat = tuple[str, int]
"""A daemon and its attempt."""

Seats = frozenset[Seat]
"""Transitional members with their attempts: their joins determine the recovered set."""


class Past(NamedTuple):
    """What a join says about the old view.

    Attributes:
        held: the packets that its daemon holds, by ring.
        notices: for each ring promises (value, upto) that it knows.
        frontiers: for each ring the time up to which all daemons of the ring can deliver, as far
            as it knows.
        obligation: the daemons with which it must treat the view alike.
        wholes: for each ring the number up to which all its daemons hold its stream, as far as it
            knows; empty without local SAFE packets.
    """

    held: tuple[Held, ...]
    notices: tuple[frozenset[tuple[int, int]], ...]
    frontiers: tuple[int, ...]
    obligation: frozenset[str]
    wholes: tuple[int, ...] = ()


class Recovered(NamedTuple):
    """What the transitional members hold and know together.

    Attributes:
        held: the recovered set, by ring.
        horizon: the time up to which nothing can be missing.
        frontier: the time up to which each daemon of the view can deliver.
        known: the time up to which its members surely know that. One that goes on alone has told
            nobody what it has learned of others: that may be all of `frontier`, or less.
        obligation: the daemons whose packets are delivered in any case.
        wholes: for each ring the number up to which all its daemons hold its stream.
    """

    held: tuple[Held, ...]
    horizon: int
    frontier: int
    known: int
    obligation: frozenset[str]
    wholes: tuple[int, ...]


class Stage(enum.Enum):
    """How far a daemon that leaves the view has come."""

    GATHER = enum.auto()
    COMMIT = enum.auto()
    RECOVERED = enum.auto()
    TURNED = enum.auto()
    FINISHED = enum.auto()


@attrs.define(eq=False)
class RecoveryState(OrderState):
    """The variables of one view that ends, beside those of the order.

    Attributes:
        stage: how far each daemon is; nothing while it has not begun to leave.
        attempt: its attempt.
        pasts: what joins say, by daemon and attempt.
        seats: the transitional members by the proposal that each daemon has agreed to.
        begun: the daemons that have received packets by recovery since they last gathered.
        promised: the announcements that the recovered set of these seats is held.
        obligation: the daemons to which each has an obligation.
        turned: for each set of seats, what its members had delivered when their regular part ended.
        rests: for each set of seats, what its members have delivered in all.
    """

    stage: dict[str, Stage] = attrs.Factory(dict)
    attempt: dict[str, int] = attrs.Factory(dict)
    pasts: dict[Seat, Past] = attrs.Factory(dict)
    seats: dict[str, Seats] = attrs.Factory(dict)
    begun: set[str] = attrs.Factory(set)
    promised: set[tuple[str, Seats]] = attrs.Factory(set)
    obligation: dict[str, frozenset[str]] = attrs.Factory(dict)
    turned: dict[Seats, tuple[PacketId, ...]] = attrs.Factory(dict)
    rests: dict[Seats, tuple[PacketId, ...]] = attrs.Factory(dict)


class RecoveryCondition(enum.Enum):
    """The conditions of the actions."""

    HELD_IS_TRUE = "a join names what its daemon holds of the old view"
    KNOWN_IS_TRUE = "what a daemon says that all can deliver they can deliver"
    NOTICES_ARE_TRUE = "the promises that a join names were made"
    OBLIGATION_IS_NAMED = "a join names the obligations of its daemon"
    MAY_AGREE = "a daemon agrees while it gathers, or in place of what it has agreed to before"
    OWN_PAST = "a daemon is one of its own transitional members, by its present join"
    ALL_PASTS = "a recovered set is made from joins that were sent"
    KEEPS_SET = "once packets have come, a daemon agrees only to what has all its seats"
    OF_THE_SET = "only packets of the recovered set are received"
    HOLDS_SET = "a daemon that announces RECOVERED holds the recovered set"
    ALL_HOLD = "a view ends once all transitional members have announced RECOVERED"
    BEFORE_BOUNDARY = "before the boundary a daemon delivers what is certain for all of them"
    REGULAR_IS_WHOLE = "nothing is left out before the boundary"
    SAME_BOUNDARY = "daemons with one recovered set have one boundary"
    AFTER_BOUNDARY = "the transitional part has packets from the boundary on"
    DROPS = "a packet is kept if everything that its author had received is here and kept"
    SAME_REST = "daemons with one recovered set deliver the same"
    TOGETHER = "packets of members to whom there is an obligation are delivered"


class Recovery(Order):
    """The actions, beside those of the order.

    Args:
        rings, base, clock, dropped: see Order.
        exact: whether the rule is known by which packets are dropped, and the kind of each packet.
        inside: see Order.
    """

    def __init__(
        self,
        rings: tuple[tuple[str, ...], ...],
        base: int = 0,
        clock: int = 0,
        dropped: frozenset[enum.Enum] = frozenset(),
        *,
        exact: bool = False,
        inside: bool = False,
    ) -> None:
        super().__init__(rings, base, clock, dropped, inside=inside)
        self._exact = exact

    # ---- from the join to the obligation ----

    def gather(self, state: RecoveryState, daemon: str, attempt: int, past: Past | None) -> None:
        """Leave the view, and join; a daemon that shares its past with nobody says nothing."""
        if past is not None:
            held = tuple(self.held_by(state, daemon, ring) for ring in range(len(self.rings)))
            self.need(past.held == held, RecoveryCondition.HELD_IS_TRUE)
            for members, frontier in zip(self.rings, past.frontiers, strict=True):
                least = min(state.least.get(member, self.clock) for member in members)
                self.need(frontier <= least, RecoveryCondition.KNOWN_IS_TRUE)
            for ring, number in enumerate(past.wholes):
                is_whole = number <= self.whole(state, ring)
                self.need(is_whole, RecoveryCondition.KNOWN_IS_TRUE)
            announced = all(
                (ring, value, upto) in state.announced
                for ring, notices in enumerate(past.notices)
                for value, upto in notices
            )
            self.need(announced, RecoveryCondition.NOTICES_ARE_TRUE)
            obligation = state.obligation.get(daemon, frozenset())
            self.need(past.obligation == obligation, RecoveryCondition.OBLIGATION_IS_NAMED)
        state.attempt[daemon] = attempt
        if past is not None:
            state.pasts[daemon, attempt] = past
        state.frozen.add(daemon)
        state.stage[daemon] = Stage.GATHER
        state.begun.discard(daemon)
        state.seats.pop(daemon, None)

    def commit(self, state: RecoveryState, daemon: str, seats: Seats) -> None:
        """Agree to a proposal with these transitional members; no seats: it goes on alone."""
        may_agree = state.stage.get(daemon) in (Stage.GATHER, Stage.COMMIT)
        self.need(may_agree, RecoveryCondition.MAY_AGREE)
        own = (daemon, state.attempt.get(daemon, 0))
        self.need(own in seats, RecoveryCondition.OWN_PAST)
        self.need(seats - {own} <= state.pasts.keys(), RecoveryCondition.ALL_PASTS)
        if daemon in state.begun:
            self.need(state.seats.get(daemon, seats) <= seats, RecoveryCondition.KEEPS_SET)
        state.stage[daemon] = Stage.COMMIT
        state.seats[daemon] = seats

    def repair(self, state: RecoveryState, daemon: str, packet: PacketId, time: int) -> None:
        """Receive a packet of the recovered set."""
        ring, number = packet
        seats = state.seats.get(daemon, frozenset())
        pasts = (state.pasts[seat] for seat in seats if seat in state.pasts)
        known = any(number in past.held[ring] for past in pasts)
        self.need(known, RecoveryCondition.OF_THE_SET)
        self._receive(state, daemon, packet, time)
        state.begun.add(daemon)

    def recover(self, state: RecoveryState, daemon: str) -> None:
        """Announce that the recovered set is held; take the obligation."""
        self.need(state.stage.get(daemon) is Stage.COMMIT, RecoveryCondition.MAY_AGREE)
        together = self.recovered(state, daemon)
        holds = all(
            whole.united(self.held_by(state, daemon, ring)) == self.held_by(state, daemon, ring)
            for ring, whole in enumerate(together.held)
        )
        self.need(holds, RecoveryCondition.HOLDS_SET)
        state.stage[daemon] = Stage.RECOVERED
        state.promised.add((daemon, state.seats[daemon]))
        before = state.obligation.get(daemon, frozenset())
        state.obligation[daemon] = before | together.obligation

    def recovered(self, state: RecoveryState, daemon: str) -> Recovered:
        """Return what the transitional members of a daemon hold and know together."""
        seats = state.seats.get(daemon, frozenset())
        pasts = [state.pasts[seat] for seat in seats if seat in state.pasts]
        alone = not pasts  # it has told nobody what it holds
        if alone:
            pasts = [self._own_past(state, daemon)]
        held: list[Held] = []
        horizons, frontiers, wholes = [], [], []
        for ring in range(len(self.rings)):
            whole = Held(self.base)
            for past in pasts:
                whole = whole.united(past.held[ring])
            held.append(whole)
            last = state.packets.get((ring, whole.prefix))
            times = [self.clock if last is None else last.time]
            times += [value for p in pasts for value, upto in p.notices[ring] if upto <= whole[0]]
            horizons.append(max(times))
            frontiers.append(max((past.frontiers[ring] for past in pasts), default=self.clock))
            wholes.append(max((past.wholes[ring] for past in pasts if past.wholes), default=0))
        members = frozenset(member for member, _ in seats)
        obligation = members.union(*(past.obligation for past in pasts))
        known = self._said(state, daemon) if alone else min(frontiers)
        return Recovered(
            tuple(held), min(horizons), min(frontiers), known, obligation, tuple(wholes)
        )

    def _said(self, state: RecoveryState, daemon: str) -> int:
        """Return the time of which a daemon has once said that all can deliver up to it."""
        own = [past for (member, _), past in state.pasts.items() if member == daemon]
        return max((min(past.frontiers) for past in own), default=self.clock)

    def _own_past(self, state: RecoveryState, daemon: str) -> Past:
        rings = range(len(self.rings))
        held = tuple(self.held_by(state, daemon, ring) for ring in rings)
        blocks = (state.block.get((daemon, ring), self.clock) for ring in rings)
        notices = tuple(frozenset(((block, self.base),)) for block in blocks)
        least = min(state.least.get(other, self.clock) for other in self.members)
        wholes = tuple(self.whole(state, ring) for ring in rings) if self._inside else ()
        return Past(held, notices, (least,) * len(self.rings), frozenset(), wholes)

    # ---- the rest of the delivery ----

    def confirm(self, state: RecoveryState, daemon: str, packet: PacketId) -> None:
        """Note that the packet that was delivered last is SAFE, as a later bundle of it is."""
        time = state.packets[packet].time
        if daemon not in state.frozen:
            self.need(self.can_all(state, daemon, packet), OrderCondition.ALL_CAN)
        elif state.stage[daemon] is Stage.RECOVERED:
            is_safe = self.is_safe(self.recovered(state, daemon), packet, time)
            self.need(is_safe, RecoveryCondition.BEFORE_BOUNDARY)

    def is_safe(self, together: Recovered, packet: PacketId, time: int) -> bool:
        """Return whether those who go on together know that all can deliver a SAFE packet."""
        return time <= together.frontier or packet[1] <= together.wholes[packet[0]]

    def settle(self, state: RecoveryState, daemon: str, packet: PacketId, safe: bool) -> None:
        """Deliver a packet of the regular part."""
        self._need_all_hold(state, daemon, Stage.RECOVERED)
        self.need(packet in state.packets, OrderCondition.WAS_STAMPED)
        together = self.recovered(state, daemon)
        time = state.packets[packet].time
        is_safe = self.is_safe(together, packet, time)
        allowed = time <= together.horizon and (is_safe or not safe)
        allowed = allowed and not self._is_beyond(state, together, (time, packet[0]), surely=True)
        self.need(allowed, RecoveryCondition.BEFORE_BOUNDARY)
        self.release(state, daemon, packet, safe=safe)

    def turn(self, state: RecoveryState, daemon: str) -> None:
        """End the regular part."""
        self._need_all_hold(state, daemon, Stage.RECOVERED)
        together = self.recovered(state, daemon)
        for packet in self._left(state, daemon, together):
            if state.kind.get(packet, Kind.PASSED) is Kind.PASSED:
                continue
            place = (state.packets[packet].time, packet[0])
            beyond = self._is_beyond(state, together, place, surely=False)
            self.need(beyond, RecoveryCondition.REGULAR_IS_WHOLE)
        delivered = state.delivered.get(daemon, ())
        same = state.turned.get(state.seats.get(daemon, frozenset()), delivered) == delivered
        self.need(same, RecoveryCondition.SAME_BOUNDARY)
        state.turned[state.seats.get(daemon, frozenset())] = delivered
        state.stage[daemon] = Stage.TURNED

    def rest(self, state: RecoveryState, daemon: str, packet: PacketId, safe: bool) -> None:
        """Deliver a packet of the transitional part."""
        self._need_all_hold(state, daemon, Stage.TURNED)
        self.need(packet in state.packets, OrderCondition.WAS_STAMPED)
        together = self.recovered(state, daemon)
        self.need(packet[1] in together.held[packet[0]], RecoveryCondition.OF_THE_SET)
        place = (state.packets[packet].time, packet[0])
        if not safe:
            beyond = self._is_beyond(state, together, place, surely=False)
            self.need(beyond, RecoveryCondition.AFTER_BOUNDARY)
        if self._exact:
            self.need(self.is_kept(state, together, packet), RecoveryCondition.DROPS)
        self.need(place > state.done.get(daemon, NOWHERE), OrderCondition.IN_ORDER)
        state.kind[packet] = Kind.SAFE if safe else Kind.AGREED
        state.done[daemon] = place
        self.note(state, daemon, packet)

    def finish(self, state: RecoveryState, daemon: str) -> None:
        """Begin the next view."""
        self._need_all_hold(state, daemon, Stage.TURNED)
        together = self.recovered(state, daemon)
        delivered = set(state.delivered.get(daemon, ()))
        for packet in self._left(state, daemon, together, everything=True):
            if packet in delivered or state.kind.get(packet, Kind.PASSED) is Kind.PASSED:
                continue
            owed = state.packets[packet].author in together.obligation
            if self._exact:
                owed = self.is_kept(state, together, packet)
            self.need(not owed, RecoveryCondition.TOGETHER)
        rest = state.delivered.get(daemon, ())
        same = state.rests.get(state.seats.get(daemon, frozenset()), rest) == rest
        self.need(same, RecoveryCondition.SAME_REST)
        state.rests[state.seats.get(daemon, frozenset())] = rest
        state.stage[daemon] = Stage.FINISHED

    def _need_all_hold(self, state: RecoveryState, daemon: str, stage: Stage) -> None:
        seats = state.seats.get(daemon, frozenset())
        ready = state.stage.get(daemon) is stage
        ready = ready and all((member, seats) in state.promised for member, _ in seats)
        self.need(ready, RecoveryCondition.ALL_HOLD)

    def _left(
        self, state: RecoveryState, daemon: str, together: Recovered, *, everything: bool = False
    ) -> list[PacketId]:
        """Return the packets of the recovered set after the last delivery, or all of them."""
        done = NOWHERE if everything else state.done.get(daemon, NOWHERE)
        between = self.between(state, done, (2**65, 0))
        return [packet for packet in between if packet[1] in together.held[packet[0]]]

    def _is_beyond(
        self, state: RecoveryState, together: Recovered, place: Place, *, surely: bool
    ) -> bool:
        """Return whether a place is at the boundary or beyond.

        Args:
            state: the state.
            together: the recovered set.
            place: the place.
            surely: whether packets of unknown kind are taken for AGREED, not for SAFE, members are
                taken to know all that they may have learned, and packets that a whole ring holds
                for those that it may deliver alone.
        """
        if place[0] > together.horizon:
            return True
        frontier = together.frontier if surely else together.known
        low = (frontier, len(self.rings))
        for packet in [*self.between(state, low, place), *filter(None, (state.at.get(place),))]:
            kind = state.kind.get(packet)
            may_be_safe = kind is Kind.SAFE or (kind is None and not surely)
            time = state.packets[packet].time
            is_here = packet[1] in together.held[packet[0]]
            if surely and self.is_safe(together, packet, time):
                continue
            if is_here and may_be_safe and time > frontier:
                return True
        return False

    def is_beyond(self, state: RecoveryState, daemon: str, place: Place, *, surely: bool) -> bool:
        """Return whether a place is at the boundary of a daemon or beyond; if not `surely`, whether
        it may be."""
        together = self.recovered(state, daemon)
        return self._is_beyond(state, together, place, surely=surely)

    def is_kept(self, state: RecoveryState, together: Recovered, packet: PacketId) -> bool:
        """Return whether a packet of the recovered set is delivered, by the simple rule."""
        time, author, after = state.packets[packet]
        if author in together.obligation or time <= together.horizon:
            return True
        causes = [
            other
            for other, (then, writer, _) in state.packets.items()
            if other != packet and (then <= after or (writer == author and then < time))
        ]
        return all(
            other[1] in together.held[other[0]] and self.is_kept(state, together, other)
            for other in causes
        )
