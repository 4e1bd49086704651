"""Lies: packets with fields that no correct daemon would send.

A lie changes a decoded packet and encodes it again; most results still decode, and fuzzing the
decoders covers the others. A forgery is made up to fit what the liar's core knows of the
view: it has the next numbers, stamps, hops and chains, so it passes the first checks, and states
something else, maybe in the name of another daemon. All is drawn from one source.
"""

import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

import attrs
import msgspec

from groupcomm.clocks.stamp import Stamp
from groupcomm.engine import DaemonCore
from groupcomm.engine.view import ViewState
from groupcomm.errors import BadDatagram, GroupCommError
from groupcomm.wire.bundle import Bundle, body_payload, decode_body_untrusted, encode_body
from groupcomm.wire.control import ControlPacket, decode_control_untrusted
from groupcomm.wire.data import (
    DataPacket,
    UnreliablePacket,
    decode_data_untrusted,
    decode_headers_untrusted,
    decode_unreliable_untrusted,
)
from groupcomm.wire.hello import decode_hello_untrusted
from groupcomm.wire.horizon import HorizonNotice, decode_horizon_untrusted, horizon_packet
from groupcomm.wire.link import (
    LinkFragment,
    LinkPacket,
    decode_ack_untrusted,
    decode_link_untrusted,
    decode_resend_untrusted,
)
from groupcomm.wire.packet import HEAD_BYTES, PacketKind
from groupcomm.wire.token import (
    RestNotice,
    Row,
    Token,
    decode_held_untrusted,
    decode_request_untrusted,
    decode_rest_untrusted,
    decode_token_untrusted,
)

MOST_CHANGES: Final = 3
"""The number of fields of one packet that a lie changes at once."""

MOST_BYTES: Final = 60_000

TRIES: Final = 8
"""Changes that are tried until one can be encoded."""

_BITS: Final = (8, 16, 31, 32, 62, 63, 64)
_LEAVES: Final = (bool, int, bytes, memoryview, str)
_OWN: Final = frozenset(("raw", "causal", "in_agreed_order", "safe", "ready", "pending", "packet"))
"""Attributes that are on no wire."""

_FIELDS: Final[dict[type, tuple[str, ...]]] = {
    DataPacket: (
        *("agreed", "asks", "bundles", "daemon", "lingers", "number", "previous", "reference"),
        *("ring", "local_only", "time", "vector", "pruned"),
    ),
    LinkPacket: ("number", "fragment", "sender", "zeros"),
}
"""The fields to choose from where their order is not that of their names; else a field that gets
another name would make each seed lie differently."""

_OF_SENDERS: Final = ("session", "user", "targets")
_SMALL: Final = ("kind", "level", "flags")
_OF_BUNDLES: Final = (*_OF_SENDERS, *_SMALL, "message", "index", "count", "groups", "payload")

_NOT_ENCODED: Final = (
    struct.error,
    OverflowError,
    ValueError,
    TypeError,
    IndexError,
    AssertionError,
    GroupCommError,
    msgspec.MsgspecError,
)

_DECODE: Final[dict[int, Callable[[bytes], Any]]] = {
    PacketKind.DATA: decode_data_untrusted,
    PacketKind.UNRELIABLE: decode_unreliable_untrusted,
    PacketKind.TOKEN: decode_token_untrusted,
    PacketKind.REST: decode_rest_untrusted,
    PacketKind.REQUEST: decode_request_untrusted,
    PacketKind.HORIZON: decode_horizon_untrusted,
    PacketKind.RESEND: decode_resend_untrusted,
    PacketKind.CONTROL: decode_control_untrusted,
    PacketKind.LINK: decode_link_untrusted,
    PacketKind.ACK: decode_ack_untrusted,
    PacketKind.HEADERS: decode_headers_untrusted,
    PacketKind.HELLO: decode_hello_untrusted,
    PacketKind.HELD: decode_held_untrusted,
}


def lie(rng: Random, packet: bytes) -> bytes | None:
    """Return a packet of the same kind with other fields; None if none was found."""
    decode = _DECODE[packet[0]]
    for _ in range(TRIES):
        try:
            told = decode(packet)
            for _ in range(rng.randint(1, MOST_CHANGES)):
                told = change(rng, told)
            if isinstance(told, LinkPacket):
                told.zeros = min(told.zeros, MOST_BYTES)
            changed: bytes = told.encode(packet[1:HEAD_BYTES])
        except _NOT_ENCODED:
            continue
        if changed != packet and len(changed) <= MOST_BYTES:
            return changed
    return None


def of_view(packet: bytes, key: bytes) -> bytes:
    """Return the packet as one of the view with this key."""
    return packet[:1] + key + packet[HEAD_BYTES:]


def draw_number(rng: Random, near: int) -> int:
    """Draw a number at an edge of its field's range, or more or less near to `near`."""
    lot = rng.random()
    if lot < 0.3:
        edge = 1 << rng.choice(_BITS)
        return max(0, edge + rng.randint(-2, 1))
    if lot < 0.4:
        return rng.choice((0, 1, 2))
    if lot < 0.7:
        return max(0, near + rng.choice((-1, 1)) * rng.randint(1, 3))
    return max(0, near + rng.choice((-1, 1)) * int(2 ** rng.uniform(0, 63)))


# ---- values ----


