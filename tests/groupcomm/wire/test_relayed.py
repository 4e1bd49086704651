"""Packets that travel together: they come back, are few bytes, and no other bytes are accepted."""

import tracemalloc
import zlib
from collections.abc import Sequence
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.config.view import SAFE_PACKET_BYTES, Incarnation
from groupcomm.errors import BadDatagram
from groupcomm.wire.control import (
    MAX_PARTS,
    MOST_RELAYED,
    ControlPacket,
    cut_message,
    deflate_packets,
    inflate_packets_untrusted,
)
from tests.groupcomm.wire.packets import U64

PACKETS: Final = st.builds(
    ControlPacket,
    origin=U64,
    incarnation=st.builds(Incarnation, U64, U64),
    sequence=U64,
    kind=st.integers(0, 255),
    part=st.just(0),
    parts=st.integers(1, MAX_PARTS),
    payload=st.binary(max_size=60),
)


def packet(payload: bytes = b"payload") -> bytes:
    """Return a control packet with this payload."""
    (raw,) = cut_message(1, Incarnation(2, 3), 4, 5, payload, 2**16)
    return raw


def joined(packets: Sequence[bytes]) -> bytes:
    """Return packets behind their lengths, before they are deflated."""
    return b"".join(len(each).to_bytes(2) + each for each in packets)


def deflated(whole: bytes, level: int = 9) -> bytes:
    """Return bytes in the form in which packets travel, from another encoder than the core's."""
    return zlib.compress(whole, level, -zlib.MAX_WBITS)


HEAD: Final = len(packet(b""))


@given(packets=st.lists(PACKETS, max_size=6), level=st.integers(0, 9))
def test_packets_come_back_from_any_encoder(packets: list[ControlPacket], level: int) -> None:
    raw = [each.encode() for each in packets]
    for sent in (deflate_packets(raw), deflated(joined(raw), level)):
        found = inflate_packets_untrusted(sent)
        assert [each.raw for each in found] == raw
        assert [each.encode() for each in found] == raw


def test_packets_that_are_alike_take_little() -> None:
    raw = [packet(bytes(range(200)) + bytes((at,))) for at in range(20)]
    assert len(deflate_packets(raw)) < len(joined(raw)) / 5


def test_the_bytes_of_packets_together_have_a_bound_that_is_reached_and_not_passed() -> None:
    large = packet(bytes(2**16 - 1 - HEAD))
    rest = MOST_RELAYED - 3 * (2 + len(large)) - 2
    fitting = [large, large, large, packet(bytes(rest - HEAD))]
    assert len(joined(fitting)) == MOST_RELAYED
    assert [each.raw for each in inflate_packets_untrusted(deflate_packets(fitting))] == fitting
    excess = [large, large, large, packet(bytes(rest - HEAD + 1))]
    with pytest.raises(AssertionError, match="bytes of packets"):
        deflate_packets(excess)
    with pytest.raises(BadDatagram, match="too large together"):
        inflate_packets_untrusted(deflated(joined(excess)))


@pytest.mark.parametrize("byte", [b"\0", b"\1"])
def test_a_bomb_takes_little_memory(byte: bytes) -> None:
    """Its thirty-two megabytes fit into one control message."""
    bomb = deflated(byte * 2**25)
    assert len(bomb) <= MAX_PARTS * SAFE_PACKET_BYTES
    tracemalloc.start()
    with pytest.raises(BadDatagram, match="too large together"):
        inflate_packets_untrusted(bomb)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * MOST_RELAYED + 2 * len(bomb)


GOOD: Final = deflate_packets([packet(), packet(b"other")])


@pytest.mark.parametrize("cut", range(1, len(GOOD)))
def test_packets_that_end_early_are_refused(cut: int) -> None:
    with pytest.raises(BadDatagram) as caught:
        inflate_packets_untrusted(GOOD[:cut])
    assert caught.value.reason == "deflated"


@pytest.mark.parametrize("more", [b"\0", GOOD])
def test_bytes_behind_the_packets_are_refused(more: bytes) -> None:
    with pytest.raises(BadDatagram) as caught:
        inflate_packets_untrusted(GOOD + more)
    assert caught.value.reason == "deflated"


@pytest.mark.parametrize(
    ("whole", "reason"),
    [
        (joined([packet()]) + b"\0", "within a length"),
        (joined([packet()])[:-1], "within a packet"),
        (b"\xff\xff" + packet(), "within a packet"),
        (joined([packet()[:-8]]), "control packet of"),  # shorter than a head
        (joined([b""]), "control packet of 0 bytes"),
        (joined([packet(), b"\1" + packet()[1:]]), "control packet of"),  # of another kind
        (joined([packet()[: HEAD - 4] + bytes(4)]), "part 0 of 0"),
    ],
)
def test_what_is_no_row_of_control_packets_is_refused(whole: bytes, reason: str) -> None:
    with pytest.raises(BadDatagram, match=reason):
        inflate_packets_untrusted(deflated(whole))


@pytest.mark.parametrize("raw", [b"", b"\xff" * 20, zlib.compress(joined([packet()]))])
def test_what_is_no_raw_deflate_is_refused(raw: bytes) -> None:
    with pytest.raises(BadDatagram) as caught:
        inflate_packets_untrusted(raw)
    assert caught.value.reason == "deflated"
