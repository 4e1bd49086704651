"""Bundles: bodies and records survive the wire; nothing malformed gets through."""

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.errors import BadDatagram
from groupcomm.level import ServiceLevel
from groupcomm.wire import bundle as names
from groupcomm.wire.bundle import (
    BODY_HEAD_BYTES,
    Bundle,
    BundleKind,
    body_payload,
    control_bundle,
    decode_body_untrusted,
    decode_bundles_untrusted,
    encode_body,
    encode_bundles,
    state_bundle,
)
from tests.groupcomm.wire.packets import bundles, fields
from tests.groupcomm.wire.payloads import encode_messages


@given(sent=st.lists(bundles(), max_size=5), head=st.binary(max_size=9))
def test_records_come_back_whole_and_in_order(sent: list[Bundle], head: bytes) -> None:
    packet = encode_bundles(head, sent)
    got = decode_bundles_untrusted(packet, len(head))
    assert [fields(bundle) for bundle in got] == [fields(bundle) for bundle in sent]
    assert len(packet) == len(head) + 2 + sum(bundle.size for bundle in sent)
    assert all(bundle.size == sum(map(len, bundle.record())) for bundle in sent)
    assert all(bundle.packet is None and bundle.place == 0 for bundle in got)


@given(sent=st.lists(bundles(), min_size=1, max_size=3), data=st.data())
def test_a_packet_cut_or_lengthened_is_refused(sent: list[Bundle], data: st.DataObject) -> None:
    packet = encode_bundles(b"", sent)
    cut = data.draw(st.integers(0, len(packet) - 1))
    with pytest.raises(BadDatagram):
        decode_bundles_untrusted(packet[:cut], 0)
    with pytest.raises(BadDatagram):
        decode_bundles_untrusted(packet + b"\0", 0)


@given(sent=bundles(), data=st.data())
def test_a_changed_byte_gives_a_bundle_that_encodes_back_or_is_refused(
    sent: Bundle, data: st.DataObject
) -> None:
    packet = bytearray(encode_bundles(b"", [sent]))
    packet[data.draw(st.integers(0, len(packet) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(BadDatagram):
        assert encode_bundles(b"", decode_bundles_untrusted(bytes(packet), 0)) == packet


@given(data=st.binary(max_size=80))
def test_any_bytes_are_a_body_or_bad(data: bytes) -> None:
    with contextlib.suppress(BadDatagram):
        bundle = decode_body_untrusted(data)
        again = encode_body(
            bundle.kind,
            bundle.level,
            bundle.flags,
            bundle.message,
            bundle.groups,
            body_payload(data),
            bundle.index,
            bundle.count,
        )
        assert again == data
    with contextlib.suppress(BadDatagram):
        assert encode_bundles(b"", decode_bundles_untrusted(data, 0)) == data


@pytest.mark.parametrize("kind", [BundleKind.CONNECT, BundleKind.DISCONNECT])
def test_a_control_bundle_of_a_daemon_is_what_its_body_says(kind: BundleKind) -> None:
    made = control_bundle(kind)
    assert fields(made) == fields(decode_body_untrusted(made.body))
    assert (made.kind, made.level) == (kind, ServiceLevel.AGREED)


@given(payload=st.binary(max_size=50), count=st.integers(1, 2**32 - 1), data=st.data())
def test_a_part_of_an_announcement_is_what_its_body_says(
    payload: bytes, count: int, data: st.DataObject
) -> None:
    made = state_bundle(payload, data.draw(st.integers(0, count - 1)), count)
    assert fields(made) == fields(decode_body_untrusted(made.body))
    assert (made.kind, made.level) == (BundleKind.STATE, ServiceLevel.RELIABLE)
    assert body_payload(made.body) == payload


def raw_body(*head: int, groups: bytes = b"\1g", payload: bytes = bytes(6)) -> bytes:
    return struct.pack("!BBBQIIH", *head, len(groups)) + groups + payload


MESSAGES, FRAGMENT, CONNECT, JOIN, LEAVE, DISCONNECT, STATE = range(7)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "short"),
        (raw_body(MESSAGES, 4, 0, 1, 0, 1)[: BODY_HEAD_BYTES - 1], "short"),
        (raw_body(MESSAGES, 4, 0, 1, 0, 1)[: BODY_HEAD_BYTES + 1], "short"),
        (raw_body(7, 4, 0, 1, 0, 1), "bundle"),  # unknown kind
        (raw_body(MESSAGES, 6, 0, 1, 0, 1), "bundle"),  # unknown level
        (raw_body(MESSAGES, 4, 0, 1, 0, 0), "bundle"),  # no message
        (raw_body(MESSAGES, 4, 0, 1, 1, 2, payload=bytes(12)), "bundle"),  # a wrong index
        (raw_body(MESSAGES, 4, 0, 1, 0, 2), "bundle"),  # more messages than heads
        (raw_body(MESSAGES, 4, 0, 2**64 - 1, 0, 2, payload=bytes(12)), "bundle"),  # counter ends
        (raw_body(MESSAGES, 4, 0, 1, 0, 1, groups=b""), "bundle"),
        (raw_body(FRAGMENT, 4, 0, 1, 2, 2, payload=bytes(10)), "bundle"),
        (raw_body(FRAGMENT, 4, 0, 1, 0, 2, payload=bytes(9)), "short"),
        (raw_body(MESSAGES, 4, 0, 1, 0, 1, groups=b"\2g"), "short"),
        (raw_body(MESSAGES, 4, 0, 1, 0, 1, groups=b"\0"), "name"),
        (raw_body(MESSAGES, 4, 0, 1, 0, 1, groups=b"\1\xff"), "name"),
        (raw_body(MESSAGES, 4, 0, 1, 0, 1, groups=b"\1\n"), "name"),
        (raw_body(MESSAGES, 4, 0, 1, 0, 1, groups=b"\2#a"), "name"),
        (raw_body(MESSAGES, 4, 0, 1, 0, 1, groups=b"\1g" * 256), "bundle"),
        (raw_body(JOIN, 5, 0, 1, 0, 1, payload=b""), "bundle"),  # not AGREED
        (raw_body(JOIN, 4, 8, 1, 0, 1, payload=b""), "bundle"),  # with an unknown flag
        (raw_body(LEAVE, 4, 1, 1, 0, 1, payload=b""), "bundle"),
        (raw_body(JOIN, 4, 0, 1, 0, 2, payload=b""), "bundle"),  # a join of several groups
        (raw_body(JOIN, 4, 0, 1, 0, 1, payload=b"x"), "bundle"),
        (raw_body(JOIN, 4, 0, 1, 0, 1, groups=b"", payload=b""), "bundle"),
        (raw_body(LEAVE, 4, 0, 1, 0, 1, groups=b"\1g\1h", payload=b""), "bundle"),
        (raw_body(JOIN, 4, 0, 1, 0, 1, groups=b"\4#a#b", payload=b""), "bundle"),
        (raw_body(CONNECT, 4, 0, 1, 0, 1, payload=b""), "bundle"),  # with a group
        (raw_body(DISCONNECT, 4, 0, 1, 0, 1, payload=b""), "bundle"),
        (raw_body(STATE, 4, 0, 0, 0, 1, groups=b""), "bundle"),  # not RELIABLE
        (raw_body(STATE, 1, 1, 0, 0, 1, groups=b""), "bundle"),  # with a flag
        (raw_body(STATE, 1, 0, 1, 0, 1, groups=b""), "bundle"),  # with a number
        (raw_body(STATE, 1, 0, 0, 0, 1), "bundle"),  # to a group
        (raw_body(STATE, 1, 0, 0, 3, 3, groups=b""), "bundle"),  # a wrong index
    ],
)
def test_a_body_that_breaks_a_rule_is_refused(body: bytes, reason: str) -> None:
    with pytest.raises(BadDatagram) as caught:
        decode_body_untrusted(body)
    assert caught.value.reason == reason


