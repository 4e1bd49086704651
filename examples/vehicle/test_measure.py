"""The parts of the vehicle's figures."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.vehicle.measure import Heard, figures, loss_runs, quantile


@pytest.mark.parametrize(
    ("numbers", "runs"),
    [
        ([3, 4, 5, 6], []),
        ([3, 6], [2]),
        ([4, 5], [1, 1]),
        ([], [4]),
        ([6, 5, 3, 3], [1]),
        ([1, 2, 3, 4, 5, 6, 7], []),
    ],
)
def test_runs_of_what_is_missing_from_3_to_6(numbers: list[int], runs: list[int]) -> None:
    assert loss_runs(numbers, 3, 6) == runs


@given(numbers=st.sets(st.integers(0, 200)), first=st.integers(0, 200), count=st.integers(0, 100))
def test_runs_hold_all_that_is_missing_and_are_as_long_as_can_be(
    numbers: set[int], first: int, count: int
) -> None:
    wanted = set(range(first, first + count))
    missing = wanted - numbers
    runs = loss_runs(numbers, first, first + count - 1)
    assert sum(runs) == len(missing)
    assert len(runs) == sum(number - 1 not in missing for number in missing)


@given(values=st.lists(st.integers(), min_size=1), share=st.floats(0.001, 1.0))
def test_a_quantile_is_a_value_with_so_many_at_or_below_it(values: list[int], share: float) -> None:
    found = quantile(sorted(values), share)
    assert found is not None
    assert sum(value <= found for value in values) >= share * len(values) * (1 - 1e-12)
    assert sum(value < found for value in values) < share * len(values)


def test_only_what_was_sent_in_time_counts() -> None:
    heard = Heard(first=10, last=13, delays_us={9: 99_000, 10: 1000, 13: 3000, 14: 99_000})
    whole = Heard(first=10, last=13, delays_us=dict.fromkeys(range(10, 14), 2000))
    found = figures([heard, whole])
    assert (found.expected, found.received, found.runs) == (8, 6, Counter({2: 1}))
    assert found.loss == 0.25
    assert found.mean_run == 2.0
    assert [found.delay_ms(share) for share in (0.01, 0.5, 1.0)] == [1.0, 2.0, 3.0]


def test_nothing_was_sent() -> None:
    found = figures([])
    assert (found.loss, found.mean_run, found.delay_ms(0.5)) == (0.0, 0.0, None)
