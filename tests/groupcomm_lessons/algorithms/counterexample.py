"""A schedule in which something goes wrong, the same one in every run."""

from collections.abc import Callable
from random import Random
from typing import TypeVar

from hypothesis import Phase, find, settings
from hypothesis import strategies as st

from groupcomm_lessons.algorithms.network import Network
from groupcomm_lessons.algorithms.process import Order

T = TypeVar("T")
Steps = list[tuple[int, int, int]]

few = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5), st.integers(1, 7)), max_size=12)
"""As `schedules`, but short: a counterexample is, and is found in less time."""


def counterexample(play: Callable[[Steps], Network], order: Order) -> Network:
    """Return the first run that Hypothesis finds in which a promise is broken.

    Raises:
        NoSuchExample: it finds none.
    """
    return play(schedule_where(lambda steps: bool(play(steps).history.broken(order))))


def schedule_where(condition: Callable[[Steps], bool]) -> Steps:
    """Return the first schedule found of which something is true."""
    return example_of(few, condition)


def example_of(strategy: st.SearchStrategy[T], condition: Callable[[T], bool]) -> T:
    """Return the first example found of which something is true, be it one in a thousand.

    It may try far more often than it needs: what Hypothesis draws changes with its releases.

    Raises:
        NoSuchExample: it finds none.
    """
    # Nobody reads these examples, and to make one small takes longer than to find it.
    phases = settings(max_examples=50_000, phases=[Phase.generate])
    return find(strategy, condition, settings=phases, random=Random(0))
