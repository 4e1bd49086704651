"""Lamport's clock near the edges of 32 and 64 bits; its rules are in tests/paper."""

import pytest

from groupcomm.clocks.lamport import LamportClock

EDGES = [2**31, 2**32, 2**63]


@pytest.mark.parametrize("edge", EDGES)
def test_it_counts_over_the_edges(edge: int) -> None:
    clock = LamportClock(edge - 2)
    assert [clock.tick(), clock.send(), clock.tick()] == [edge - 1, edge, edge + 1]


@pytest.mark.parametrize("edge", EDGES)
def test_a_stamp_counts_by_its_value_however_far_away(edge: int) -> None:
    """Comparison is not modular: a value half a range ahead is ahead, and 0 is not beyond it."""
    clock = LamportClock(1)
    assert clock.receive(edge + 1) == edge + 2
    assert clock.receive(0) == edge + 3
    assert clock.receive(2**64 - 2) == 2**64 - 1
