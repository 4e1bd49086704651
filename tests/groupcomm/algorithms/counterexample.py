"""The smallest schedule in which something goes wrong, the same one in every run."""

from collections.abc import Callable
from random import Random
from typing import TypeVar

from hypothesis import Phase, find, settings
from hypothesis import strategies as st

from groupcomm.algorithms.network import Network
from groupcomm.algorithms.process import Order

T = TypeVar("T")
Steps = list[tuple[int, int, int]]

few = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5), st.integers(1, 7)), max_size=12)
"""As `schedules`, but short: a counterexample is, and is made small in less time."""


def counterexample(play: Callable[[Steps], Network], order: Order) -> Network:
    """A run in which a promise is broken, as small as Hypothesis finds one.

    Raises:
        NoSuchExample: it finds none.
    """
    return play(smallest(lambda steps: bool(play(steps).history.broken(order))))


def smallest(condition: Callable[[Steps], bool]) -> Steps:
    """A schedule of which something is true."""
    return smallest_of(few, condition)


def smallest_of(strategy: st.SearchStrategy[T], condition: Callable[[T], bool]) -> T:
    """A small example of which something is true, be it one in a thousand.

    It may try far more often than it needs: what Hypothesis draws changes with its releases.

    Raises:
        NoSuchExample: it finds none.
    """
    # Nobody reads the explanation of what is found on purpose; it takes longer than all else.
    phases = settings(max_examples=50_000, phases=[Phase.generate, Phase.shrink])
    return find(strategy, condition, settings=phases, random=Random(0))
