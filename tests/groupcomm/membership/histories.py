"""Histories of one view, made at random: packets, losses, promises, and what each daemon knows.

Every daemon has a real Order, so causes, deliveries, horizons and frontiers are as they may be in
use. Packets get lost and come in any order; nobody is told anything in time. Daemons are 0, 1, ...
in rings of one or two.
"""

from collections.abc import Iterable
from itertools import count
from random import Random

from groupcomm.clocks.stamp import ViewId
from groupcomm.config.view import DaemonId, Incarnation, View
from groupcomm.level import ServiceLevel
from groupcomm.order.order import Order
from groupcomm.stream.stream import Stream
from groupcomm.wire.bundle import Bundle, BundleKind, decode_body_untrusted, encode_body
from groupcomm.wire.data import DataPacket, decode_data_untrusted
from tests.groupcomm.wire.payloads import encode_messages

Id = tuple[int, int, int]
"""A bundle: ring, number of its packet, place there."""

CLOCK = 1000
CAUSAL, AGREED, SAFE = ServiceLevel.CAUSAL, ServiceLevel.AGREED, ServiceLevel.SAFE
LEVELS = tuple(ServiceLevel)[1:]


def make_view(rings: int, daemons: int) -> View:
    """Return daemons, spread over this number of rings in a chain."""
    ids = tuple(DaemonId(f"d{index}", Incarnation(1, index)) for index in range(daemons))
    members = [tuple(range(ring, daemons, rings)) for ring in range(rings)]
    links = tuple((ring, ring + 1) for ring in range(rings - 1))
    return View(id=ViewId(1, "d0", 0), daemons=ids, rings=tuple(members), links=links, clock=CLOCK)


def bundle_of(session: int, number: int, level: ServiceLevel) -> Bundle:
    payload = encode_messages([(0, b"x")])
    body = encode_body(BundleKind.MESSAGES, level, 0, number, ("g",), payload)
    bundle = decode_body_untrusted(body)
    bundle.address(session, f"u{session}", ())
    return bundle


class Daemon:
    """One daemon's streams and order, and what they have given out.

    Attributes:
        given: bundles in the order in which they were given out.
    """

    def __init__(self, view: View) -> None:
        self.streams = [Stream(ring, 0) for ring in range(len(view.rings))]
        self.given: list[Id] = []
        self.order = Order(
            self.streams,
            len(view.daemons),
            clock=view.clock,
            on_release=self.release,
            counted=lambda *_: None,
        )
        self.clock = view.clock
        self.causes: tuple[int, object] = (0, None)  # packet with full causes; the causes

    def release(self, bundle: Bundle) -> None:
        packet: DataPacket = bundle.packet
        self.given.append((packet.ring, packet.number, bundle.place))

    def take(self, raw: bytes) -> None:
        packet = decode_data_untrusted(raw)
        held_before = self.streams[packet.ring].held
        if self.streams[packet.ring].accept(packet):
            self.clock = max(self.clock, packet.time)
            self.order.accept(packet, held_before)

    def count(self, ring: int, value: int, upto: int) -> None:
        self.clock = max(self.clock, value)
        self.order.blocks.announce(ring, value, upto, self.streams[ring].held)


