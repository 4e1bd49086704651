"""Test vectors of packets of views, and how all packets are read."""

from collections.abc import Callable
from typing import Any, Final

from msgspec import structs

from groupcomm.clocks.stamp import Stamp
from groupcomm.config.view import Incarnation
from groupcomm.errors import BadDatagram
from groupcomm.level import ServiceLevel
from groupcomm.wire.bundle import (
    Bundle,
    BundleKind,
    control_bundle,
    decode_body_untrusted,
    encode_body,
    state_bundle,
    subscription_bundle,
)
from groupcomm.wire.control import (
    decode_control_untrusted,
    inflate_packets_untrusted,
)
from groupcomm.wire.data import (
    DataPacket,
    HeadersPacket,
    UnreliablePacket,
    decode_data_untrusted,
    decode_headers_untrusted,
    decode_unreliable_untrusted,
)
from groupcomm.wire.eviction import EVICTION_BYTES, Eviction, decode_eviction_untrusted
from groupcomm.wire.hello import (
    INTRODUCTION_BYTES,
    Hello,
    Introduction,
    decode_hello_untrusted,
    decode_introduction_untrusted,
)
from groupcomm.wire.horizon import HorizonNotice, HorizonPacket, decode_horizon_untrusted
from groupcomm.wire.link import (
    Acknowledgement,
    LinkFragment,
    LinkPacket,
    ResendRequest,
    decode_ack_untrusted,
    decode_link_untrusted,
    decode_resend_untrusted,
)
from groupcomm.wire.membership import (
    ControlKind,
    Relayed,
    decode_message_untrusted,
    encode_message,
)
from groupcomm.wire.packet import PacketKind, peek_untrusted
from groupcomm.wire.token import (
    HeldNotice,
    TokenRequest,
    decode_held_untrusted,
    decode_request_untrusted,
    decode_rest_untrusted,
    decode_token_untrusted,
)
from tests.protocol.families import Example, Family, Fields, cut_and_lengthened
from tests.protocol.session_vectors import messages, read_body
from tests.protocol.token_examples import (
    COLUMNS_TOKEN,
    KEY,
    REST,
    TELLING_REST,
    TELLING_TOKEN,
    TIME,
    TOKEN,
)

DataLike = DataPacket | UnreliablePacket

# ---- packets of a view ----


def read_packet(raw: bytes) -> tuple[Fields, bytes]:
    """Read a packet; see Family."""
    kind, key = peek_untrusted(raw)
    reader = _READERS.get(kind)
    if reader is None:
        raise BadDatagram("kind", f"no packet of kind {kind}")
    fields, again = reader(raw, key)
    return {"packet": PacketKind(kind).name, "view": key} | fields, again


def _data(raw: bytes, key: bytes) -> tuple[Fields, bytes]:
    found = decode_data_untrusted(raw)
    return _fields_of_data(found), found.encode(key)


def _fields_of_data(found: DataPacket) -> Fields:
    names = ("ring", "number", "time", "daemon", "previous")
    fields: Fields = {name: getattr(found, name) for name in names}
    fields |= {"V": found.vector, "A": found.agreed, "reference": found.reference}
    flags = {"local_only": found.local_only, "header": found.pruned}
    fields |= flags | {"keeps": found.lingers, "asks": found.asks}
    fields["bundles"] = [_record(each, header=found.pruned) for each in found.bundles]
    return fields


def _record(bundle: Bundle, *, header: bool = False) -> Fields:
    fields: Fields = {"session": bundle.session, "user": bundle.user, "targets": bundle.targets}
    if not header:
        return fields | {"body": read_body(bytes(bundle.body))[0]}
    numbers = {name: getattr(bundle, name) for name in ("flags", "message", "index", "count")}
    kind, level = BundleKind(bundle.kind).name, ServiceLevel(bundle.level).name
    return fields | {"kind": kind, "level": level} | numbers


