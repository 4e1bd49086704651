"""Data and UNRELIABLE packets: numbers, causes, and counts of bundles at their limits."""

import struct
import tracemalloc

import pytest

from groupcomm.clocks.stamp import Stamp
from groupcomm.config.view import MAX_RINGS
from groupcomm.errors import BadDatagram
from groupcomm.level import ServiceLevel
from groupcomm.wire.bundle import Bundle, BundleKind, decode_body_untrusted, encode_body
from groupcomm.wire.data import (
    DataPacket,
    UnreliablePacket,
    data_overhead,
    decode_data_untrusted,
    decode_unreliable_untrusted,
)
from tests.groupcomm.wire.packets import EDGES, KEY, example_bundle, example_data
from tests.groupcomm.wire.payloads import encode_messages

NUMBER, PREVIOUS, FORM, VECTOR = 19, 37, 45, 46  # their offsets


def patched(packet: bytes, offset: int, field: str, value: int) -> bytes:
    raw = struct.pack("!" + field, value)
    return packet[:offset] + raw + packet[offset + len(raw) :]


def packet_with(bundle: Bundle) -> bytes:
    made = DataPacket(ring=0, number=1, time=1, daemon=0, previous=0, bundles=[bundle])
    return made.encode(KEY)


def packet(number: int, previous: int = 0, reference: int = 0) -> bytes:
    made = DataPacket(
        ring=0,
        number=number,
        time=number,
        daemon=0,
        previous=previous,
        bundles=[example_bundle()],
        reference=reference,
    )
    return made.encode(KEY)


def numberless() -> Bundle:
    return example_bundle(level=ServiceLevel.UNRELIABLE)


def refused(encoded: bytes) -> str:
    with pytest.raises(BadDatagram) as caught:
        decode_data_untrusted(encoded)
    return caught.value.reason


@pytest.mark.parametrize("rings", [0, 1, 2, MAX_RINGS])
def test_the_overhead_is_what_stands_before_the_records(rings: int) -> None:
    made = example_data()
    made.vector = (5,) * rings
    records = sum(bundle.size for bundle in made.bundles)
    assert len(made.encode(KEY)) == data_overhead(rings) + records


def test_decoding_keeps_the_packet_and_places_its_bundles() -> None:
    encoded = example_data().encode(KEY)
    decoded = decode_data_untrusted(encoded)
    assert decoded.raw is encoded
    assert [bundle.place for bundle in decoded.bundles] == [0, 1]
    assert all(bundle.packet is decoded for bundle in decoded.bundles)


@pytest.mark.parametrize("edge", [1, *EDGES, 2**64 - 2])
def test_a_packet_refers_only_to_earlier_ones(edge: int) -> None:
    """By value: a number beyond an edge is no earlier than one before it."""
    assert decode_data_untrusted(packet(edge + 1, edge)).previous == edge
    assert decode_data_untrusted(packet(edge + 1, 0, edge)).reference == edge
    assert refused(packet(edge, edge)) == "number"
    assert refused(packet(edge, edge + 1)) == "number"
    assert refused(packet(edge, 0, edge)) == "number"
    assert refused(packet(edge, 0, edge + 1)) == "number"
    assert refused(packet(0, edge)) == "number"


def test_there_is_no_packet_0_and_no_reference_to_it() -> None:
    assert refused(packet(0)) == "number"
    encoded = packet(5, 4, 3)
    assert refused(patched(encoded, VECTOR, "Q", 0)) == "number"


@pytest.mark.parametrize("form", [3, 4, 127, 128, 255])
def test_an_unknown_form_of_causes_is_refused(form: int) -> None:
    assert refused(patched(packet(1), FORM, "B", form)) == "kind"


@pytest.mark.parametrize("count", [0, MAX_RINGS])
def test_a_vector_has_at_most_one_number_a_ring(count: int) -> None:
    made = example_data()
    made.vector = (2**64 - 1,) * count
    decoded = decode_data_untrusted(made.encode(KEY))
    assert decoded.vector == made.vector
    assert decoded.agreed == Stamp(2**50 - 1, 1)


