"""The ring's clock: above every stamp seen (IR2), each tick above the last (IR1), near time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.clocks.ring_clock import PhysicalClock, RingClock

EDGES = [2**31, 2**32, 2**63]


def clock_at(value: int, wall: float = 0.0) -> RingClock:
    return RingClock(PhysicalClock(now=0.0, wall=wall), value)


@pytest.mark.parametrize("edge", EDGES)
def test_it_follows_and_ticks_over_the_edges(edge: int) -> None:
    clock = clock_at(edge - 2)
    assert [clock.tick() for _ in range(4)] == [edge - 1, edge, edge + 1, edge + 2]
    clock.follow(edge - 5)  # a modular comparison would consider some of these later
    clock.follow(0)
    clock.follow(1)
    assert clock.value == edge + 2
    clock.follow(2**64 - 10)
    assert clock.tick() == 2**64 - 9


def test_time_pulls_it_up_and_never_down() -> None:
    clock = clock_at(0, wall=10.0)
    assert clock.advance(1.0) == 11_000_000
    clock.follow(500_000_000)
    assert clock.advance(2.0) == 500_000_000
    assert clock.advance(600.0) == 610_000_000


STEPS = st.one_of(
    st.tuples(st.just("tick"), st.just(0)),
    st.tuples(st.just("follow"), st.integers(0, 2**64 - 100)),
    st.tuples(st.just("advance"), st.integers(0, 10**6)),
)


@given(steps=st.lists(STEPS, max_size=40))
def test_it_stays_above_all_it_saw_and_gave(steps: list[tuple[str, int]]) -> None:
    clock = clock_at(0)
    now, highest = 0, 0
    for step, argument in steps:
        if step == "tick":
            assert clock.tick() == highest + 1
            highest += 1
        elif step == "follow":
            clock.follow(argument)
            highest = max(highest, argument)
        else:
            now += argument
            assert clock.advance(float(now)) >= now * 10**6
            highest = max(highest, now * 10**6)
        assert clock.value == highest
