"""Starts of one daemon: later ones, outdated ones, clones."""

import pytest

from groupcomm.config.view import Adoption, Incarnation
from groupcomm.errors import ProtocolViolation
from groupcomm.membership.failure_detector import LATELY_S, PATIENCE_S, STALEMATE_S, UNHEARD
from groupcomm.membership.states import GatherReason, MembershipState
from groupcomm.wire.membership import Leave, Outdated
from tests.groupcomm.membership.stage import NUMBERS, Stage, counter_of, in_view, join_of, packet_of


def test_a_lower_restart_count_learns_the_higher_one() -> None:
    stage = Stage("ab")
    stage.start("ab", restarts=5)
    stage.run(0.1)
    stage.mute = {"b"}
    stage.run(2.0)
    stage.start("b", restarts=3, random_id=77)
    stage.run(2 * PATIENCE_S)
    told = {m for _, b, m in stage.sent if isinstance(m, Outdated) and b == "b"}
    assert told == {Outdated(77, 5, counter_of(stage.daemons["a"]) + UNHEARD)}
    adopt = stage.daemons["b"].machine.adopt
    assert adopt == Adoption(5, counter_of(stage.daemons["a"]) + UNHEARD)
    assert stage.daemons["a"].members == "a"
    assert stage.daemons["a"].machine.reasons[GatherReason.FELLOW_RESTARTED] == 0


def test_a_clone_is_refused_while_the_known_start_answers() -> None:
    stage = in_view("ab")
    clone = Incarnation(0, 99)
    machine = stage.daemons["a"].machine
    for _ in range(30):
        assert not machine.on_datagram(NUMBERS["b"], clone, stage.now)
        stage.run(0.1)
    assert stage.said(Outdated) == []
    assert stage.daemons["a"].members == "ab"


def test_only_the_start_that_is_meant_takes_a_higher_count() -> None:
    stage = in_view("ab")
    machine = stage.daemons["a"].machine
    stage.mute = {"b"}
    stage.run(2 * LATELY_S)
    for told in (Outdated(12345, 8, 10), Outdated(ord("a"), 8, 10), Outdated(ord("a"), 6, 11)):
        stage.say("b", "a", told)
        assert machine.adopt is None, "not at once"
    stage.run(PATIENCE_S + 0.1)
    stage.say("b", "a", Outdated(12345, 9, 12))
    assert machine.adopt is None
    stage.say("b", "a", Outdated(ord("a"), 6, 11))
    assert machine.adopt == Adoption(8, 11), "the highest of each: they come from several"


def test_one_daemon_does_not_end_another_one_that_a_third_one_hears() -> None:
    """It says that there was a later start, for as long as it likes."""
    stage = in_view("abc")
    stage.mute = {"b"}
    stage.run(2 * LATELY_S)
    assert stage.daemons["a"].members == stage.daemons["c"].members == "ac"
    for _ in range(100):
        stage.say("b", "a", Outdated(ord("a"), 8, 10))
        stage.run(STALEMATE_S / 50)
        if stage.daemons["a"].machine.adopt is not None:
            break
    assert stage.now > STALEMATE_S, "c may not know"


@pytest.mark.parametrize("restarts", [0, 2**40, 2**62])
def test_nobody_was_started_so_often_or_less_often_than_it_knows(restarts: int) -> None:
    stage = in_view("ab")
    with pytest.raises(ProtocolViolation, match="outdated"):
        stage.say("b", "a", Outdated(ord("a"), restarts, 10))
    assert stage.daemons["a"].machine.adopt is None


def test_no_number_is_adopted_that_no_daemon_can_have_used() -> None:
    stage = in_view("ab")
    with pytest.raises(ProtocolViolation, match="number"):
        stage.say("b", "a", Outdated(ord("a"), 8, 2**63))
    assert stage.daemons["a"].machine.adopt is None


def test_a_later_start_of_a_member_ends_the_view_and_its_former_one() -> None:
    stage = in_view("abc")
    old = stage.daemons["b"].start.incarnation
    stage.start("b", restarts=2, random_id=55)
    stage.settle()
    assert stage.daemons["a"].machine.reasons[GatherReason.FELLOW_RESTARTED] == 1
    assert stage.daemons["a"].host.forgotten == [(NUMBERS["b"], old)]
    stage.run(0.2)
    view = stage.daemons["a"].machine.view
    assert view is not None
    assert view.daemons[1].incarnation == Incarnation(2, 55)
    _, _, transitional_members = stage.daemons["a"].host.installed[-1]
    assert transitional_members == {0, 2}, "the new start brings nothing of the old view"
    assert not stage.daemons["a"].machine.on_datagram(NUMBERS["b"], old, stage.now)


def test_a_start_that_is_over_does_not_come_back_with_what_others_pass_on() -> None:
    stage = in_view("abc")
    stage.start("b", restarts=2, random_id=55)
    stage.run(0.2)
    reasons = dict(stage.daemons["a"].machine.reasons)
    stage.hear("a", "c", packet_of("b", join_of("b", 9)))
    stage.hear("a", "c", packet_of("b", Leave(), 2**12 + 1))
    stage.run(0.2)
    assert stage.members == ["abc"] * 3
    assert stage.daemons["a"].machine.reasons == reasons


def test_a_later_start_of_somebody_outside_is_harmless() -> None:
    stage = in_view("ab", "c")
    stage.isolate("ab", "c")
    stage.run(2.0)
    over = stage.daemons["c"].start.incarnation
    stage.hear("a", "b", packet_of("c", join_of("c", 1, ""), restarts=2, random_id=7))
    assert stage.daemons["a"].host.forgotten == [], "others say so; they may be broken"
    assert stage.daemons["a"].machine.on_datagram(NUMBERS["c"], Incarnation(2, 7), stage.now)
    assert stage.daemons["a"].host.forgotten == [(NUMBERS["c"], over)]
    assert stage.state("a") is MembershipState.OPERATIONAL
    assert stage.daemons["a"].machine.reasons[GatherReason.FELLOW_RESTARTED] == 0
