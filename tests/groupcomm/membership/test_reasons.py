"""States, and every reason to gather."""

from collections.abc import Callable
from pathlib import Path

import pytest

from groupcomm.config.core import Timing
from groupcomm.config.roster import AddDaemon
from groupcomm.config.view import Incarnation
from groupcomm.errors import Contradiction, ProtocolViolation, RemoteProtocolError
from groupcomm.membership.states import GatherReason, MembershipState
from groupcomm.membership.trust import FEW
from groupcomm.wire.membership import Beacon, ControlKind, Leave
from tests.groupcomm.membership.stage import (
    ALIKE,
    FIRST,
    HEARS_A,
    NUMBERS,
    OTHER_VIEW,
    PLENTY,
    Stage,
    counter_of,
    in_view,
    join_of,
    row_of,
)

TIMING = Timing()
DOC = Path(__file__).parents[3] / "docs" / "membership.md"


def test_the_way_to_a_view_leads_through_all_states_and_leaving_ends_it() -> None:
    stage = in_view("abc")
    machine = stage.daemons["a"].machine
    machine.leave(stage.now)
    stage.run(0.1)
    way = [
        MembershipState.GATHER,
        MembershipState.GATHER,
        MembershipState.COMMIT,
        MembershipState.RECOVERED,
        MembershipState.OPERATIONAL,
        MembershipState.LEFT,
    ]
    assert machine.states == way


# ---- reasons: what leads to them, and that it leads nowhere else ----


def silent(stage: Stage) -> None:
    stage.mute = {"b", "c"}
    for _ in range(100):
        if stage.state("a") is MembershipState.OPERATIONAL:
            stage.run(0.01)


def restarted(stage: Stage) -> None:
    stage.daemons["a"].machine.on_datagram(NUMBERS["b"], Incarnation(2, 5), stage.now)


def moved(stage: Stage) -> None:
    later = counter_of(stage.daemons["a"]) + 1
    stage.say("b", "a", Beacon(later, OTHER_VIEW, HEARS_A, ALIKE, 1, PLENTY, 0, FIRST))


def heard(stage: Stage) -> None:
    stage.place("d")
    stage.mute = {"d"}
    stage.say("d", "a", Beacon(1, OTHER_VIEW, row_of("abc"), ALIKE, 1, PLENTY, 0, FIRST))


def failed(stage: Stage) -> None:
    """It commits, and hears no more of the others."""
    stage.drop = {("b", ControlKind.COMMIT), ("c", ControlKind.COMMIT)}
    stage.daemons["a"].machine.gather(GatherReason.TOKEN_LOST, stage.now)
    stage.run(TIMING.token_timeout_s)
    stage.mute = {"b", "c"}
    for _ in range(200):
        if stage.state("a") is not MembershipState.GATHER:
            stage.run(0.001)


def roster_changed(stage: Stage) -> None:
    """It looks for a view while the cluster adds a daemon."""
    machine = stage.daemons["a"].machine
    machine.gather(GatherReason.TOKEN_LOST, stage.now)
    config = machine._config
    roster = config.roster.changed(AddDaemon(name="n", site="1"))
    machine.use_config(config.with_roster(roster), stage.now)


def broken(error: RemoteProtocolError) -> Callable[[Stage], None]:
    """A member has sent a few packets that no correct daemon sends."""

    def send(stage: Stage) -> None:
        for _ in range(FEW):
            assert stage.state("a") is MembershipState.OPERATIONAL
            stage.daemons["a"].machine.on_broken(NUMBERS["b"], error, stage.now)

    return send


def begin(reason: GatherReason) -> Callable[[Stage], None]:
    """Reasons that the daemon itself notices and reports."""
    return lambda stage: stage.daemons["a"].machine.gather(reason, stage.now)


