"""`make days` in small: kinds in turn, totals that are kept, and windows of lives that fail."""

from collections import Counter
from pathlib import Path

import attrs
import pytest

from groupcomm.sim.run import Finding
from groupcomm.sim.settings import plain_settings
from tests.verification.lives import days
from tests.verification.lives.days import KINDS, Days, replay_command, shrink, table_of
from tests.verification.lives.draws import LifeOptions
from tests.verification.lives.life import LifeResult
from tests.verification.simulation.settings import widened

pytestmark = pytest.mark.verification

ONE, OTHER = "3 daemons", "5 daemons"


def life_of(seed: int, hours: float, last: int = 0, *texts: str) -> LifeResult:
    """Return what a life might have been."""
    return LifeResult(
        settings=widened(plain_settings(seed=seed)),
        simulated_s=3600 * hours,
        quiet_s=1800 * hours,
        sent=7,
        faults=Counter(crash=2),
        last_episode=last,
        findings=tuple(Finding(property="O1", text=text) for text in texts),
    )


def test_the_kind_that_has_lived_least_is_next_and_no_seed_comes_twice(tmp_path: Path) -> None:
    campaign = Days(tmp_path, [ONE, OTHER], lambda line: None)
    assert [campaign.next_life() for _ in range(2)] == [(ONE, 1), (OTHER, 2)]
    campaign.add(ONE, life_of(1, 10.0), 30.0)
    campaign.add(OTHER, life_of(2, 24.0), 30.0)
    assert campaign.next_life() == (ONE, 3)


def test_totals_go_on_where_they_were(tmp_path: Path) -> None:
    for seed in (1, 2):
        campaign = Days(tmp_path, [ONE], lambda line: None)
        assert campaign.next_life() == (ONE, seed)
        campaign.add(ONE, life_of(seed, 24.0), 36.0)
    row = table_of(campaign.state.totals).splitlines()[2]
    assert row == "| 3 daemons | 48.0 | 24.0 | 2 | 14 | 0 | 0 | 0 | 4 | 0 | 0 | 2,400 |"
    assert table_of(campaign.state.totals).endswith("Faults by name: crash 4.")


def test_a_failing_life_is_cut_to_the_shortest_window_that_fails_alike() -> None:
    def run(seed: int, options: LifeOptions) -> LifeResult:
        alike = options.first <= 40 and seed == 9
        return life_of(seed, 1.0, 41, "bravo/17 is wrong" if alike else "alfa/1 is right")

    failed = life_of(9, 20.0, 41, "bravo/3 is wrong")
    assert shrink(ONE, failed, run) == attrs.evolve(KINDS[ONE], first=40, last=41)
    whole = shrink(ONE, attrs.evolve(failed, last_episode=41), lambda seed, _: life_of(seed, 1.0))
    assert whole == attrs.evolve(KINDS[ONE], last=41)


def test_a_failing_life_has_a_file_with_its_command(tmp_path: Path) -> None:
    said: list[str] = []
    campaign = Days(tmp_path, [ONE], said.append)
    _, seed = campaign.next_life()
    campaign.add(ONE, life_of(seed, 20.0, 0, "two are one"), 30.0)
    text = (tmp_path / "life-1.txt").read_text()
    command = replay_command(ONE, 1, attrs.evolve(KINDS[ONE], last=0))
    assert text.startswith(command)
    assert "O1: two are one" in text
    assert said[0] == f"3 daemons, seed 1: O1; {command}"


def test_one_life_is_repeated_from_the_command_line() -> None:
    again = ["--kind", ONE, "--seed", "4", "--first", "2", "--last", "2"]
    assert days.main(again) == 0
