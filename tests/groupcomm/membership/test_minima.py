"""Minimal pairs are held to a search through all pairs."""

from hypothesis import given
from hypothesis import strategies as st

from groupcomm.membership.minima import Minima

PAIRS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=30)


@given(added=PAIRS, asked=PAIRS)
def test_a_pair_is_below_another_one_as_a_search_through_all_finds(
    added: list[tuple[int, int]], asked: list[tuple[int, int]]
) -> None:
    minima = Minima[int, int]()
    for first, second in added:
        minima.add(first, second)
    for first, second in asked:
        expected = any(one <= first and other <= second for one, other in added)
        assert minima.has_below(first, second) == expected


def test_only_the_minimal_ones_are_kept() -> None:
    minima = Minima[int, int]()
    for number in range(1000):
        minima.add(number, 1000)
        minima.add(number, 2000 - number)
    assert (minima._first, minima._second) == ([0], [1000])
