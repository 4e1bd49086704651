"""Packets of every kind for tests: how to draw them, and one plain example of each."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final, Protocol

import attrs
from hypothesis import strategies as st
from msgspec import structs

from groupcomm.clocks.stamp import Stamp
from groupcomm.config.view import MAX_RINGS, Incarnation
from groupcomm.level import ServiceLevel
from groupcomm.wire.bundle import (
    GIVES_UP,
    SELF_DISCARD,
    SENDS_ONLY,
    Bundle,
    BundleKind,
    decode_body_untrusted,
    decode_bundles_untrusted,
    encode_body,
    keys_bundle,
    report_bundle,
    roster_bundle,
    state_bundle,
    subscription_bundle,
)
from groupcomm.wire.columns import MOST_NUMBER, MOST_TIME, Far, far_columns
from groupcomm.wire.control import MAX_PARTS, ControlPacket, decode_control_untrusted
from groupcomm.wire.data import (
    DataPacket,
    HeadersPacket,
    UnreliablePacket,
    decode_data_untrusted,
    decode_headers_untrusted,
    decode_unreliable_untrusted,
)
from groupcomm.wire.hello import Hello, decode_hello_untrusted
from groupcomm.wire.horizon import HorizonNotice, HorizonPacket, decode_horizon_untrusted
from groupcomm.wire.link import (
    MAX_FRAGMENTS,
    Acknowledgement,
    LinkFragment,
    LinkPacket,
    ResendRequest,
    decode_ack_untrusted,
    decode_link_untrusted,
    decode_resend_untrusted,
)
from groupcomm.wire.messages import encode_fragment
from groupcomm.wire.packet import PacketKind
from groupcomm.wire.token import (
    HeldNotice,
    RestNotice,
    Row,
    Token,
    TokenRequest,
    decode_held_untrusted,
    decode_request_untrusted,
    decode_rest_untrusted,
    decode_token_untrusted,
)
from tests.groupcomm.wire.payloads import encode_messages

KEY: Final = bytes(range(16))
EDGES: Final = (2**31, 2**32, 2**63)
U16 = st.integers(0, 2**16 - 1)
U64 = st.one_of(
    st.integers(0, 2**64 - 1), *[st.integers(edge - 3, edge + 3) for edge in (*EDGES, 2**64 - 4)]
)
NAMES = st.sampled_from(["a", "news", "größe", "#ann#d1", "#bob#d2", "x" * 255, "a#b"])


def batched_pairs(numbers: list[int]) -> list[tuple[int, int]]:
    """Return each two numbers as a range; leave out the last of an odd count."""
    return list(zip(numbers[::2], numbers[1::2], strict=False))


class Packet(Protocol):
    """The methods of all packets."""

    def encode(self, key: bytes, /) -> bytes: ...


@attrs.frozen
class Codec:
    """One kind of packet: how to decode it, how to draw it, and a plain example."""

    kind: PacketKind
    decode: Callable[[bytes], Packet]
    packets: st.SearchStrategy[Packet] = attrs.field(repr=False)
    example: Packet = attrs.field(repr=False)


def fields(value: object) -> Any:
    """Everything that a packet says, comparable; not what the order notes in it."""
    if isinstance(value, list):
        return [fields(one) for one in value]
    slots = getattr(type(value), "__slots__", ())
    if not slots or isinstance(value, tuple):
        return value
    skipped = {"packet", "place", "raw", "__weakref__"}
    return {name: fields(getattr(value, name)) for name in slots if name not in skipped}


@st.composite
def fragments(draw: st.DrawFn) -> LinkFragment:
    parts = draw(st.integers(1, MAX_FRAGMENTS))
    part = draw(st.integers(0, parts - 1))
    return LinkFragment(draw(U64), part, parts, draw(st.binary(min_size=1, max_size=20)))


def horizon_notices() -> st.SearchStrategy[list[HorizonNotice]]:
    """Return notices by rising ring, each with its holdings by rising ring."""
    held = st.dictionaries(st.integers(0, 255), U64, max_size=4).map(
        lambda one: sorted(one.items())
    )
    notices = st.builds(HorizonNotice, ring=U16, horizon=U64, upto=U64, frontier=U64, held=held)
    ways = st.fixed_dictionaries({"targets": U64}) | st.fixed_dictionaries(
        {"shared": st.booleans()}
    )
    notices = st.tuples(notices, ways).map(lambda made: structs.replace(made[0], **made[1]))
    by_ring = st.lists(notices, min_size=1, max_size=5, unique_by=_place)
    return by_ring.map(lambda some: sorted(some, key=_place))


def _place(notice: HorizonNotice) -> tuple[int, bool]:
    return notice.ring, notice.shared


@st.composite
def bundles(draw: st.DrawFn, *, unreliable: bool = False) -> Bundle:
    """Any bundle of those that have a number, or of those that have none."""
    of_clients = [BundleKind.MESSAGES, BundleKind.FRAGMENT]
    kind = draw(st.sampled_from(of_clients if unreliable else list(BundleKind)))
    message = draw(st.integers(0, 2**64 - 10) | U64.map(lambda number: min(number, 2**64 - 10)))
    if kind == BundleKind.STATE:
        count = draw(st.integers(1, 2**32 - 1))
        index = draw(st.integers(0, count - 1))
        made = state_bundle(draw(st.binary(max_size=20)), index, count)
        made.address(0, "state", ())
        return made
    if kind == BundleKind.KEYS:
        return keys_bundle(draw(st.binary(max_size=20)))
    if kind == BundleKind.ROSTER:
        return roster_bundle(draw(st.binary(max_size=26)))
    if kind == BundleKind.REPORT:
        return report_bundle(draw(st.binary(max_size=20)))
    if kind == BundleKind.LINE:
        flags, line = draw(st.integers(0, GIVES_UP)), draw(st.binary(min_size=16, max_size=16))
        body = encode_body(kind, ServiceLevel.AGREED, flags, message, (), line)
        made = decode_body_untrusted(body)
        made.address(draw(U64), "u", ())
        return made
    if kind >= BundleKind.SUBSCRIBE:
        flags = draw(st.sampled_from([0, SENDS_ONLY])) if kind == BundleKind.SUBSCRIBE else 0
        private = ["#u#a"] if flags or kind != BundleKind.SUBSCRIBE else []
        names = st.sampled_from(["a", "news", "y" * 255, *private])
        return subscription_bundle(kind, draw(names), flags)
    if kind > BundleKind.FRAGMENT:
        name = draw(st.sampled_from(["a", "news", "y" * 255]))
        groups: tuple[str, ...] = (name,) if kind in (BundleKind.JOIN, BundleKind.LEAVE) else ()
        body = encode_body(kind, ServiceLevel.AGREED, 0, message, groups, b"")
    else:
        groups = tuple(draw(st.lists(NAMES, min_size=1, max_size=9)))
        reliable = [level for level in ServiceLevel if level]
        level = ServiceLevel.UNRELIABLE if unreliable else draw(st.sampled_from(reliable))
        flags = draw(st.sampled_from([0, SELF_DISCARD, 0xFF]))
        if kind == BundleKind.MESSAGES:
            items = [
                (type_, b"x" * type_)
                for type_ in draw(st.lists(st.integers(0, 9), min_size=1, max_size=9))
            ]
            payload, index, count = encode_messages(items), 0, len(items)
        else:
            payload = encode_fragment(7, 2**40, draw(st.binary(max_size=20)))
            count = draw(st.integers(1, 2**32 - 1))
            index = draw(st.integers(0, count - 1))
        body = encode_body(kind, level, flags, message, groups, payload, index, count)
    bundle = decode_body_untrusted(body)
    targets = tuple(draw(U64) for name in groups if name[0] == "#")
    bundle.address(draw(U64), draw(st.sampled_from(["u", "ä" * 100])), targets)
    return bundle


BUNDLES = st.lists(bundles(), min_size=1, max_size=4)
UNRELIABLE_BUNDLES = st.lists(bundles(unreliable=True), min_size=1, max_size=4)


def header_of(bundle: Bundle) -> Bundle:
    """Return another ring's decoding of a bundle that stays in its own."""
    (header,) = decode_bundles_untrusted(b"\0\1" + bundle.header(), 0, headers=True)
    return header


