"""Counts of restarts and events, and vectors of them; a queue on them is in ../algorithms."""

import pytest

from groupcomm.clocks.vector import LARGEST_COUNT, Relation
from groupcomm.errors import LocalProtocolError
from groupcomm_lessons.algorithms.restart_clock import (
    NOTHING,
    NodeClock,
    RestartClock,
    RestartCount,
)

Clock = RestartClock[str]

EDGES = [2**31, 2**32, 2**63]


@pytest.mark.parametrize("edge", EDGES)
def test_restarts_decide_first_and_nothing_wraps(edge: int) -> None:
    assert RestartCount(edge, 0) > RestartCount(edge - 1, 2**64 - 1)
    assert RestartCount(2**64 - 1, 0) > RestartCount(edge, edge) > RestartCount(0, edge) > NOTHING
    clock = NodeClock(edge)
    clock.value = RestartCount(edge, edge - 1)
    assert clock.tick() == (edge, edge)
    assert clock.tick() == (edge, edge + 1)


def test_a_count_that_64_bits_cannot_hold_is_refused() -> None:
    clock = NodeClock(LARGEST_COUNT, LARGEST_COUNT - 1)
    assert clock.tick() == (LARGEST_COUNT, LARGEST_COUNT)
    with pytest.raises(LocalProtocolError, match="64 bits hold no more"):
        clock.tick()
    assert clock.value == (LARGEST_COUNT, LARGEST_COUNT)
    for restarts, events in ((LARGEST_COUNT + 1, 0), (-1, 0), (1, LARGEST_COUNT + 1)):
        with pytest.raises(LocalProtocolError, match="no count in 64 bits"):
            NodeClock(restarts, events)


def test_clocks_compare_and_merge_node_by_node() -> None:
    old, new, other = Clock(), Clock(), Clock()
    old.observe("n", RestartCount(1, 99))
    new.observe("n", RestartCount(2, 1))
    other.observe("m", RestartCount(1, 1))
    assert old.compare(new) is Relation.BEFORE
    assert new.compare(other) is Relation.CONCURRENT
    assert not other.covers(old)
    both = new.copy()
    both.merge(other)
    both.merge(old)  # lower counts change nothing
    assert both.covers(old)
    assert both.covers(new)
    assert both.compare(other) is Relation.AFTER
    assert (both["n"], both["m"], both["o"]) == ((2, 1), (1, 1), NOTHING)
    assert new["m"] == NOTHING
