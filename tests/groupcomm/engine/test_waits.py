"""Senders that wait for positions, when their view ends."""

from types import SimpleNamespace
from typing import cast

import pytest

from groupcomm.clocks.stamp import Stamp
from groupcomm.engine.delivery import OrderedWaits
from groupcomm.level import ServiceLevel
from groupcomm.wire.bundle import Bundle

AGREED, SAFE = ServiceLevel.AGREED, ServiceLevel.SAFE


def waiting(*times: tuple[int, ServiceLevel], ring: int = 0) -> OrderedWaits:
    """Own bundles at these times."""
    waits = OrderedWaits()
    for time, level in times:
        packet = SimpleNamespace(time=time, ring=ring)
        waits.add(cast(Bundle, SimpleNamespace(kind=0, level=level, packet=packet, place=0)))
    return waits


def times(bundles: list[Bundle]) -> list[int]:
    return [bundle.packet.time for bundle in bundles]


def test_what_is_left_is_split_at_the_boundary_lowest_first() -> None:
    waits = waiting((7, SAFE), (5, AGREED), (3, SAFE), (9, AGREED))
    regular, transitional = waits.pop_rest(Stamp(7, 0))
    assert (times(regular), times(transitional)) == ([3, 5], [7, 9])
    assert waits.waiting == 0
    assert waits.pop_rest(None) == ([], [])


def test_without_a_boundary_all_is_regular() -> None:
    regular, transitional = waiting((7, SAFE), (5, AGREED)).pop_rest(None)
    assert (times(regular), times(transitional)) == ([5, 7], [])


@pytest.mark.parametrize(("boundary_ring", "is_regular"), [(1, True), (0, False)])
def test_a_ring_breaks_the_tie_of_equal_times(boundary_ring: int, is_regular: bool) -> None:
    """Found at seed 231: told as transitional, though it was delivered before the boundary."""
    regular, transitional = waiting((5, AGREED)).pop_rest(Stamp(5, boundary_ring))
    assert bool(regular) == is_regular
    assert bool(transitional) != is_regular
