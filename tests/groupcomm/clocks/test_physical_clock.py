"""Physical time: follows the wall clock's drift slowly, its jumps not at all, and never turns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.clocks.ring_clock import JUMP_S, SLEW, PhysicalClock

WALL = 1.7e9


def test_it_starts_on_the_wall_clock_and_runs_with_the_monotonic_one() -> None:
    clock = PhysicalClock(now=100.0, wall=WALL)
    assert clock.read(100.0) == WALL * 1e6
    assert clock.read(107.5) == (WALL + 7.5) * 1e6


def test_it_is_never_negative() -> None:
    assert PhysicalClock(now=100.0, wall=-5.0).read(101.0) == 0


@pytest.mark.parametrize("drift", [1e-4, -1e-4])
def test_a_drift_below_the_slew_is_followed(drift: float) -> None:
    clock = PhysicalClock(now=0.0, wall=WALL)
    for second in range(1, 1001):
        clock.observe_wall(second, WALL + second * (1 + drift))
    assert abs(clock.read(1000.0) - (WALL + 1000 + 1000 * drift) * 1e6) < 200
    assert clock.jumps == 0


@pytest.mark.parametrize("sign", [1, -1])
def test_an_error_is_slewed_by_no_more_than_500_ppm(sign: int) -> None:
    clock = PhysicalClock(now=0.0, wall=WALL)
    clock.observe_wall(10.0, WALL + 10 + sign * 0.9)  # this is no jump yet, but far off
    assert clock.read(10.0) - (WALL + 10) * 1e6 == pytest.approx(sign * 10 * SLEW * 1e6, abs=2)


@pytest.mark.parametrize("jump", [3600.0, -3600.0, 1e9, JUMP_S + 0.01])
def test_a_wall_clock_that_is_set_is_counted_once_and_not_followed(jump: float) -> None:
    clock = PhysicalClock(now=0.0, wall=WALL)
    for second in range(1, 100):
        clock.observe_wall(second, WALL + second + (jump if second >= 50 else 0.0))
    assert clock.jumps == 1
    assert clock.read(100.0) == (WALL + 100) * 1e6


def test_drift_is_followed_still_after_a_jump() -> None:
    clock = PhysicalClock(now=0.0, wall=WALL)
    for second in range(1, 1001):
        jump = 3600.0 if second >= 500 else 0.0
        clock.observe_wall(second, WALL + second * (1 + 1e-4) + jump)
    assert clock.jumps == 1
    assert abs(clock.read(1000.0) - (WALL + 1000 + 0.1) * 1e6) < 300


@given(
    steps=st.lists(
        st.tuples(st.floats(0.0, 100.0), st.floats(-1e4, 1e4), st.booleans()), max_size=30
    )
)
def test_it_never_goes_back(steps: list[tuple[float, float, bool]]) -> None:
    """Whatever the wall clock does."""
    clock = PhysicalClock(now=0.0, wall=WALL)
    now, last = 0.0, 0
    for elapsed, error, look in steps:
        now += elapsed
        if look:
            clock.observe_wall(now, WALL + now + error)
        value = clock.read(now)
        assert value >= last
        assert abs(value - (WALL + now) * 1e6) <= now * SLEW * 1e6 + 2
        last = value


def test_a_clock_read_for_an_earlier_moment_stays() -> None:
    clock = PhysicalClock(now=0.0, wall=WALL)
    latest = clock.read(5.0)
    assert clock.read(4.0) == latest
