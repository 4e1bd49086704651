"""Amir, Moser, Melliar-Smith, Agarwal, Ciarfella, "The Totem Single-Ring Ordering and Membership
Protocol", ACM TOCS 13(4), 1995: the states of the membership protocol and the recovery protocol.

The states are those of its membership protocol (section 6) and recovery protocol (section 7).
Unlike in the paper no commit token rotates: every daemon floods its commit, and the exchange of
packets is part of the Commit state here.
"""

import pytest

from groupcomm.config.core import Timing
from groupcomm.membership.states import GatherReason, MembershipState
from groupcomm.wire.membership import Beacon, Commit, ControlKind, Join, Repair
from tests.groupcomm.membership.stage import FIRST, OTHER_VIEW, PLENTY, Stage, in_view, join_of

GATHER, COMMIT = MembershipState.GATHER, MembershipState.COMMIT
RECOVERED, OPERATIONAL = MembershipState.RECOVERED, MembershipState.OPERATIONAL


def lose_token(stage: Stage, name: str) -> None:
    """A daemon has received no token for the token loss timeout."""
    stage.daemons[name].machine.gather(GatherReason.TOKEN_LOST, stage.now)


def hold(stage: Stage, **numbers: set[int]) -> None:
    """The packets of the old ring that each daemon has received."""
    for name, held in numbers.items():
        stage.daemons[name].host.held = held


# ---- section 6: the membership protocol ----


def test_operational_to_gather_when_the_token_is_lost() -> None:
    stage = in_view("abc")
    lose_token(stage, "b")
    assert stage.state("b") is GATHER
    assert stage.daemons["b"].host.log[-1] == "freeze", "the old ring is not used any more"


def test_operational_to_gather_when_a_join_of_a_member_arrives() -> None:
    stage = in_view("abc")
    stage.say("b", "a", join_of("b", attempt=2))
    assert stage.state("a") is GATHER
    assert stage.daemons["a"].machine.reasons[GatherReason.MEMBER_GATHERS] == 1


def test_operational_to_gather_when_a_foreign_message_arrives() -> None:
    stage = Stage("abz")
    stage.start("ab")
    stage.run(3.0)
    stage.place("z")
    stage.mute.add("z")
    heard = tuple(stage.daemons[name].machine._detector.key for name in "ab")
    beacon = Beacon(5, OTHER_VIEW, heard, bytes(16), 5, PLENTY, 0, FIRST)
    stage.say("z", "a", beacon)
    assert stage.state("a") is GATHER
    assert stage.daemons["a"].machine.reasons[GatherReason.FOREIGN_HEARD] == 1


def test_a_join_of_an_earlier_ring_is_ignored() -> None:
    stage = in_view("abc")
    stage.say("b", "a", join_of("b", attempt=1))
    assert stage.state("a") is OPERATIONAL, "it led to this ring, and asks for no other"


def test_gather_to_commit_when_all_members_agree_on_the_membership() -> None:
    stage = in_view("abc")
    stage.drop = {(name, ControlKind.COMMIT) for name in "abc"}
    lose_token(stage, "a")
    stage.run(0.05)
    for name in "abc":
        states = stage.daemons[name].machine.states
        assert states[states.index(OPERATIONAL) + 1 :][:2] == [GATHER, COMMIT]


def test_a_daemon_that_does_not_answer_is_taken_out_after_the_consensus_timeout() -> None:
    stage = in_view("abc")
    stage.mute.add("c")
    lose_token(stage, "a")
    stage.run(0.001)
    assert stage.state("a") is GATHER, "c may still answer"
    stage.run(1.0)
    assert stage.members == ["ab", "ab"]


def test_commit_to_gather_when_the_commit_of_a_member_does_not_come() -> None:
    stage = in_view("ab")
    stage.drop = {("b", ControlKind.COMMIT)}
    lose_token(stage, "a")
    stage.run(5.0)
    reasons = stage.daemons["a"].machine.reasons
    assert reasons[GatherReason.ATTEMPT_FAILED] > 0
    assert stage.daemons["a"].host.log.count("install") == 1, "none but the first ring"


def test_every_new_ring_has_a_higher_sequence_number() -> None:
    stage = in_view("abc")
    counters = []
    for name in "abc":
        view = stage.daemons[name].machine.view
        assert view is not None
        counters.append(view.id.counter)
        lose_token(stage, name)
        stage.run(3.0)
    assert counters == sorted(set(counters))


def test_the_states_follow_each_other_in_the_order_of_the_paper() -> None:
    stage = in_view("abc")
    lose_token(stage, "a")
    stage.run(1.0)
    for name in "abc":
        assert stage.daemons[name].machine.states[-4:] == [GATHER, COMMIT, RECOVERED, OPERATIONAL]


# ---- section 7: the recovery protocol ----


def test_recovery_members_of_the_old_ring_exchange_what_others_lack() -> None:
    stage = in_view("abc")
    hold(stage, a={1, 2}, b={1, 3}, c={1})
    lose_token(stage, "a")
    stage.run(1.0)
    packets = {message.packet for _, _, message in stage.sent if isinstance(message, Repair)}
    assert packets == {b"2", b"3"}, "and nothing that all of them hold"
    recovered = [daemon.host.installed[-1][1] for daemon in stage.daemons.values()]
    assert all(found is not None and found.spans == [[(1, 3)]] for found in recovered)


def test_recovery_no_ring_is_installed_before_all_have_recovered() -> None:
    stage = in_view("abc")
    hold(stage, a={1, 2}, b={1, 2}, c={1})
    stage.drop = {("a", ControlKind.REPAIR), ("b", ControlKind.REPAIR)}
    lose_token(stage, "a")
    stage.run(Timing().repeat_s)
    assert [stage.state(name) for name in "abc"] == [RECOVERED, RECOVERED, COMMIT]
    said = [m.recovered for name, _, m in stage.sent if name == "c" and isinstance(m, Commit)]
    assert not said[-1], "c lacks a packet, so nobody has a new ring"


def test_recovery_a_failure_leads_back_to_gather_and_obligations_are_kept() -> None:
    stage = in_view("abc")
    hold(stage, a={1, 2}, b={1, 2}, c={1})
    stage.drop = {("a", ControlKind.REPAIR), ("b", ControlKind.REPAIR)}
    lose_token(stage, "a")
    stage.run(Timing().repeat_s)
    assert stage.state("a") is RECOVERED
    lose_token(stage, "a")
    assert stage.state("a") is GATHER
    past = stage.daemons["a"].machine._own_join.latest.past
    assert past is not None
    assert set(past.obligation) == {0, 1, 2}, "its next join tells to whom it is obliged"


@pytest.mark.parametrize("starts", ["abc", "ab"])
def test_a_start_forms_a_ring_of_all_that_hear_each_other(starts: str) -> None:
    stage = Stage("abc")
    stage.start(starts)
    stage.run(3.0)
    assert stage.members == [starts] * len(starts)
    assert any(isinstance(message, Join) for _, _, message in stage.sent)
