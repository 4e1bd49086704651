"""Attempts that fail, and the changes after them."""

import pytest
from msgspec.structs import replace

from groupcomm.config.core import Timing
from groupcomm.membership.gather import MOST_FAILURES, STEADY_S, Backoff
from groupcomm.membership.states import GatherReason, MembershipState
from groupcomm.wire.membership import (
    Commit,
    ControlKind,
    Holding,
    Join,
    Leave,
    Past,
    Proposal,
    Repair,
    Seat,
)
from tests.groupcomm.membership.stage import NUMBERS, Stage, in_view, join_of

TIMING = Timing()


def to_recovered(stage: Stage) -> Commit:
    """a is bound and waits for b, which is still committing; b's last commit."""
    stage.drop = {("b", ControlKind.COMMIT)}
    stage.daemons["a"].machine.gather(GatherReason.TOKEN_LOST, stage.now)
    stage.run(TIMING.repeat_s / 2)
    assert stage.state("a") is MembershipState.RECOVERED
    return next(m for a, _, m in reversed(stage.sent) if a == "b" and isinstance(m, Commit))


# ---- progress ----


def test_repeated_commits_are_no_progress() -> None:
    """A daemon that repeats itself may wait for one that has gone: in the end both begin anew.

    It is heard, so it has a token timeout.
    """
    stage = in_view("ab")
    commit = to_recovered(stage)
    stage.mute = {"b"}  # the test sends b's messages
    lacking = Commit(commit.attempt, commit.proposal, False, False, (((1, 1),),))
    stage.say("b", "a", lacking)
    began = stage.now
    while stage.state("a") is MembershipState.RECOVERED and stage.now < began + 1.0:
        stage.run(TIMING.repeat_s)
        stage.say("b", "a", lacking)
    assert stage.daemons["a"].machine.reasons[GatherReason.ATTEMPT_FAILED] == 1
    waited_s = stage.now - began
    assert 0 <= waited_s - TIMING.token_timeout_s < 2 * TIMING.repeat_s


def test_who_owes_a_commit_and_is_silent_for_a_token_timeout_is_given_up_then() -> None:
    stage = in_view("abc")
    to_recovered(stage)
    stage.mute = {"b"}
    machine = stage.daemons["a"].machine
    machine.peers[NUMBERS["b"]].heard_at = stage.now - TIMING.token_timeout_s / 2
    began = stage.now
    while stage.state("a") is MembershipState.RECOVERED and stage.now < began + 1.0:
        stage.run(0.001)
    waited_s = stage.now - began
    assert 0 <= waited_s - TIMING.token_timeout_s / 2 < 2 * TIMING.repeat_s
    assert machine.reasons[GatherReason.ATTEMPT_FAILED] == 1


@pytest.mark.parametrize("comes_from_it", [True, False])
def test_who_is_behind_installs_the_view_that_a_member_has_left_already(
    comes_from_it: bool,
) -> None:
    """A join that names it shows that its daemon has announced that it holds the recovered set."""
    stage = in_view("ab")
    commit = to_recovered(stage)
    machine = stage.daemons["a"].machine
    assert machine.coming is not None
    installed = len(stage.daemons["a"].host.installed)
    key = machine.coming.key if comes_from_it else bytes(16)
    past = Past(key, (Holding(0, (), (), 0),), ())
    stage.mute = {"b"}
    stage.say("b", "a", replace(join_of("b", commit.attempt + 1, hears="ab"), past=past))
    machine.step(stage.now)
    assert stage.state("a") is MembershipState.GATHER, "it looks for the next one in any case"
    assert len(stage.daemons["a"].host.installed) - installed == comes_from_it
    assert machine.reasons[GatherReason.MEMBER_GATHERS] == 1


def test_repairs_and_new_commits_are_progress() -> None:
    stage = in_view("ab")
    for name, held in (("a", set[int]()), ("b", set(range(1, 40)))):
        stage.daemons[name].host.held = held
    stage.drop = {("b", ControlKind.REPAIR)}
    machine = stage.daemons["a"].machine
    machine.gather(GatherReason.TOKEN_LOST, stage.now)
    stage.run(TIMING.repeat_s / 2)
    assert stage.state("a") is MembershipState.COMMIT
    assert machine.view is not None
    stage.mute = {"b"}
    for number in range(1, 30):
        stage.say("b", "a", Repair(machine.view.key, b"%d" % number))
        stage.run(TIMING.repeat_s)
        assert stage.state("a") is MembershipState.COMMIT, "it is only slow"
    slow = stage.now
    while stage.state("a") is MembershipState.COMMIT and stage.now < slow + 1.0:
        stage.say("b", "a", Repair(machine.view.key, b"29"))
        stage.run(TIMING.repeat_s)
    assert machine.reasons[GatherReason.ATTEMPT_FAILED] == 1, "it had that one already"
    assert stage.now - slow < 2 * TIMING.answer_wait_s + 2 * TIMING.repeat_s