def _unreliable(raw: bytes, key: bytes) -> tuple[Fields, bytes]:
    found = decode_unreliable_untrusted(raw)
    bundles = [_record(each) for each in found.bundles]
    fields = {"daemon": found.daemon, "counter": found.counter, "bundles": bundles}
    return fields, found.encode(key)


def _headers(raw: bytes, key: bytes) -> tuple[Fields, bytes]:
    found = decode_headers_untrusted(raw)
    fields = {"headers": [_fields_of_data(each) for each in found.packets], "alone": found.alone}
    return fields, found.encode(key)


def _token(raw: bytes, key: bytes) -> tuple[Fields, bytes]:
    found = decode_token_untrusted(raw)
    names = ("ring", "hop", "last", "last_sender", "clock", "burst")
    fields: Fields = {name: getattr(found, name) for name in names}
    rows = [{"frontier": r.frontier, "sent": r.sent, "held": r.held} for r in found.rows]
    return fields | {
        "rows": rows,
        "requests": found.requests,
        "wanted": found.wanted,
        "far": None if found.far is None else list(structs.astuple(found.far)),
    }, found.encode(key)


def _simple(decode: Callable[[bytes], Any], *names: str) -> Callable[[bytes, bytes], Any]:
    """Return the reader of a packet whose attributes are named as in the document."""

    def read(raw: bytes, key: bytes) -> tuple[Fields, bytes]:
        found = decode(raw)
        return {name: getattr(found, name) for name in names}, found.encode(key)

    return read


def _horizon(raw: bytes, key: bytes) -> tuple[Fields, bytes]:
    found = decode_horizon_untrusted(raw)
    names = ("ring", "horizon", "upto", "frontier", "unsettled", "held", "targets", "shared")
    notices = [{name: getattr(each, name) for name in names} for each in found.notices]
    return {"notices": notices}, found.encode(key)


def _link(raw: bytes, key: bytes) -> tuple[Fields, bytes]:
    found = decode_link_untrusted(raw)
    fields: Fields = {"sender": found.sender, "number": found.number}
    if found.fragment is not None:
        part = found.fragment
        fields["fragment"] = {"whole": part.whole, "part": part.part, "parts": part.parts}
        fields["fragment"]["content"] = part.content
    elif found.packet:
        fields["carries"] = read_packet(found.packet)[0]
    else:
        fields["zeros"] = found.zeros
    return fields, found.encode(key)


def _control(raw: bytes, key: bytes) -> tuple[Fields, bytes]:
    found = decode_control_untrusted(raw)
    fields: Fields = {"origin": found.origin, "restarts": found.incarnation.restarts}
    fields |= {"random_id": found.incarnation.random_id, "sequence": found.sequence}
    fields |= {"part": found.part, "parts": found.parts}
    if found.parts == 1:
        message = decode_message_untrusted(found.kind, found.payload)
        fields |= {"message": ControlKind(found.kind).name, "fields": message}
        if isinstance(message, Relayed):
            inflated = inflate_packets_untrusted(message.deflated)
            fields["carries"] = [read_packet(each.raw)[0] for each in inflated]
        kind, found.payload = encode_message(message)
        assert kind == found.kind
    else:
        fields |= {"message": ControlKind(found.kind).name, "payload": found.payload}
    return fields, found.encode(key)


def _hello(raw: bytes, key: bytes) -> tuple[Fields, bytes]:
    if len(raw) == INTRODUCTION_BYTES:
        told, signature = decode_introduction_untrusted(raw)
        names = ("pair", "public", "wrap", "has", "known")
        fields = _fields_of_hello(told.hello) | {name: getattr(told, name) for name in names}
        return fields | {"for": told.wrapped_for, "signature": signature}, told.encode() + signature
    if len(raw) == EVICTION_BYTES:
        notice, signature = decode_eviction_untrusted(raw)
        start = {"restarts": notice.start.restarts, "random_id": notice.start.random_id}
        fields = start | {
            "public": notice.public,
            "roster": notice.roster,
            "removed": notice.removed,
        }
        return fields | {"signature": signature}, notice.encode() + signature
    found = decode_hello_untrusted(raw)
    return _fields_of_hello(found), found.encode(key)