HEADERS = BUNDLES.map(
    lambda full: [header_of(one) for one in full if one.kind <= BundleKind.FRAGMENT]
).filter(bool)


@st.composite
def data_packets(draw: st.DrawFn, *, header: bool | None = None) -> DataPacket:
    """Any packet; `header` says whether it is to be one, None leaves it open."""
    withheld = draw(st.booleans()) if header is None else header
    bundles = draw(HEADERS if withheld else BUNDLES)
    number = draw(st.integers(1, 2**64 - 1) | U64.filter(bool))
    vector, agreed, reference = None, None, 0
    form = draw(st.sampled_from(["none", "full", "reference"]))
    if form == "full":
        vector = tuple(draw(st.lists(U64, max_size=MAX_RINGS)))
        agreed = Stamp(draw(U64), draw(U16))
    elif form == "reference" and number > 1:
        reference = draw(st.integers(1, number - 1))
    return DataPacket(
        ring=draw(U16),
        number=number,
        time=draw(U64),
        daemon=draw(U16),
        previous=draw(st.integers(0, number - 1)),
        bundles=bundles,
        vector=vector,
        agreed=agreed,
        reference=reference,
        local_only=not withheld and draw(st.booleans()),
        pruned=withheld,
    )


@st.composite
def header_packets(draw: st.DrawFn) -> HeadersPacket:
    packets = draw(st.lists(data_packets(header=True), min_size=1, max_size=3))
    ring = packets[0].ring
    for before, packet in pairwise(packets):
        packet.ring = ring
        packet.number = min(max(before.number + 1, packet.number), 2**64 - 1)
    numbers = [packet.number for packet in packets]
    return HeadersPacket(packets=packets[: len(set(numbers))], alone=draw(st.booleans()))