# ---- other proposals ----


def better(stage: Stage, of: str) -> Proposal:
    """The proposal of a daemon, by attempts that are later."""
    commit = next(m for a, _, m in reversed(stage.sent) if a == of and isinstance(m, Commit))
    seats = [type(s)(s.number, s.restarts, s.random_id, 9, s.mutual) for s in commit.proposal.seats]
    return Proposal(tuple(seats))


def test_who_is_bound_takes_over_no_better_proposal() -> None:
    """It may have made others deliver; it can only begin anew, with its obligations."""
    stage = in_view("abc")
    to_recovered(stage)
    machine, context = stage.daemons["a"].machine, stage.daemons["a"].host
    assert context.obligation == {0, 1, 2}
    theirs = better(stage, "c")
    stage.mute = {"b", "c"}
    stage.say("b", "a", Commit(9, theirs, False, False, ()))
    assert stage.state("a") is MembershipState.GATHER
    assert machine.reasons[GatherReason.ATTEMPT_FAILED] == 1
    join = next(m for a, _, m in reversed(stage.sent) if a == "a" and isinstance(m, Join))
    stage.settle()
    later = next(m for a, _, m in reversed(stage.sent) if a == "a" and isinstance(m, Join))
    assert later.attempt == join.attempt + 1
    assert later.past is not None
    assert later.past.obligation == (0, 1, 2)


def test_who_has_taken_repairs_takes_over_no_better_proposal() -> None:
    """It holds more now than its join said."""
    stage = in_view("ab")
    stage.daemons["b"].host.held = {1, 2}
    stage.drop = {("b", ControlKind.REPAIR)}
    machine = stage.daemons["a"].machine
    machine.gather(GatherReason.TOKEN_LOST, stage.now)
    stage.run(TIMING.repeat_s / 2)
    assert stage.state("a") is MembershipState.COMMIT
    assert machine.view is not None
    stage.mute = {"b"}
    stage.say("b", "a", Repair(machine.view.key, b"1"))
    stage.say("b", "a", Commit(9, better(stage, "b"), False, False, ()))
    assert stage.state("a") is MembershipState.GATHER
    assert machine.reasons[GatherReason.ATTEMPT_FAILED] == 1


def test_who_has_taken_repairs_takes_over_a_proposal_that_only_adds_members() -> None:
    """Repaired packets belong to its recovered set, too; a new start would cost all an attempt."""
    stage = in_view("abc")
    stage.daemons["b"].host.held = {1, 2}
    stage.drop = {("b", ControlKind.REPAIR), ("b", ControlKind.COMMIT)}
    stage.mute = {"c"}
    machine = stage.daemons["a"].machine
    machine.gather(GatherReason.TOKEN_LOST, stage.now)
    stage.run(TIMING.token_timeout_s + TIMING.repeat_s)  # c was heard when it fell silent
    pair = machine._agreement
    assert pair is not None
    assert machine.view is not None
    stage.say("b", "a", Repair(machine.view.key, b"1"))
    stage.say("c", "a", join_of("c", attempt=9))
    third = Seat(NUMBERS["c"], 1, ord("c"), 9, b"\x07")
    seats = [third, *(replace(seat, mutual=b"\x07") for seat in pair.proposal.seats)]
    theirs = Proposal(tuple(sorted(seats, key=lambda seat: seat.number)))
    stage.say("c", "a", Commit(9, theirs, False, False, ()))
    taken = machine._agreement
    assert taken is not None
    assert taken.proposal == theirs
    assert taken.recovery.begun, "another one could still lack what was taken"
    assert stage.daemons["a"].host.held == {1}
    assert machine.reasons[GatherReason.ATTEMPT_FAILED] == 0


def test_a_worse_proposal_changes_nothing() -> None:
    stage = in_view("abc")
    commit = to_recovered(stage)
    pair = Proposal(
        tuple(
            type(s)(s.number, s.restarts, s.random_id, s.attempt, b"\x03")
            for s in commit.proposal.seats[:2]
        )
    )
    stage.say("b", "a", Commit(commit.attempt, pair, False, False, ()))
    assert stage.state("a") is MembershipState.RECOVERED


def test_who_gathers_agrees_to_a_proposal_that_has_all_it_would_propose() -> None:
    """It needs the joins, and nothing more: others have waited already."""
    stage = in_view("abc")
    stage.mute = {"c"}
    stage.drop = {("a", ControlKind.JOIN)}
    machine = stage.daemons["b"].machine
    machine.gather(GatherReason.TOKEN_LOST, stage.now)
    stage.drop = set()
    stage.run(TIMING.gather_wait_s / 2)
    assert [stage.state(name) for name in "ab"] == [MembershipState.GATHER] * 2
    stage.run(TIMING.token_timeout_s)
    assert [stage.daemons[name].members for name in "ab"] == ["ab"] * 2
    attempts = [daemon.machine._own_join.attempt for daemon in stage.daemons.values()]
    assert attempts == [2, 2, 1]


