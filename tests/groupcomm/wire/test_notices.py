"""Tokens, notices and requests: every count at 0, at its limit and beyond."""

import contextlib
import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from groupcomm.config.view import MAX_DAEMONS, MAX_RINGS
from groupcomm.errors import BadDatagram
from groupcomm.wire.horizon import (
    MOST_NOTICES,
    HorizonNotice,
    HorizonPacket,
    add_targets,
    decode_horizon_untrusted,
    horizon_packet,
)
from groupcomm.wire.link import (
    LINK_BYTES,
    MAX_RESEND_RANGES,
    Acknowledgement,
    LinkPacket,
    ResendRequest,
    decode_ack_untrusted,
    decode_link_untrusted,
    decode_resend_untrusted,
)
from groupcomm.wire.link import MAX_ACK_RANGES as LINK_RANGES
from groupcomm.wire.packet import PacketKind
from groupcomm.wire.token import (
    MAX_REQUESTS,
    RestNotice,
    Row,
    Token,
    decode_rest_untrusted,
    decode_token_untrusted,
)
from tests.groupcomm.wire.packets import CODECS, EDGES, KEY, Codec, example_token, fields

U16_BEYOND = [2**15 - 1, 2**15, 2**16 - 1]


def row(rings: int) -> Row:
    return Row(frontier=1, sent=2, held=[3] * rings)


def token(rows: list[Row], requests: int = 0, wanted: int = 0) -> Token:
    made = example_token()
    made.rows = rows
    made.requests = [(0, number, number) for number in range(requests)]
    made.wanted = list(range(wanted))
    return made


@pytest.mark.parametrize(
    "made",
    [
        token([row(0)]),
        token([row(MAX_RINGS + 1)]),
        token([row(1)] * MAX_DAEMONS),
        token([row(1)], requests=MAX_REQUESTS),
        token([row(1)], wanted=MAX_DAEMONS),
    ],
    ids=[
        "no ring",
        "all rings, and what is deliverable",
        "all daemons",
        "all requests",
        "all want it",
    ],
)
def test_a_token_at_its_limits_comes_back(made: Token) -> None:
    assert fields(decode_token_untrusted(made.encode(KEY))) == fields(made)


COLUMNS = 2**15
"""The bit of columns: with it alone there is no ring."""


def beyond(rings: int, rows: int) -> bytes:
    """A token with these counts, and all the bytes that they ask for."""
    head = struct.pack("!B16sHQQHQQHH", PacketKind.TOKEN, KEY, 0, 1, 1, 0, 1, 0, rings, rows)
    return head + bytes(rows * (16 + 8 * rings)) + bytes(4)


@pytest.mark.parametrize(
    "encoded",
    [
        token([]).encode(KEY),
        *[beyond(rings, 1) for rings in (MAX_RINGS + 2, *U16_BEYOND) if rings != COLUMNS],
        *[beyond(0, rows) for rows in (MAX_DAEMONS + 1, *U16_BEYOND)],
        token([row(1)] * (MAX_DAEMONS + 1)).encode(KEY),
        token([row(1)], requests=MAX_REQUESTS + 1).encode(KEY),
        token([row(1)], wanted=MAX_DAEMONS + 1).encode(KEY),
    ],
)
def test_a_token_beyond_its_limits_is_refused_even_if_all_of_it_is_there(encoded: bytes) -> None:
    with pytest.raises(BadDatagram) as caught:
        decode_token_untrusted(encoded)
    assert caught.value.reason == "count"


@pytest.mark.parametrize("edge", EDGES)
def test_a_range_does_not_end_before_it_begins(edge: int) -> None:
    made = token([row(1)])
    made.requests = [(0, edge - 1, edge), (0, edge, edge), (0, 0, 2**64 - 1)]
    assert decode_token_untrusted(made.encode(KEY)).requests == made.requests
    made.requests = [(0, 1, 2), (0, edge, edge - 1)]
    with pytest.raises(BadDatagram, match="range"):
        decode_token_untrusted(made.encode(KEY))
    for ranges in ([(edge, edge - 1)], [(1, 2), (edge, 0)], []):
        with pytest.raises(BadDatagram, match="range"):
            decode_resend_untrusted(ResendRequest(ring=0, asker=1, ranges=ranges).encode(KEY))