def example_headers() -> HeadersPacket:
    first, second = (decode_data_untrusted(example_header(n)) for n in (9, 11))
    return HeadersPacket(packets=[first, second])


def example_header(number: int) -> bytes:
    packet = example_data()
    packet.number = number
    packet.local_only = True
    packet.raw = packet.encode(KEY)
    return packet.header()


def ranges(ring: bool) -> st.SearchStrategy[Any]:
    """(first, last), with a ring in front if wanted."""
    pairs = st.tuples(U64, U64).map(lambda pair: (min(pair), max(pair)))
    return st.tuples(U16, pairs).map(lambda both: (both[0], *both[1])) if ring else pairs


@st.composite
def far_of(draw: st.DrawFn, ring: int, columns: int) -> Far:
    count = len(far_columns(ring, columns))
    first = draw(st.integers(0, max(0, count - 1)))
    return Far(first=first, told=draw(st.integers(0, count)), passes=draw(U16))


def as_told(row: Row, least: Row, ring: int, far: Far) -> Row:
    """Return what a token with these far columns tells of a row, if another one is the least."""

    def near(number: int, other: int, most: int) -> int:
        other = max(1, other)
        return min(other + number % (most + 1), 2**64 - 1)

    columns = len(row.held)
    told = {ring, columns - 1, *far.places(ring, columns)}
    held = [
        near(number, other, MOST_NUMBER) if place in told else 0
        for place, (number, other) in enumerate(zip(row.held, least.held, strict=True))
    ]
    return Row(frontier=near(row.frontier, least.frontier, MOST_TIME), sent=row.sent, held=held)


@st.composite
def tokens(draw: st.DrawFn) -> Token:
    rings = draw(st.integers(0, MAX_RINGS))
    held = st.lists(U64, min_size=rings, max_size=rings)
    rows = st.builds(Row, frontier=U64, sent=U64, held=held)
    table, ring, far = draw(st.lists(rows, min_size=1, max_size=3)), draw(U16), None
    if rings and draw(st.booleans()):
        ring %= rings
        far = draw(far_of(ring, rings))
        table = [as_told(row, table[0], ring, far) for row in table]
    return Token(
        ring=ring,
        hop=draw(U64),
        last=draw(U64),
        last_sender=draw(U16),
        clock=draw(U64),
        burst=draw(U64),
        rows=table,
        requests=draw(st.lists(ranges(ring=True), max_size=4)),
        wanted=draw(st.lists(U16, max_size=4)),
        far=far,
    )


def example_bundle(
    groups: tuple[str, ...] = ("g", "#ann#d1"), level: ServiceLevel = ServiceLevel.SAFE
) -> Bundle:
    payload = encode_messages([(3, b"hello"), (4, b"")])
    body = encode_body(BundleKind.MESSAGES, level, 0, 7, groups, payload, 0, 2)
    bundle = decode_body_untrusted(body)
    bundle.address(5, "bob", tuple(range(bundle.privates)))
    return bundle


def example_data() -> DataPacket:
    return DataPacket(
        ring=1,
        number=9,
        time=2**50,
        daemon=2,
        previous=8,
        bundles=[example_bundle(), example_bundle(("g",))],
        vector=(3, 4),
        agreed=Stamp(2**50 - 1, 1),
    )


def example_token() -> Token:
    rows = [Row(frontier=6, sent=7, held=[8, 9]), Row(frontier=2**50, sent=0, held=[1, 2])]
    return Token(
        ring=0,
        hop=5,
        last=9,
        last_sender=1,
        clock=2**50,
        burst=7,
        rows=rows,
        requests=[(0, 3, 4), (1, 5, 5)],
        wanted=[1, 0],
    )


@st.composite
def control_packets(draw: st.DrawFn) -> ControlPacket:
    parts = draw(st.integers(1, MAX_PARTS))
    return ControlPacket(
        origin=draw(U64),
        incarnation=Incarnation(draw(U64), draw(U64)),
        sequence=draw(U64),
        kind=draw(st.integers(0, 255)),
        part=draw(st.integers(0, parts - 1)),
        parts=parts,
        payload=draw(st.binary(max_size=40)),
    )


