"""A link finds the largest packets that pass; larger ones go in fragments."""

from collections import Counter
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.config.view import SAFE_PACKET_BYTES
from groupcomm.errors import BadDatagram
from groupcomm.link.path_mtu import (
    BLACK_HOLE,
    CLOSE_BYTES,
    MAX_UNFINISHED,
    PROBES,
    RAISE_S,
    PathMtu,
    Reassembly,
    cut,
)
from groupcomm.wire.link import LINK_BYTES, LINK_FRAGMENT_BYTES, LinkFragment, LinkPacket
from groupcomm.wire.packet import HEAD_BYTES, PacketKind
from tests.groupcomm.link.pair import KEY, Pair, Wire, packet

MOST = 1340 + LINK_BYTES
ROUND_TRIP_S = 0.1


def search(path: PathMtu, passes: int, now: float) -> float:
    """Answer probes as a way does that packets of up to `passes` bytes pass, until none comes."""
    while (size := path.pop_probe(now)) != 0:
        now += ROUND_TRIP_S
        path.arrived(1, now)
        if size <= passes:
            path.arrived(size, now)
        else:
            path.lost(size, now)
    return now


@given(most=st.integers(100, 60_000), passes=st.integers(SAFE_PACKET_BYTES, 60_000))
def test_the_largest_packet_that_passes_is_found_but_for_a_few_bytes(
    most: int, passes: int
) -> None:
    path = PathMtu(most)
    search(path, passes, 0.0)
    assert path.carries <= min(most, passes)
    assert path.carries >= min(most, passes - CLOSE_BYTES)
    assert path.is_narrow == (passes < path.carries or path.carries < most)


def test_a_size_rises_only_by_a_probe_that_has_arrived() -> None:
    path = PathMtu(MOST)
    assert path.carries == SAFE_PACKET_BYTES
    assert path.pop_probe(0.0) == MOST
    assert path.pop_probe(9.0) == 0, "one at a time"
    path.arrived(SAFE_PACKET_BYTES, 9.0)
    assert path.carries == SAFE_PACKET_BYTES
    path.arrived(MOST, 9.1)
    assert path.carries == MOST
    assert path.due == inf


def test_losses_on_a_link_that_is_down_tell_nothing() -> None:
    path = PathMtu(MOST)
    for now in range(10 * PROBES):
        assert path.pop_probe(now) == MOST
        assert path.lost(MOST, now), "a small packet shall show whether anything passes"
    assert not path.is_narrow
    assert not path.lost(SAFE_PACKET_BYTES, 99.0)


def test_a_way_that_becomes_narrower_is_noticed_by_what_it_swallows() -> None:
    path = PathMtu(MOST)
    search(path, MOST, 0.0)
    for _ in range(BLACK_HOLE):
        path.lost(MOST, 1.0)
    assert path.carries == MOST, "nothing at all has arrived since: it may be down"
    path.arrived(30, 1.1)
    path.lost(MOST, 1.2)
    assert path.carries == SAFE_PACKET_BYTES
    search(path, 1300, 1.2)
    assert path.is_narrow
    assert 1300 - CLOSE_BYTES <= path.carries <= 1300


def test_losses_with_arrivals_in_between_are_only_losses() -> None:
    path = PathMtu(MOST)
    search(path, MOST, 0.0)
    for turn in range(10 * BLACK_HOLE):
        path.lost(MOST, turn)
        path.arrived(30, turn)
        if turn % (BLACK_HOLE - 1) == 0:
            path.arrived(MOST, turn)
    assert path.carries == MOST


def test_a_way_that_was_narrow_is_tried_anew_after_a_while() -> None:
    path = PathMtu(MOST)
    now = search(path, 1200, 0.0)
    assert path.is_narrow
    assert path.due == now + RAISE_S
    search(path, MOST, path.due)
    assert path.carries == MOST
    assert not path.is_narrow


# ---- fragments ----


