"""Payloads of bundles: what was packed comes out, and nothing else decodes."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.errors import BadDatagram
from groupcomm.wire.messages import (
    FRAGMENT_HEAD_BYTES,
    MESSAGE_HEAD_BYTES,
    decode_fragment_untrusted,
    encode_fragment,
)
from tests.groupcomm.wire.payloads import decode_messages, encode_messages

MESSAGES = st.lists(st.tuples(st.integers(0, 65535), st.binary(max_size=40)), min_size=1)


@given(messages=MESSAGES)
def test_messages_come_back_in_order(messages: list[tuple[int, bytes]]) -> None:
    payload = encode_messages(messages)
    assert decode_messages(payload, len(messages)) == messages
    data_bytes = sum(len(data) for _, data in messages)
    assert len(payload) == len(messages) * MESSAGE_HEAD_BYTES + data_bytes


@given(messages=MESSAGES, cut=st.integers(1, 8))
def test_a_shortened_or_lengthened_payload_is_refused(
    messages: list[tuple[int, bytes]], cut: int
) -> None:
    payload = encode_messages(messages)
    with pytest.raises(BadDatagram):
        decode_messages(payload[:-cut], len(messages))
    with pytest.raises(BadDatagram):
        decode_messages(payload + bytes(cut), len(messages))


def test_a_length_beyond_the_payload_allocates_nothing() -> None:
    payload = encode_messages([(1, b"abc")]).replace(b"\0\0\0\3", b"\xff\xff\xff\xff")
    with pytest.raises(BadDatagram):
        decode_messages(payload, 1)
    with pytest.raises(BadDatagram):
        decode_messages(b"", 2**32 - 1)


@given(kind=st.integers(0, 65535), part=st.binary(), more=st.integers(0, 2**63))
def test_a_fragment_comes_back(kind: int, part: bytes, more: int) -> None:
    payload = encode_fragment(kind, len(part) + more, part)
    assert len(payload) == FRAGMENT_HEAD_BYTES + len(part)
    assert decode_fragment_untrusted(payload) == (kind, len(part) + more, part)


def test_a_part_longer_than_its_message_is_refused() -> None:
    with pytest.raises(BadDatagram, match="part of 2 bytes"):
        decode_fragment_untrusted(encode_fragment(0, 1, b"ab"))


@given(payload=st.binary(max_size=60), count=st.integers(1, 2**32 - 1))
def test_any_bytes_decode_or_are_bad(payload: bytes, count: int) -> None:
    with contextlib.suppress(BadDatagram):
        messages = decode_messages(payload, count)
        assert encode_messages(messages) == payload
    with contextlib.suppress(BadDatagram):
        kind, total, part = decode_fragment_untrusted(payload)
        assert encode_fragment(kind, total, part) == payload
