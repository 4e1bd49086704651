"""The guard's verdict, on ratios made up; and that its yardsticks measure something."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm_tools.bench.matrix import rows_of
from tests.verification.campaigns.guard.check import RATIOS, YARDSTICKS
from tests.verification.campaigns.guard.compare import (
    Verdict,
    allowed,
    as_json,
    compare,
    lines_of,
    too_wide,
)
from tests.verification.campaigns.guard.yardstick import chunks_per_s, datagrams_per_s, ping_us

RATIO = st.floats(1e-3, 1e3)
ROUNDS = st.lists(RATIO, min_size=1, max_size=9)


def check(then: list[float], now: list[float], *, is_delay: bool = False) -> Verdict:
    (verdict,) = compare({"x": then}, {"x": now}, frozenset({"x"} if is_delay else ()))
    return verdict


def test_a_rate_that_falls_by_more_than_a_quarter_fails() -> None:
    assert check([2.0], [1.7]).is_good
    assert check([2.0], [9.0]).is_good
    fallen = check([2.0], [1.5])
    assert not fallen.is_good
    assert fallen.worse == pytest.approx(4 / 3)


def test_a_delay_that_rises_by_more_than_a_quarter_fails() -> None:
    assert check([4.0], [4.9], is_delay=True).is_good
    assert check([4.0], [0.1], is_delay=True).is_good
    assert not check([4.0], [5.1], is_delay=True).is_good


def test_what_was_recorded_with_a_spread_may_change_by_as_much() -> None:
    assert allowed([1.0, 1.1, 1.05]) == 1.25
    wild = [0.1, 1.0, 2.0, 1.5, 9.0]  # medians of three are 1 to 2
    assert allowed(wild) == pytest.approx(1 + 1 / 1.5)
    assert check(wild, [0.95]).is_good
    assert not check(wild, [0.85]).is_good
    assert too_wide({"calm": [1.0, 1.3, 1.2, 1.1, 9.0], "wild": wild}) == ["wild"]


def test_one_round_that_is_off_does_not_fail_a_figure() -> None:
    assert check([2.0, 2.1, 1.9], [2.0, 0.1, 2.1]).is_good
    assert not check([2.0, 2.1, 1.9], [2.0, 0.1, 0.2]).is_good


@given(then=ROUNDS, factor=st.floats(1.0, 100.0), is_delay=st.booleans())
def test_what_has_not_become_worse_is_good(
    then: list[float], factor: float, is_delay: bool
) -> None:
    better = [ratio / factor if is_delay else ratio * factor for ratio in then]
    verdict = check(then, better, is_delay=is_delay)
    assert verdict.is_good
    assert verdict.worse == pytest.approx(1 / factor)


def test_a_figure_that_is_not_recorded_fails() -> None:
    (verdict,) = compare({}, {"new": [1.0]}, frozenset())
    assert not verdict.is_good
    assert "not recorded: FAILED" in lines_of([verdict])[1]


def test_the_table_tells_both_ratios_and_the_change() -> None:
    verdicts = [check([2.0], [1.0]), check([4.0], [2.0], is_delay=True)]
    lines = [line.split() for line in lines_of(verdicts)[1:]]
    assert lines[0] == ["x", "2", "1", "100", "%", "worse", "25", "%", "worse", "FAILED"]
    assert lines[1] == ["x", "4", "2", "100", "%", "better", "25", "%", "worse"]
    assert [each["is_good"] for each in as_json(verdicts)] == [False, True]


def test_every_figure_is_a_row_of_the_matrix_and_recorded() -> None:
    recorded = json.loads(RATIOS.read_text())
    assert set(recorded["ratios"]) == set(YARDSTICKS) <= {row.name for row in rows_of(1.0)}
    assert all(ratio > 0 for ratios in recorded["ratios"].values() for ratio in ratios)
    assert recorded["machine"]


@pytest.mark.parametrize("yardstick", [chunks_per_s, ping_us, lambda: datagrams_per_s(60_000)])
def test_yardsticks_measure_something(yardstick: Callable[[], float]) -> None:
    assert yardstick() > 0
