"""The change of a view at one daemon: it recovers and delivers the rest of the old one.

Pure. From `past` on nothing of the view changes except by recovery, until `finish` walks the
recovered set.
"""

from collections.abc import Callable, Generator, Iterator
from typing import NamedTuple

from groupcomm.clocks.stamp import Stamp
from groupcomm.config.view import View
from groupcomm.engine import checks
from groupcomm.engine.delivery import Delivery
from groupcomm.errors import BadDatagram, Contradiction
from groupcomm.level import ServiceLevel
from groupcomm.link.forwarding import Forwarding
from groupcomm.membership.early_part import EarlyPart
from groupcomm.membership.recovered_set import RecoveredSet, RecoveryWalk, WalkLimits, find_boundary
from groupcomm.ring.reception import Reception
from groupcomm.stream.ranges import Range, ranges_of, without
from groupcomm.stream.stream import MAX_AHEAD, Stream
from groupcomm.wire.bundle import Bundle
from groupcomm.wire.data import DataPacket, decode_data_untrusted
from groupcomm.wire.membership import Holding, Past, most_reported

_AGREED = ServiceLevel.AGREED
_HALF = 0.5
_NOTHING = Stamp(0, 0)


class DeliveryPlan(NamedTuple):
    """The bundles that are left to deliver of a view.

    Attributes:
        regular: the bundles of its regular part, in their order.
        transitional: the bundles of its transitional part, in their order.
        boundary: the place at which the transitional part begins; None if there is none.
    """

    regular: list[Bundle]
    transitional: list[Bundle]
    boundary: Stamp | None

    def with_early(self, bundles: list[Bundle]) -> "DeliveryPlan":
        """Return the plan in which these bundles of the transitional part are regular."""
        early = set(bundles)
        return DeliveryPlan(
            [*self.regular, *(bundle for bundle in self.transitional if bundle in early)],
            [bundle for bundle in self.transitional if bundle not in early],
            self.boundary,
        )


