"""The specification of order in one view: stamps, horizons, and when AGREED and SAFE are delivered.

The actions are those of `groupcomm/ring`, `groupcomm/order` and `groupcomm/engine/delivery.py`:

    stamp      a daemon numbers a packet in its ring's stream (Delivery.originate)
    announce   it promises: after packet `upto` nothing of its ring is stamped `value` or lower
    hold       it receives a packet
    count      it counts such a promise, as it holds everything up to `upto`
    deliver    it delivers a packet of the agreed order (Order.drain)

The agreed order is that of the *places*: (time, ring). Time stamps are those of Lamport: above all
that the daemon has received. A daemon delivers a packet once no ring can still send a lower one, by
its promises; a SAFE one once this is so at every daemon. How daemons come to know the latter, by
frontiers, is left out: `gather` of recovery.py checks that what they say they know is true. With
`inside`, a daemon delivers a SAFE packet of its own ring also once the whole ring holds the stream
up to it (locality.py): which packets may be delivered like that is not known here.

Which packets are in the agreed order is not known when they are stamped. A daemon that delivers a
packet *passes over* those of lower places that it has not delivered: no daemon may deliver these.
"""

import enum
from bisect import bisect_left, bisect_right, insort
from typing import NamedTuple

import attrs

from tests.verification.specification.form import Specification, State

PacketId = tuple[int, int]
"""A ring, by index, and a number in its stream."""

Place = tuple[int, int]
"""A time and a ring."""

NOWHERE: Place = (-1, -1)


class Packet(NamedTuple):
    """A packet that was stamped.

    Attributes:
        time: its time stamp.
        author: the daemon that has numbered it.
        after: the highest stamp that this daemon had received by then.
    """

    time: int
    author: str
    after: int


class Kind(enum.Enum):
    """What is known of a packet: the agreed order has it or has not."""

    PASSED = enum.auto()
    AGREED = enum.auto()
    SAFE = enum.auto()


class Held(NamedTuple):
    """What a daemon holds of one stream: all up to `prefix`, and some numbers beyond."""

    prefix: int
    early: frozenset[int] = frozenset()

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and (number <= self.prefix or number in self.early)

    def with_number(self, number: int) -> "Held":
        """Return this with one number more."""
        prefix, early = self
        if number != prefix + 1:
            return Held(prefix, early | {number})
        while early and number + 1 in early:
            number += 1
        return Held(number, early - set(range(prefix, number + 1)) if early else early)

    def united(self, other: "Held") -> "Held":
        """Return what is in either."""
        prefix = max(self.prefix, other.prefix)
        early = frozenset(n for n in self.early | other.early if n > prefix)
        while prefix + 1 in early:
            prefix += 1
        return Held(prefix, frozenset(n for n in early if n > prefix))


@attrs.define(eq=False)
class OrderState(State):
    """The variables of one view.

    Attributes:
        packets: all packets.
        places: their places, rising.
        at: the packets at these places.
        last: for each ring the number and time of its last packet.
        horizon: for each ring the highest promise.
        announced: all promises, as (ring, value, upto).
        held: what each daemon holds of each ring.
        highest: the highest stamp that each daemon has received.
        block: for each daemon and ring, the time up to which the ring can send nothing more.
        least: for each daemon the least of these: it can deliver up to this time.
        kind: what is known of packets.
        done: the last place that each daemon has delivered.
        delivered: what each daemon has delivered of the agreed order.
        frozen: the daemons that have begun to leave the view.
    """

    packets: dict[PacketId, Packet] = attrs.Factory(dict)
    places: list[Place] = attrs.Factory(list)
    at: dict[Place, PacketId] = attrs.Factory(dict)
    last: dict[int, tuple[int, int]] = attrs.Factory(dict)
    horizon: dict[int, int] = attrs.Factory(dict)
    announced: set[tuple[int, int, int]] = attrs.Factory(set)
    held: dict[tuple[str, int], Held] = attrs.Factory(dict)
    highest: dict[str, int] = attrs.Factory(dict)
    block: dict[tuple[str, int], int] = attrs.Factory(dict)
    least: dict[str, int] = attrs.Factory(dict)
    kind: dict[PacketId, Kind] = attrs.Factory(dict)
    done: dict[str, Place] = attrs.Factory(dict)
    delivered: dict[str, tuple[PacketId, ...]] = attrs.Factory(dict)
    frozen: set[str] = attrs.Factory(set)