def rest(frontiers: int) -> bytes:
    made = RestNotice(ring=0, hop=1, holder=0, last=1, horizon=1, frontiers=[9] * frontiers)
    return made.encode(KEY)


def test_a_rest_notice_has_one_frontier_a_daemon() -> None:
    for frontiers in (1, MAX_DAEMONS):
        assert decode_rest_untrusted(rest(frontiers)).frontiers == [9] * frontiers
    for frontiers in (0, MAX_DAEMONS + 1, 8000):
        with pytest.raises(BadDatagram, match="count"):
            decode_rest_untrusted(rest(frontiers))
    for frontiers in (2, MAX_DAEMONS, 2**15 + 1):
        with pytest.raises(BadDatagram, match="short"):
            decode_rest_untrusted(rest(1)[:-10] + struct.pack("!HQ", frontiers, 9))


def horizons(*notices: HorizonNotice) -> bytes:
    return HorizonPacket(notices=list(notices)).encode(KEY)


def promise(ring: int, held: list[tuple[int, int]]) -> HorizonNotice:
    return HorizonNotice(ring=ring, horizon=1, upto=0, frontier=0, unsettled=False, held=held)


def test_a_horizon_notice_tells_one_number_a_ring_at_most() -> None:
    empty = horizons(promise(0, []))
    for count in (0, 1, MAX_RINGS):
        held = [(ring, 2**64 - 1 - ring) for ring in range(count)]
        (notice,) = decode_horizon_untrusted(horizons(promise(0, held))).notices
        assert notice.held == held
        assert notice.held_of(MAX_RINGS - 1) == dict(held).get(MAX_RINGS - 1, 0)
    with pytest.raises(BadDatagram, match="count"):
        decode_horizon_untrusted(empty[:-1] + bytes((MAX_RINGS,)) + bytes(9 * MAX_RINGS - 1))
    for held in ([(1, 5), (1, 6)], [(2, 5), (1, 6)]):
        with pytest.raises(BadDatagram, match="range"):
            decode_horizon_untrusted(horizons(promise(0, held)))


def test_a_packet_has_notices_of_all_rings_at_most_and_one_of_each() -> None:
    for count in (1, MOST_NOTICES):
        packet = horizons(*(promise(ring, []) for ring in range(count)))
        assert [notice.ring for notice in decode_horizon_untrusted(packet).notices] == [
            *range(count)
        ]
    for count in (0, MOST_NOTICES + 1, 255):
        with pytest.raises(BadDatagram, match="count"):
            decode_horizon_untrusted(horizons(*(promise(ring, []) for ring in range(count))))
    for rings in ((1, 1), (2, 1)):
        with pytest.raises(BadDatagram, match="range"):
            decode_horizon_untrusted(horizons(*(promise(ring, []) for ring in rings)))


def test_of_one_ring_a_notice_of_the_shared_tree_follows_the_other_one() -> None:
    one, shared = promise(1, []), structs.replace(promise(1, []), shared=True)
    assert [n.shared for n in decode_horizon_untrusted(horizons(one, shared)).notices] == [0, 1]
    for wrong in ((shared, one), (shared, shared)):
        with pytest.raises(BadDatagram, match="range"):
            decode_horizon_untrusted(horizons(*wrong))


def addressed(targets: int) -> bytes:
    return structs.replace(promise(3, [(2, 7)]), targets=targets).encode()


@pytest.mark.parametrize("targets", [1, 2**7, 2**8, 2**63, 2**64 - 1, 2**100])
def test_a_notice_to_some_rings_comes_back(targets: int) -> None:
    (notice,) = decode_horizon_untrusted(horizon_packet(KEY, [addressed(targets)])).notices
    assert (notice.targets, notice.held, notice.shared) == (targets, [(2, 7)], False)