def _fields_of_hello(found: Hello) -> Fields:
    ring, link, control = found.counters
    start = {"restarts": found.start.restarts, "random_id": found.start.random_id}
    counters = {"ring": ring, "link": link, "control": control}
    return (
        start | {"asks": found.asks, "answers": found.answers} | counters | {"seals": found.seals}
    )


_READERS: Final[dict[int, Callable[[bytes, bytes], tuple[Fields, bytes]]]] = {
    PacketKind.DATA: _data,
    PacketKind.UNRELIABLE: _unreliable,
    PacketKind.TOKEN: _token,
    PacketKind.REST: _simple(
        decode_rest_untrusted, "ring", "hop", "holder", "last", "horizon", "frontiers"
    ),
    PacketKind.REQUEST: _simple(decode_request_untrusted, "ring", "daemon", "hop"),
    PacketKind.HORIZON: _horizon,
    PacketKind.RESEND: _simple(decode_resend_untrusted, "ring", "asker", "ranges"),
    PacketKind.CONTROL: _control,
    PacketKind.LINK: _link,
    PacketKind.ACK: _simple(decode_ack_untrusted, "sender", "delay_us", "ranges"),
    PacketKind.HEADERS: _headers,
    PacketKind.HELLO: _hello,
    PacketKind.HELD: _simple(decode_held_untrusted, "ring", "daemon", "held", "frontier"),
}


def _addressed(bundle: Bundle, session: int, user: str, targets: tuple[int, ...] = ()) -> Bundle:
    bundle.address(session, user, targets)
    return bundle


def _message(level: ServiceLevel, groups: tuple[str, ...] = ("news",)) -> Bundle:
    payload = messages((3, b"hello"), (4, b""))
    body = encode_body(BundleKind.MESSAGES, level, 0, 7, groups, payload, 0, 2)
    targets = tuple(1002 for name in groups if name[0] == "#")
    return _addressed(decode_body_untrusted(body), 1001, "ann", targets)


def _numbered(number: int, *bundles: Bundle, **more: Any) -> DataPacket:
    packet = DataPacket(
        ring=1,
        number=number,
        time=TIME + number,
        daemon=2,
        previous=number - 2,
        bundles=list(bundles),
        **more,
    )
    packet.raw = packet.encode(KEY)
    return packet


def _header(number: int) -> bytes:
    return _numbered(number, _message(ServiceLevel.FIFO), local_only=True).header()


FIFO: Final = _numbered(9, _message(ServiceLevel.FIFO))
_FULL: Final = _numbered(
    11, _message(ServiceLevel.SAFE, ("news", "#bob#b")), vector=(3, 10), agreed=Stamp(TIME, 1)
)
_HELLO: Final = Hello(
    start=Incarnation(3, 2**64 - 1), asks=1, answers=2, counters=(10, 0, 5), seals=1
)
_CARRIED: Final = LinkPacket(sender=1, number=4, packet=FIFO.raw).encode(KEY)
_ACK: Final = Acknowledgement(sender=1, delay_us=5000, ranges=[(1, 1), (3, 2**32)]).encode(KEY)
_HORIZON: Final = HorizonPacket(
    notices=[
        HorizonNotice(ring=0, horizon=TIME, upto=9, frontier=6, unsettled=False, held=[(1, 9)]),
        HorizonNotice(ring=2, horizon=7, upto=0, frontier=0, unsettled=True, held=[]),
    ]
).encode(KEY)
_SOME: Final = HorizonPacket(
    notices=[
        HorizonNotice(
            ring=1,
            horizon=TIME,
            upto=9,
            frontier=6,
            unsettled=True,
            held=[(0, 9)],
            targets=0b10_0000_0001,
        ),
        HorizonNotice(ring=1, horizon=7, upto=0, frontier=0, unsettled=False, held=[], shared=True),
    ]
).encode(KEY)