CAUSES: dict[GatherReason, Callable[[Stage], None]] = {
    GatherReason.STARTED: lambda _: None,
    GatherReason.TOKEN_LOST: begin(GatherReason.TOKEN_LOST),
    GatherReason.PATH_LOST: silent,
    GatherReason.NOT_RECEIVED: begin(GatherReason.NOT_RECEIVED),
    GatherReason.MEMBER_GATHERS: lambda stage: stage.say("b", "a", join_of("b", attempt=2)),
    GatherReason.MEMBER_MOVED: moved,
    GatherReason.MEMBER_RESTARTED: restarted,
    GatherReason.MEMBER_LEFT: lambda stage: stage.say("b", "a", Leave()),
    GatherReason.FOREIGN_HEARD: heard,
    GatherReason.MEMBER_BROKEN: broken(ProtocolViolation("token", "hop 7")),
    GatherReason.CONTRADICTED: broken(Contradiction("token", "hop 7")),
    GatherReason.ROSTER_CHANGED: roster_changed,
    GatherReason.PAUSED: begin(GatherReason.PAUSED),
    GatherReason.ATTEMPT_FAILED: failed,
}


@pytest.mark.parametrize("reason", GatherReason)
def test_each_reason_has_an_event_that_leads_to_it_and_to_nothing_else(
    reason: GatherReason,
) -> None:
    stage = Stage("abcd")
    stage.start("abc")
    stage.run(3.0)
    assert stage.members == ["abc"] * 3
    machine, context = stage.daemons["a"].machine, stage.daemons["a"].host
    attempt = machine._own_join.attempt
    CAUSES[reason](stage)
    assert machine.reasons[reason] == 1
    if reason is not GatherReason.STARTED:
        assert stage.state("a") is MembershipState.GATHER
        assert context.log[-1] == "freeze", "the old view stands still"
        assert machine._own_join.attempt > attempt
        others = machine.reasons.total() - 2
        assert others == (reason in (GatherReason.ATTEMPT_FAILED, GatherReason.ROSTER_CHANGED))


