"""The pole, the estimator and the controller without a network between them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.control.estimator import Estimator, push_for
from examples.control.pole import MOST_PUSH, NOISE, STOP, Pole, move

PERIOD_S = 0.02


def run_loop(delay_periods: int, *, seconds: float = 20.0) -> Pole:
    """The loop in virtual time; commands act this number of periods after their measurement."""
    pole, estimator = Pole(seed=1, at_s=0.0), Estimator()
    commands = [0.0] * delay_periods
    for period in range(int(seconds / PERIOD_S)):
        now = period * PERIOD_S
        pole.advance(now, counts=now > 1.0)
        estimator.measure(now, pole.measure())
        commands.append(push_for(*estimator.state(now)))
        pole.command(commands.pop(0))
        estimator.push(now, pole.push)
    return pole


def test_the_pole_falls_to_its_stop_when_nothing_holds_it() -> None:
    pole = Pole(seed=1, at_s=0.0)
    pole.advance(10.0, counts=True)
    assert abs(pole.angle) == STOP
    assert pole.at_stop > 5000


def test_the_loop_holds_it_upright() -> None:
    pole = run_loop(0)
    assert pole.at_stop == 0
    assert pole.rms < 0.1


def test_late_commands_make_it_worse_and_very_late_ones_let_it_fall() -> None:
    rms = [run_loop(periods).rms for periods in (0, 2, 4)]
    assert rms == sorted(rms)
    assert run_loop(15).at_stop > 0


@given(
    angle=st.floats(-1, 1),
    rate=st.floats(-1, 1),
    push=st.floats(-10, 10),
    first=st.floats(0, 0.5),
    second=st.floats(0, 0.5),
)
def test_moving_twice_is_moving_once(
    angle: float, rate: float, push: float, first: float, second: float
) -> None:
    twice = move(*move(angle, rate, push, first), push, second)
    assert twice == pytest.approx(move(angle, rate, push, first + second), abs=1e-9)


def test_the_model_obeys_its_equation() -> None:
    small = 1e-6
    angle, rate = move(0.1, 0.2, 0.3, small)
    assert (angle - 0.1) / small == pytest.approx(0.2, abs=1e-4)
    assert (rate - 0.2) / small == pytest.approx(4 * 0.1 + 0.3, abs=1e-4)


def test_the_estimator_finds_the_rate_and_forgets_noise() -> None:
    pole, estimator = Pole(seed=2, at_s=0.0), Estimator()
    errors = []
    for period in range(1, 100):
        now = period * PERIOD_S
        pole.advance(now, counts=False)
        estimator.measure(now, pole.measure())
        angle, rate = estimator.state(now)
        if period > 20 and abs(pole.angle) < STOP:
            errors.append((angle - pole.angle, rate - pole.rate))
    assert len(errors) > 20
    assert math.sqrt(sum(angle**2 for angle, _ in errors) / len(errors)) < 2 * NOISE
    assert math.sqrt(sum(rate**2 for _, rate in errors) / len(errors)) < 0.15


def test_a_late_measurement_is_moved_on_with_the_pushes_known_of() -> None:
    estimator = Estimator()
    estimator.measure(0.0, 0.1)
    estimator.push(-1.0, 2.0)
    estimator.push(0.5, -1.0)
    estimator.push(1.0, 7.0)
    expected = move(*move(0.1, 0.0, 2.0, 0.5), -1.0, 0.25)
    assert estimator.state(0.75) == pytest.approx(expected)


def test_old_measurements_change_nothing() -> None:
    estimator = Estimator()
    estimator.measure(1.0, 0.1)
    before = estimator.state(2.0)
    estimator.measure(0.5, 0.4)
    assert estimator.state(2.0) == before


def test_gusts_are_the_same_whatever_is_done() -> None:
    calm, busy = Pole(seed=3, at_s=0.0), Pole(seed=3, at_s=0.0)
    calm.advance(0.1, counts=False)
    for step in range(1, 11):
        busy.measure()
        busy.advance(step * 0.01, counts=False)
    assert (busy.angle, busy.rate) == pytest.approx((calm.angle, calm.rate), abs=0.01)


def test_the_motor_has_limits() -> None:
    pole = Pole(seed=1, at_s=0.0)
    pole.command(100.0)
    assert pole.push == MOST_PUSH
