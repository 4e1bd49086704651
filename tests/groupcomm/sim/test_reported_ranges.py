"""A daemon that holds more ranges than it may report: nothing breaks, though more is repaired."""

from pathlib import Path

import pytest

from groupcomm.engine import view_change
from tests.verification.scenarios import run_scenario

SCENARIOS = Path(__file__).parents[2] / "verification" / "scenarios"


@pytest.mark.parametrize(
    "name",
    [
        "02-fragments-through-recovery.txt",
        pytest.param("04-thousands-of-holes.txt", marks=pytest.mark.long),
    ],
)
def test_no_property_is_violated_if_few_ranges_are_reported(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def few(rings: int) -> tuple[int, int]:
        return 2, 1

    monkeypatch.setattr(view_change, "most_reported", few)
    assert run_scenario((SCENARIOS / name).read_text(), name).problems == ()
