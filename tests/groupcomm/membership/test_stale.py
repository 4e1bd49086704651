"""Late, repeated and untrue messages change nothing."""

import pytest

from groupcomm.errors import BadDatagram, RemoteProtocolError
from groupcomm.membership.states import GatherReason, MembershipState
from groupcomm.wire.membership import Commit, ControlKind, Leave, Proposal, Seat
from tests.groupcomm.membership.stage import NUMBERS, in_view, join_of, packet_of


def test_stale_joins_change_nothing() -> None:
    """Each message counts only if no later one of its kind has come."""
    stage = in_view("abc")
    stage.say("b", "a", join_of("b", attempt=1), 2**12)
    assert stage.state("a") is MembershipState.OPERATIONAL, (
        "the attempt that the view was made from"
    )
    stage.say("b", "a", join_of("b", attempt=9), 2**12 - 1)
    stage.say("b", "a", join_of("b", attempt=9), 2**12)
    assert stage.state("a") is MembershipState.OPERATIONAL, "lower, or repeated"
    stage.say("b", "a", join_of("b", attempt=9), 2**12 + 1)
    assert stage.state("a") is MembershipState.GATHER


# ---- commits that come again ----


def test_a_commit_that_comes_again_is_answered_to_its_sender_and_the_answer_is_not() -> None:
    """The view is installed at both; if answers were answered, they would go on for ever."""
    stage = in_view("abc")
    commit = next(m for a, _, m in stage.sent if a == "b" and isinstance(m, Commit))
    before = len(stage.sent)
    stage.say("b", "a", commit, 2**12)
    stage.settle()
    answers = [(a, b, m) for a, b, m in stage.sent[before:] if isinstance(m, Commit)]
    assert [(a, b, m.installed, m.recovered) for a, b, m in answers] == [("a", "b", True, True)]
    assert stage.members == ["abc"] * 3
    stage.say("b", "a", commit, 2**12)
    stage.settle()
    assert len(stage.said(Commit, before)) == 1, "the very same packet is not even looked at"


def test_who_asks_over_others_is_answered_over_others_and_rarely() -> None:
    stage = in_view("ab", "c")
    stage.cut = {("a", "c"), ("c", "a")}
    stage.daemons["a"].machine.gather(GatherReason.TOKEN_LOST, stage.now)
    stage.run(1.0)
    assert stage.members == ["abc"] * 3
    commit = next(m for a, _, m in reversed(stage.sent) if a == "c" and isinstance(m, Commit))
    asking = Commit(commit.attempt, commit.proposal, True, False, ())
    before = len(stage.sent)
    for sequence in range(3):
        stage.hear("a", "b", packet_of("c", asking, 2**12 + sequence))
        stage.settle()
    own = [(b, m.installed) for a, b, m in stage.sent[before:] if a == "a" and type(m) is Commit]
    assert own == [("a", True), ("b", True), ("c", True)], "to all, once in an interval"
    assert not [a for a, _ in stage.said(Commit, before) if a != "a"]


def test_commits_to_other_proposals_do_not_end_a_view() -> None:
    stage = in_view("abc")
    old = next(m for a, _, m in stage.sent if a == "b" and isinstance(m, Commit))
    stage.daemons["a"].machine.gather(GatherReason.TOKEN_LOST, stage.now)
    stage.run(0.1)
    reasons = dict(stage.daemons["a"].machine.reasons)
    stage.say("b", "a", old)
    stage.settle()
    assert stage.daemons["a"].members == "abc"
    assert stage.daemons["a"].machine.reasons == reasons


# ---- untrue messages ----


def test_a_daemon_can_join_in_its_own_name_only() -> None:
    stage = in_view("abc")
    with pytest.raises(RemoteProtocolError):
        stage.say("b", "a", join_of("c", attempt=9))
    assert stage.daemons["a"].members == "abc"


def test_a_daemon_can_commit_as_it_is_only() -> None:
    stage = in_view("abc")
    commit = next(m for a, _, m in stage.sent if a == "b" and isinstance(m, Commit))
    with pytest.raises(RemoteProtocolError):
        stage.say("b", "a", Commit(9, commit.proposal, False, False, ()))
    assert stage.daemons["a"].members == "abc"


def test_a_body_that_does_not_decode_is_refused() -> None:
    stage = in_view("abc")
    bad = packet_of("b", Leave(), 2**13)
    bad.kind, bad.payload = ControlKind.JOIN, b"\x93"
    with pytest.raises(BadDatagram):
        stage.hear("a", "b", bad)
    assert stage.daemons["a"].members == "abc"


def test_what_a_daemon_is_said_to_have_said_itself_is_not_heard() -> None:
    """Others pass its own messages back to it; they tell it nothing."""
    stage = in_view("abc")
    stage.hear("a", "b", packet_of("a", join_of("a", attempt=9)))
    stage.hear("a", "b", packet_of("a", Leave(), 2**12 + 1))
    assert stage.state("a") is MembershipState.OPERATIONAL
    assert stage.daemons["a"].taken() == []


def test_a_proposal_whose_members_do_not_reach_each_other_is_refused() -> None:
    stage = in_view("ab")
    machine = stage.daemons["a"].machine
    machine.gather(GatherReason.PAUSED, stage.now)
    stage.say("b", "a", join_of("b", 9, hears="ab"))
    attempts = {"a": machine._own_join.attempt, "b": 9}
    seats = tuple(
        Seat(NUMBERS[name], 1, ord(name), attempts[name], b"\0")
        for name in sorted("ab", key=NUMBERS.__getitem__)
    )
    with pytest.raises(RemoteProtocolError):
        stage.say("b", "a", Commit(1, Proposal(seats), False, False, ()))
    assert machine.state is MembershipState.GATHER