# ---- attempts, and members that begin anew ----


def test_attempts_are_numbered_and_a_member_that_joins_anew_ends_the_view() -> None:
    stage = in_view("abc")
    machine = stage.daemons["a"].machine
    machine.gather(GatherReason.TOKEN_LOST, stage.now)
    attempts = [m.attempt for a, _, m in stage.sent if a == "a" and isinstance(m, Join)]
    stage.settle()
    later = [m.attempt for a, _, m in stage.sent if a == "a" and isinstance(m, Join)]
    assert max(later) == max(attempts) + 1
    for name in "bc":
        assert stage.daemons[name].machine.reasons[GatherReason.MEMBER_GATHERS] == 1
    stage.run(0.1)
    assert stage.members == ["abc"] * 3


# ---- trouble ----


def test_timeouts_grow_with_failures_and_views_that_do_not_last_up_to_a_bound() -> None:
    trouble = Backoff()
    assert trouble.factor == 1
    for failure in range(1, MOST_FAILURES + 3):
        trouble.on_gather(10.0, operational=False)
        assert trouble.failures == min(failure, MOST_FAILURES)
        assert trouble.factor == 1 + trouble.failures / 2
    trouble.on_installed(20.0)
    trouble.on_gather(20.0 + STEADY_S / 2, operational=True)
    assert trouble.failures == MOST_FAILURES // 2, "it has stood for some time: much was right"
    trouble.on_installed(30.0)
    trouble.on_gather(30.0 + STEADY_S, operational=True)
    assert trouble.failures == 0
    trouble.on_installed(40.0)
    trouble.on_gather(40.0 + STEADY_S / 5, operational=True)
    assert trouble.failures == 1


def test_after_a_failed_attempt_a_daemon_is_not_quick() -> None:
    """Attempts that chase each other come to rest by that."""
    stage = in_view("ab")
    to_recovered(stage)
    stage.mute = {"b"}
    stage.daemons["a"].machine.peers[NUMBERS["b"]].heard_at -= TIMING.token_timeout_s
    while stage.state("a") is MembershipState.RECOVERED and stage.now < 4.0:
        stage.run(0.001)
    failed = stage.now
    stage.mute, stage.drop = set(), set()
    stage.run(TIMING.answer_wait_s * 0.8)
    assert stage.state("a") is MembershipState.GATHER, "though all have answered"
    stage.run(TIMING.answer_wait_s)
    assert stage.members == ["ab"] * 2
    assert stage.now - failed < 2 * TIMING.answer_wait_s


def test_a_network_with_failures_gets_less_to_carry() -> None:
    """Joins are repeated as seldom as waits are long, or slow networks would never calm down."""
    joins = []
    for failures in (0, MOST_FAILURES):
        stage = in_view("ab", seconds=STEADY_S / 2)
        stage.mute = {"b"}
        machine = stage.daemons["a"].machine
        machine._backoff.failures = 2 * failures  # half as many after a view that lasted
        machine.gather(GatherReason.PATH_LOST, stage.now)
        before = len(stage.sent)
        stage.run(TIMING.gather_wait_s * 0.9)
        joins.append(len(stage.said(Join, since=before)))
    calm, troubled = joins
    assert 2 * troubled < calm


@pytest.mark.parametrize("pause_s", [0.1, 0.0])
def test_members_that_leave_cost_no_failed_attempts(pause_s: float) -> None:
    """However short their views were; the joins that those were made from say nothing any more."""
    stage = in_view("abcd", seconds=0.1)
    for leaver in "dc":
        stage.daemons[leaver].machine.leave(stage.now)
        stage.run(0.02)
        left = "abcd"[: "abcd".index(leaver)]
        assert [stage.daemons[name].members for name in left] == [left] * len(left)
        stage.run(pause_s)
    for name in "ab":
        machine = stage.daemons[name].machine
        assert machine.reasons == {GatherReason.STARTED: 1, GatherReason.MEMBER_LEFT: 2}
        assert machine._backoff.failures == 0
    assert {a for a, _ in stage.said(Leave)} == {"c", "d"}


def test_joins_count_for_the_next_attempt_too_if_this_one_has_come_to_no_view() -> None:
    """Those of a view that was installed do not: its members begin anew."""
    stage = in_view("ab")
    to_recovered(stage)
    stage.mute = {"b"}
    machine = stage.daemons["a"].machine
    join = machine.peers[NUMBERS["b"]].join
    assert join is not None
    machine.gather(GatherReason.ATTEMPT_FAILED, stage.now)
    assert machine.peers[NUMBERS["b"]].join is join
    stage = in_view("ab")
    machine = stage.daemons["a"].machine
    assert machine.peers[NUMBERS["b"]].join is not None
    stage.mute = {"b"}
    machine.gather(GatherReason.TOKEN_LOST, stage.now)
    assert machine.peers[NUMBERS["b"]].join is None
