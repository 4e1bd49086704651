"""The walk: what is still delivered of a view that has ended, and in which part of it.

Pure, and the same for all that hold the union: the decision about a bundle depends on the union
alone, never on what was delivered here before. Packets go in stamp order. Up to the boundary they
belong to the regular view; from it on to the transitional one, where those who did not come along
may have sent what cannot be delivered without breaking an order: it is dropped by all alike.

Source of the boundary: Moser, Amir, Melliar-Smith, Agarwal, "Extended Virtual Synchrony", ICDCS
1994; the rule for what is dropped is DESIGN's, section 6, the walk.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from groupcomm.clocks.stamp import Stamp
from groupcomm.level import ServiceLevel
from groupcomm.wire.bundle import Bundle
from groupcomm.wire.data import DataPacket

_RELIABLE = ServiceLevel.RELIABLE
_CAUSAL = ServiceLevel.CAUSAL
_AGREED = ServiceLevel.AGREED
_NEVER = 2**64


class WalkLimits(NamedTuple):
    """What the union says.

    Attributes:
        forgotten: per ring, all packets up to here were delivered by everybody.
        prefix: per ring, no packet up to here is missing.
        horizon: the least united horizon of the rings, a time.
        frontier: the least united frontier.
        obligation: the daemons whose packets are delivered whatever is missing.
    """

    forgotten: list[int]
    prefix: list[int]
    horizon: int
    frontier: int
    obligation: frozenset[int]


def find_boundary(packets: Iterable[DataPacket], limits: WalkLimits) -> Stamp | None:
    """The stamp of the first packet of the transitional part; None if there is none.

    Args:
        packets: of the union, in stamp order.
        limits: what the union says.
    """
    for packet in packets:
        if packet.in_agreed_order and (
            packet.time > limits.horizon or (packet.safe and packet.time > limits.frontier)
        ):
            return Stamp(packet.time, packet.ring)
    return None


class RecoveryWalk:
    """The decisions, packet by packet in stamp order.

    Attributes:
        dropped: how many bundles were dropped.
    """

    __slots__ = (
        "_broken",
        "_limits",
        "_lost_agreed",
        "_lost_below",
        "_reached",
        "_resolve",
        "dropped",
    )

    def __init__(self, limits: WalkLimits, resolve: Callable[[DataPacket], None]) -> None:
        """Begin; `resolve` fills in V and A of a packet that refers to an earlier one."""
        self._limits = limits
        self._resolve = resolve
        self._reached: dict[int, int] = {}  # per daemon the last packet of its unbroken chain
        self._broken: set[tuple[int, int]] = set()  # sessions of which something was dropped
        self._lost_below = [_NEVER] * len(limits.prefix)  # lowest packet with a drop below AGREED
        self._lost_agreed = Stamp(_NEVER, 0)
        self.dropped = 0

    def deliverable(self, packet: DataPacket) -> list[Bundle]:
        """The bundles of the next packet that are delivered, in their order."""
        limits = self._limits
        daemon = packet.daemon
        whole = (
            packet.previous <= limits.forgotten[packet.ring]
            or self._reached.get(daemon) == packet.previous
        )
        if whole:
            self._reached[daemon] = packet.number
            self._resolve(packet)
        if daemon in limits.obligation:
            return packet.bundles
        causes = whole and self._has_causes(packet)
        kept: list[Bundle] = []
        for bundle in packet.bundles:
            session = (daemon, bundle.session)
            level = bundle.level
            if level == _RELIABLE or (
                whole and session not in self._broken and (level < _CAUSAL or causes)
            ):
                kept.append(bundle)
            else:
                self._drop(packet, bundle, session)
        return kept

    def _has_causes(self, packet: DataPacket) -> bool:
        if packet.vector is None or packet.agreed is None:
            return True  # nothing at CAUSAL or above in it
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