PACKETS: Final = Family(
    file="packets",
    about="Packets of daemons, as they stand in a datagram before it is sealed.",
    read=read_packet,
    good=[
        Example("data", "One FIFO bundle with two messages.", FIFO.raw),
        Example(
            "data with causes in full",
            "A SAFE bundle, one of whose destinations is private.",
            _FULL.raw,
        ),
        Example(
            "data with causes by reference",
            "V and A are those of packet 11.",
            _numbered(13, _message(ServiceLevel.AGREED), reference=11).raw,
        ),
        Example(
            "data that asks for reports",
            "Its daemon keeps the token, and asks who holds it (forms 64 and 128).",
            _numbered(
                9,
                _message(ServiceLevel.SAFE),
                lingers=True,
                asks=True,
                vector=(8,),
                agreed=Stamp(0, 0),
            ).raw,
        ),
        Example(
            "data that stays in its ring",
            "Form 16.",
            _numbered(9, _message(ServiceLevel.RELIABLE), local_only=True).raw,
        ),
        Example("a header", "The same packet for other rings, form 32.", _header(9)),
        Example(
            "data of control bundles",
            "A CONNECT with its principal, a JOIN, a DISCONNECT.",
            _numbered(
                9,
                _addressed(control_bundle(BundleKind.CONNECT, "unix:ann"), 1001, "ann"),
                _addressed(
                    decode_body_untrusted(
                        encode_body(BundleKind.JOIN, ServiceLevel.AGREED, 0, 1, ("news",), b"")
                    ),
                    1001,
                    "ann",
                ),
                _addressed(control_bundle(BundleKind.DISCONNECT), 1000, "max"),
                vector=(0,),
                agreed=Stamp(0, 0),
            ).raw,
        ),
        Example(
            "data of daemons' own bundles",
            "A part of an announcement, and a subscription.",
            _numbered(
                9,
                _addressed(state_bundle(b"\x94\xc4\0\x90\0\x90", 0, 1), 0, "state"),
                subscription_bundle(BundleKind.SUBSCRIBE, "news"),
            ).raw,
        ),
        Example(
            "unreliable",
            "Outside of the streams.",
            UnreliablePacket(
                daemon=2, counter=4, bundles=[_message(ServiceLevel.UNRELIABLE)]
            ).encode(KEY),
        ),
        Example("token", "Of a ring of two daemons in a view of two rings.", TOKEN),
        Example(
            "token with columns",
            "The same with four numbers held: near columns 0 and 3, and both far ones, 2 first.",
            COLUMNS_TOKEN,
        ),
        Example(
            "token that tells what daemons can deliver",
            "The same in a view with LOCAL_SAFE: of packet 9 daemon 1 lacks what it follows.",
            TELLING_TOKEN,
        ),
        Example(
            "rest",
            "The token stays with daemon 1.",
            REST.encode(KEY),
        ),
        Example(
            "rest that tells what all can deliver",
            "The same in a view with LOCAL_SAFE.",
            TELLING_REST.encode(KEY),
        ),
        Example(
            "request",
            "Daemon 1 wants the token.",
            TokenRequest(ring=0, daemon=1, hop=5).encode(KEY),
        ),
        Example("horizon", "Notices of two rings.", _HORIZON),
        Example("horizon to some", "A notice to rings 0 and 9, and one by the shared tree.", _SOME),
        Example(
            "resend",
            "Two ranges are missing.",
            ResendRequest(ring=1, asker=0, ranges=[(2, 3), (5, 5)]).encode(KEY),
        ),
        Example("link", "The first packet of this list on its way over a link.", _CARRIED),
        Example(
            "link with a fragment",
            "The second of three parts.",
            LinkPacket(sender=1, number=9, fragment=LinkFragment(2, 1, 3, b"content")).encode(KEY),
        ),
        Example(
            "link with a probe", "20 zeros.", LinkPacket(sender=1, number=10, zeros=20).encode(KEY)
        ),
        Example("ack", "Two ranges have come.", _ACK),
        Example(
            "headers",
            "Two headers of one ring.",
            HeadersPacket(packets=[decode_data_untrusted(_header(n)) for n in (9, 11)]).encode(KEY),
        ),
        Example(
            "headers of local packets",
            "One header; its ring delivers it alone.",
            HeadersPacket(packets=[decode_data_untrusted(_header(9))], alone=True).encode(KEY),
        ),
        Example("hello", "A challenge that is an answer as well.", _HELLO.encode()),
        Example(
            "introduction",
            "A hello of suite 2. Wrap and signature are no real ones here.",
            Introduction(
                hello=_HELLO,
                view=KEY,
                pair=1,
                public=bytes(range(32)),
                wrapped_for=bytes(range(8)),
                wrap=bytes(range(88)),
                has=1,
                known=0,
            ).encode()
            + bytes(range(64)),
        ),
        Example(
            "eviction",
            "A notice that an identity is evicted; the signature is no real one.",
            Eviction(
                start=Incarnation(3, 9), public=bytes(range(32)), roster=4, removed=True
            ).encode()
            + bytes(range(64)),
        ),
        Example(
            "held",
            "Daemon 1 holds packets up to 9.",
            HeldNotice(ring=0, daemon=1, held=9, frontier=6).encode(KEY),
        ),
    ],
    bad=[
        Example("an unknown kind", "Kinds are 1 to 13.", b"\x0e" + KEY),
        Example("no head", "A kind and a key have 17 bytes.", b"\1" + KEY[:15]),
        *cut_and_lengthened("data", FIFO.raw),
        Example("data with form 3", "0, 1 or 2.", FIFO.raw[:45] + b"\3" + FIFO.raw[46:]),
        Example(
            "data that asks and keeps nothing",
            "128 comes with 64.",
            FIFO.raw[:45] + b"\x80" + FIFO.raw[46:],
        ),
        Example(
            "data with the number 0",
            "Streams begin with 1.",
            FIFO.raw[:19] + bytes(8) + FIFO.raw[27:],
        ),
        Example(
            "data that follows itself",
            "Previous is below the number.",
            FIFO.raw[:37] + FIFO.raw[19:27] + FIFO.raw[45:],
        ),
        Example("data without bundles", "At least one.", FIFO.raw[:46] + b"\0\0"),
        Example(
            "an UNRELIABLE bundle in a stream",
            "It has no place there.",
            _numbered(9, _message(ServiceLevel.UNRELIABLE)).raw,
        ),
        Example(
            "a RELIABLE bundle outside of the streams",
            "It would be lost.",
            UnreliablePacket(daemon=2, counter=4, bundles=[_message(ServiceLevel.RELIABLE)]).encode(
                KEY
            ),
        ),
        *cut_and_lengthened("token", TOKEN),
        *cut_and_lengthened("token with columns", COLUMNS_TOKEN),
        Example("a token without rows", "One for each daemon.", TOKEN[:53] + b"\0\2\0\0\0\0\0\0"),
        *cut_and_lengthened("horizon", _HORIZON),
        Example(
            "a range that falls",
            "First is not above last.",
            ResendRequest(ring=1, asker=0, ranges=[(3, 2)]).encode(KEY),
        ),
        Example("ranges that do not rise", "Each is above the one before.", _ACK[:-16] + bytes(16)),
        Example(
            "part 3 of 3",
            "Parts count from 0.",
            LinkPacket(sender=1, number=9, fragment=LinkFragment(2, 3, 3, b"c")).encode(KEY),
        ),
        *cut_and_lengthened("hello", _HELLO.encode()),
    ],
    given={"view key": KEY},
)
