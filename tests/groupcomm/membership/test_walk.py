"""The walk's decisions one by one, and against the model also where causes are as no daemon's are.

Whole histories with real orders are in core/test_ending.py.
"""

from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.clocks.stamp import Stamp
from groupcomm.level import ServiceLevel
from groupcomm.membership.recovered_set import RecoveryWalk, WalkLimits, find_boundary
from groupcomm.wire.data import DataPacket
from tests.groupcomm.membership import naive
from tests.groupcomm.membership.histories import bundle_of

RELIABLE, FIFO, CAUSAL, AGREED, SAFE = LEVELS = tuple(ServiceLevel)[1:]
RING_OF = (0, 1, 0)  # the ring of each daemon
NEVER = Stamp(0, 0)

Shape = tuple[int, list[tuple[int, ServiceLevel]], bool, float, tuple[float, float]]
"""Daemon; session and level of each bundle; whether it is held; how old A is, and V."""

SHAPES = st.tuples(
    st.integers(0, 2),
    st.lists(st.tuples(st.integers(0, 1), st.sampled_from(LEVELS)), min_size=1, max_size=3),
    st.sampled_from([True, True, True, False]),
    st.floats(0, 1),
    st.tuples(st.floats(0, 1), st.floats(0, 1)),
)


def packet(
    number: int,
    time: int,
    daemon: int,
    bundles: list[tuple[int, ServiceLevel]],
    *,
    previous: int = 0,
    vector: tuple[int, ...] | None = None,
    agreed: Stamp | None = None,
) -> DataPacket:
    """A packet; without a vector it has no causes."""
    causal = max(level for _, level in bundles) >= CAUSAL
    made = DataPacket(
        ring=RING_OF[daemon],
        number=number,
        time=time,
        daemon=daemon,
        previous=previous,
        bundles=[bundle_of(session, time, level) for session, level in bundles],
        vector=(vector or (0, 0)) if causal else None,
        agreed=(agreed or NEVER) if causal else None,
    )
    made.in_agreed_order = any(level >= AGREED for _, level in bundles)
    made.safe = any(level == SAFE for _, level in bundles)
    return made


def make_packets(shapes: list[Shape]) -> tuple[list[DataPacket], set[naive.Number]]:
    """Packets in stamp order with causes below them, and the numbers of those held.

    V reaches all of the agreed order up to A, as nobody delivers that without its packets.
    """
    packets: list[DataPacket] = []
    held: set[naive.Number] = set()
    last, previous = [0, 0], [0, 0, 0]
    for time, (daemon, bundles, here, age, ages) in enumerate(shapes, 1):
        ring = RING_OF[daemon]
        agreed = [Stamp(one.time, one.ring) for one in packets if one.in_agreed_order]
        done = agreed[int(age * len(agreed)) - 1] if age * len(agreed) >= 1 else NEVER
        least = [
            max(
                [
                    one.number
                    for one in packets
                    if one.ring == r and one.in_agreed_order and one.time <= done.time
                ],
                default=0,
            )
            for r in (0, 1)
        ]
        vector = tuple(max(least[r], int(ages[r] * last[r])) for r in (0, 1))
        last[ring] += 1
        packets.append(
            packet(
                last[ring],
                time,
                daemon,
                bundles,
                previous=previous[daemon],
                vector=vector,
                agreed=done,
            )
        )
        previous[daemon] = last[ring]
        if here:
            held.add((ring, last[ring]))
    return packets, held


def limits(held: Collection[naive.Number], fellows: Collection[int] = ()) -> WalkLimits:
    prefix = [next(n for n in range(len(held) + 1) if (ring, n + 1) not in held) for ring in (0, 1)]
    return WalkLimits([0, 0], prefix, 0, 0, frozenset(fellows), [0, 0])


def walk(
    packets: list[DataPacket], held: set[naive.Number], fellows: Collection[int]
) -> set[naive.Id]:
    walked = RecoveryWalk(limits(held, fellows), lambda _: None)
    kept = set()
    for one in packets:
        if (one.ring, one.number) in held:
            kept |= {(one.ring, one.number, one.bundles.index(b)) for b in walked.deliverable(one)}
    total = sum(len(one.bundles) for one in packets if (one.ring, one.number) in held)
    assert walked.dropped == total - len(kept)
    return kept


