"""Segments: what is cut is joined, whatever the network does, and junk takes a bounded memory."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.security.layout import HEAD_BYTES
from groupcomm.sim.faults.paths import Forged
from groupcomm.wire.segments import (
    MAX_KEPT_BYTES,
    MAX_SEGMENTS,
    SEGMENT_HEAD_BYTES,
    TRAINS_OF_SOURCE,
    Cutter,
    Joiner,
    train_of,
)
from tests.verification.simulation.segments import SegmentedSends

SIZE = 1406


def datagram(size: int, counter: int = 1, start: int = 7, sender: int = 5) -> bytes:
    """Return a datagram with a whole head, and content that differs everywhere."""
    head = bytes((1, 1, 0, 0, 3)) + (9).to_bytes(8, "big") + sender.to_bytes(8, "big")
    head += (2).to_bytes(8, "big") + start.to_bytes(8, "big") + counter.to_bytes(8, "big")
    assert len(head) == HEAD_BYTES
    return head + Random(counter).randbytes(size - len(head))


def cut(whole: bytes, size: int = SIZE) -> list[bytes]:
    train = Cutter().cut(whole, size)
    return [train[at : at + size] for at in range(0, len(train), size)]


@given(st.integers(HEAD_BYTES, 65_507), st.integers(300, 9000), st.randoms())
def test_segments_are_joined_in_any_order(length: int, size: int, rng: Random) -> None:
    whole = datagram(length)
    segments = cut(whole, size)
    assert all(len(each) == size for each in segments[:-1])
    assert SEGMENT_HEAD_BYTES < len(segments[-1]) <= size
    rng.shuffle(segments)
    joiner = Joiner()
    found = [joiner.accept_untrusted("a", each, len(each)) for each in segments]
    assert found == [[]] * (len(segments) - 1) + [[whole]]
    assert joiner.kept_bytes == 0


def test_a_train_that_comes_as_one_buffer_is_joined_at_once() -> None:
    whole = datagram(60_000)
    train = Cutter().cut(whole, SIZE)
    joiner = Joiner()
    assert joiner.accept_untrusted("a", train, SIZE) == [whole]
    assert (joiner.joined, joiner.kept_bytes) == (1, 0)


@pytest.mark.parametrize("at", range(1, 5))
def test_buffers_may_hold_parts_of_several_trains(at: int) -> None:
    one, other = datagram(5 * (SIZE - SEGMENT_HEAD_BYTES)), datagram(60_000, counter=2)
    segments = cut(one) + cut(other)
    joiner = Joiner()
    first = joiner.accept_untrusted("a", b"".join(segments[:at]), SIZE)
    second = joiner.accept_untrusted("a", b"".join(segments[at:]), SIZE)
    assert first + second == [one, other]


def test_a_lost_segment_comes_with_the_same_datagram_again() -> None:
    segments = cut(datagram(9000))
    joiner = Joiner()
    assert not joiner.accept_untrusted("a", b"".join(segments[1:]), SIZE)
    assert joiner.accept_untrusted("a", b"".join(segments[:3]), SIZE) == [datagram(9000)]
    assert joiner.kept_bytes > 0, "the copies of others begin a train, which newer ones displace"


def test_copies_replace_nothing_and_complete_nothing() -> None:
    first, second, last = cut(datagram(3 * SIZE - 200))
    joiner = Joiner()
    forged = first[:-1] + bytes((first[-1] ^ 1,))
    for each in (first, forged, first, second, second):
        assert not joiner.accept_untrusted("a", each, len(each))
    assert joiner.accept_untrusted("a", last, len(last)) == [datagram(3 * SIZE - 200)]


@pytest.mark.parametrize(
    "other",
    [
        {"counter": 2},
        {"start": 8},
        {"sender": 6},
        {"size": 9200 - SIZE},
    ],
)
def test_segments_of_two_trains_are_never_mixed(other: dict[str, int]) -> None:
    one = cut(datagram(9200))
    two = cut(datagram(**({"size": 9200} | other)))
    joiner = Joiner()
    mixed = [*one[:2], *two[2:]]
    assert not joiner.accept_untrusted("a", b"".join(mixed), SIZE)
    assert not [each for each in mixed if joiner.accept_untrusted("a", each, len(each))]


def test_a_datagram_that_is_cut_in_another_way_is_another_train() -> None:
    whole = datagram(2831)
    one, two = cut(whole), cut(whole, 1216)
    assert len(one) == len(two)
    joiner = Joiner()
    for each in (one[2], two[0], one[1], two[1]):
        assert not joiner.accept_untrusted("a", each, len(each))
    assert joiner.accept_untrusted("a", two[2], len(two[2])) == [whole]


def test_trains_of_two_sources_are_never_mixed() -> None:
    segments = cut(datagram(9000))
    joiner = Joiner()
    assert not joiner.accept_untrusted("a", b"".join(segments[:3]), SIZE)
    assert not joiner.accept_untrusted("b", b"".join(segments[3:]), SIZE)
    assert joiner.accept_untrusted("a", b"".join(segments[3:]), SIZE) == [datagram(9000)]


def test_what_is_no_segment_is_counted() -> None:
    joiner = Joiner()
    good = cut(datagram(5000))[0]
    junk = [good[:SEGMENT_HEAD_BYTES], good[:5], b"\2", good[:2] + bytes((4, 4)) + good[4:]]
    for each in (*junk, b"\1" + good[1:]):
        assert not joiner.accept_untrusted("a", each, len(each))
    assert (joiner.junk, joiner.kept_bytes) == (len(junk) + 1, 0)


def test_a_train_never_gets_longer_than_a_datagram() -> None:
    joiner = Joiner()
    head = cut(datagram(5000))[0][:SEGMENT_HEAD_BYTES]
    for index in range(MAX_SEGMENTS - 1):
        segment = head[:2] + bytes((index, MAX_SEGMENTS)) + head[4:] + bytes(60_000)
        assert not joiner.accept_untrusted("a", segment, len(segment))
        assert joiner.kept_bytes < 2 * 65_507
    assert joiner.given_up == (MAX_SEGMENTS - 1) // 2


def test_the_simulator_knows_a_train_that_a_forged_segment_began_by_displacing_a_like_one() -> None:
    """Simulator seed 829 with segments: what both trains took was the same, so their exchange was
    not seen, and a datagram that the forged segment had spoiled counted as a valid one (D8).
    """
    sends = SegmentedSends()
    for counter in range(1, TRAINS_OF_SOURCE + 1):
        assert sends.join(cut(datagram(3000, counter))[0]) is None
    first, *others = cut(datagram(3000, TRAINS_OF_SOURCE + 1))
    kept = sends.joiner.kept_bytes
    assert sends.join(Forged(first[:-1] + bytes((first[-1] ^ 1,)))) is None
    assert (sends.joiner.kept_bytes, sends.joiner.given_up) == (kept, 1)
    assert [type(sends.join(each)) for each in others] == [type(None), Forged]


def test_the_simulator_forgets_a_forged_segment_with_its_train() -> None:
    sends = SegmentedSends()
    segments = cut(datagram(3000))
    sends.join(Forged(segments[0][:-1] + bytes((segments[0][-1] ^ 1,))))
    for counter in range(2, TRAINS_OF_SOURCE + 2):
        sends.join(cut(datagram(3000, counter))[0])
    joined = [sends.join(each) for each in segments]
    assert joined == [None, None, datagram(3000)]
    assert type(joined[-1]) is bytes


def test_each_source_has_so_many_trains_and_displaces_only_its_own() -> None:
    joiner = Joiner()
    first, *rest = cut(datagram(9000))
    assert not joiner.accept_untrusted("quiet", first, len(first))
    for counter in range(10 * TRAINS_OF_SOURCE):
        segment = cut(datagram(9000, counter))[0]
        assert not joiner.accept_untrusted("loud", segment, len(segment))
    assert joiner.given_up == 9 * TRAINS_OF_SOURCE
    assert joiner.kept_bytes < (TRAINS_OF_SOURCE + 1) * (SIZE + 300)
    assert joiner.accept_untrusted("quiet", b"".join(rest), SIZE) == [datagram(9000)]


@pytest.mark.parametrize("length", [SEGMENT_HEAD_BYTES + 1, 60_000])
def test_all_sources_together_take_so_much_memory(length: int) -> None:
    joiner, most = Joiner(), 0
    segment = cut(datagram(65_000), 61_000)[0][:length]
    for source in range(MAX_KEPT_BYTES // length // 4 if length < 100 else 600):
        assert not joiner.accept_untrusted(source, segment, len(segment))
        most = max(most, joiner.kept_bytes)
    assert most <= MAX_KEPT_BYTES
    assert joiner.given_up > 0


@given(st.lists(st.binary(max_size=80)), st.integers(1, 100))
def test_no_bytes_break_it(found: list[bytes], size: int) -> None:
    joiner = Joiner()
    for each in found:
        for data in (each, b"\2" + each):
            joiner.accept_untrusted(0, data, min(size, len(data)) or 1)


def test_all_segments_of_a_train_have_one_name() -> None:
    names = {train_of(each) for each in cut(datagram(60_000))}
    assert len(names) == 1
