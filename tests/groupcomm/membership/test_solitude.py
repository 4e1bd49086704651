"""A daemon whose member claims packets that never come goes on without it, and only then."""

import pytest

from groupcomm.errors import Contradiction
from groupcomm.membership.agreement import MOST_FAILURES
from groupcomm.membership.states import GatherReason, MembershipState
from groupcomm.wire.membership import Commit, ControlKind, Repair
from tests.groupcomm.membership.stage import Stage, in_view

LONG_S = 60.0


def withheld(names: str = "ab") -> Stage:
    """Return daemons of one view, of which all but b say to hold a packet that b never gets."""
    stage = in_view(names)
    for name, daemon in stage.daemons.items():
        daemon.host.held = {1} if name == "b" else {1, 2}
    stage.drop = {("a", ControlKind.REPAIR)}
    stage.daemons["a"].machine.gather(GatherReason.TOKEN_LOST, stage.now)
    return stage


def came_with(stage: Stage, name: str) -> int:
    """Return the number of members with which a daemon came out of its old view, itself
    included."""
    _, _, transitional_members = stage.daemons[name].host.installed[-1]
    return len(transitional_members)


def test_what_never_comes_keeps_nobody_from_a_view_for_ever() -> None:
    stage = withheld()
    before = len(stage.daemons["b"].host.installed)
    stage.run(LONG_S)
    assert [daemon.members for daemon in stage.daemons.values()] == ["ab", "ab"]
    assert len(stage.daemons["b"].host.installed) > before
    assert came_with(stage, "b") == 1


def test_who_gives_the_others_up_has_a_view_by_itself_before_it_is_with_them_again() -> None:
    """Else two would go from one view to the next, and not together (simulator seed 1201097)."""
    stage = withheld()
    before = len(stage.daemons["b"].host.installed)
    stage.run(LONG_S)
    first, *_ = stage.daemons["b"].host.installed[before:]
    assert [daemon.name for daemon in first[0].daemons] == ["b"]
    assert stage.daemons["b"].members == "ab"


def test_also_if_the_other_one_is_first_to_give_each_attempt_up() -> None:
    """The cause is packets that do not come, whoever claims them first (simulator seed 1084)."""
    stage = withheld()
    patience_s = stage.config.timing.answer_wait_s
    a, b = (stage.daemons[name].machine for name in "ab")
    for _ in range(40 * MOST_FAILURES):
        stage.run(1.5 * patience_s)
        if a.state is MembershipState.COMMIT and b.state is MembershipState.COMMIT:
            a.gather(GatherReason.ATTEMPT_FAILED, stage.now)
    stage.run(LONG_S)
    assert [daemon.members for daemon in stage.daemons.values()] == ["ab", "ab"]


def test_what_comes_late_is_waited_for() -> None:
    stage = withheld()
    stage.run(1.0)
    assert stage.daemons["b"].members == ""
    stage.drop.clear()
    stage.run(LONG_S)
    assert [daemon.members for daemon in stage.daemons.values()] == ["ab", "ab"]
    assert came_with(stage, "b") == 2


def test_who_is_bound_to_others_stays_with_them() -> None:
    """They may have installed the view: coming alone would break a guarantee."""
    stage = withheld()
    stage.daemons["b"].host.obligation = frozenset({0, 1})
    before = len(stage.daemons["b"].host.installed)
    stage.run(LONG_S)
    assert len(stage.daemons["b"].host.installed) == before


def assert_it_was_alone_first(stage: Stage, views: int) -> None:
    """Assert that b, after so many views, had one by itself before it was with a again."""
    assert stage.daemons["b"].machine.reasons[GatherReason.CONTRADICTED] == 1
    stage.run(stage.config.timing.answer_wait_s)
    assert len(stage.daemons["b"].host.installed) > views, "at once, not after some failures"
    stage.run(LONG_S)
    first, last = stage.daemons["b"].host.installed[views:]
    assert [len(view.daemons) for view, _, _ in (first, last)] == [1, 2]
    assert len(first[2]) == len(last[2]) == 1
    assert [daemon.members for daemon in stage.daemons.values()] == ["ab", "ab"]


def test_a_daemon_leaves_alone_if_a_packet_of_others_contradicts_one_held_here() -> None:
    stage = withheld()
    b = stage.daemons["b"]
    stage.run(stage.config.timing.repeat_s)
    assert b.machine.state is MembershipState.COMMIT
    views, b.host.contradicted = len(b.host.installed), {2}
    with pytest.raises(Contradiction):
        stage.say("a", "b", Repair(b.host.key, b"2"))
    assert_it_was_alone_first(stage, views)


def test_a_daemon_leaves_alone_if_its_deliveries_contradict_the_packets_of_others() -> None:
    stage = withheld()
    b = stage.daemons["b"]
    views, b.host.sound = len(b.host.installed), False
    stage.drop.clear()
    stage.run(stage.config.timing.repeat_s)
    assert_it_was_alone_first(stage, views)


def test_a_commit_is_said_ever_more_rarely_while_nothing_changes() -> None:
    """In a long recovery they took nearly all of a narrow way (simulator seed 1200986)."""
    stage = withheld("abc")
    repeat_s, c = stage.config.timing.repeat_s, stage.daemons["c"].machine
    intervals = said = 0
    for _ in range(int(2.0 / repeat_s)):
        before = len(stage.sent)
        stage.run(repeat_s)
        intervals += c.state is MembershipState.RECOVERED  # c waits for b, which a is to help
        to_a = [m for one, two, m in stage.sent[before:] if (one, two) == ("c", "a")]
        said += sum(isinstance(message, Commit) for message in to_a)
    assert intervals > 100
    assert intervals / 4 < said < 0.7 * intervals
