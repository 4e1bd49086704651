"""Daemons that come back with a disk that has forgotten their starts meet the others in time."""

import pytest

from tests.verification.campaigns.outdated_disks import BOUND_S, SIZES, Case, OneReturn, cases
from tests.verification.simulation.runs import run_seed
from tests.verification.simulation.settings import VerificationOptions


def text_of(case: Case) -> str:
    return f"{case.daemons} daemons, {case.restarted} restarted, {case.disk}, {case.sites} sites"


FEW = cases([3], [1])
MORE = [case for case in cases(SIZES) if case not in FEW]


@pytest.mark.parametrize(
    "case", [*FEW, *(pytest.param(each, marks=pytest.mark.long) for each in MORE)], ids=text_of
)
def test_whoever_was_restarted_meanwhile_all_meet_in_time(case: Case) -> None:
    assert OneReturn(case).measure().meeting_s <= BOUND_S


SEEDS = [
    (23, VerificationOptions(faults="disk", duration_s=10.0)),
    (30, VerificationOptions(faults="disk", duration_s=6.0)),
    (48, VerificationOptions(duration_s=10.0)),
    (209, VerificationOptions(faults="disk,crash,partition", rosters=True, duration_s=6.0)),
    (204, VerificationOptions(faults="disk,crash", versions=True, duration_s=6.0)),
    (223, VerificationOptions(faults="disk", suite=2, duration_s=6.0)),
]
"""Seeds in which daemons never met again, as too few told one of them of its starts."""

SHORTEST = SEEDS[1]


@pytest.mark.parametrize(
    ("seed", "options"),
    [pytest.param(*each, marks=[pytest.mark.long] * (each is not SHORTEST)) for each in SEEDS],
)
def test_seeds_that_did_not_meet_again_do(seed: int, options: VerificationOptions) -> None:
    assert run_seed(seed, options).findings == ()