class ViewChange:
    """The end of a frozen view.

    Attributes:
        obligation: indices of the members with which this daemon has to treat the view alike.
    """

    __slots__ = (
        "_deliverable",
        "_delivery",
        "_forwarding",
        "_me",
        "_own_ring",
        "_plan",
        "_reception",
        "_view",
        "obligation",
    )

    def __init__(
        self, view: View, me: int, delivery: Delivery, reception: Reception, forwarding: Forwarding
    ) -> None:
        self._view = view
        self._me = me
        self._own_ring = view.ring_of[me]
        self._delivery = delivery
        self._reception = reception
        self._forwarding = forwarding
        self._plan: DeliveryPlan | None = None
        self._deliverable = [0] * len(view.rings)  # as others have reported; see RecoveredSet
        self.obligation: frozenset[int] = frozenset()

    # ---- holdings ----

    def not_received(self, now: float) -> set[int]:
        """Return the numbers of the members whose packets do not arrive, though tokens do."""
        return {self._view.daemons[i].number for i in self._reception.not_received(now)}

    def not_reached(self, now: float) -> set[int]:
        """Return the numbers of the members to which packets are sent in vain over a link.

        Half of the time is enough as a view ends: the other end may have noticed it first.
        """
        return {self._view.daemons[i].number for i in self._forwarding.unreached(now, _HALF)}

    @property
    def past(self) -> Past:
        """Return the holdings of the view that this daemon reports to others."""
        order = self._delivery.order
        most_spans, most_notices = most_reported(len(self._view.rings))
        deliverable = self._known_deliverable(self._deliverable)
        holdings = tuple(
            Holding(
                forgotten=stream.forgotten,
                spans=tuple(_spans(stream)[:most_spans]),
                notices=(*((number, 0),) * (number > 0), *order.blocks.notices(stream.ring))[
                    :most_notices
                ],
                frontier=order.frontiers.values[stream.ring],
            )
            for stream, number in zip(self._delivery.streams, deliverable, strict=True)
        )
        return Past(self._view.key, holdings, tuple(sorted(self.obligation)))

    def _known_deliverable(self, others: list[int]) -> list[int]:
        """Return for each ring up to where all its daemons can deliver its stream: what is known
        here of the own ring, and what others have reported."""
        known, deliverable = others.copy(), self._delivery.order.deliverable
        if deliverable.is_reported:
            known[self._own_ring] = max(known[self._own_ring], deliverable.ring)
        return known

    @property
    def clock(self) -> int:
        """Return the last known stamp, in microseconds."""
        return self._delivery.clock.value

    def packet(self, ring: int, number: int) -> bytes | None:
        """Return a whole packet of the view; None if it is not held here."""
        packet = self._delivery.streams[ring].packets.get(number)
        return None if packet is None else packet.raw

    def missing(self, recovered_set: RecoveredSet) -> list[list[Range]]:
        """Return, per ring, the ranges of the recovered set that are not held here."""
        return [
            without(recovered_set.spans[stream.ring], [(0, stream.forgotten), *_spans(stream)])
            for stream in self._delivery.streams
        ]

    def accept_obligation(
        self, recovered_set: RecoveredSet, transitional_members: frozenset[int]
    ) -> None:
        """Accept the obligation: this daemon holds the recovered set and says so."""
        self.obligation |= transitional_members | recovered_set.obligation
        order = self._delivery.order
        for stream in self._delivery.streams:
            ring, held = stream.ring, stream.held
            if held > stream.forgotten:
                order.blocks.stream_advanced(ring, held, stream.packets[held].time)
            for upto, value in recovered_set.notices[ring]:
                self._delivery.receive_horizon(ring, value, upto)
            order.frontiers.raise_to(ring, recovered_set.frontiers[ring])
        self._deliverable = self._united_deliverable(recovered_set)

    def _united_deliverable(self, recovered_set: RecoveredSet) -> list[int]:
        return self._known_deliverable(list(map(max, self._deliverable, recovered_set.deliverable)))

    def is_plausible(self, past: Past) -> bool:
        """Return whether the holdings that another member reports can be true.

        This daemon has reported that it holds all that others have forgotten, and no daemon is
        further ahead than windows allow.
        """
        for stream, holding in zip(self._delivery.streams, past.holdings, strict=True):
            most = stream.held + MAX_AHEAD
            if holding.forgotten > stream.held or (holding.spans and holding.spans[-1][1] > most):
                return False
            if any(upto > most for upto, _ in holding.notices):
                return False
            times = [holding.frontier, *(value for _, value in holding.notices)]
            if not self._delivery.is_possible_time(max(times)):
                return False
        return True

    def receive_repair(self, raw: bytes, recovered_set: RecoveredSet) -> tuple[int, int] | None:
        """Enter a packet of the view from another member; return its ring and number if it is new.

        Only packets of the recovered set may come in: the boundary is computed from the packets
        that are held here.

        Raises:
            BadDatagram, ProtocolViolation: it is no packet of the view, or does not fit.
        """
        packet = decode_data_untrusted(raw)
        if raw[1:17] != self._view.key:
            raise BadDatagram("view", "a recovered packet of another view")
        checks.check_data(packet, self._view)
        if self._delivery.has_packet(packet) or (packet.pruned and packet.ring == self._own_ring):
            return None
        if packet.daemon == self._me:
            raise Contradiction(
                "content", f"packet {packet.number} of this daemon, which it never sent"
            )
        known = recovered_set.holds(packet.ring, packet.number)
        is_news = known and self._delivery.receive_recovered(packet)
        return (packet.ring, packet.number) if is_news else None

    # ---- the rest of the delivery ----

    def prepare(self, recovered_set: RecoveredSet, transitional_members: frozenset[int]) -> bool:
        """Plan the rest of the delivery, now that the recovered set is held.

        Returns:
            Whether the deliveries so far agree with the set. If not, some daemon has made a
            false statement; without other members this daemon then delivers nothing more.
        """
        packets = self._packets(recovered_set)
        self._delivery.learn_groups(packets)
        limits = self._limits(recovered_set, transitional_members)
        boundary = find_boundary(packets, limits)
        walk = RecoveryWalk(limits, self._delivery.order.resolve)
        if boundary is not None and self._delivery.order.local is not None:
            deliverable = limits.deliverable[self._own_ring]
            walk.early = EarlyPart(boundary, self._own_ring, limits.prefix, deliverable)
        plan = DeliveryPlan([], [], boundary)
        sound = True
        for packet in packets:
            regular = boundary is None or (packet.time, packet.ring) < boundary
            kept = walk.deliverable(packet)
            if len(kept) < len(packet.bundles):
                sound = sound and _may_drop(packet, kept, regular=regular)
            left = plan.regular if regular else plan.transitional
            left += [bundle for bundle in kept if not bundle.released]
        if walk.early is not None and walk.early.has_local:
            plan = plan.with_early(walk.early.bundles)
        if not sound and transitional_members == {self._me}:
            sound, plan = True, DeliveryPlan([], [], _NOTHING)
        self._plan = plan if sound else None
        return sound

    def _limits(
        self, recovered_set: RecoveredSet, transitional_members: frozenset[int]
    ) -> WalkLimits:
        """Return the limits of the recovered set, united with those known here."""
        order = self._delivery.order
        horizons = order.blocks.values.copy()
        for stream in self._delivery.streams:
            ring, held = stream.ring, stream.held
            known = [value for upto, value in recovered_set.notices[ring] if upto <= held]
            if held > stream.forgotten:
                known.append(stream.packets[held].time)
            horizons[ring] = max(horizons[ring], *known) if known else horizons[ring]
        return WalkLimits(
            forgotten=recovered_set.forgotten,
            prefix=recovered_set.prefix,
            horizon=min(horizons),
            frontier=min(map(max, order.frontiers.values, recovered_set.frontiers)),
            obligation=transitional_members | recovered_set.obligation,
            deliverable=self._united_deliverable(recovered_set),
        )

    def _packets(self, recovered_set: RecoveredSet) -> list[DataPacket]:
        """Return the packets of the recovered set that are not forgotten here, in stamp order."""
        packets = [
            packet
            for stream in self._delivery.streams
            for number, packet in stream.packets.items()
            if recovered_set.holds(stream.ring, number)
        ]
        packets.sort(key=lambda packet: Stamp(packet.time, packet.ring))
        return packets

    def finish(self, turn: Callable[[], None]) -> Generator[None, None, bool]:
        """Deliver the rest of the view; call `turn` where its regular part ends.

        Yields:
            Where a step has delivered as much as it may.

        Returns:
            Whether anything could be delivered. If not, announcements are missing here and at all
            transitional members, and the view has no effect.
        """
        plan = self._plan
        assert plan is not None, "a view ends without having been prepared"
        for bundles in (plan.regular, plan.transitional):
            self._delivery.receive_announcements(bundles)
        yield from self._delivery.catch_up()
        if not self._delivery.complete:
            turn()
            return False
        yield from self._deliver(plan.regular)
        regular, transitional = self._delivery.pop_waits(plan.boundary)
        yield from self._delivery.send_positions(regular, transitional=False)
        turn()
        if plan.transitional or transitional:  # programs are told first that the regular part ends
            yield from self._delivery.finish_bundle()
        yield from self._deliver(plan.transitional)
        yield from self._delivery.send_positions(transitional, transitional=True)
        self._delivery.groups.end()
        return True

    def _deliver(self, bundles: list[Bundle]) -> Iterator[None]:
        for bundle in bundles:
            if not bundle.released:
                bundle.released = True
                self._delivery.deliver_bundle(bundle)
                yield from self._delivery.finish_bundle()


def _may_drop(packet: DataPacket, kept: list[Bundle], *, regular: bool) -> bool:
    """Return whether no dropped bundle was delivered before, or is below the boundary."""
    dropped = [bundle for bundle in packet.bundles if bundle not in kept]
    return not any(b.released or (regular and b.level >= _AGREED) for b in dropped)


def _spans(stream: Stream) -> list[Range]:
    """Return the ranges of numbers above the forgotten ones that a stream holds."""
    spans: list[Range] = []
    if stream.held > stream.forgotten:
        spans.append((stream.forgotten + 1, stream.held))
    return spans + ranges_of(number for number in stream.packets if number > stream.held)
