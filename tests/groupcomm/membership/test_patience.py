"""The time for which a daemon waits for others, and what it need not wait for."""

import pytest
from attrs import evolve

from groupcomm.config.core import CoreConfig, Timing
from groupcomm.config.view import Incarnation, Start
from groupcomm.membership.gather import FRESH_REPEATS, Gather
from groupcomm.membership.peer import PeerDaemon
from groupcomm.membership.states import GatherReason, MembershipState
from groupcomm.wire.membership import ControlKind, Join, Settings
from tests.groupcomm.membership.stage import NUMBERS, Stage, in_view, join_of

TIMING = Timing()
START = Start(name="a", incarnation=Incarnation(1, ord("a")))


def test_who_has_heard_of_a_further_member_just_now_waits_until_that_has_settled() -> None:
    """Others may be on their way with it; without news the time for answers is enough."""
    gather = Gather(TIMING, 0.0, 1.0)
    own, expected = join_of("a", 1, hears="ac"), {NUMBERS["b"], NUMBERS["c"]}
    peers: dict[int, PeerDaemon] = {}
    gather.find_proposal(START, own, peers, 0.0)
    late = TIMING.answer_wait_s - TIMING.repeat_s / 2
    c = PeerDaemon(NUMBERS["c"], "c", Incarnation(1, ord("c")))
    c.note_join(join_of("c", 1, hears="ac"), late)
    peers[c.number] = c
    assert gather.find_proposal(START, own, peers, late) is not None
    assert gather.members == {NUMBERS["a"], NUMBERS["c"]}
    assert not gather.is_complete(expected, TIMING.answer_wait_s)
    assert not gather.is_complete(expected, late + TIMING.repeat_s - 1e-6)
    assert gather.is_complete(expected, late + TIMING.repeat_s + 1e-6)


def test_members_that_keep_changing_are_waited_for_three_times_as_long_and_no_longer() -> None:
    gather = Gather(TIMING, 0.0, 1.0)
    for n in range(2000):
        now = n * TIMING.repeat_s / 4
        c = PeerDaemon(NUMBERS["c"], "c", Incarnation(1, ord("c")))
        c.note_join(join_of("c", n, hears="ac"), now)
        gather.find_proposal(START, join_of("a", 1, hears="ac"), {c.number: c}, now)
        if gather.is_complete({NUMBERS["b"], NUMBERS["c"]}, now):
            break
    assert 0 <= now - 3 * TIMING.answer_wait_s < TIMING.repeat_s


def test_a_commit_that_came_before_its_join_counts_as_soon_as_the_join_is_there() -> None:
    stage = in_view("ab")
    stage.drop = {("b", ControlKind.JOIN)}
    stage.daemons["a"].machine.gather(GatherReason.TOKEN_LOST, stage.now)
    stage.settle()
    states = [stage.state(name) for name in "ab"]
    assert states == [MembershipState.GATHER, MembershipState.RECOVERED]
    join = next(m for a, _, m in reversed(stage.sent) if a == "b" and isinstance(m, Join))
    stage.say("b", "a", join)
    stage.daemons["a"].machine.step(stage.now)
    assert stage.state("a") is MembershipState.OPERATIONAL


def test_settings_are_told_when_that_is_due_whatever_else_is() -> None:
    stage = Stage("ab")
    stage.configs = {"b": CoreConfig(sites=(("b", "c"),))}
    stage.start("ab")
    machine = stage.daemons["a"].machine
    for _ in range(200):
        stage.run(0.011)
        assert machine.deadline <= machine.comparison.due


def test_what_is_due_is_done_at_its_deadline_and_not_after_it() -> None:
    """A deadline that stands although the step has come is a loop without end."""
    stage = in_view("ab")
    stage.configs = {"c": CoreConfig(sites=(("c", "d"),))}
    stage.config = evolve(stage.config, sites=(("a", "b", "c"),))
    stage.start("c")
    stage.drop = {("b", ControlKind.COMMIT)}
    stage.daemons["a"].machine.gather(GatherReason.TOKEN_LOST, stage.now)
    end = stage.now + 3.0
    while stage.now < end:
        for name in "abc":
            machine = stage.daemons[name].machine
            for _ in range(3):  # a view that is installed says so in the step that follows
                machine.step(stage.now)
            assert machine.deadline > stage.now
        stage.settle()
        stage.now = min(stage.daemons[name].machine.deadline for name in "abc")
    assert stage.daemons["a"].machine.reasons[GatherReason.ATTEMPT_FAILED] >= 1
    assert stage.said(Settings)


@pytest.mark.parametrize(("later_s", "counts"), [(0.0, True), (1e-6, False)])
def test_a_daemon_that_has_not_repeated_its_join_for_some_intervals_gathers_no_more(
    later_s: float, counts: bool
) -> None:
    gather = Gather(TIMING, 0.0, 1.0)
    c = PeerDaemon(NUMBERS["c"], "c", Incarnation(1, ord("c")))
    c.note_join(join_of("c", 1, hears="ac"), 0.0)
    fresh_s = FRESH_REPEATS * TIMING.repeat_s + TIMING.longest_delay_s
    own = join_of("a", 1, hears="ac")
    gather.find_proposal(START, own, {c.number: c}, fresh_s + later_s)
    assert (gather.members == {NUMBERS["a"], NUMBERS["c"]}) is counts
