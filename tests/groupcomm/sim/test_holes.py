"""Holes at clients that end before Quiet: a later delivery shows every missing message."""

from functools import lru_cache

import pytest

from groupcomm.trace.events import Deliver, TraceEvent
from tests.groupcomm.sim.compare_checkers import break_history, fast
from tests.verification.generators import make_changing_history, make_history
from tests.verification.mutations.holes import HOLE_MUTATIONS
from tests.verification.reference import reference_check

pytestmark = pytest.mark.verification

HISTORIES = 15
"""The number of histories of each kind that are broken in each way; see compare_checkers.py."""

COMPARED = 3
"""The number of those that go to the reference checker, too."""


REASONS = {
    "acceptance lost before the end": {"L5"},
    "agreed delivery lost before the end": {"O4"},
    "cause lost before the end": {"CA"},
    "delivery lost before the end": {"F1", "F2"},
    "view lost before the end": {"G3"},
}
"""By kind of hole the properties of which each violates one."""


@lru_cache(maxsize=2 * HISTORIES)
def history(seed: int, *, changing: bool) -> tuple[TraceEvent, ...]:
    return tuple(make_changing_history(seed) if changing else make_history(seed))


@pytest.mark.parametrize("kind", sorted(HOLE_MUTATIONS))
def test_no_hole_is_overlooked_and_both_checks_agree(kind: str) -> None:
    broken = 0
    for seed in range(HISTORIES):
        for changing in (False, True):
            trace = break_history(history(seed, changing=changing), kind, seed)
            if trace is not None:
                broken += 1
                found = fast(trace).ids
                assert found & REASONS[kind], f"seed {seed}"
                assert broken > COMPARED or found == reference_check(trace), f"seed {seed}"
    assert broken >= 3


def test_an_unreliable_message_leaves_no_hole() -> None:
    """It has no order, and causes nothing."""
    lost = 0
    for seed in range(HISTORIES):
        events = list(history(seed, changing=True))
        for index, event in enumerate(events):
            if isinstance(event, Deliver) and event.level == 0:
                lost += 1
                assert not fast([*events[:index], *events[index + 1 :]]).ids, f"seed {seed}"
                break
    assert lost >= 5
