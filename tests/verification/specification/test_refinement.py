"""Runs of the simulator are behaviours of the specification; runs with bugs are not."""

import pytest

from groupcomm.trace.events import Hold, Stamped
from tests.verification.mutants.catalogue import find_mutant
from tests.verification.simulation.runs import run_seed
from tests.verification.simulation.settings import VerificationOptions
from tests.verification.specification.refinement import PROPERTY, Refinement

pytestmark = pytest.mark.verification

KINDS = (
    VerificationOptions(duration_s=2.0),
    VerificationOptions(duration_s=1.0, sites=3),
    VerificationOptions(duration_s=2.0, rosters=True),
    VerificationOptions(duration_s=2.0, versions=True),
    VerificationOptions(duration_s=2.0, suite=2),
    VerificationOptions(duration_s=2.0, targets=True),
)


@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_a_run_is_a_behaviour_of_the_specification(kind: int) -> None:
    result = run_seed(11 + kind, KINDS[kind])
    assert result.findings == ()
    assert result.actions > 300


def test_a_run_with_liars_is_not_compared() -> None:
    assert run_seed(3, VerificationOptions(duration_s=0.5, byzantine=True)).actions == 0


SHOWN_BY = {
    "block-off-by-one": (6, "no ring can still send a lower one"),
    "clock-ignores-stamps": (1, "stamps of a ring rise"),
    "frontier-is-highest": (1, "all can deliver they can deliver"),
    "horizon-counts-at-once": (4, "counts once the packets before it are held"),
    "merge-keeps-the-lower-counter": (1, "one above all that its joins name"),
    "obligations-forgotten": (1, "names the obligations of its daemon"),
    "stale-commits-count": (2, "have announced RECOVERED"),
}
"""Mutants, the seed whose run shows each, and the condition that is in its way. Another change of
the code makes other runs of these seeds: look for the next seed then."""


@pytest.mark.long
@pytest.mark.parametrize("name", SHOWN_BY)
def test_a_run_with_a_bug_is_no_behaviour_of_the_specification(name: str) -> None:
    seed, condition = SHOWN_BY[name]
    with find_mutant(name).active():
        findings = run_seed(seed, VerificationOptions()).findings
    assert any(found.property == PROPERTY and condition in found.text for found in findings)


def test_the_first_act_that_is_not_allowed_ends_the_check() -> None:
    refinement = Refinement()
    refinement.feed(Hold(1, "a/1", 0, 1, 5))
    refinement.feed(Stamped(2, "a/1", "1.a.1", 0, 1, 5))
    (found,) = refinement.violations
    assert found.property == PROPERTY
    assert "only a daemon with a view" in found.text
    assert found.events == (Hold(1, "a/1", 0, 1, 5),)
