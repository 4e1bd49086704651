"""The model of the order: one view whose daemons stamp, promise and deliver, within bounds."""

from collections.abc import Iterator
from itertools import pairwise

import attrs

from tests.verification.specification.form import Label, Model
from tests.verification.specification.order import Order, OrderState, PacketId, Place


@attrs.frozen(kw_only=True)
class OrderModel(Model[OrderState]):
    """A view in which daemons stamp, promise and deliver.

    Attributes:
        specification: the actions.
        packets: the number of packets of each ring.
        latest: the highest stamp and promise.
        promises: the number of promises in all.
        safe: the SAFE packets; all others are AGREED, or below the agreed order.
    """

    specification: Order
    packets: tuple[int, ...]
    latest: int
    promises: int
    safe: frozenset[PacketId] = frozenset()

    def beginnings(self) -> Iterator[OrderState]:
        """See Model."""
        yield OrderState()

    def labels(self, state: OrderState) -> Iterator[Label]:
        """See Model."""
        for ring, members in enumerate(self.specification.rings):
            for daemon in members:
                yield from self._makes(state, daemon, ring)
        for daemon in sorted(self.specification.members):
            for ring in range(len(self.specification.rings)):
                yield from self._takes(state, daemon, ring)
            for packet in state.packets:
                yield "deliver", daemon, packet, packet in self.safe

    def _makes(self, state: OrderState, daemon: str, ring: int) -> Iterator[Label]:
        """Yield stamps and promises, right and wrong ones."""
        number, _ = state.last.get(ring, (0, 0))
        for time in range(1, self.latest + 1):
            if number < self.packets[ring]:
                for each in {number or 1, number + 1}:
                    yield "stamp", daemon, (ring, each), time
            if len(state.announced) < self.promises:
                for upto in range(number + 1):
                    yield "announce", daemon, ring, time, upto

    def _takes(self, state: OrderState, daemon: str, ring: int) -> Iterator[Label]:
        """Yield packets and promises to be received, and one of each that was never made."""
        for packet, (time, _, _) in state.packets.items():
            if packet[0] == ring:
                yield "hold", daemon, packet, time
        yield "hold", daemon, (ring, state.last.get(ring, (0, 0))[0] + 1), 1
        for value, upto in {(v, u) for r, v, u in state.announced if r == ring} | {(1, 0)}:
            if value > state.block.get((daemon, ring), 0):
                yield "count", daemon, ring, value, upto

    def broken(self, state: OrderState) -> str | None:
        """See Model."""
        return self._broken_order(state) or self._broken_safe(state)

    def _place(self, state: OrderState, packet: PacketId) -> Place:
        return state.packets[packet].time, packet[0]

    def _broken_order(self, state: OrderState) -> str | None:
        given = {packet for delivered in state.delivered.values() for packet in delivered}
        for delivered in state.delivered.values():
            places = [self._place(state, packet) for packet in delivered]
            if any(one >= other for one, other in pairwise(places)):
                return "all deliver in the order of places"
            if any(
                self._place(state, packet) < places[-1] and packet not in delivered
                for packet in given
            ):
                return "what any daemon delivers is missing at none that has gone past it"
        if any(time <= after for time, _, after in state.packets.values()):
            return "a message comes after those that its daemon had received"
        if len(state.places) != len(state.packets) or len(state.at) != len(state.packets):
            return "each packet has one place, and each place one packet"
        for (_, ring), held in state.held.items():
            if held.prefix > state.last.get(ring, (0, 0))[0] or any(
                (ring, number) not in state.packets for number in held.early
            ):
                return "what a daemon holds was stamped"
        return None

    def _broken_safe(self, state: OrderState) -> str | None:
        for delivered in state.delivered.values():
            for packet in self.safe.intersection(delivered):
                place = self._place(state, packet)
                for other in state.packets:
                    if self._place(state, other) <= place and any(
                        other[1] not in self.specification.held_by(state, daemon, other[0])
                        for daemon in self.specification.members
                    ):
                        return "once a SAFE message is delivered all hold everything up to it"
        return None
