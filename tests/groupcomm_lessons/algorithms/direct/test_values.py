"""Values and datagrams as bytes: what goes in comes out, and nothing else does."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.clocks.vector import VectorClock
from groupcomm.errors import BadDatagram, LocalProtocolError
from groupcomm_lessons.algorithms.direct.datagrams import (
    CODEC,
    Ack,
    Carried,
    Contact,
    Hello,
    decode_datagram_untrusted,
    decode_payload_untrusted,
    encode_datagram,
    encode_payload,
)
from groupcomm_lessons.algorithms.process import Message, Packet, Process
from tests.examples import examples
from tests.groupcomm_lessons.algorithms.direct.all import ALGORITHMS

HELLO = Hello("ann", 7, "Vector", ("ann", "bob"), (Contact("bob", "127.0.0.1:1", 2**64 - 1),))

keys = st.text(max_size=4) | st.tuples(st.text(max_size=4), st.integers(0, 9))
values = st.recursive(
    st.none() | st.integers(-(2**64) + 1, 2**64 - 1) | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(keys, inner, max_size=4)
    ),
    max_leaves=8,
)


@examples(10)
@given(values)
def test_what_is_encoded_decodes_to_the_same(value: Any) -> None:
    assert CODEC.decode_value_untrusted(CODEC.encode(value)) == value


@given(st.binary(max_size=60))
def test_any_bytes_are_a_value_that_encodes_back_or_are_refused(raw: bytes) -> None:
    try:
        value = CODEC.decode_value_untrusted(raw)
    except BadDatagram:
        return
    assert CODEC.encode(value) == raw


@given(st.binary(max_size=40), st.integers(0, 60))
def test_a_datagram_with_any_change_is_refused(noise: bytes, at: int) -> None:
    raw = encode_datagram(HELLO)
    assert decode_datagram_untrusted(raw) == HELLO
    changed = raw[:at] + noise + raw[at + len(noise) :]
    if changed != raw:
        with pytest.raises(BadDatagram):
            decode_datagram_untrusted(changed)


def test_a_vector_clock_stays_one() -> None:
    clock = VectorClock(("ann", "bob"))
    clock.tick("bob")
    found = decode_payload_untrusted(encode_payload(Carried(None, clock)))
    assert isinstance(found, Carried)
    assert isinstance(found.stamp, VectorClock)
    assert list(found.stamp.items()) == [("ann", 0), ("bob", 1)]


@pytest.mark.parametrize("make", ALGORITHMS, ids=lambda make: make.__name__)
def test_the_stamps_of_every_algorithm_have_bytes(make: type[Process]) -> None:
    processes = {name: make(name, "pqr") for name in "pqr"}
    under_way: list[Packet] = []
    for name, process in processes.items():
        under_way += process.send(name.encode()).packets
        under_way += process.send(b"again").packets
    seen = 0
    while under_way:
        packet = under_way.pop(0)
        raw = encode_payload(Carried(packet.message, packet.stamp))
        found = decode_payload_untrusted(raw)
        assert isinstance(found, Carried)
        assert type(found.stamp) is type(packet.stamp)
        assert encode_payload(found) == raw
        seen += 1
        again = packet._replace(message=found.message, stamp=found.stamp)
        under_way += processes[packet.destination].receive(again).packets
    assert seen > 4


def test_what_is_no_stamp_has_no_bytes() -> None:
    with pytest.raises(LocalProtocolError, match="values of type float cannot be sent"):
        encode_payload(Carried(None, 0.5))
    with pytest.raises(LocalProtocolError, match="is too large for a stamp"):
        encode_payload(Carried(None, 2**64))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (Message("", 1, ("ann",), b""), "field"),  # a name is never empty
        (Message("ann", -1, ("ann",), b""), "field"),
        (Ack("ann", 1, 2, 3, (-1,)), "field"),
        (Hello("ann" * 30, 1, "Vector", (), ()), "field"),
    ],
)
def test_a_record_with_a_field_that_cannot_be_is_refused(value: Any, reason: str) -> None:
    with pytest.raises(BadDatagram) as caught:
        CODEC.decode_value_untrusted(CODEC.encode(value))
    assert caught.value.reason == reason


def test_a_datagram_is_no_payload_nor_the_other_way_round() -> None:
    with pytest.raises(BadDatagram, match="kind: Hello"):
        decode_payload_untrusted(CODEC.encode(HELLO))
    with pytest.raises(BadDatagram, match="mark"):
        decode_datagram_untrusted(b"hello")
