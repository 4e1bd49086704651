"""Heads and names of Spread's messages, byte by byte."""

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.errors import BadDatagram
from groupcomm.session.spread.layout import (
    HEAD_BYTES,
    REJECT,
    SERVICES,
    Head,
    decode_head_untrusted,
    decode_names,
    encode_head,
    encode_names,
)

NAMES = st.binary(min_size=1, max_size=31).filter(lambda name: b"\0" not in name)


def test_a_head_written_here_is_little_endian_and_says_so() -> None:
    head = encode_head(Head(SERVICES[4], b"#ann#a", 2, 0x1234, False, 300))
    assert head == (
        bytes((0x90, 0, 0, 0x80))
        + b"#ann#a".ljust(32, b"\0")
        + bytes((2, 0, 0, 0))
        + bytes((0x80, 0x34, 0x12, 0x80))
        + bytes((0x2C, 1, 0, 0))
    )


def test_the_hint_keeps_the_order_of_the_program() -> None:
    head = encode_head(Head(SERVICES[4], b"#ann#a", 2, 0x1234, True, 300))
    assert head[:4] == bytes((0x90, 0, 0, 0x80))
    assert head[40:44] == bytes((0, 0x12, 0x34, 0))


@given(
    kind=st.sampled_from([*SERVICES, REJECT]),
    name=NAMES,
    groups=st.integers(0, 100),
    tag=st.integers(0, 0xFFFF),
    big=st.booleans(),
    size=st.integers(0, 2**31 - 1),
)
def test_a_head_comes_back_as_it_was(
    kind: int, name: bytes, groups: int, tag: int, big: bool, size: int
) -> None:
    head = Head(kind, name, groups, tag, big, size)
    assert decode_head_untrusted(encode_head(head)) == head
    assert head.rest == 32 * groups + size + (4 if kind == REJECT else 0)


def test_a_big_endian_head_is_understood() -> None:
    raw = struct.pack(">I32siIi", 0x10, b"#ann#a", 1, 0x8000 << 8, 5)
    assert decode_head_untrusted(raw) == Head(0x10, b"#ann#a", 1, 0x8000, True, 5)


@pytest.mark.parametrize(
    ("at", "value", "reason"),
    [
        (0, b"\x10\0\0\x80", "order"),
        (0, b"\x90\0\0\0", "order"),
        (40, b"\x80\0\0\0", "order"),
        (40, b"\x81\0\0\x80", "hint"),
        (36, b"\xff\xff\xff\xff", "length"),
        (44, b"\xff\xff\xff\xff", "length"),
    ],
)
def test_a_head_that_breaks_the_layout_is_refused(at: int, value: bytes, reason: str) -> None:
    raw = bytearray(encode_head(Head(SERVICES[4], b"#ann#a", 2, 5, False, 300)))
    raw[at : at + 4] = value
    with pytest.raises(BadDatagram) as caught:
        decode_head_untrusted(bytes(raw))
    assert caught.value.reason == reason


@given(raw=st.binary(min_size=HEAD_BYTES - 1, max_size=HEAD_BYTES))
def test_any_bytes_are_a_head_or_bad(raw: bytes) -> None:
    with contextlib.suppress(BadDatagram):
        head = decode_head_untrusted(raw)
        assert decode_head_untrusted(encode_head(head)) == head


@given(names=st.lists(NAMES, max_size=5))
def test_names_come_back_from_their_fields(names: list[bytes]) -> None:
    assert decode_names(encode_names(names)) == names