RISING = st.lists(U64.filter(bool), min_size=2, max_size=20, unique=True).map(
    lambda ends: batched_pairs(sorted(ends))
)


def decode_with_what_it_carries(raw: bytes) -> LinkPacket:
    """A link packet whose data packet decodes, too, as a daemon takes it."""
    carried = decode_link_untrusted(raw)
    decode_data_untrusted(carried.packet)
    return carried


U64_LISTS = st.lists(U64, min_size=1, max_size=9)

CODECS: Final = (
    Codec(PacketKind.DATA, decode_data_untrusted, data_packets(), example_data()),
    Codec(
        PacketKind.UNRELIABLE,
        decode_unreliable_untrusted,
        st.builds(UnreliablePacket, daemon=U16, counter=U64, bundles=UNRELIABLE_BUNDLES),
        UnreliablePacket(
            daemon=3, counter=4, bundles=[example_bundle(level=ServiceLevel.UNRELIABLE)]
        ),
    ),
    Codec(PacketKind.TOKEN, decode_token_untrusted, tokens(), example_token()),
    Codec(
        PacketKind.REST,
        decode_rest_untrusted,
        st.builds(
            RestNotice,
            ring=U16,
            hop=U64,
            holder=U16,
            last=U64,
            horizon=U64,
            frontiers=U64_LISTS,
            deliverable=st.none() | U64,
        ),
        RestNotice(ring=0, hop=5, holder=1, last=9, horizon=2**50, frontiers=[6, 7]),
    ),
    Codec(
        PacketKind.HELD,
        decode_held_untrusted,
        st.builds(HeldNotice, ring=U16, daemon=U16, held=U64, frontier=U64),
        HeldNotice(ring=0, daemon=1, held=9, frontier=6),
    ),
    Codec(
        PacketKind.REQUEST,
        decode_request_untrusted,
        st.builds(TokenRequest, ring=U16, daemon=U16, hop=U64),
        TokenRequest(ring=0, daemon=1, hop=5),
    ),
    Codec(
        PacketKind.HORIZON,
        decode_horizon_untrusted,
        st.builds(HorizonPacket, notices=horizon_notices()),
        HorizonPacket(
            notices=[
                HorizonNotice(
                    ring=0, horizon=2**50, upto=9, frontier=6, unsettled=False, held=[(1, 9)]
                ),
                HorizonNotice(ring=2, horizon=7, upto=0, frontier=0, unsettled=True, held=[]),
            ]
        ),
    ),
    Codec(
        PacketKind.RESEND,
        decode_resend_untrusted,
        st.builds(
            ResendRequest,
            ring=U16,
            asker=U16,
            ranges=st.lists(ranges(ring=False), min_size=1, max_size=9),
        ),
        ResendRequest(ring=1, asker=0, ranges=[(2, 3), (5, 5)]),
    ),
    Codec(
        PacketKind.LINK,
        decode_with_what_it_carries,
        st.builds(
            LinkPacket,
            sender=U16,
            number=U64.filter(bool),
            packet=data_packets().map(lambda packet: packet.encode(KEY)),
        ),
        LinkPacket(sender=1, number=2**32, packet=example_data().encode(KEY)),
    ),
    Codec(
        PacketKind.LINK,
        decode_link_untrusted,
        st.builds(LinkPacket, sender=U16, number=U64.filter(bool), fragment=fragments())
        | st.builds(LinkPacket, sender=U16, number=U64.filter(bool), zeros=st.integers(0, 99)),
        LinkPacket(sender=1, number=9, fragment=LinkFragment(2**63, 1, 3, b"c")),
    ),
    Codec(
        PacketKind.ACK,
        decode_ack_untrusted,
        st.builds(Acknowledgement, sender=U16, delay_us=st.integers(0, 2**32 - 1), ranges=RISING),
        Acknowledgement(sender=1, delay_us=5000, ranges=[(1, 1), (3, 2**32)]),
    ),
    Codec(
        PacketKind.HELLO,
        decode_hello_untrusted,
        st.builds(
            Hello,
            start=st.builds(Incarnation, U64, U64),
            asks=U64,
            answers=U64,
            counters=st.tuples(U64, U64, U64),
            seals=U16,
        ),
        Hello(start=Incarnation(3, 2**64 - 1), asks=1, answers=2**32, counters=(1, 0, 2**63)),
    ),
    Codec(PacketKind.HEADERS, decode_headers_untrusted, header_packets(), example_headers()),
    Codec(
        PacketKind.CONTROL,
        decode_control_untrusted,
        control_packets(),
        ControlPacket(
            origin=2**63,
            incarnation=Incarnation(3, 2**64 - 1),
            sequence=9,
            kind=2,
            part=1,
            parts=3,
            payload=b"payload",
        ),
    ),
)