class History:
    """A view's life, step by step.

    Attributes:
        daemons: the daemons, by index.
        packets: all that were numbered, whole, by (ring, number).
        notices: (ring, value, upto) of all promises.
        frontiers: (ring, value) as rings have told them.
        known: the facts about each packet, as an omniscient observer knows them.
    """

    def __init__(self, seed: int, *, forget: bool = True, losses: float = 0.4) -> None:
        self.random = Random(seed)
        rings = self.random.randint(1, 3)
        self.view = make_view(rings, self.random.randint(rings, 5))
        self.daemons = [Daemon(self.view) for _ in self.view.daemons]
        self.packets: dict[tuple[int, int], bytes] = {}
        self.known: dict[tuple[int, int], DataPacket] = {}
        self.notices: list[tuple[int, int, int]] = []
        self.frontiers: list[tuple[int, int]] = []
        self._last = [0] * rings
        self._clocks = [CLOCK] * rings
        self._previous = [0] * len(self.daemons)
        self._messages = count(1)
        self._forget = forget
        self._losses = losses

    def run(self, steps: int) -> None:
        """Let things happen."""
        for _ in range(steps):
            me = self.random.randrange(len(self.daemons))
            action = self.random.choices(
                (self.number, self.promise, self.tell_frontier, self.hear, self.deliver),
                (4, 2, 2, 5, 4),
            )[0]
            action(me)

    def number(self, me: int) -> None:
        """One daemon numbers a packet; others of its ring and of others get it, or not."""
        daemon, ring = self.daemons[me], self.view.ring_of[me]
        time = max(self._clocks[ring], daemon.clock) + self.random.randint(1, 3)
        self._clocks[ring] = daemon.clock = time
        self._last[ring] += 1
        number = self._last[ring]
        levels = self.random.choices(LEVELS, k=self.random.randint(1, 3))
        if SAFE in levels:
            levels = [SAFE if level == AGREED else level for level in levels]
        bundles = [
            bundle_of(10 * me + self.random.randint(0, 1), next(self._messages), level)
            for level in levels
        ]
        packet = DataPacket(
            ring=ring,
            number=number,
            time=time,
            daemon=me,
            previous=self._previous[me],
            bundles=bundles,
        )
        if max(levels) >= CAUSAL:
            causes = daemon.order.causes
            if daemon.causes[1] == causes:
                packet.reference = daemon.causes[0]
            else:
                packet.vector, packet.agreed = causes
                daemon.causes = (number, causes)
        self._previous[me] = number
        raw = packet.encode(self.view.key)
        self.packets[ring, number] = raw
        self.known[ring, number] = decode_data_untrusted(raw)
        full = self.known[ring, packet.reference] if packet.reference else packet
        self.known[ring, number].vector = full.vector
        self.known[ring, number].agreed = full.agreed
        daemon.take(raw)
        for other in self.daemons:
            if self.random.random() > self._losses:
                other.take(raw)

    def promise(self, me: int) -> None:
        """One daemon promises for its ring, holding its token."""
        ring = self.view.ring_of[me]
        value = max(self._clocks[ring], self.daemons[me].clock) + self.random.randint(0, 3)
        self._clocks[ring] = value
        self.notices.append((ring, value, self._last[ring]))
        self.daemons[me].count(*self.notices[-1])

    def tell_frontier(self, me: int) -> None:
        """A ring finds out what all its daemons can deliver, and one daemon hears it."""
        ring = self.view.ring_of[me]
        value = min(self.daemons[one].order.blocks.least for one in self.view.rings[ring])
        self.frontiers.append((ring, value))
        self.daemons[me].order.frontiers.raise_to(ring, value)

    def hear(self, me: int) -> None:
        """A late packet, promise or frontier comes."""
        daemon = self.daemons[me]
        for _ in range(3):
            if self.packets:
                daemon.take(self.packets[self.random.choice(list(self.packets))])
        if self.notices:
            daemon.count(*self.random.choice(self.notices))
        if self.frontiers:
            daemon.order.frontiers.raise_to(*self.random.choice(self.frontiers))

    def deliver(self, me: int) -> None:
        """Have one daemon deliver the packets that it can, and forget."""
        daemon = self.daemons[me]
        daemon.order.drain()
        if self._forget:
            for stream in daemon.streams:
                stream.forget(daemon.order.frontiers.least)

    def level(self, bundle: Id) -> int:
        """The level of a bundle."""
        return self.known[bundle[:2]].bundles[bundle[2]].level

    def agreed(self, bundles: Iterable[Id]) -> list[Id]:
        """Those of the agreed order, in their order."""
        return [bundle for bundle in bundles if self.level(bundle) >= AGREED]