class OrderCondition(enum.Enum):
    """The conditions of the actions."""

    IS_OPEN = (
        "nothing of a view is numbered, promised, accepted or delivered once its daemon has"
        " begun to leave it, except by recovery"
    )
    OWN_RING = "a daemon numbers and promises for its own ring"
    NEXT_NUMBER = "a packet has the number after the last one of its ring"
    STAMPS_RISE = "the stamps of a ring rise"
    ABOVE_RECEIVED = "a stamp is above all that its daemon has received (Lamport 1978, IR2)"
    PROMISE_KEPT = "a stamp is above all promises of its ring"
    HORIZON_RISES = "the promises of a ring do not fall"
    PROMISE_IS_TRUE = "no packet after the one that a promise names is stamped within the promise"
    WAS_STAMPED = "a daemon receives packets that were stamped, with their stamps"
    IS_NEW = "a daemon accepts each packet once"
    WAS_ANNOUNCED = "a daemon counts promises that were made"
    HOLDS_UP_TO = "a promise counts once the packets before it are held"
    IS_HELD = "a daemon delivers packets that it holds"
    IN_ORDER = "a daemon delivers the agreed order by rising places"
    NOTHING_LOWER = "a packet is delivered once no ring can still send a lower one"
    ALL_CAN = "a SAFE packet is delivered once every daemon can deliver it"
    NONE_PASSED = "no packet of the agreed order is passed over"
    NOT_PASSED = "no packet is delivered that another daemon has passed over"


