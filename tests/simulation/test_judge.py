"""The slow judge by itself: mutations that it must notice for one given reason.

That judge and oracles agree says nothing about what both overlook; here the reason is written down.
"""

from random import Random

import pytest

from groupcomm.sim.histories import make_history
from groupcomm.sim.judge import judge
from groupcomm.sim.mutations import mutate

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

BROKEN = 12
"""So many histories are broken in each way."""


@pytest.mark.parametrize("kind", sorted(REASONS))
def test_a_mutation_is_noticed_for_its_reason(kind: str) -> None:
    broken = 0
    for seed in range(400):
        rng, history = Random(f"{kind} {seed}"), make_history(seed)
        trace = mutate(rng, history, kind)
        if trace is not None and trace != history:
            assert REASONS[kind] in judge(trace), f"seed {seed}"
            broken += 1
        if broken == BROKEN:
            return
    raise AssertionError(f"only {broken} histories have something of this kind")
