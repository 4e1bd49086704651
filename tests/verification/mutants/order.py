"""Wrong ways to order and deliver."""

from itertools import count
from typing import Any

from groupcomm.clocks.stamp import Stamp
from groupcomm.engine.delivery import OrderedWaits
from groupcomm.level import ServiceLevel
from groupcomm.order import order
from groupcomm.order.chain import NOTHING_AGREED, Chain
from groupcomm.order.horizons import Blocks
from groupcomm.order.order import Order
from groupcomm.wire.bundle import Bundle
from groupcomm.wire.data import DataPacket
from tests.verification.mutants.mutant import Right, mutant, site_mutant

_FIFO = ServiceLevel.FIFO
_NEVER = 2**64


def _take_agreed(self: Order, highest: int, highest_safe: int) -> DataPacket | None:
    """Return the lowest agreed packet, if its time is not above the bound of its level."""
    if not self._agreed:
        return None
    packet = self._agreed[0][2]
    if packet.time > highest or (packet.safe and packet.time > highest_safe):
        return None
    return packet


@mutant((Order, "_next_agreed"))
def block_off_by_one(_right: Right) -> Right:
    """An agreed packet may be delivered one microsecond above the least block."""

    def next_agreed(self: Order) -> DataPacket | None:
        return _take_agreed(self, self.blocks.least + 1, self.frontiers.least)

    return next_agreed


@mutant((Order, "causes"), faults="loss,burst,delay,reorder")
def causal_without_agreed(right: property) -> property:
    """CAUSAL messages carry V but not A, so they do not wait for agreed deliveries."""

    def causes(self: Order) -> tuple[tuple[int, ...], Stamp]:
        vector, _ = right.__get__(self)
        return vector, NOTHING_AGREED

    return property(causes)


def _give_fifo(self: Order, packet: DataPacket) -> list[Bundle]:
    """Deliver the FIFO bundles of a packet; return the others."""
    for bundle in packet.bundles:
        if bundle.level == _FIFO:
            self._release(bundle)
    return [bundle for bundle in packet.bundles if bundle.level != _FIFO]


@mutant((Order, "_extend"))
def fifo_ignores_session(right: Right) -> Right:
    """A FIFO message waits for its daemon's packets, not for its session's pending messages."""

    def extend(self: Order, chain: Chain, packet: DataPacket) -> None:
        bundles = packet.bundles
        packet.bundles = _give_fifo(self, packet)
        right(self, chain, packet)
        packet.bundles = bundles

    return extend


@mutant((Order, "accept"), (Order, "_extend"))
def fifo_on_receipt(right_accept: Right, right_extend: Right) -> tuple[Right, Right]:
    """A FIFO message is delivered on receipt, behind gaps in its daemon's chain."""

    def accept(self: Order, packet: DataPacket, held_before: int) -> None:
        _give_fifo(self, packet)
        right_accept(self, packet, held_before)

    def extend(self: Order, chain: Chain, packet: DataPacket) -> None:
        bundles = packet.bundles
        packet.bundles = [bundle for bundle in bundles if bundle.level != _FIFO]
        right_extend(self, chain, packet)
        packet.bundles = bundles

    return accept, extend


@mutant((Blocks, "announce"))
def horizon_counts_at_once(_right: Right) -> Right:
    """A horizon counts although packets that it covers are missing."""

    def announce(self: Blocks, ring: int, value: int, upto: int, _held: int) -> bool:
        return self._count(ring, value, upto)

    return announce


@mutant((OrderedWaits, "pop_due"))
def ordered_at_stamping(right: Right) -> Right:
    """A sender is told a position as soon as its message is stamped."""

    def take(self: OrderedWaits, _least_block: int, _least_frontier: int) -> list[Bundle]:
        told: list[Bundle] = right(self, _NEVER, _NEVER)
        return told

    return take


@mutant((Order, "_next_agreed"))
def safe_by_own_frontier(_right: Right) -> Right:
    """SAFE is delivered once this daemon holds everything below it, whatever others hold."""

    def next_agreed(self: Order) -> DataPacket | None:
        return _take_agreed(self, self.blocks.least, self.blocks.least)

    return next_agreed


@mutant((Order, "_next_agreed"))
def safe_by_own_ring(_right: Right) -> Right:
    """SAFE waits for the frontier of the ring that originated it, not for every ring's."""

    def next_agreed(self: Order) -> DataPacket | None:
        ring = self._agreed[0][1] if self._agreed else 0
        return _take_agreed(self, self.blocks.least, self.frontiers.values[ring])

    return next_agreed


@mutant((order, "heappush"))
def ties_by_arrival(right: Right) -> Right:
    """Agreed packets with equal times are delivered in the order of their arrival."""
    arrivals = count()

    def push(heap: list[Any], item: Any) -> None:
        if isinstance(item, tuple):
            time, _ring, packet = item
            item = (time, next(arrivals), packet)
        right(heap, item)

    return push


@mutant((Order, "causes"), faults="loss,reorder")
def vector_is_prefix(_right: property) -> property:
    """V has the number up to which packets are held without a gap, not the highest delivered
    one."""

    def causes(self: Order) -> tuple[tuple[int, ...], Stamp]:
        return tuple(stream.held for stream in self._streams), self.done

    return property(causes)


@site_mutant((Order, "causes"), (Order, "accept"))
def vector_is_shared(_right: property, right_accept: Right) -> tuple[property, Right]:
    """V is the live list of the order, not a copy, so its packer sees no change of it."""

    def causes(self: Order) -> tuple[list[int], Stamp]:
        return self._highest, self.done

    def accept(self: Order, packet: DataPacket, held_before: int) -> object:
        if packet.vector is not None:
            packet.vector = tuple(packet.vector)  # as it was encoded
        return right_accept(self, packet, held_before)

    return property(causes), accept


BUGS = (
    block_off_by_one,
    causal_without_agreed,
    fifo_ignores_session,
    fifo_on_receipt,
    horizon_counts_at_once,
    ordered_at_stamping,
    safe_by_own_frontier,
    safe_by_own_ring,
    ties_by_arrival,
    vector_is_prefix,
    vector_is_shared,
)