@pytest.mark.parametrize("count", [MAX_RINGS + 1, 2**15, 2**16 - 1])
def test_a_longer_vector_is_refused_even_if_all_of_it_is_there(count: int) -> None:
    encoded = example_data().encode(KEY)
    longer = patched(encoded, VECTOR, "H", count)[: VECTOR + 2] + bytes(8 * count + 10)
    assert refused(longer + encoded[VECTOR + 2 + 16 + 10 :]) == "count"


def unreliable(bundles: list[Bundle]) -> bytes:
    return UnreliablePacket(daemon=0, counter=1, bundles=bundles).encode(KEY)


def test_a_packet_has_a_bundle() -> None:
    made = example_data()
    made.bundles = []
    assert refused(made.encode(KEY)) == "count"
    with pytest.raises(BadDatagram, match="without bundles"):
        decode_unreliable_untrusted(unreliable([]))


COUNT = len(unreliable([])) - 2  # the place of the count of bundles in an UNRELIABLE packet
RECORD = COUNT + 2
USER_SIZE = RECORD + 12
TARGETS = USER_SIZE + 1 + len("bob")
BODY = TARGETS + 1 + 8
INDEX, MESSAGES, GROUPS = BODY + 11, BODY + 15, BODY + 19


@pytest.mark.parametrize(
    ("offset", "field", "values"),
    [
        (COUNT, "H", [0, 2, 2**15, 2**16 - 1]),
        (RECORD, "I", [0, 1, 2**31 - 1, 2**31, 2**32 - 5, 2**32 - 1]),
        (USER_SIZE, "B", [0, 2, 4, 255]),
        (TARGETS, "B", [0, 2, 255]),
        (INDEX, "I", [1, 2**31, 2**32 - 1]),
        (MESSAGES, "I", [0, 2**31 - 1, 2**31, 2**32 - 1]),
        (GROUPS, "H", [0, 1, 3, 2**15, 2**16 - 1]),
        (GROUPS + 2, "B", [0, 2, 7, 255]),
    ],
)
def test_every_count_in_a_record_is_checked(offset: int, field: str, values: list[int]) -> None:
    encoded = unreliable([numberless()])
    assert decode_unreliable_untrusted(encoded).encode(KEY) == encoded
    for value in values:
        with pytest.raises(BadDatagram):
            decode_unreliable_untrusted(patched(encoded, offset, field, value))


def test_counts_whose_sum_wraps_in_32_bits_are_refused() -> None:
    """Two records whose lengths add up to the packet only modulo 2**32."""
    two = unreliable([numberless(), numberless()])
    size = numberless().size
    first = patched(two, RECORD, "I", 2**32 - 4)
    assert len(two) == RECORD + 2 * size
    for forged in (first, patched(first, RECORD + size, "I", 2 * size)):
        with pytest.raises(BadDatagram):
            decode_unreliable_untrusted(forged)


def test_a_packet_holds_many_small_bundles() -> None:
    """Only the datagram's size limits them."""
    body = encode_body(BundleKind.MESSAGES, 0, 0, 0, ("g",), encode_messages([(0, b"")]))
    small = decode_body_untrusted(body)
    small.address(1, "u", ())
    many = unreliable([small] * 1000)
    assert len(decode_unreliable_untrusted(many).bundles) == 1000


def test_counts_that_lie_allocate_nothing() -> None:
    encoded = unreliable([numberless()])
    forged = [
        patched(encoded, COUNT, "H", 2**16 - 1),
        patched(encoded, RECORD, "I", 2**32 - 1),
        patched(encoded, MESSAGES, "I", 2**32 - 1),
    ]
    for one in forged:
        tracemalloc.start()
        with pytest.raises(BadDatagram):
            decode_unreliable_untrusted(one)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 10_000


def test_only_what_is_unreliable_goes_without_a_number_and_nothing_that_is_has_one() -> None:
    assert refused(packet_with(numberless())) == "bundle"
    with pytest.raises(BadDatagram, match="bundle"):
        decode_unreliable_untrusted(unreliable([example_bundle()]))