def private_bundle() -> Bundle:
    payload = encode_messages([(0, b"hi")])
    body = encode_body(MESSAGES, 4, 0, 1, ("g", "#a#b"), payload)
    return decode_body_untrusted(body)


def test_each_private_name_has_a_target() -> None:
    bundle = private_bundle()
    assert bundle.privates == 1
    bundle.address(1, "u", (9,))
    assert decode_bundles_untrusted(encode_bundles(b"", [bundle]), 0)[0].targets == (9,)
    bundle.address(1, "u", ())
    with pytest.raises(BadDatagram, match="0 targets for 1 private"):
        decode_bundles_untrusted(encode_bundles(b"", [bundle]), 0)


@pytest.mark.parametrize("user", ["", "a#b", "a\x00"])
def test_a_record_with_a_bad_user_is_refused(user: str) -> None:
    bundle = private_bundle()
    bundle.address(1, user, (9,))
    with pytest.raises(BadDatagram, match="name"):
        decode_bundles_untrusted(encode_bundles(b"", [bundle]), 0)


def test_the_caches_of_names_are_bounded() -> None:
    payload = encode_messages([(0, b"")])
    for number in range(names._CACHED_NAMES + 10):
        body = encode_body(MESSAGES, 4, 0, 1, (f"g{number}",), payload)
        bundle = decode_body_untrusted(body)
        assert bundle.groups == (f"g{number}",)
        bundle.address(1, f"u{number}", ())
        assert decode_bundles_untrusted(encode_bundles(b"", [bundle]), 0)[0].user == f"u{number}"
    long = tuple("x" * 254 + chr(65 + index) for index in range(3))
    decode_body_untrusted(encode_body(MESSAGES, 4, 0, 1, long, payload))
    for cache in (names._groups_cache, names._encoded_cache, names._users_cache):
        assert 0 < len(cache) <= names._CACHED_NAMES
    assert long not in names._encoded_cache
    assert all(len(raw) <= names._CACHED_BYTES for raw in names._groups_cache)
