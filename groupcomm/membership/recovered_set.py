"""The recovered set: the packets of a view that the daemons that come from it hold together.

No daemon decides by its own packets alone: all holdings, notices and frontiers united give one
boundary for all, in spite of the different packets that each had received (docs/design.md).

The walk over it decides which bundles of the old view are still delivered, and in which part. It is
pure, and the same at all daemons that hold the recovered set: the decision about a bundle depends
on that set alone, never on earlier deliveries here. Packets go in stamp order. Up to the boundary
they belong to the regular view, from it on to the transitional one. There a daemon that is no
transitional member may have sent bundles that would break an order if delivered: they are dropped
by all alike.

Source of the boundary: Moser, Amir, Melliar-Smith, Agarwal, "Extended Virtual Synchrony", ICDCS
1994; the rule for dropped bundles is this project's (docs/design.md, the walk).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from groupcomm.clocks.stamp import Stamp
from groupcomm.level import ServiceLevel
from groupcomm.membership.early_part import EarlyPart
from groupcomm.stream.ranges import Range, holds, merge_ranges
from groupcomm.wire.bundle import Bundle
from groupcomm.wire.data import DataPacket
from groupcomm.wire.membership import Holding, Past


class RecoveredSet:
    """The packets and notices that several daemons hold of one view, by ring.

    Attributes:
        spans: for each ring the numbers above `forgotten` that some daemon holds.
        forgotten: for each ring the number up to which every daemon of the view has held all
            packets.
        prefix: for each ring the number up to which none is missing.
        notices: for each ring (upto, value) of all known horizons.
        deliverable: for each ring the number up to which all its daemons can deliver its stream.
        frontiers: the highest known frontier of each ring.
        obligation: indices of the members to which one of them has an obligation, from earlier
        attempts.
    """

    __slots__ = (
        "_holders",
        "deliverable",
        "forgotten",
        "frontiers",
        "notices",
        "obligation",
        "prefix",
        "spans",
    )

    def __init__(self, pasts: Mapping[int, Past]) -> None:
        """Unite `pasts`, by the daemons' indices in the view that ends; at least one."""
        self._holders = dict(sorted(pasts.items()))
        self.spans: list[list[Range]] = []
        self.forgotten: list[int] = []
        self.prefix: list[int] = []
        self.notices: list[list[Range]] = []
        self.frontiers: list[int] = []
        self.deliverable: list[int] = []
        self.obligation = frozenset(f for past in pasts.values() for f in past.obligation)
        for rows in zip(*(past.holdings for past in pasts.values()), strict=True):
            self._unite(rows)

    def _unite(self, rows: tuple[Holding, ...]) -> None:
        forgotten = max(row.forgotten for row in rows)
        spans = merge_ranges(span for row in rows for span in row.spans)
        spans = [(max(first, forgotten + 1), last) for first, last in spans if last > forgotten]
        whole = bool(spans) and spans[0][0] == forgotten + 1
        self.forgotten.append(forgotten)
        self.spans.append(spans)
        self.prefix.append(spans[0][1] if whole else forgotten)
        notices = {notice for row in rows for notice in row.notices}
        self.notices.append(sorted(notice for notice in notices if notice[1]))
        self.deliverable.append(max((upto for upto, value in notices if not value), default=0))
        self.frontiers.append(max(row.frontier for row in rows))

    def holds(self, ring: int, number: int) -> bool:
        """Return whether some daemon holds a packet."""
        return number <= self.forgotten[ring] or holds(self.spans[ring], number)

    def duties(self, me: int) -> dict[tuple[int, int], set[int]]:
        """Return the packets (ring, number) whose lowest holder is `me`, and the daemons that lack
        them.
        """
        duties: dict[tuple[int, int], set[int]] = {}
        everybody = self._holders.keys()
        for ring, forgotten in enumerate(self.forgotten):
            for first, last, holders in self._stretches(ring):
                if min(holders) == me and len(holders) < len(everybody):
                    lacking = everybody - holders
                    for number in range(max(first, forgotten + 1), last + 1):
                        duties[ring, number] = set(lacking)
        return duties

    def _stretches(self, ring: int) -> Iterator[tuple[int, int, set[int]]]:
        """Yield the ranges of a ring whose packets the same daemons hold, and these; rising."""
        changes = sorted(
            change
            for daemon, past in self._holders.items()
            for first, last in past.holdings[ring].spans
            for change in ((first, 1, daemon), (last + 1, 0, daemon))
        )
        holders: set[int] = set()
        since = 0
        for number, begins, daemon in changes:
            if holders and number > since:
                yield since, number - 1, holders
            since = number
            if begins:
                holders.add(daemon)
            else:
                holders.discard(daemon)


