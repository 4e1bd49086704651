"""The plans beside this file are run, for a shorter time than they say."""

from pathlib import Path

import attrs
import pytest

from groupcomm_tools.commands.simulate_plan import read_plan
from groupcomm_tools.plan.figures import figures_of
from groupcomm_tools.plan.measure import measure


def test_plans_are_read() -> None:
    for path in Path(__file__).parent.glob("*.toml"):
        assert read_plan(path).links, path


@pytest.mark.parametrize(
    "name", [pytest.param("sites.toml", marks=pytest.mark.long), "growth.toml"]
)
def test_every_message_comes_in_one_view(name: str) -> None:
    plan = read_plan(Path(__file__).with_name(name))
    found = figures_of(measure(attrs.evolve(plan, duration_s=0.4)))
    assert found.wrong == ""
    assert {each.level for each in found.delays} == {load.level.name for load in plan.loads}
    for each in found.delays:
        assert each.deliveries > 0
        assert each.p50_ms is not None
    assert len(found.links) == 2 * len(plan.links)