def test_the_page_lists_the_same_reasons_and_states() -> None:
    page = DOC.read_text()
    tables = {line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| ")}
    assert {reason.name for reason in GatherReason} <= tables
    assert {state.name for state in MembershipState} <= tables


# ---- silence ----


def test_a_silent_fellow_is_noticed_after_a_token_timeout() -> None:
    stage = in_view("abc")
    stage.mute = {"b"}
    gone = stage.now
    while stage.members[0] == "abc" and stage.now < gone + 2:
        stage.run(0.01)
    assert TIMING.token_timeout_s - TIMING.beacon_interval_s < stage.now - gone
    assert stage.now - gone < TIMING.token_timeout_s + 0.02
    assert [stage.daemons[name].members for name in "ac"] == ["ac"] * 2, "nobody waits for it"
    reasons = stage.daemons["a"].machine.reasons + stage.daemons["c"].machine.reasons
    assert reasons[GatherReason.PATH_LOST] >= 1


def test_the_other_end_of_a_link_has_the_delay_of_the_way_on_top() -> None:
    timing = Timing(longest_delay_s=0.3)
    stage = Stage("a", "b", timing=timing)
    stage.start("ab")
    stage.run(5.0)
    assert stage.members == ["ab"] * 2
    stage.mute = {"b"}
    gone = stage.now
    stage.run(timing.token_timeout_s + 0.3 - timing.beacon_interval_s)
    assert stage.state("a") is MembershipState.OPERATIONAL
    while stage.state("a") is MembershipState.OPERATIONAL and stage.now < gone + 2:
        stage.run(0.01)
    assert stage.now - gone < timing.token_timeout_s + 0.3 + 0.02


def test_who_is_neither_in_the_ring_nor_at_a_link_is_not_watched() -> None:
    """Other members take care of it; here only messages passed on by others report it."""
    stage = in_view("ab", "cd")
    view = stage.daemons["b"].machine.view
    assert view is not None
    assert view.links == ((0, 2),)
    stage.cut = {("c", "b"), ("d", "b"), ("b", "c"), ("b", "d")}
    stage.run(2.0)
    assert stage.members == ["abcd"] * 4
    assert {d.machine.reasons.total() for d in stage.daemons.values()} == {1}


def test_a_fellow_that_is_late_with_its_beacon_is_not_lost() -> None:
    stage = in_view("ab")
    stage.cut = {("b", "a")}
    stage.run(TIMING.token_timeout_s - 2 * TIMING.beacon_interval_s - 0.01)
    stage.cut = set()
    stage.run(1.0)
    assert stage.members == ["ab"] * 2
    assert stage.daemons["a"].machine.reasons == {GatherReason.STARTED: 1}


def test_a_member_that_is_in_an_older_view_is_only_late() -> None:
    stage = in_view("abc")
    machine = stage.daemons["a"].machine
    counter = counter_of(stage.daemons["a"])
    stage.say("b", "a", Beacon(counter - 1, OTHER_VIEW, HEARS_A, ALIKE, 1, PLENTY, 0, FIRST))
    assert stage.state("a") is MembershipState.OPERATIONAL
    stage.say("b", "a", Beacon(counter + 1, OTHER_VIEW, (), ALIKE, 1, PLENTY, 0, FIRST))
    assert machine.reasons[GatherReason.MEMBER_MOVED] == 1, "whomever it hears"


# ---- leaving ----


def test_who_leaves_says_so_some_times_and_is_out_at_once() -> None:
    stage = in_view("abc")
    before = len(stage.sent)
    stage.daemons["b"].machine.leave(stage.now)
    stage.run(0.04)
    assert stage.state("b") is MembershipState.LEFT
    assert {a for a, _ in stage.said(Leave, before)} == {"b"}
    assert len(stage.said(Leave, before)) == 4 * 3, "to all of the site, itself included"
    for name in "ac":
        assert stage.daemons[name].members == "ac"
        assert stage.daemons[name].machine.reasons[GatherReason.MEMBER_LEFT] == 1


def test_who_has_left_hears_nothing_says_nothing_and_begins_nothing() -> None:
    stage = in_view("abc")
    machine = stage.daemons["b"].machine
    machine.leave(stage.now)
    stage.run(0.04)
    before, reasons = len(stage.sent), dict(machine.reasons)
    stage.say("a", "b", join_of("a", 99))
    stage.say("a", "b", Leave())
    for reason in GatherReason:
        machine.gather(reason, stage.now)
    stage.run(2.0)
    assert not [a for a, _, _ in stage.sent[before:] if a == "b"]
    assert (stage.state("b"), machine.reasons) == (MembershipState.LEFT, reasons)
    assert stage.daemons["a"].members == "ac", "what is left of it does not bring it back"


def test_what_is_late_of_a_daemon_that_has_left_does_not_bring_it_back() -> None:
    stage = in_view("abc")
    stage.daemons["b"].machine.leave(stage.now)
    stage.run(0.04)
    stage.say("b", "a", Beacon(10**15, OTHER_VIEW, HEARS_A, ALIKE, 1, PLENTY, 0, FIRST))
    stage.say("b", "a", join_of("b", 9))
    stage.run(0.5)
    assert [stage.daemons[name].members for name in "ac"] == ["ac"] * 2
    stage.start("b", restarts=2, random_id=9)
    stage.run(0.5)
    assert stage.members == ["abc"] * 3, "a later start of it is somebody new"


def test_a_view_that_was_agreed_to_with_the_roster_of_before_is_left_at_once() -> None:
    """The rest of the view before has changed the roster, as members from elsewhere do not know."""
    stage = in_view("ab")
    a = stage.daemons["a"]
    roster = stage.config.roster.changed(AddDaemon(name="c", site="1"))
    changes = [stage.config.with_roster(roster)]

    def change() -> None:
        if changes:
            a.machine.use_config(changes.pop(), stage.now)

    a.host.on_end = change
    a.machine.gather(GatherReason.TOKEN_LOST, stage.now)
    views = len(a.host.installed)
    while len(a.host.installed) == views:
        stage.run(0.001)
    assert a.machine.reasons[GatherReason.ROSTER_CHANGED] == 1
    assert stage.state("a") is MembershipState.GATHER
