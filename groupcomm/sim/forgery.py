"""Forgeries: packets that a liar makes up to fit what its own core knows of the view, in part.

A field that is changed at random is refused by the first check. These get past it: they have the
numbers, stamps, hops and chains that are next, and tell something else with them, maybe in the name
of another daemon.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from groupcomm.clocks.stamp import Stamp
from groupcomm.engine import DaemonCore
from groupcomm.engine.view import ViewState
from groupcomm.errors import BadDatagram
from groupcomm.sim.lies import lie
from groupcomm.wire.bundle import Bundle
from groupcomm.wire.data import DataPacket, decode_data_untrusted
from groupcomm.wire.horizon import HorizonNotice, horizon_packet
from groupcomm.wire.packet import PacketKind
from groupcomm.wire.rest import RestNotice
from groupcomm.wire.token import Row, Token
from groupcomm.wire.unreliable import UnreliablePacket

_NEAR: Final = (0, 0, 1, 1, 1, 2, 3, 10)


class Forger:
    """Makes up packets for one liar."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._makers: tuple[Callable[[ViewState, int, list[Bundle]], bytes], ...] = (
            self._data,
            self._data,
            self._data,
            self._token,
            self._rest,
            self._horizon,
            self._unreliable,
        )

    def make(self, core: DaemonCore, memory: Sequence[bytes]) -> bytes | None:
        """Return a packet of the present view; None before the first."""
        operation = core.view_state
        if operation is None or core.view is None:
            return None
        rng = self._rng
        me = core.view.daemons.index(core.start.daemon)
        packet = rng.choice(self._makers)(operation, me, self._bundles(memory))
        if rng.random() < 0.3:
            packet = lie(rng, packet) or packet
        return packet

    def _bundles(self, memory: Sequence[bytes]) -> list[Bundle]:
        """Return bundles that somebody has sent before."""
        known = [packet for packet in memory if packet[0] == PacketKind.DATA]
        try:
            return decode_data_untrusted(self._rng.choice(known)).bundles if known else []
        except BadDatagram:
            return []

    def _near(self) -> int:
        return self._rng.choice(_NEAR)

    def _data(self, operation: ViewState, me: int, bundles: list[Bundle]) -> bytes:
        rng, order = self._rng, operation.delivery.order
        view = operation.view
        daemon = me if rng.random() < 0.4 else rng.randrange(len(view.daemons))
        stream = operation.streams[view.ring_of[daemon]]
        last = order.chain_ends[daemon]
        number = stream.known + self._near()
        packet = DataPacket(
            ring=stream.ring,
            number=max(number, last + 1),
            time=operation.clock.value + rng.choice((-50, -1, 0, 1, 2, 1000, 10**6)),
            daemon=daemon,
            previous=last if rng.random() < 0.8 else max(0, number - 1 - self._near()),
            bundles=bundles,
        )
        if rng.random() < 0.6:
            vector, agreed = order.causes
            packet.vector = tuple(count + self._near() for count in vector)
            packet.agreed = Stamp(agreed.time + self._near(), agreed.ring)
            if rng.random() < 0.2:
                packet.vector, packet.reference = None, last
        return packet.encode(operation.key)

    def _token(self, operation: ViewState, me: int, bundles: list[Bundle]) -> bytes:
        rng = self._rng
        ring = operation.view.ring_of[me]
        members = operation.view.rings[ring]
        held = [stream.held for stream in operation.streams]
        frontier = operation.blocks.least
        rows = [
            Row(frontier=frontier, sent=0, held=[h + rng.choice((0, 0, 1)) for h in held])
            for _ in members
        ]
        requests = [(ring, held[ring] + 1, held[ring] + 1 + self._near())]
        return Token(
            ring=ring,
            hop=operation.ring.monitor.hop + self._near(),
            last=operation.streams[ring].known + self._near(),
            last_sender=rng.choice(members),
            clock=operation.clock.value + self._near(),
            burst=0,
            rows=rows,
            requests=requests if rng.random() < 0.3 else [],
            wanted=[rng.choice(members)] if rng.random() < 0.5 else [],
        ).encode(operation.key)

    def _rest(self, operation: ViewState, me: int, bundles: list[Bundle]) -> bytes:
        ring = operation.view.ring_of[me]
        return RestNotice(
            ring=ring,
            hop=operation.ring.monitor.hop + self._near(),
            holder=me,
            last=max(0, operation.streams[ring].held - self._near()),
            horizon=operation.clock.value + self._rng.choice((0, 1, 1000, 10**6)),
            frontiers=[operation.blocks.least + self._near() for _ in operation.view.rings[ring]],
        ).encode(operation.key)

    def _horizon(self, operation: ViewState, me: int, bundles: list[Bundle]) -> bytes:
        rng = self._rng
        stream = rng.choice(operation.streams)
        notice = HorizonNotice(
            ring=stream.ring,
            horizon=operation.clock.value + rng.choice((0, 1, 1000, 10**6)),
            upto=max(0, stream.known + rng.choice((-1, 0, 0, 1, 2))),
            frontier=operation.blocks.least + rng.choice((0, 1, 1000, 10**6)),
            unsettled=rng.random() < 0.5,
            held=[(s.ring, s.known + self._near()) for s in operation.streams],
        )
        return horizon_packet(operation.key, [notice.encode()])

    def _unreliable(self, operation: ViewState, me: int, bundles: list[Bundle]) -> bytes:
        daemon = self._rng.randrange(len(operation.view.daemons))
        counter = self._rng.randrange(1, 5000)
        return UnreliablePacket(daemon=daemon, counter=counter, bundles=bundles).encode(
            operation.key
        )
