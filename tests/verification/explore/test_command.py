"""The command: what it prints, what it saves, and its exit statuses."""

import json
from pathlib import Path

import pytest

from tests.verification.explore.__main__ import main
from tests.verification.explore.scenarios import SCENARIOS
from tests.verification.mutants.catalogue import find_mutant


def test_without_a_name_it_lists_the_clusters(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    printed = capsys.readouterr().out
    assert all(scenario.sentence in printed for scenario in SCENARIOS.values())


def test_it_counts_states(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agreed-2", "--within-s", "0.002", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["is_complete"]
    assert figures["violations"] == 0
    assert figures["transitions"] >= figures["states"] - 1 > 0


def test_departures_from_the_usual_order_are_bounded(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agreed-2", "--departures", "0", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["is_complete"]
    assert (figures["ends"], figures["departures"]) == (1, 0)


def test_a_bound_on_states_ends_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["start-3", "--states", "50"]) == 0
    assert "50 states, not all of them" in capsys.readouterr().out


def test_a_finding_is_saved_and_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "path.txt"
    with find_mutant("announcements-but-one").active():
        assert main(["agreed-2", "--within-s", "0.002", "--save", str(path)]) == 1
        assert f"python -m tests.verification.explore --replay {path}" in capsys.readouterr().err
        assert main(["--replay", str(path)]) == 0
    assert "a acts" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("agreed-2", "--kinds", "storm"), "'storm' is none of"),
        (("--replay", "nowhere.txt"), "nowhere.txt cannot be read"),
    ],
)
def test_wrong_words_are_named(
    words: tuple[str, ...], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words]) == 2
    assert expected in capsys.readouterr().err
