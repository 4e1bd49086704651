"""Daemons that meet while they gather get one round trip more, and no more than one."""

from math import inf

import pytest

from groupcomm.config.core import Timing
from groupcomm.config.view import Incarnation, Start
from groupcomm.membership.gather import MIN_GAP_S, Gather
from groupcomm.membership.peer import PeerDaemon
from groupcomm.membership.states import GatherReason, MembershipState
from groupcomm.wire.membership import Join
from tests.groupcomm.membership.stage import NUMBERS, Stage, join_of

TIMING = Timing(longest_delay_s=0.1)
ROUND_S = 2.1 * TIMING.longest_delay_s
START = Start(name="a", incarnation=Incarnation(1, ord("a")))
STEP_S = 0.001


def completed_at(gather: Gather, expected: str) -> float:
    """Return the time at which a, which hears nobody, no longer waits for others."""
    gather.find_proposal(START, join_of("a", 1, hears="a"), dict[int, PeerDaemon](), 0.0)
    steps = (STEP_S * n for n in range(5000))
    return next(at for at in steps if gather.is_complete({NUMBERS[n] for n in expected}, at))


def test_a_silent_daemon_is_waited_for_one_round_trip_longer_after_a_meeting() -> None:
    usual = completed_at(Gather(TIMING, 0.0, 1.0), "ab")
    assert usual == pytest.approx(TIMING.answer_wait_s, abs=STEP_S)
    gather = Gather(TIMING, 0.0, 1.0)
    for at in (0.01, 0.02, 0.03):
        gather.on_met(at)
    assert completed_at(gather, "ab") == pytest.approx(usual + ROUND_S, abs=STEP_S)


def test_all_that_are_expected_are_there_and_the_meeting_gets_its_round_trip() -> None:
    assert completed_at(Gather(TIMING, 0.0, 1.0), "a") == 0.0
    gather = Gather(TIMING, 0.0, 1.0)
    gather.on_met(0.0)
    gather.on_met(0.05)
    assert completed_at(gather, "a") == pytest.approx(0.05 + ROUND_S, abs=STEP_S)


@pytest.mark.parametrize(("before_s", "waits"), [(0.9 * ROUND_S, True), (ROUND_S, False)])
def test_an_attempt_counts_a_meeting_of_the_last_round_trip(before_s: float, waits: bool) -> None:
    gather = Gather(TIMING, 0.0, 1.0, met_at=-before_s)
    assert (gather.stale_from < inf) is waits
    expected = ROUND_S - before_s if waits else 0.0
    assert completed_at(gather, "a") == pytest.approx(expected, abs=STEP_S)


def test_a_daemon_sends_its_join_again_at_once_when_it_meets_another() -> None:
    stage = Stage("abc")
    stage.start("a")
    stage.settle()
    machine = stage.daemons["a"].machine
    joins = len(stage.said(Join))
    stage.run(2 * MIN_GAP_S)
    assert len(stage.said(Join)) == joins
    machine.on_met(stage.now)
    assert machine.state is MembershipState.GATHER
    stage.run(2 * MIN_GAP_S)
    assert len(stage.said(Join)) == joins + 3, "to the whole site, once"


def test_the_next_attempt_counts_the_meeting_of_the_one_before() -> None:
    stage = Stage("abc", timing=TIMING)
    stage.start("a")
    stage.settle()
    machine = stage.daemons["a"].machine
    machine.on_met(stage.now)
    machine.gather(GatherReason.PAUSED, stage.now)
    stage.run(ROUND_S - 2 * STEP_S)
    assert machine.state is MembershipState.GATHER
    stage.run(TIMING.answer_wait_s + ROUND_S)
    assert stage.daemons["a"].members == "a"
