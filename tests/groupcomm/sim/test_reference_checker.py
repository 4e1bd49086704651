"""The reference checker by itself: mutations that it must notice for one given reason.

That reference checker and checkers agree says nothing about violations that both overlook; here the
reason is written down.
"""

from collections.abc import Callable
from functools import lru_cache

import pytest

from groupcomm.trace.events import TraceEvent
from tests.groupcomm.sim.compare_checkers import break_history
from tests.verification.generators import make_changing_history, make_history
from tests.verification.reference import reference_check

pytestmark = pytest.mark.verification

REASONS = {
    "acceptance elsewhere": "D1",
    "bounce repeated": "P2",
    "connect repeated": "P4",
    "delivery altered": "D1",
    "delivery from outside": "D7",
    "delivery in other view": "D3",
    "delivery lost before a leave": "X3",
    "delivery of a phantom": "D1",
    "delivery repeated": "D2",
    "hold repeated": "D2",
    "horizon in other view": "D3",
    "horizon of another ring": "H1",
    "level lowered everywhere": "D1",
    "ordered misplaced": "O3",
    "ordered repeated": "D2",
    "ordered unasked": "D1",
    "rejects miscounted": "D8",
    "release repeated": "D2",
    "send repeated": "D4",
    "stamp in other view": "D3",
    "stamp of another ring": "H1",
    "time falls": "D5",
    "view reordered": "G2",
}
"""Mutations that never are harmless, each with a property that it always violates."""

CHANGE_REASONS = {
    "conf after the end": "C4",
    "conf repeated": "C4",
    "conf without itself": "C2",
    "daemons of a view altered": "C3",
    "delivery altered": "D1",
    "delivery in next view": "D3",
    "delivery in other view": "D3",
    "dropped by one": "V1",
    "formed too late": "L1",
    "ghost in a network view": "G2",
    "heal repeated": "D5",
    "id falls": "C4",
    "network view with others": "V3",
    "numbered in transition": "D3",
    "ordered marked wrongly": "V2",
    "release too soon": "G1",
    "transition of other view": "C5",
    "transitional from another view": "C5",
    "transitional lost": "C5",
    "transitional of other members": "C5",
    "transitional to another view": "C5",
    "view after the agreement": "L2",
}
"""The same for histories with changing views."""

BROKEN = 4
"""The number of histories that are broken in each way."""

ROUNDS = 24
"""The size of changing histories: small ones."""


@lru_cache(maxsize=200)
def history(seed: int) -> tuple[TraceEvent, ...]:
    return tuple(make_history(seed))


@lru_cache(maxsize=200)
def changing_history(seed: int) -> tuple[TraceEvent, ...]:
    return tuple(make_changing_history(seed, ROUNDS))


def assert_noticed(
    make: Callable[[int], tuple[TraceEvent, ...]], kind: str, reason: str, wanted: int
) -> None:
    """Check that this number of histories, broken in one way, violate one property."""
    found = 0
    for seed in range(200):
        trace = break_history(make(seed), kind, seed)
        if trace is not None:
            assert reason in reference_check(trace), f"seed {seed}"
            found += 1
        if found == wanted:
            return
    raise AssertionError(f"only {found} histories have something of this kind")


@pytest.mark.parametrize("kind", sorted(REASONS))
def test_a_mutation_is_noticed_for_its_reason(kind: str) -> None:
    assert_noticed(history, kind, REASONS[kind], BROKEN)


@pytest.mark.parametrize("kind", sorted(CHANGE_REASONS))
def test_a_mutation_of_changing_views_is_noticed_for_its_reason(kind: str) -> None:
    assert_noticed(changing_history, kind, CHANGE_REASONS[kind], BROKEN)
