"""Some seeds with faults, each of them checked by all checkers: no property is violated."""

import pytest

from groupcomm.sim.settings import Options
from groupcomm_tools.campaign import run_campaign

SEEDS = 3
AT_ONCE = 3


@pytest.mark.parametrize("first", range(1, SEEDS + 1, AT_ONCE))
def test_no_property_is_violated(first: int) -> None:
    seeds = range(first, first + AT_ONCE)
    for result in run_campaign(seeds, Options(), workers=1):
        seed = result.settings.seed
        found = "\n".join(f"{finding.property}: {finding.text}" for finding in result.findings)
        assert not found, f"groupcomm simulate --seeds {seed}:{seed} finds\n{found}"
        assert result.deliveries >= 50  # a run that does nothing proves nothing


@pytest.mark.long
def test_the_workload_is_heavy_enough_to_mean_something() -> None:
    options = Options(faults="none", daemons=5, sites=1, duration_s=4.0)
    results = list(run_campaign(range(1, 6), options, workers=1))
    sent = sum(result.sent for result in results)
    seconds = sum(result.settings.duration_s for result in results)
    assert sent / seconds >= 9
    assert sum(result.deliveries for result in results) / sent >= 5
