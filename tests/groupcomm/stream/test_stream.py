"""Windows, ranges, gaps and packing of one stream."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from groupcomm.clocks.ring_clock import PhysicalClock, RingClock
from groupcomm.clocks.stamp import Stamp, ViewId
from groupcomm.config.view import DaemonId, Incarnation, View
from groupcomm.engine.backlog import Backlog
from groupcomm.level import ServiceLevel
from groupcomm.stream.packer import ROOM_RINGS, Packer, bundle_room
from groupcomm.stream.packet_size import PacketSize
from groupcomm.stream.ranges import merge_ranges, ranges_of
from groupcomm.stream.stream import MAX_AHEAD, MAX_GAPS, MAX_RANGES, Gaps, Stream
from groupcomm.wire.bundle import Bundle, BundleKind, decode_body_untrusted, encode_body
from groupcomm.wire.data import DataPacket
from tests.groupcomm.wire.payloads import encode_messages

BASES = (0, 2**31 - 3, 2**32 - 3, 2**63 - 3)
NO_CAUSES = ((0,), Stamp(0, 0))


def packet(number: int, time: int = 0) -> DataPacket:
    return DataPacket(
        ring=0, number=number, time=time or number, daemon=0, previous=number - 1, bundles=[]
    )


def bundle(level: ServiceLevel, size: int = 10) -> Bundle:
    payload = encode_messages([(0, bytes(size))])
    made = decode_body_untrusted(encode_body(BundleKind.MESSAGES, level, 0, 1, ("g",), payload))
    made.address(1, "u", ())
    return made


def packer(base: int = 0) -> tuple[Packer, Backlog]:
    view = View(id=ViewId(1, "a", 1), daemons=(DaemonId("a", Incarnation(1, 1)),), rings=((0,),))
    clock = RingClock(PhysicalClock(0.0, 0.0))
    waiting = Backlog()
    size = PacketSize(view.packet_limit)
    source = Packer(view, 0, clock, source=waiting, size=size, base=base, unreliable_base=base)
    return source, waiting


@given(st.permutations(range(1, 13)), st.sampled_from(BASES))
def test_a_stream_holds_what_came_in_whatever_order(order: list[int], base: int) -> None:
    stream = Stream(0, base)
    for count, number in enumerate(order, 1):
        assert stream.accept(packet(base + number))
        assert not stream.accept(packet(base + number)), "a copy changes nothing"
        came = set(order[:count])
        held = next(n for n in range(13) if n + 1 not in came)
        assert stream.held == base + held
        missing = {
            n for first, last in stream.missing(stream.known) for n in range(first, last + 1)
        }
        assert missing == {base + n for n in range(1, max(came)) if n not in came}


def test_a_stream_forgets_by_stamp_and_only_what_it_holds() -> None:
    stream = Stream(0, 0)
    for number in (1, 2, 4):
        stream.accept(packet(number, 10 * number))
    stream.forget(10)
    assert sorted(stream.packets) == [2, 4]
    stream.forget(1000)
    assert sorted(stream.packets) == [4], "3 is missing: nobody can have delivered 4"


def test_what_is_missing_is_bounded_in_ranges_and_in_reach() -> None:
    stream = Stream(0, 0)
    assert not stream.accept(packet(MAX_AHEAD + 1)), "beyond any window"
    for number in range(2, 1000, 2):
        stream.accept(packet(number))
    assert len(stream.missing(1000)) == MAX_RANGES
    lost = Stream(0, 0)
    lost.learn(2**63)
    assert lost.missing(2**63) == [(1, MAX_AHEAD)]


@given(st.sets(st.integers(1, 60)))
def test_ranges_hold_exactly_their_numbers(numbers: set[int]) -> None:
    ranges = ranges_of(numbers)
    assert {n for first, last in ranges for n in range(first, last + 1)} == numbers
    assert all(one[1] + 1 < two[0] for one, two in pairwise(ranges))
    assert merge_ranges(ranges + ranges) == ranges


def test_a_gap_is_asked_for_late_once_and_again_later() -> None:
    stream = Stream(1, 0)
    gaps = Gaps(stream, delay_s=0.01, retry_s=0.1)
    stream.accept(packet(3))
    gaps.update(1.0)
    assert gaps.pop_due(1.005) == []
    stream.accept(packet(1))
    gaps.update(1.006)
    assert gaps.pop_due(1.01) == [(2, 2)]
    assert gaps.pop_due(1.05) == []
    assert gaps.deadline == 1.01 + 0.1
    assert gaps.pop_due(1.2) == [(2, 2)]
    stream.accept(packet(2))
    gaps.update(1.3)
    assert gaps.deadline == float("inf")


def test_only_so_many_gaps_are_timed_at_once_and_the_rest_after_them() -> None:
    stream = Stream(1, 0)
    gaps = Gaps(stream, delay_s=0.01, retry_s=0.1)
    stream.learn(MAX_GAPS + 10)
    gaps.update(0.0)
    assert gaps.pop_due(0.01) == [(1, MAX_GAPS)]
    for number in range(1, MAX_GAPS + 1):
        stream.accept(packet(number))
    gaps.update(0.02)
    assert gaps.pop_due(0.03) == [(MAX_GAPS + 1, MAX_GAPS + 10)]


STEPS = st.lists(st.tuples(st.sets(st.integers(1, 30), max_size=5), st.floats(0.0, 0.05)))


@given(STEPS, st.sampled_from(BASES))
def test_what_is_missing_is_asked_for_in_time_and_nothing_else(
    steps: list[tuple[set[int], float]], base: int
) -> None:
    delay_s, retry_s, now = 0.01, 0.03, 0.0
    stream = Stream(1, base)
    gaps = Gaps(stream, delay_s=delay_s, retry_s=retry_s)
    due: dict[int, float] = {}
    for numbers, wait_s in steps:
        for number in numbers:
            stream.accept(packet(base + number))
        gaps.update(now)
        held = {number - base for number in stream.packets}
        due = {
            number: due.get(number, now + delay_s)
            for number in range(1, max(held, default=0))
            if number not in held
        }
        assert gaps.deadline == min(due.values(), default=float("inf"))
        now += wait_s
        asked = [n - base for first, last in gaps.pop_due(now) for n in range(first, last + 1)]
        assert asked == [number for number, time in due.items() if time <= now]
        due.update(dict.fromkeys(asked, now + retry_s))


LEVELS = st.sampled_from([level for level in ServiceLevel if level > ServiceLevel.UNRELIABLE])


@given(st.lists(st.tuples(LEVELS, st.integers(0, 1200)), max_size=20), st.integers(1, 5000))
def test_bundles_keep_their_order_fill_packets_and_stay_below_the_limit(
    wanted: list[tuple[ServiceLevel, int]], budget: int
) -> None:
    source, waiting = packer()
    given = [bundle(level, size) for level, size in wanted]
    waiting.extend(given)
    packets: list[DataPacket] = []
    while waiting:
        sent = source.fill(len(packets), budget, NO_CAUSES)
        assert sum(one.size for part in sent[:-1] for one in part.bundles) < budget
        packets += sent
    assert [one for part in packets for one in part.bundles] == given
    assert [part.number for part in packets] == [*range(1, len(packets) + 1)]
    assert all(len(part.raw) <= 1340 for part in packets)
    for part in packets:
        assert [(one.packet, one.place) for one in part.bundles] == [
            (part, place) for place in range(len(part.bundles))
        ]
        assert {ServiceLevel.AGREED, ServiceLevel.SAFE} - {one.level for one in part.bundles}


def test_packets_are_chained_stamped_and_hold_what_fits() -> None:
    source, waiting = packer(base=2**32 - 2)
    waiting.extend(bundle(ServiceLevel.AGREED, 500) for _ in range(4))
    packets = source.fill(2**32 - 2, 10_000, NO_CAUSES)
    assert [(one.number, one.previous) for one in packets] == [
        (2**32 - 1, 2**32 - 2),
        (2**32, 2**32 - 1),
    ]
    assert packets[0].time < packets[1].time
    assert [len(one.bundles) for one in packets] == [2, 2]
    assert all(len(one.raw) <= 1340 for one in packets)


def test_agreed_and_safe_travel_apart_and_others_with_either() -> None:
    source, waiting = packer()
    levels = [ServiceLevel(level) for level in (4, 2, 5, 3, 5, 1, 4)]
    waiting.extend(bundle(level) for level in levels)
    packets = source.fill(0, 10_000, NO_CAUSES)
    assert [[one.level for one in sent.bundles] for sent in packets] == [[4, 2], [5, 3, 5, 1], [4]]


def test_causes_are_said_once_and_referred_to_while_they_hold() -> None:
    source, waiting = packer()
    sent: list[DataPacket] = []
    for number, count in enumerate((1, 1, 2), 1):
        waiting.append(bundle(ServiceLevel.CAUSAL))
        sent += source.fill(number - 1, 10_000, ((count,), Stamp(1, 0)))
    assert [one.vector for one in sent] == [(1,), None, (2,)]
    assert [one.reference for one in sent] == [0, 1, 0]


def test_fifo_needs_no_causes() -> None:
    source, waiting = packer()
    waiting.append(bundle(ServiceLevel.FIFO))
    (sent,) = source.fill(0, 10_000, NO_CAUSES)
    assert (sent.vector, sent.reference) == (None, 0)


def test_a_token_visit_stops_at_its_budget() -> None:
    source, waiting = packer()
    waiting.extend(bundle(ServiceLevel.FIFO, 1000) for _ in range(10))
    assert len(source.fill(0, 2500, NO_CAUSES)) == 3
    assert waiting.size == 7


def test_unreliable_datagrams_are_counted_and_filled() -> None:
    source, _ = packer(base=2**63)
    packets = source.unreliable([bundle(ServiceLevel.UNRELIABLE, 500) for _ in range(3)])
    assert [one.counter for one in packets] == [2**63 + 1, 2**63 + 2]
    assert [len(one.bundles) for one in packets] == [2, 1]


def test_the_room_for_bundles_leaves_the_longest_head_of_a_view_of_some_rings() -> None:
    room = bundle_room(1340)
    for rings in (1, ROOM_RINGS, ROOM_RINGS + 2):
        head = DataPacket(
            ring=0,
            number=1,
            time=1,
            daemon=0,
            previous=0,
            bundles=[bundle(ServiceLevel.SAFE, room - bundle(ServiceLevel.SAFE, 0).size)],
            vector=(0,) * rings,
            agreed=Stamp(0, 0),
        )
        assert len(head.encode(bytes(16))) == 1340 + 8 * (rings - ROOM_RINGS)