def test_the_rings_of_a_notice_have_one_form() -> None:
    whole = horizon_packet(KEY, [addressed(5)])
    at = len(whole) - 11
    assert whole[at : at + 2] == bytes((1, 5))
    for wrong in (b"\0", b"\1\0", b"\2\0\5", b"\xff\5"):
        with pytest.raises(BadDatagram, match="targets"):
            decode_horizon_untrusted(whole[:at] + wrong + whole[at + 2 :])
    with pytest.raises(BadDatagram, match="targets"):
        decode_horizon_untrusted(whole[:at])
    for flags in (6, 7, 8, 255):
        with pytest.raises(BadDatagram, match="flags"):
            decode_horizon_untrusted(whole[: at - 2] + bytes((flags,)) + whole[at - 1 :])


@given(one=st.integers(1, 2**64 - 1), other=st.integers(0, 2**64 - 1))
def test_targets_are_united(one: int, other: int) -> None:
    """Whoever was to get the older notice gets the newer one."""
    assert add_targets(addressed(one), addressed(other)) == addressed(other and one | other)


def test_a_resend_request_names_at_most_so_many_ranges_and_sends_no_more() -> None:
    made = ResendRequest(ring=0, asker=1, ranges=[(n, n) for n in range(MAX_RESEND_RANGES + 9)])
    encoded = made.encode(KEY)
    assert decode_resend_untrusted(encoded).ranges == made.ranges[:MAX_RESEND_RANGES]
    at = len(encoded) - 16 * MAX_RESEND_RANGES - 2
    for count in (MAX_RESEND_RANGES + 1, *U16_BEYOND):
        longer = encoded[:at] + struct.pack("!H", count) + bytes(16 * count)
        with pytest.raises(BadDatagram, match="count"):
            decode_resend_untrusted(longer)


def test_acknowledged_ranges_rise_and_the_last_ones_go_first() -> None:
    many = [(n, n) for n in range(1, 201, 2)]
    encoded = Acknowledgement(sender=0, delay_us=0, ranges=many).encode(KEY)
    assert decode_ack_untrusted(encoded).ranges == many[-LINK_RANGES:]
    for ranges in ([], [(0, 1)], [(2, 1)], [(1, 3), (3, 4)], [(5, 6), (1, 2)]):
        with pytest.raises(BadDatagram, match="range"):
            decode_ack_untrusted(Acknowledgement(sender=0, delay_us=0, ranges=ranges).encode(KEY))


def test_a_link_carries_numbered_data_and_nothing_else() -> None:
    for kind in PacketKind:
        packet = bytes([kind]) + KEY + b"rest"
        raw = LinkPacket(sender=1, number=1, packet=packet).encode(KEY)
        if kind in (PacketKind.DATA, PacketKind.UNRELIABLE, PacketKind.HEADERS):
            assert decode_link_untrusted(raw).packet == packet
            assert len(raw) == len(packet) + LINK_BYTES
        else:
            with pytest.raises(BadDatagram, match="kind"):
                decode_link_untrusted(raw)
    with pytest.raises(BadDatagram, match="number"):
        decode_link_untrusted(LinkPacket(sender=1, number=0, packet=b"\1" + KEY).encode(KEY))


WITH_COUNTS = [codec for codec in CODECS if codec.kind in {3, 4, 6, 7, 10, 11}]


@pytest.mark.parametrize("codec", WITH_COUNTS, ids=lambda codec: codec.kind.name)
def test_counts_that_lie_allocate_nothing(codec: Codec) -> None:
    """Whichever two bytes are the count: a packet of this size never needs 30 times its size."""
    example = codec.example.encode(KEY)
    tracemalloc.start()
    for at in range(17, len(example) - 1):
        forged = example[:at] + b"\xff\xff" + example[at + 2 :]
        # Other threads of the process may allocate meanwhile, so the least of some times counts.
        assert min(allocated(codec, forged) for _ in range(3)) < 30 * len(example)
    tracemalloc.stop()


def allocated(codec: Codec, packet: bytes) -> int:
    """Return the most bytes that decoding a packet takes at one time."""
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    with contextlib.suppress(BadDatagram):
        codec.decode(packet)
    _, peak = tracemalloc.get_traced_memory()
    return peak - before
