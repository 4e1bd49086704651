"""Starts whose disk is lost or old: whatever happens besides, all daemons are together again."""

from pathlib import Path

import pytest

from tests.verification.campaigns.exploration import Exploration, hunt
from tests.verification.explore.transitions import CRASH, LOST, OLD


@pytest.mark.parametrize(
    ("scenario", "kinds", "within_s"),
    [
        ("idle-2", (LOST,), 0.002),
        ("idle-2", (OLD,), 0.002),
        pytest.param(
            "idle-2", (LOST, CRASH), 0.002, marks=pytest.mark.long
        ),  # both may be down for good
        pytest.param(
            "idle-3", (LOST, CRASH), 0.002, marks=pytest.mark.verification
        ),  # one remembers the lost disk, and one knows nothing
        pytest.param("idle-4", (LOST, CRASH, CRASH), 0.001, marks=pytest.mark.long),
    ],
)
def test_all_come_to_rest_whose_disk_is_lost_or_old(
    scenario: str, kinds: tuple[str, ...], within_s: float
) -> None:
    bounds = Exploration(scenario, len(kinds), within_s, tuple(sorted(set(kinds))), departures=0)
    progress, _ = bounds.run(most_states=100_000)
    assert progress.is_complete
    assert progress.findings == []


@pytest.mark.verification
@pytest.mark.long
def test_a_daemon_that_remembers_a_start_for_ever_is_found(tmp_path: Path) -> None:
    assert hunt("remembers-a-start-for-ever", 2_000, tmp_path)["property"] == "L"