class Order(Specification[OrderState]):
    """The actions of one view.

    Args:
        rings: the daemons of each ring.
        base: the number before the first one of each stream.
        clock: the time with which the view begins; all stamps are above.
        dropped: conditions that are left out.
        inside: whether SAFE packets may be local.
    """

    def __init__(
        self,
        rings: tuple[tuple[str, ...], ...],
        base: int = 0,
        clock: int = 0,
        dropped: frozenset[enum.Enum] = frozenset(),
        *,
        inside: bool = False,
    ) -> None:
        super().__init__(dropped)
        self._inside = inside and len(rings) > 1
        self.rings = rings
        self.base = base
        self.clock = clock
        self.members = frozenset(daemon for ring in rings for daemon in ring)
        self._nothing = Held(base)

    def held_by(self, state: OrderState, daemon: str, ring: int) -> Held:
        """Return what a daemon holds of a ring."""
        return state.held.get((daemon, ring), self._nothing)

    def stamp(self, state: OrderState, daemon: str, packet: PacketId, time: int) -> None:
        """Number a packet."""
        ring, number = packet
        self.need(daemon not in state.frozen, OrderCondition.IS_OPEN)
        self.need(daemon in self.rings[ring], OrderCondition.OWN_RING)
        before, then = state.last.get(ring, (self.base, self.clock))
        self.need(number == before + 1, OrderCondition.NEXT_NUMBER)
        self.need(time > then, OrderCondition.STAMPS_RISE)
        received = state.highest.get(daemon, self.clock)
        self.need(time > received, OrderCondition.ABOVE_RECEIVED)
        self.need(time > state.horizon.get(ring, self.clock), OrderCondition.PROMISE_KEPT)
        place = (time, ring)
        state.packets[packet] = Packet(time, daemon, received)
        insort(state.places, place)
        state.at[place] = packet
        state.last[ring] = (number, time)

    def announce(self, state: OrderState, daemon: str, ring: int, value: int, upto: int) -> None:
        """Promise that nothing after packet `upto` of the ring is stamped `value` or lower."""
        self.need(daemon not in state.frozen, OrderCondition.IS_OPEN)
        self.need(daemon in self.rings[ring], OrderCondition.OWN_RING)
        self.need(value >= state.horizon.get(ring, self.clock), OrderCondition.HORIZON_RISES)
        following = state.packets.get((ring, upto + 1))
        is_true = following is None or following.time > value
        self.need(is_true, OrderCondition.PROMISE_IS_TRUE)
        state.horizon[ring] = max(value, state.horizon.get(ring, self.clock))
        state.announced.add((ring, value, upto))

    def hold(self, state: OrderState, daemon: str, packet: PacketId, time: int) -> None:
        """Receive a packet; the one who has numbered it does so at once."""
        self.need(daemon not in state.frozen, OrderCondition.IS_OPEN)
        self._receive(state, daemon, packet, time)
        ring = packet[0]
        prefix = state.held[daemon, ring].prefix
        if prefix != self.base and (ring, prefix) in state.packets:
            self._raise(state, daemon, ring, state.packets[ring, prefix].time)

    def _receive(self, state: OrderState, daemon: str, packet: PacketId, time: int) -> None:
        ring, number = packet
        known = state.packets.get(packet)
        self.need(known is not None and known.time == time, OrderCondition.WAS_STAMPED)
        held = state.held.get((daemon, ring), self._nothing)
        self.need(number not in held, OrderCondition.IS_NEW)
        state.held[daemon, ring] = held.with_number(number)
        if time > state.highest.get(daemon, self.clock):
            state.highest[daemon] = time

    def count(self, state: OrderState, daemon: str, ring: int, value: int, upto: int) -> None:
        """Count a promise; while recovery ends the view it says nothing about this daemon."""
        self.need((ring, value, upto) in state.announced, OrderCondition.WAS_ANNOUNCED)
        prefix = state.held.get((daemon, ring), self._nothing).prefix
        self.need(upto <= prefix, OrderCondition.HOLDS_UP_TO)
        if daemon not in state.frozen:
            self._raise(state, daemon, ring, value)

    def _raise(self, state: OrderState, daemon: str, ring: int, value: int) -> None:
        before = state.block.get((daemon, ring), self.clock)
        if value > before:
            state.block[daemon, ring] = value
            if before == state.least.get(daemon, self.clock):
                blocks = (state.block.get((daemon, r), self.clock) for r in range(len(self.rings)))
                state.least[daemon] = min(blocks)

    def deliver(self, state: OrderState, daemon: str, packet: PacketId, safe: bool) -> None:
        """Deliver a packet of the agreed order."""
        self.need(daemon not in state.frozen, OrderCondition.IS_OPEN)
        self.need(packet in state.packets, OrderCondition.WAS_STAMPED)
        time = state.packets[packet].time
        self.need(time <= state.least.get(daemon, self.clock), OrderCondition.NOTHING_LOWER)
        if safe:
            self.need(self.can_all(state, daemon, packet), OrderCondition.ALL_CAN)
        self.release(state, daemon, packet, safe=safe)

    def can_all(self, state: OrderState, daemon: str, packet: PacketId) -> bool:
        """Return whether all daemons can deliver a SAFE packet, or all of the daemon's own ring."""
        ring, number = packet
        least = min(state.least.get(other, self.clock) for other in self.members)
        if state.packets[packet].time <= least:
            return True
        return self._inside and daemon in self.rings[ring] and number <= self.whole(state, ring)

    def whole(self, state: OrderState, ring: int) -> int:
        """Return the number up to which a whole ring holds its stream."""
        return min(self.held_by(state, daemon, ring).prefix for daemon in self.rings[ring])

    def release(self, state: OrderState, daemon: str, packet: PacketId, *, safe: bool) -> None:
        """Deliver a packet, whatever allows that, and pass over all lower ones."""
        ring, number = packet
        place = (state.packets[packet].time, ring)
        done = state.done.get(daemon, NOWHERE)
        held = state.held.get((daemon, ring), self._nothing)
        self.need(number in held, OrderCondition.IS_HELD)
        self.need(place > done, OrderCondition.IN_ORDER)
        self.need(state.kind.get(packet) is not Kind.PASSED, OrderCondition.NOT_PASSED)
        passed = self.between(state, done, place)
        if passed:
            none_passed = all(state.kind.get(each, Kind.PASSED) is Kind.PASSED for each in passed)
            self.need(none_passed, OrderCondition.NONE_PASSED)
            for each in passed:
                state.kind[each] = Kind.PASSED
        state.kind[packet] = Kind.SAFE if safe else Kind.AGREED
        state.done[daemon] = place
        self.note(state, daemon, packet)

    def note(self, state: OrderState, daemon: str, packet: PacketId) -> None:
        """Note a delivery for the invariants."""
        state.delivered[daemon] = (*state.delivered.get(daemon, ()), packet)

    def between(self, state: OrderState, low: Place, high: Place) -> list[PacketId]:
        """Return the packets between two places, without those at them."""
        places = state.places
        first, end = bisect_right(places, low), bisect_left(places, high)
        return [state.at[place] for place in places[first:end]] if first < end else []