@given(st.lists(SHAPES, max_size=12), st.sets(st.integers(0, 2)))
def test_it_delivers_what_the_model_does(shapes: list[Shape], fellows: set[int]) -> None:
    packets, held = make_packets(shapes)
    known = {(one.ring, one.number): one for one in packets}
    assert walk(packets, held, fellows) == naive.walk(known, held, frozenset(fellows))


@given(st.lists(SHAPES, max_size=12), st.sets(st.integers(0, 2)), st.integers(0, 2))
def test_more_members_and_more_packets_never_cost_anything(
    shapes: list[Shape], fellows: set[int], more: int
) -> None:
    """Obligations then only widen the deliveries, and a later set drops nothing of a former."""
    packets, held = make_packets(shapes)
    kept = walk(packets, held, fellows)
    assert kept <= walk(packets, held, fellows | {more})
    assert kept <= walk(packets, {(one.ring, one.number) for one in packets}, fellows)


# ---- rule by rule ----

HELD = {(0, 1), (0, 2), (0, 3), (1, 1), (1, 2)}


def levels(kept: Collection[naive.Id], packets: list[DataPacket]) -> list[int]:
    """Levels of what was kept, in stamp order."""
    return [
        bundle.level
        for one in packets
        for place, bundle in enumerate(one.bundles)
        if (one.ring, one.number, place) in kept
    ]


def test_reliable_is_delivered_whatever_is_missing() -> None:
    """The rule: packets of members and RELIABLE ones are delivered."""
    lone = packet(3, 9, 0, [(1, RELIABLE), (1, FIFO), (1, AGREED)], previous=2, vector=(2, 5))
    assert levels(walk([lone], {(0, 3)}, ()), [lone]) == [RELIABLE]
    assert levels(walk([lone], {(0, 3)}, {0}), [lone]) == [RELIABLE, FIFO, AGREED]


def test_a_hole_in_its_daemons_chain_stops_a_packet_and_not_one_in_anothers() -> None:
    """The rule: the union holds its daemon's chain up to it."""
    first = packet(1, 1, 0, [(1, FIFO)])
    missing = packet(2, 2, 0, [(2, FIFO)], previous=1)
    after = packet(3, 3, 0, [(1, FIFO)], previous=2)
    other = packet(4, 4, 2, [(1, FIFO)])
    packets = [first, missing, after, other]
    kept = walk(packets, {(0, 1), (0, 3), (0, 4)}, ())
    assert kept == {(0, 1, 0), (0, 4, 0)}


@pytest.mark.parametrize("level", [FIFO, CAUSAL, AGREED, SAFE])
def test_after_a_drop_the_rest_of_its_session_is_dropped_and_no_other(level: ServiceLevel) -> None:
    """The rule: its session's earlier messages at FIFO or above are delivered."""
    dropped = packet(1, 1, 0, [(1, CAUSAL)], vector=(0, 7))
    later = packet(2, 2, 0, [(1, level), (2, level), (1, RELIABLE)], previous=1)
    kept = walk([dropped, later], HELD, ())
    assert kept == {(0, 2, 1), (0, 2, 2)}


@pytest.mark.parametrize("level", [CAUSAL, AGREED, SAFE])
def test_from_causal_up_all_up_to_v_is_held(level: ServiceLevel) -> None:
    """The rule: the union holds every packet up to V; FIFO does not ask for it."""
    one = packet(1, 5, 0, [(1, FIFO), (2, level)], vector=(0, 3))
    assert levels(walk([one], {(0, 1), (1, 1), (1, 2)}, ()), [one]) == [FIFO]
    assert levels(walk([one], {(0, 1), (1, 1), (1, 3)}, ()), [one]) == [FIFO]
    assert levels(walk([one], {(0, 1), (1, 1), (1, 2), (1, 3)}, ()), [one]) == [FIFO, level]


def test_from_causal_up_what_is_below_agreed_up_to_v_is_delivered() -> None:
    """The rule: those below AGREED among them are delivered; agreed ones go by A."""
    bad = packet(1, 1, 1, [(1, CAUSAL)], vector=(9, 0))
    cause = packet(2, 2, 1, [(1, FIFO), (2, FIFO)], previous=1)
    for reach, kept_levels in ((0, [CAUSAL]), (1, []), (2, [])):
        one = packet(1, 3, 0, [(1, CAUSAL)], vector=(0, reach))
        packets = [bad, cause, one]
        kept = walk(packets, {(0, 1), (1, 1), (1, 2)}, ())
        assert levels(kept - {(1, 2, 1)}, packets) == kept_levels