_RELIABLE = ServiceLevel.RELIABLE
_CAUSAL = ServiceLevel.CAUSAL
_AGREED = ServiceLevel.AGREED
_NEVER = 2**64


class WalkLimits(NamedTuple):
    """The limits that the recovered set gives.

    Attributes:
        forgotten: for each ring the number up to which every daemon has delivered all packets.
        prefix: for each ring the number up to which no packet is missing.
        horizon: the least united horizon of the rings, a time.
        frontier: the least united frontier.
        deliverable: for each ring the number up to which all its daemons can deliver its stream.
        obligation: the daemons whose packets are delivered even if others are missing.
    """

    forgotten: list[int]
    prefix: list[int]
    horizon: int
    frontier: int
    obligation: frozenset[int]
    deliverable: list[int]

    def is_safe(self, packet: DataPacket) -> bool:
        """Return whether all daemons that may have recipients of a packet can deliver it."""
        if packet.time <= self.frontier:
            return True
        return packet.stays and packet.number <= self.deliverable[packet.ring]


def find_boundary(packets: Iterable[DataPacket], limits: WalkLimits) -> Stamp | None:
    """Return the stamp of the first packet of the transitional part; None if there is none.

    Args:
        packets: the packets of the recovered set, in stamp order.
        limits: the limits of the recovered set.
    """
    for packet in packets:
        if packet.in_agreed_order and (
            packet.time > limits.horizon or (packet.safe and not limits.is_safe(packet))
        ):
            return Stamp(packet.time, packet.ring)
    return None


class RecoveryWalk:
    """The walk: it decides packet by packet, in stamp order.

    Attributes:
        dropped: the number of dropped bundles.
        early: what is regular beyond the boundary; None if nothing can be.
    """

    __slots__ = (
        "_broken",
        "_limits",
        "_lost_agreed",
        "_lost_below",
        "_reached",
        "_resolve",
        "dropped",
        "early",
    )

    def __init__(self, limits: WalkLimits, resolve: Callable[[DataPacket], None]) -> None:
        """Begin; `resolve` fills in V and A of a packet that refers to an earlier one."""
        self._limits = limits
        self._resolve = resolve
        self._reached: dict[int, int] = {}  # the last packet of the unbroken chain, by daemon
        self._broken: set[tuple[int, int]] = set()  # sessions that have lost a bundle
        self._lost_below = [_NEVER] * len(limits.prefix)  # lowest packet with a drop below AGREED
        self._lost_agreed = Stamp(_NEVER, 0)
        self.dropped = 0
        self.early: EarlyPart | None = None

    def deliverable(self, packet: DataPacket) -> list[Bundle]:
        """Return the bundles of the next packet that are delivered, in their order."""
        limits = self._limits
        daemon = packet.daemon
        whole = (
            packet.previous <= limits.forgotten[packet.ring]
            or self._reached.get(daemon) == packet.previous
        )
        if whole:
            self._reached[daemon] = packet.number
            self._resolve(packet)
        early = self.early
        if early is None or not early.is_beyond(packet):
            accepted: list[Bundle] = []
        else:
            accepted = [b for b in packet.bundles if early.accepts(packet, b, whole=whole)]
        if daemon in limits.obligation:
            return packet.bundles
        causes = whole and self._has_causes(packet)
        kept: list[Bundle] = []
        for bundle in packet.bundles:
            session = (daemon, bundle.session)
            level = bundle.level
            if (
                level == _RELIABLE
                or bundle in accepted
                or (
                    whole
                    and (session not in self._broken or bundle.is_notice)
                    and (level < _CAUSAL or causes)
                )
            ):
                kept.append(bundle)
            else:
                self._drop(packet, bundle, session)
                if early is not None and not early.is_beyond(packet):
                    early.miss(packet, bundle)
        return kept

    def _has_causes(self, packet: DataPacket) -> bool:
        if packet.vector is None or packet.agreed is None:
            return True  # the packet holds no bundle at CAUSAL or above
        if packet.agreed >= self._lost_agreed:
            return False
        return all(
            number <= prefix and number < lost
            for number, prefix, lost in zip(
                packet.vector, self._limits.prefix, self._lost_below, strict=True
            )
        )

    def _drop(self, packet: DataPacket, bundle: Bundle, session: tuple[int, int]) -> None:
        self.dropped += 1
        self._broken.add(session)
        if bundle.level >= _AGREED:
            self._lost_agreed = min(self._lost_agreed, Stamp(packet.time, packet.ring))
        else:
            lost = self._lost_below
            lost[packet.ring] = min(lost[packet.ring], packet.number)
