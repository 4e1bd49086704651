"""The recovered set against sets: the packets held together, and the senders of repairs."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from groupcomm.membership.recovered_set import RecoveredSet
from groupcomm.stream.ranges import ranges_of
from groupcomm.wire.membership import Holding, Past

LAST = 20
Held = dict[int, list[tuple[int, set[int]]]]
"""For each daemon, by ring: the forgotten number, and the packets held above."""


@st.composite
def holdings(draw: st.DrawFn) -> Held:
    """Nobody forgets what not all have held."""
    daemons = draw(st.sets(st.integers(0, 9), min_size=1, max_size=4))
    held: Held = {daemon: [] for daemon in daemons}
    for _ in range(draw(st.integers(1, 3))):
        all_held = draw(st.integers(0, LAST))
        for rows in held.values():
            forgotten = draw(st.integers(0, all_held))
            more = draw(st.sets(st.integers(all_held + 1, LAST + 1)))
            rows.append((forgotten, more | set(range(forgotten + 1, all_held + 1))))
    return held


def past(
    rows: list[tuple[int, set[int]]],
    notices: tuple[tuple[int, int], ...] = (),
    frontier: int = 0,
    fellows: tuple[int, ...] = (),
) -> Past:
    return Past(
        bytes(16),
        tuple(Holding(low, tuple(ranges_of(held)), notices, frontier) for low, held in rows),
        fellows,
    )


def unite(held: Held) -> RecoveredSet:
    return RecoveredSet({daemon: past(rows) for daemon, rows in held.items()})


def rings_of(held: Held) -> range:
    return range(len(next(iter(held.values()))))


def has(rows: list[tuple[int, set[int]]], ring: int, number: int) -> bool:
    forgotten, held = rows[ring]
    return number <= forgotten or number in held


@given(holdings())
def test_the_recovered_set_holds_what_one_of_them_holds_and_nothing_else(held: Held) -> None:
    recovered_set = unite(held)
    for ring in rings_of(held):
        spans = {n for first, last in recovered_set.spans[ring] for n in range(first, last + 1)}
        assert min(spans, default=LAST) > recovered_set.forgotten[ring] or not spans
        for number in range(1, LAST + 3):
            expected = any(has(rows, ring, number) for rows in held.values())
            assert recovered_set.holds(ring, number) == expected
            assert expected == (number <= recovered_set.forgotten[ring] or number in spans)
        prefix = recovered_set.prefix[ring]
        assert all(recovered_set.holds(ring, number) for number in range(1, prefix + 1))
        assert not recovered_set.holds(ring, prefix + 1)


@given(holdings())
def test_what_some_lack_is_sent_once_by_its_lowest_holder_and_then_nobody_lacks_any(
    held: Held,
) -> None:
    recovered_set = unite(held)
    duties = {daemon: recovered_set.duties(daemon) for daemon in held}
    for ring in rings_of(held):
        for number in range(1, LAST + 3):
            senders = [daemon for daemon in held if (ring, number) in duties[daemon]]
            holders = [daemon for daemon in held if number in held[daemon][ring][1]]
            lack = [daemon for daemon in held if not has(held[daemon], ring, number)]
            assert senders == ([min(holders)] if holders and lack else [])
            assert holders or not recovered_set.holds(ring, number) or not lack, (
                "all lack what they forgot"
            )
    assert all(len(set(rows)) == len(rows) for rows in duties.values())


def test_who_is_none_of_them_has_no_duty() -> None:
    assert unite({1: [(0, {1, 2})], 2: [(0, {2})]}).duties(3) == {}


NOTICES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=3).map(tuple)


@given(
    st.dictionaries(
        st.integers(0, 9),
        st.tuples(NOTICES, st.integers(0, 9), st.frozensets(st.integers(0, 9))),
        min_size=1,
    )
)
def test_notices_frontiers_and_obligations_are_united(
    said: Mapping[int, tuple[tuple[tuple[int, int], ...], int, frozenset[int]]],
) -> None:
    rows = [(0, {1})]
    recovered_set = RecoveredSet(
        {d: past(rows, *one[:2], tuple(sorted(one[2]))) for d, one in said.items()}
    )
    assert recovered_set.notices == [
        sorted({n for notices, _, _ in said.values() for n in notices if n[1]})
    ]
    assert recovered_set.frontiers == [max(frontier for _, frontier, _ in said.values())]
    assert recovered_set.obligation == {f for _, _, fellows in said.values() for f in fellows}


@given(holdings())
def test_it_is_the_same_whoever_unites_and_in_whatever_order(held: Held) -> None:
    one, other = unite(held), unite(dict(reversed(held.items())))
    assert (one.spans, one.prefix, one.forgotten) == (other.spans, other.prefix, other.forgotten)
    assert all(one.duties(daemon) == other.duties(daemon) for daemon in held)


def test_what_a_ring_can_deliver_goes_with_its_notices_and_promises_nothing() -> None:
    rows: list[tuple[int, set[int]]] = [(0, {1, 2, 3})]
    united = RecoveredSet({
        0: past(rows, notices=((2, 0), (1, 40))),
        1: past(rows, notices=((3, 0),)),
        2: past(rows, notices=((3, 70),)),
    })  # fmt: skip
    assert united.deliverable == [3]
    assert united.notices == [[(1, 40), (3, 70)]]
    assert unite({0: rows}).deliverable == [0]