def test_from_causal_up_everything_agreed_up_to_a_is_delivered() -> None:
    """The rule: and so is everything agreed up to A."""
    dropped = packet(1, 4, 1, [(1, AGREED)], vector=(9, 0))
    for done, kept_levels in ((Stamp(3, 5), [CAUSAL]), (Stamp(4, 1), []), (Stamp(9, 0), [])):
        one = packet(1, 10, 0, [(1, CAUSAL)], agreed=done)
        assert levels(walk([dropped, one], {(0, 1), (1, 1)}, ()), [dropped, one]) == kept_levels


def test_what_everybody_has_forgotten_counts_as_held_and_delivered() -> None:
    one = packet(8, 9, 0, [(1, AGREED)], previous=7, vector=(7, 4), agreed=Stamp(5, 0))
    walked = RecoveryWalk(WalkLimits([7, 4], [8, 4], 0, 0, frozenset(), [0, 0]), lambda _: None)
    assert walked.deliverable(one) == one.bundles


def test_causes_by_reference_are_filled_in_only_where_they_matter() -> None:
    """A packet behind a hole may refer to one that is not here."""
    resolved: list[int] = []
    whole, cut = packet(1, 1, 0, [(1, FIFO)]), packet(5, 2, 0, [(1, CAUSAL)], previous=4)
    walked = RecoveryWalk(limits(HELD), lambda one: resolved.append(one.number))
    assert walked.deliverable(whole) == whole.bundles
    assert walked.deliverable(cut) == []
    assert resolved == [1]


# ---- the boundary ----


@pytest.mark.parametrize(
    ("horizon", "frontier", "expected"),
    [
        (0, 0, Stamp(2, 1)),
        (2, 0, Stamp(4, 0)),
        (2, 9, Stamp(4, 0)),
        (9, 4, Stamp(6, 0)),
        (9, 0, Stamp(6, 0)),
        (9, 6, None),
    ],
)
def test_the_boundary_is_the_first_that_is_not_known_to_be_next_or_safe(
    horizon: int, frontier: int, expected: Stamp | None
) -> None:
    packets = [
        packet(1, 1, 0, [(1, CAUSAL)]),
        packet(1, 2, 1, [(1, FIFO), (2, AGREED)]),
        packet(2, 4, 0, [(1, AGREED)], previous=1),
        packet(3, 6, 0, [(1, SAFE)], previous=2),
    ]
    held = WalkLimits([0, 0], [3, 1], horizon, frontier, frozenset(), [0, 0])
    assert find_boundary(packets, held) == expected
    assert find_boundary([], held) is None


@pytest.mark.parametrize(
    ("stays", "deliverable", "expected"),
    [
        (True, [2, 0], None),
        (True, [1, 0], Stamp(4, 0)),
        (True, [1, 2], Stamp(4, 0)),
        (False, [2, 0], Stamp(4, 0)),
    ],
)
def test_the_boundary_passes_what_stays_in_a_ring_all_of_which_can_deliver_it(
    stays: bool, deliverable: list[int], expected: Stamp | None
) -> None:
    packets = [packet(1, 2, 0, [(1, AGREED)]), packet(2, 4, 0, [(1, SAFE)], previous=1)]
    for form in ("local_only", "pruned"):
        setattr(packets[1], form, stays)
        held = WalkLimits([0, 0], [2, 0], 9, 0, frozenset(), deliverable)
        assert find_boundary(packets, held) == expected
        setattr(packets[1], form, False)


@given(st.lists(SHAPES, max_size=9), st.integers(0, 10), st.integers(0, 10))
def test_the_boundary_is_the_models(shapes: list[Shape], horizon: int, frontier: int) -> None:
    packets, _ = make_packets(shapes)
    known = {(one.ring, one.number): one for one in packets}
    held = WalkLimits([0, 0], [0, 0], horizon, frontier, frozenset(), [0, 0])
    assert find_boundary(packets, held) == naive.boundary(known, horizon, frontier)
