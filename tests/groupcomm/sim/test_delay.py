"""Delays of messages between rings, in units of the one-way delay; virtual time is exact."""

import statistics

import pytest

from groupcomm.level import ServiceLevel
from tests.groupcomm.sim.stopwatch import BOUNDS, FIRST_BOUND, delays_after_silence, delays_of


@pytest.mark.parametrize(
    "level",
    [
        pytest.param(level, marks=[pytest.mark.long] * (level.name in ("FIFO", "CAUSAL")))
        for level in BOUNDS
    ],
    ids=lambda level: level.name,
)
def test_a_level_costs_what_its_promise_needs(level: ServiceLevel) -> None:
    assert statistics.median(delays_of(level, messages=7, seed=3)) <= BOUNDS[level]


@pytest.mark.long
def test_the_first_agreed_message_after_silence_takes_two_ways() -> None:
    assert max(delays_after_silence(seed=5)) <= FIRST_BOUND