@given(size=st.integers(1, 60_000), order=st.randoms())
def test_fragments_make_the_packet_in_whatever_order_they_come(size: int, order: object) -> None:
    content = bytes(number % 251 for number in range(size))
    some = cut(content, 7, SAFE_PACKET_BYTES)
    assert all(len(piece.content) + LINK_FRAGMENT_BYTES <= SAFE_PACKET_BYTES for piece in some)
    order.shuffle(some)  # type: ignore[attr-defined]
    fragments = Reassembly()
    assert [whole for piece in some if (whole := fragments.accept(piece)) is not None] == [content]


def test_of_packets_that_never_become_whole_the_oldest_are_given_up() -> None:
    fragments = Reassembly()
    for whole in range(MAX_UNFINISHED + 1):
        assert fragments.accept(LinkFragment(whole, 0, 2, b"a")) is None
    assert fragments.accept(LinkFragment(0, 1, 2, b"b")) is None
    assert fragments.accept(LinkFragment(MAX_UNFINISHED, 1, 2, b"b")) == b"ab"


def test_fragments_that_make_no_packet_are_refused() -> None:
    pair = Pair(Wire(0.02))
    token = bytes((PacketKind.TOKEN,)) + b"pretended"
    with pytest.raises(BadDatagram, match="kind"):
        pair.ends[0].on_packet(
            LinkPacket(sender=1, number=1, fragment=LinkFragment(1, 0, 1, token)), 0.0
        )


# ---- links ----


def body(number: int) -> bytes:
    return packet(number.to_bytes(8, "big") + bytes(1300))


def narrow(largest: int, loss: float = 0.0) -> Pair:
    """A way on which longer packets are lost in silence."""
    return Pair(Wire(0.02, loss=loss, loses=lambda raw: len(raw) > largest), known=False)


@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_packets_that_are_too_large_for_the_way_arrive_whole(loss: float) -> None:
    pair = narrow(SAFE_PACKET_BYTES, loss)
    for number in range(1, 301):
        pair.ends[0].send(0, number, body(number))
    pair.run(20.0)
    assert Counter(pair.texts()) == Counter(body(n)[HEAD_BYTES:] for n in range(1, 301))
    assert pair.ends[0].path.is_narrow
    assert pair.ends[0].in_flight.bytes == 0
    assert pair.ends[0].deadline > pair.now + 1.0, "it tries again after a while only"


def test_a_link_that_carries_all_cuts_only_until_it_knows() -> None:
    pair = narrow(10_000)
    pair.run(1.0)
    for number in range(1, 101):
        pair.ends[0].send(0, number, body(number))
    before = len(pair.wires[0].sent)
    pair.run(2.0)
    assert len(pair.got) == 100
    assert len(pair.wires[0].sent) == before + 100
    assert not pair.ends[0].path.is_narrow
    assert pair.ends[0].deadline == inf, "a link that has nothing to do is silent"


def test_a_way_that_becomes_narrow_swallows_packets_only_for_a_moment() -> None:
    pair = narrow(10_000)
    pair.run(1.0)
    pair.wires[0].loses = lambda raw: len(raw) > 1250
    for number in range(1, 101):
        pair.ends[0].send(0, number, body(number))
    pair.run(3.0)
    assert len(pair.got) == 100
    pair.run(20.0)
    assert pair.ends[0].path.is_narrow
    assert 1250 - CLOSE_BYTES <= pair.ends[0].path.carries <= 1250
    assert len(body(1)) + LINK_BYTES > 1250
    assert KEY in pair.got[0][1], "the view's key is in its place again"


def test_an_unreliable_packet_in_fragments_comes_whole_or_not_at_all() -> None:
    pair = narrow(SAFE_PACKET_BYTES, 0.2)
    for number in range(100):
        pair.ends[0].send(0, 0, packet(bytes([number]) * 1300, PacketKind.UNRELIABLE))
    pair.run(10.0)
    assert 30 < len(pair.got) < 100
    assert all(len(set(text)) == 1 and len(text) == 1300 for text in pair.texts())
