"""A view whose rest takes many steps: its daemon goes on into the next one, and others wait."""

from itertools import pairwise

from groupcomm.config.roster import AddDaemon
from groupcomm.membership.operational import WAITED_TIMEOUTS
from groupcomm.membership.states import GatherReason, MembershipState
from groupcomm.wire.membership import Commit
from tests.groupcomm.membership.stage import NUMBERS, Daemon, Stage, in_view

LONG = 10**9


def with_a_long_end(*sites: str, pieces: int = LONG) -> tuple[Stage, Daemon]:
    """The view ends, and the rest of it takes so many steps at a; others are in the next one."""
    stage = in_view(*sites)
    a = stage.daemons["a"]
    a.host.pieces = pieces
    a.machine.gather(GatherReason.TOKEN_LOST, stage.now)
    while "end" not in a.host.log[-3:]:
        step(stage)
    return stage, a


def step(stage: Stage) -> None:
    """Let all act for a millisecond."""
    stage.run(0.001)


def test_the_view_is_installed_once_the_rest_is_delivered() -> None:
    stage, a = with_a_long_end("ab", pieces=50)
    assert a.machine.state is MembershipState.RECOVERED
    assert a.machine.deadline <= stage.now + 1e-9, "the next step delivers more"
    while a.host.pieces > 1:
        assert a.machine.state is MembershipState.RECOVERED
        step(stage)
    step(stage)
    assert stage.members == ["ab", "ab"]
    assert len(a.host.log) - a.host.log.index("bind") == 50 + 2, "end, 50 times, and install"


def test_a_busy_daemon_says_so_and_the_others_do_not_judge_it() -> None:
    stage, a = with_a_long_end("abc")
    before = len(stage.sent)
    for _ in range(100):
        step(stage)
    assert {sender for sender, _ in stage.said(Commit, before) if sender == "a"}
    for name in "bc":
        assert set(stage.daemons[name].host.excused) == {NUMBERS["a"]}
    assert a.machine.state is MembershipState.RECOVERED


def test_others_wait_for_so_long_only() -> None:
    stage, _ = with_a_long_end("abc")
    b = stage.daemons["b"]
    (*_, commit) = (
        message for name, _, message in stage.sent if name == "a" and isinstance(message, Commit)
    )
    stage.mute.add("b")  # it hears what the test says, and does not act
    waits_s = WAITED_TIMEOUTS * stage.config.timing.token_timeout_s
    for later_s, excused in ((0.0, 1), (waits_s - 0.1, 1), (0.2, 0)):
        b.host.excused.clear()
        stage.now += later_s
        stage.say("a", "b", commit)
        assert len(b.host.excused) == excused


def test_what_was_begun_is_ended_before_the_daemon_looks_for_another_view() -> None:
    """Others rely on it: it has delivered a part of what they deliver before the next view."""
    stage, a = with_a_long_end("ab")
    a.machine.gather(GatherReason.MEMBER_RESTARTED, stage.now)
    assert a.host.log[-3:] == ["end", "install", "freeze"]
    assert a.machine.state is MembershipState.GATHER
    assert a.machine.reasons[GatherReason.MEMBER_RESTARTED] == 1
    stage.run(1.0)
    assert stage.members == ["ab", "ab"]


def test_a_roster_that_the_rest_brings_waits_until_the_view_is_installed() -> None:
    stage, a = with_a_long_end("ab", pieces=50)
    roster = stage.config.roster.changed(AddDaemon(name="c", site="1"))
    a.machine.use_config(stage.config.with_roster(roster), stage.now)
    assert a.machine.state is MembershipState.RECOVERED
    while a.host.pieces > 1:
        step(stage)
    step(stage)
    assert a.machine.reasons[GatherReason.ROSTER_CHANGED] == 1
    assert [two for one, two in pairwise(a.host.log) if one == "install"][-1] == "freeze"


def test_others_that_have_gone_on_to_another_view_are_followed_from_the_one_agreed_on() -> None:
    stage, a = with_a_long_end("abc", pieces=50)
    coming = a.machine.coming
    assert coming is not None
    stage.daemons["b"].machine.gather(GatherReason.PATH_LOST, stage.now)
    views = len(a.host.installed)
    while len(a.host.installed) == views:
        step(stage)
    assert a.host.installed[-1][0] == coming
    stage.run(1.0)
    assert stage.members == ["abc"] * 3
    assert a.host.installed[-1][2] == {0, 1, 2}, "all have come from it together"
