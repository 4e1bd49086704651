"""Properties of packets of every kind: they decode as encoded, and no others decode."""

import contextlib
from collections.abc import Iterable
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.errors import BadDatagram
from groupcomm.wire.packet import HEAD_BYTES, PacketKind, peek_untrusted
from tests.groupcomm.wire.packets import CODECS, KEY, Codec, fields

EDGES: Final = (0x00, 0x01, 0x02, 0x3F, 0x40, 0x7F, 0x80, 0x81, 0xFE, 0xFF)
"""Edge values of a byte: no and all bits, the sign, and continuations of variable lengths."""

each_codec = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.kind.name)


def test_there_is_a_codec_for_every_kind() -> None:
    assert {codec.kind for codec in CODECS} == set(PacketKind)


@each_codec
@given(data=st.data(), key=st.binary(min_size=16, max_size=16))
def test_a_packet_comes_back(codec: Codec, data: st.DataObject, key: bytes) -> None:
    packet = data.draw(codec.packets)
    encoded = packet.encode(key)
    assert peek_untrusted(encoded) == (codec.kind, key)
    decoded = codec.decode(encoded)
    assert fields(decoded) == fields(packet)
    assert decoded.encode(key) == encoded


def decodes_back_or_is_bad(codec: Codec, packet: bytes) -> None:
    """Only BadDatagram, or a value with this one encoding: no second form of any packet."""
    with contextlib.suppress(BadDatagram):
        assert codec.decode(packet).encode(packet[1:HEAD_BYTES]) == packet


@each_codec
@given(packet=st.binary(max_size=200))
def test_any_bytes_decode_back_or_are_bad(codec: Codec, packet: bytes) -> None:
    decodes_back_or_is_bad(codec, packet)
    decodes_back_or_is_bad(codec, bytes((codec.kind,)) + packet)


@each_codec
@given(data=st.data(), packet=st.data())
def test_a_mutated_packet_decodes_back_or_is_bad(
    codec: Codec, data: st.DataObject, packet: st.DataObject
) -> None:
    mutated = bytearray(packet.draw(codec.packets).encode(KEY))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(mutated)))
        end = data.draw(st.integers(start, min(len(mutated), start + 8)))
        mutated[start:end] = data.draw(
            st.binary(min_size=end - start, max_size=end - start)
            | st.binary(max_size=8)
            | st.sampled_from([b"\0" * (end - start), b"\xff" * (end - start)])
        )
    decodes_back_or_is_bad(codec, bytes(mutated))


def each_byte_replaced(codec: Codec, values: Iterable[int]) -> None:
    """Have each byte of the example, behind the head, take each of these values instead."""
    example = codec.example.encode(KEY)
    for at in range(HEAD_BYTES, len(example)):
        for value in values:
            decodes_back_or_is_bad(codec, b"%b%c%b" % (example[:at], value, example[at + 1 :]))


@each_codec
def test_each_byte_of_an_example_may_take_values_at_the_edges(codec: Codec) -> None:
    each_byte_replaced(codec, EDGES)


@pytest.mark.long
@each_codec
def test_each_byte_of_an_example_may_take_any_value(codec: Codec) -> None:
    each_byte_replaced(codec, range(256))


@each_codec
def test_every_truncation_is_refused(codec: Codec) -> None:
    example = codec.example.encode(KEY)
    shortest = len(example) - len(b"payload") if codec.kind is PacketKind.CONTROL else len(example)
    for size in range(shortest):
        with pytest.raises(BadDatagram):
            codec.decode(example[:size])


def is_open_ended(codec: Codec) -> bool:
    """Return whether more bytes at the end belong to its contents."""
    return codec.kind is PacketKind.CONTROL or getattr(codec.example, "fragment", None) is not None


@each_codec
def test_trailing_bytes_are_refused(codec: Codec) -> None:
    example = codec.example.encode(KEY)
    for more in (b"\0", b"\xff", bytes(8), example, bytes(70_000)):
        if is_open_ended(codec):
            assert codec.decode(example + more).encode(KEY) == example + more
        else:
            with pytest.raises(BadDatagram):
                codec.decode(example + more)


@each_codec
def test_a_packet_of_another_kind_is_refused(codec: Codec) -> None:
    for other in CODECS:
        example = other.example.encode(KEY)
        for kind in {0, 9, 255, other.kind} - {codec.kind}:
            with pytest.raises(BadDatagram):
                codec.decode(bytes((kind,)) + example[1:])


@pytest.mark.parametrize("size", range(HEAD_BYTES))
def test_a_packet_without_kind_and_key_is_refused(size: int) -> None:
    with pytest.raises(BadDatagram, match=f"short: a packet of {size} bytes"):
        peek_untrusted(bytes(size))


def test_any_kind_can_be_peeked() -> None:
    assert peek_untrusted(b"\xff" + KEY) == (255, KEY)
    assert peek_untrusted(b"\0" + KEY + b"rest") == (0, KEY)
