"""Ranges of packet numbers against sets of them."""

from hypothesis import given
from hypothesis import strategies as st

from groupcomm.stream.ranges import among, holds, ranges_of, remove_number, without

LAST = 24
NUMBERS = st.sets(st.integers(1, LAST))


@given(NUMBERS)
def test_ranges_hold_the_numbers_that_they_were_made_of(numbers: set[int]) -> None:
    ranges = ranges_of(numbers)
    assert {n for n in range(LAST + 2) if holds(ranges, n)} == numbers


@given(NUMBERS, NUMBERS)
def test_what_is_left_of_ranges_without_others(numbers: set[int], taken: set[int]) -> None:
    assert without(ranges_of(numbers), ranges_of(taken)) == ranges_of(numbers - taken)


@given(NUMBERS, st.integers(0, LAST + 1))
def test_one_number_is_taken_out(numbers: set[int], number: int) -> None:
    ranges = ranges_of(numbers)
    remove_number(ranges, number)
    assert ranges == ranges_of(numbers - {number})


@given(NUMBERS, st.integers(0, LAST), st.integers(0, LAST))
def test_the_numbers_that_are_in_a_range(numbers: set[int], one: int, other: int) -> None:
    first, last = sorted((one, other))
    expected = [number for number in sorted(numbers) if first <= number <= last]
    assert among(sorted(numbers), (first, last)) == expected
