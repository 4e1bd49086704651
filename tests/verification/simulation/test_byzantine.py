"""Runs in which a daemon lies: no way of lying ends a survivor; the checks and their findings."""

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from groupcomm.engine.checks import Plausibility
from groupcomm.order.admission import Admission
from groupcomm.sim.run import make_workload
from groupcomm.trace.events import Boot, Conf, Release, TraceEvent
from tests.verification.simulation.byzantine.liar import WAYS, Lying
from tests.verification.simulation.byzantine.run import Byzantine
from tests.verification.simulation.byzantine.survivors import Survivors
from tests.verification.simulation.cluster import VerificationCluster
from tests.verification.simulation.runs import run
from tests.verification.simulation.settings import (
    VerificationOptions,
    VerificationSettings,
    draw_settings,
)

pytestmark = pytest.mark.verification

BYZANTINE = VerificationOptions(byzantine=True, duration_s=3.0, daemons=4, sites=1)
VIEWS = [f"{counter}.alfa.a" for counter in range(5)]


def liars(seed: int, *ways: str) -> VerificationSettings:
    """Return the settings of a run in which every other packet comes with a lie of these ways."""
    settings = draw_settings(seed, BYZANTINE)
    return attrs.evolve(settings, lying=Lying(share=0.5, ways=ways, spells=False))


@pytest.mark.parametrize("way", WAYS)
def test_no_way_of_lying_ends_anybody(way: str) -> None:
    assert run(liars(1, way)).findings == ()


@pytest.mark.parametrize("sites", [pytest.param(1, marks=pytest.mark.long), 3])
def test_all_ways_at_once(sites: int) -> None:
    options = attrs.evolve(BYZANTINE, sites=sites, daemons=5)
    assert run(draw_settings(3, options)).findings == ()


def test_lies_are_sent_and_refused() -> None:
    told = refused = 0
    for seed in range(1, 4):
        check, settings = Survivors(), liars(seed, *WAYS)
        cluster = VerificationCluster(settings, check.feed, start=False)
        play = Byzantine(cluster, make_workload(cluster), check)
        play._lie()
        told += sum(liar.lies_sent for liar in play._liars)
        survivors = [host for host in cluster.daemons if host.index not in settings.liars]
        refused += sum(h.core.counters.violations.total() for h in survivors if h.is_up)
    assert told > 100
    assert refused > 50


@pytest.mark.parametrize("suite", [1, 2])
def test_a_hello_can_lie(suite: int) -> None:
    options = attrs.evolve(BYZANTINE, suite=suite)
    lying = Lying(share=0.8, ways=("change",), spells=False)
    settings = attrs.evolve(draw_settings(2, options), lying=lying)
    check = Survivors()
    cluster = VerificationCluster(settings, check.feed, start=False)
    play = Byzantine(cluster, make_workload(cluster), check)
    play._lie()
    assert sum(liar.hello_lies for liar in play._liars) > 0


def test_some_daemons_always_tell_the_truth() -> None:
    drawn = [draw_settings(seed, VerificationOptions(byzantine=True)) for seed in range(1, 200)]
    assert {len(settings.liars) for settings in drawn} == {1, 2}
    for settings in drawn:
        daemons = sum(map(len, settings.sites))
        assert settings.core
        assert not set(settings.core) & set(settings.liars)
        assert len(settings.liars) < daemons
    assert draw_settings(1, VerificationOptions()).liars == ()


# ---- findings ----


def nothing(*_: Any) -> None:
    """Refuse nothing."""


@pytest.mark.parametrize(
    ("part", "name", "way", "seeds"),
    [
        (Plausibility, "check_token", "change", range(1, 25)),  # few datagrams are tokens
        (Admission, "check", "forge", range(1, 9)),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_refusal_that_is_missing_is_found(
    part: type, name: str, way: str, seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part, name, nothing)
    found = (finding.property for seed in seeds for finding in run(liars(seed, way)).findings)
    assert "assert" in found


def never_agree(cluster: VerificationCluster) -> None:
    cluster.agree = lambda _: False  # type: ignore[method-assign,assignment]


def keep_programs(cluster: VerificationCluster) -> None:
    cluster.clients = []  # no client can end them


@pytest.mark.parametrize(("found", "break_it"), [("B2", never_agree), ("B3", keep_programs)])
def test_what_survivors_owe_each_other_is_asked_for(
    found: str, break_it: Callable[[VerificationCluster], None]
) -> None:
    check, settings = Survivors(), liars(1, "withhold")
    cluster = VerificationCluster(settings, check.feed, start=False)
    play = Byzantine(cluster, make_workload(cluster), check)
    play._lie()
    break_it(cluster)
    for step in (play._end_lies, play._empty):
        if not check.violations:
            step()
    assert {violation.property for violation in check.violations} == {found}


def conf(view: int, *members: str, kind: str = "R") -> Conf:
    old = VIEWS[view - 1] if kind == "T" else ""
    return Conf(t=1, p="bravo/1", kind=kind, view=VIEWS[view], rings=(members,), old=old)


def release(time: int, number: int = 1, level: int = 4) -> Release:
    return Release(
        t=1,
        p="bravo/1",
        ring=0,
        number=number,
        time=time,
        bundle=0,
        kind=0,
        level=level,
        c="#u#bravo/1",
        first=1,
        last=1,
        index=0,
        count=1,
    )


BOTH = ("alfa/1", "bravo/1")


def checked(*events: TraceEvent, lies: Callable[[Survivors], None] = nothing) -> set[str]:
    check = Survivors()
    lies(check)
    for event in (Boot(0, "bravo/1", "1.a"), *events):
        check.feed(event)
    check.finish()
    return {violation.property for violation in check.violations}


def test_what_one_daemon_does_by_itself_is_checked_while_others_lie() -> None:
    begun = conf(2, *BOTH)
    alone = conf(3, "bravo/1", kind="T")
    assert checked(begun, release(7), release(8), alone, conf(3, "bravo/1"), release(7)) == set()
    wrong: dict[str, tuple[TraceEvent, ...]] = {
        "an earlier view": (begun, conf(1, *BOTH)),
        "the same view": (begun, conf(2, *BOTH)),
        "a view without itself": (conf(2, "alfa/1"),),
        "with others than it was with": (conf(1, "bravo/1"), conf(2, *BOTH, kind="T")),
        "one place twice": (begun, release(7), release(7)),
        "against the agreed order": (begun, release(8), release(7)),
    }
    for name, events in wrong.items():
        assert checked(*events) == {"B4"}, name
    assert checked(begun, release(8, level=2), release(7, level=2)) == set(), "FIFO has no stamps"
    assert checked(begun, release(7, number=0), release(7, number=0)) == set(), "nor UNRELIABLE"


def test_a_liar_is_not_checked() -> None:
    def bravo_lies(check: Survivors) -> None:
        check.spare(["bravo"])

    assert checked(conf(2, *BOTH), conf(1, *BOTH), lies=bravo_lies) == set()
