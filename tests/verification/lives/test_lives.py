"""Long lives: they repeat, their rests check everything, and what grows in them is found."""

from collections import Counter
from typing import Any

import attrs
import pytest

from groupcomm.engine.daemon import DaemonCore
from groupcomm_tools.traces.reading import EventCheck, read_event
from tests.verification.lives.draws import LifeOptions, draw_episode, draw_life
from tests.verification.lives.life import live
from tests.verification.lives.sizes import FEWEST, growing, sizes_of
from tests.verification.mutants.catalogue import find_mutant

pytestmark = pytest.mark.verification

SLOW = LifeOptions(daemons=3, sites=1, pace=10.0, hours=1.0)


@pytest.mark.long
def test_an_hour_of_a_cluster_has_faults_load_rests_and_quiet_and_no_findings() -> None:
    result = live(3, SLOW)
    assert result.findings == ()
    assert result.simulated_s > 3600
    assert 0.5 < result.quiet_s / result.simulated_s < 1.0
    assert result.rests == result.episodes + 1
    assert result.sent > 100
    assert result.views > 3
    assert sum(result.faults.values()) > 20
    assert len(result.sizes) == result.rests


def test_the_same_seed_gives_the_same_life_and_another_window_of_it_a_shorter_one() -> None:
    options = attrs.evolve(SLOW, hours=0.1)
    lines: list[bytes] = []
    first, again = live(5, options, lines.append), live(5, options)
    assert first == again
    assert (first.findings, first.rests, len(first.sizes)) == ((), first.episodes + 1, first.rests)
    check = EventCheck()
    for number, line in enumerate(b"".join(lines).splitlines(keepends=True), 1):
        read_event(check, "life", number, line)  # raises for an event out of place
    window = live(5, attrs.evolve(options, first=4, last=4))
    assert (window.episodes, window.last_episode, window.findings) == (1, 4, ())


def test_what_outlives_an_episode_is_the_same_in_all_of_a_life() -> None:
    life = draw_life(11, attrs.evolve(SLOW, bad_clocks=True))
    assert life.faults.clock_rate
    assert life.faults.frozen_s
    assert life.faults.ahead_s
    drawn = [draw_episode(life, number).settings.faults for number in range(40)]
    assert {faults.clock_rate for faults in drawn} == {life.faults.clock_rate}
    assert not any(faults.disk for faults in drawn), "no clock shows what a disk has lost"
    assert len({faults.crash_s for faults in drawn}) > 10, "faults that end are drawn anew"
    assert any(faults.partition_s > 5.0 for faults in drawn), "slow daemons need long partitions"


@attrs.define
class Inner:
    entries: list[Any] = attrs.field(factory=list)


Inner.__module__ = "groupcomm.made_up"


def test_sizes_name_the_table_and_add_up_those_inside_it() -> None:
    held = Inner([[1, 2], [3], Inner([0])])
    assert sizes_of(held) == Counter({"Inner.entries": 3 + 1, "Inner.entries[]": 3})


def test_a_table_that_fills_up_early_or_varies_does_not_grow() -> None:
    rising = [{"leak": 10 * at, "full": min(200, 100 * at), "noise": at % 3} for at in range(30)]
    assert set(growing(rising)) == {"leak"}
    assert growing(rising[: FEWEST - 1]) == {}
    parts = [{"Flood._parts": 2 * at} for at in range(30)]
    assert growing(parts) == {}, "a life of three sites, seed 20: it is full with 64"
    assert growing([*parts, {"Flood._parts": 66}]) == {}
    assert set(growing([{"Flood._parts": 6 * at} for at in range(30)])) == {"Flood._parts"}


@pytest.mark.long
def test_a_daemon_that_keeps_every_view_that_it_was_in_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A planted leak: a table of counts has one for each former view."""
    right = DaemonCore.step

    def leaky(core: DaemonCore, *arguments: Any) -> Any:
        output = right(core, *arguments)
        if core.view is not None:
            core.counters.rejected[f"view {core.view.id}"] += 0
        return output

    monkeypatch.setattr(DaemonCore, "step", leaky)
    result = live(3, attrs.evolve(SLOW, daemons=2, hours=8.0))
    assert {found.property for found in result.findings} == {"growth"}
    assert "alfa/1: Counters.rejected has" in result.findings[0].text


def test_a_known_bug_is_found_within_a_day() -> None:
    with find_mutant("once-per-group").active():
        result = live(1, attrs.evolve(SLOW, hours=24.0))
    assert result.findings
    assert result.findings[0].property != "growth"
    assert result.last_events