def change(rng: Random, value: Any) -> Any:
    """Return a value with a part of it changed; a mutable value may be changed in place."""
    if isinstance(value, _LEAVES):
        return _change_leaf(rng, value)
    if isinstance(value, ControlPacket):
        return _change_control(rng, value)
    if isinstance(value, Bundle):
        return _change_bundle(rng, value)
    if isinstance(value, Stamp | LinkFragment):
        return type(value)(*_change_one(rng, list(value)))
    if isinstance(value, tuple):
        return tuple(_change_list(rng, list(value)))
    if isinstance(value, list):
        return _change_list(rng, value)
    if attrs.has(type(value)):
        name = rng.choice([field.name for field in attrs.fields(type(value))])
        return attrs.evolve(value, **{name: change(rng, getattr(value, name))})
    if isinstance(value, dict):
        return value
    if value is not None:
        _change_fields(rng, value)
    return value


def _change_leaf(rng: Random, value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return draw_number(rng, value)
    if isinstance(value, str):
        return rng.choice(("", value + "x", value[1:], "#" + value, "x" * 255, value.upper()))
    return _change_bytes(rng, bytes(value))


def _change_bytes(rng: Random, value: bytes) -> bytes:
    changed = bytearray(value)
    if not changed or rng.random() < 0.1:
        return bytes(changed) + rng.randbytes(rng.randint(1, 20))
    if rng.random() < 0.2:
        return bytes(changed[: rng.randrange(len(changed))])
    for _ in range(rng.randint(1, 3)):
        changed[rng.randrange(len(changed))] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
    return bytes(changed)


def _change_one(rng: Random, values: list[Any]) -> list[Any]:
    place = rng.randrange(len(values))
    values[place] = change(rng, values[place])
    return values


def _change_list(rng: Random, values: list[Any]) -> list[Any]:
    if not values:
        return values
    lot = rng.random()
    if lot < 0.7:
        return _change_one(rng, values)
    place = rng.randrange(len(values))
    if lot < 0.8:
        del values[place]
    elif lot < 0.9:
        values.insert(place, values[rng.randrange(len(values))])
    else:
        rng.shuffle(values)
    return values


def _change_fields(rng: Random, value: Any) -> None:
    """Change a field of a packet, or of a part of one."""
    slots = (name for name in type(value).__slots__ if name not in _OWN)
    names = list(_FIELDS.get(type(value), slots))
    if isinstance(value, DataPacket) and value.vector is None:
        names += ["vector"]
    name = rng.choice(names)
    old = getattr(value, name)
    if old is None and name in ("vector", "agreed") and isinstance(value, DataPacket):
        value.vector = tuple(draw_number(rng, value.number) for _ in range(rng.randint(1, 3)))
        value.agreed = Stamp(draw_number(rng, value.time), rng.randrange(3))
    else:
        setattr(value, name, change(rng, old))


# ---- packets with encodings of their own ----


def _change_bundle(rng: Random, bundle: Bundle) -> Bundle:
    """Return a bundle with another sender, or another body."""
    name = rng.choice(_OF_BUNDLES)
    if name in _OF_SENDERS:
        sender: dict[str, Any] = {part: getattr(bundle, part) for part in _OF_SENDERS}
        sender[name] = change(rng, sender[name])
        bundle.address(**sender)
        return bundle
    fields: dict[str, Any] = {
        "kind": bundle.kind,
        "level": bundle.level,
        "flags": bundle.flags,
        "message": bundle.message,
        "groups": bundle.groups,
        "payload": bytes(body_payload(bundle.body)),
        "index": bundle.index,
        "count": bundle.count,
    }
    small = name in _SMALL
    fields[name] = rng.randrange(11) if small else change(rng, fields[name])
    changed = decode_body_untrusted(encode_body(**fields))
    changed.address(bundle.session, bundle.user, bundle.targets)
    return changed


def _change_control(rng: Random, packet: ControlPacket) -> ControlPacket:
    """Return a control packet with another head, or with another message in it."""
    if packet.parts == 1 and rng.random() < 0.8:
        tree = msgspec.msgpack.decode(packet.payload)
        packet.payload = msgspec.msgpack.encode(change_deep(rng, tree))
        return packet
    name = rng.choice(("origin", "restarts", "random_id", "sequence", "kind", "part", "parts"))
    if name in ("restarts", "random_id"):
        packet.incarnation = attrs.evolve(
            packet.incarnation, **{name: draw_number(rng, getattr(packet.incarnation, name))}
        )
    elif name == "kind":
        packet.kind = rng.randrange(9)
    else:
        setattr(packet, name, draw_number(rng, getattr(packet, name)))
    return packet


def change_deep(rng: Random, tree: Any) -> Any:
    """Change a list of lists, at any depth; fields that hold nothing are left."""
    if isinstance(tree, list):
        return _change_list(rng, tree)
    return tree if tree is None else change(rng, tree)


_NEAR: Final = (0, 0, 1, 1, 1, 2, 3, 10)


class Forger:
    """A maker of forged packets for one liar."""

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
        """Return bundles that a daemon has sent before."""
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
        if operation.view.reports_deliverable:
            held.append(operation.deliverable.own)
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
            deliverable=self._deliverable(operation),
        ).encode(operation.key)

    def _deliverable(self, operation: ViewState) -> int | None:
        if not operation.view.reports_deliverable:
            return None
        return operation.deliverable.own + self._near()

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
