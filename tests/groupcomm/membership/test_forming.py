"""The way to a view: whom it has, its rings and links, counters, clocks."""

import pytest

from groupcomm.config.core import Timing
from groupcomm.membership.states import GatherReason, MembershipState
from groupcomm.wire.membership import Beacon, Commit
from tests.groupcomm.membership.stage import (
    ALIKE,
    FIRST,
    NUMBERS,
    PLENTY,
    Stage,
    counter_of,
    in_view,
    row_of,
)

TIMING = Timing()


@pytest.mark.parametrize("sites", [("a",), ("abc",), ("ab", "c"), ("a", "b", "cd")])
def test_all_that_hear_each_other_form_one_view_and_are_notified_once(
    sites: tuple[str, ...],
) -> None:
    stage = in_view(*sites)
    assert len({daemon.machine.view for daemon in stage.daemons.values()}) == 1
    for daemon in stage.daemons.values():
        assert daemon.host.log == ["freeze", "install"]
        assert daemon.machine.reasons == {GatherReason.STARTED: 1}


def test_if_all_answer_nobody_waits() -> None:
    stage = Stage("abc")
    stage.start("abc")
    stage.run(TIMING.gather_wait_s / 5)
    assert stage.members == ["abc"] * 3


@pytest.mark.parametrize("silent_s", [0.0, 0.2, 0.4])
def test_a_member_is_left_out_once_it_was_silent_for_a_token_timeout(silent_s: float) -> None:
    """So it does not matter for which reason, and when, the others look for a view."""
    stage = in_view("abc", seconds=3.0)
    stage.mute = {"c"}
    heard_at = stage.daemons["a"].machine.peers[NUMBERS["c"]].heard_at
    stage.run(silent_s)
    stage.daemons["a"].machine.gather(GatherReason.FOREIGN_HEARD, stage.now)
    out_at = min(stage.now, heard_at) + TIMING.token_timeout_s
    stage.run(out_at - stage.now - 0.001)
    assert stage.state("a") is MembershipState.GATHER
    stage.run(0.02)
    assert stage.members == ["ab"] * 2


def test_a_member_whose_silence_ends_the_view_is_not_waited_for() -> None:
    stage = in_view("abc")
    heard_at = stage.now
    stage.mute = {"c"}
    while stage.members != ["ab"] * 2 and stage.now < heard_at + 2.0:
        stage.run(0.001)
    assert stage.now - heard_at < TIMING.token_timeout_s + TIMING.repeat_s


def test_nobody_takes_over_a_proposal_without_a_member_that_it_waits_for() -> None:
    """d has just started, and does not know c; it has no reason to wait for it."""
    stage = Stage("abcd")
    stage.start("abc")
    stage.run(3.0)
    assert stage.members == ["abc"] * 3
    stage.mute = {"c"}
    stage.start("d")
    stage.settle()
    stage.daemons["a"].machine.gather(GatherReason.FOREIGN_HEARD, stage.now)
    stage.run(TIMING.token_timeout_s / 2)
    assert ("d", "a") in stage.said(Commit)
    assert stage.state("a") is MembershipState.GATHER
    stage.mute = set()
    stage.run(0.5)
    assert stage.members == ["abcd"] * 4
    for name in "abc":
        *_, (_, _, together) = stage.daemons[name].host.installed
        assert together == {0, 1, 2}, name


def test_a_member_that_is_heard_and_never_joins_delays_a_view_by_a_token_timeout() -> None:
    stage = in_view("abc")
    view = stage.daemons["a"].machine.view
    assert view is not None
    stage.mute = {"c"}
    stage.daemons["a"].machine.gather(GatherReason.FOREIGN_HEARD, stage.now)
    began = stage.now
    while stage.members != ["ab"] * 2 and stage.now < began + 3.0:
        for name in "ab":
            beacon = Beacon(view.id.counter, view.key, row_of("ab"), ALIKE, 1, PLENTY, 0, FIRST)
            stage.say("c", name, beacon)
        stage.run(TIMING.repeat_s)
    assert 0 <= stage.now - began - TIMING.token_timeout_s <= 2 * TIMING.repeat_s


def test_who_hears_nobody_waits_as_it_may_be_the_one_that_is_cut_off() -> None:
    stage = in_view("ab")
    stage.mute = {"b"}
    while stage.state("a") is MembershipState.OPERATIONAL and stage.now < 5.0:
        stage.run(0.001)
    stage.run(TIMING.gather_wait_s * 0.9)
    assert stage.state("a") is MembershipState.GATHER
    stage.run(TIMING.gather_wait_s * 0.2)
    assert stage.members == ["a"]


def test_after_a_pause_the_silence_of_others_says_nothing() -> None:
    stage = in_view("abc")
    stage.now += 1.0
    stage.cut = {("c", "a"), ("c", "b")}
    for name in "ab":
        stage.daemons[name].machine.gather(GatherReason.PAUSED, stage.now)
    stage.run(TIMING.gather_wait_s / 5)
    assert [stage.state(name) for name in "ab"] == [MembershipState.GATHER] * 2, "c is waited for"
    stage.cut = set()
    stage.run(TIMING.gather_wait_s)
    assert stage.members == ["abc"] * 3


# ---- who hears whom ----


def test_a_view_forms_over_a_daemon_in_between() -> None:
    """Flooding: a message is passed on once to those who may not hear its origin."""
    stage = Stage("abc")
    stage.cut = {("a", "c"), ("c", "a")}
    stage.start("abc")
    stage.run(1.0)
    assert stage.members == ["abc"] * 3
    view = stage.daemons["a"].machine.view
    assert view is not None
    assert view.rings == ((0, 1), (2,)), "a pair that does not hear each other costs one ring"
    assert view.links == ((1, 2),)


def test_a_path_in_a_site_that_leads_one_way_costs_a_ring_and_nothing_flaps() -> None:
    stage = Stage("abc")
    stage.cut = {("a", "b")}
    stage.start("abc")
    stage.run(5.0)
    assert stage.members == ["abc"] * 3
    view = stage.daemons["b"].machine.view
    assert view is not None
    assert (view.rings, view.links) == (((0, 2), (1,)), ((1, 2),))
    assert sum(daemon.machine.reasons.total() for daemon in stage.daemons.values()) <= 2 * 3


def test_a_link_that_leads_one_way_is_none_and_nothing_flaps() -> None:
    stage = Stage("ab", "c")
    stage.cut = {("c", "a"), ("c", "b")}
    stage.start("abc")
    stage.run(5.0)
    assert stage.members == ["ab", "ab", "c"]
    for name in "abc":
        assert stage.daemons[name].machine.reasons.total() <= 2


def test_a_path_that_comes_to_lead_one_way_is_given_up_by_both_ends() -> None:
    """The deaf one finds the other silent; its join tells the other that it is not heard."""
    stage = in_view("ab", "c")
    stage.cut = {("a", "c"), ("b", "c")}
    stage.run(2.0)
    assert stage.members == ["ab", "ab", "c"]
    assert stage.daemons["c"].machine.reasons[GatherReason.PATH_LOST] == 1
    before = sum(daemon.machine.reasons.total() for daemon in stage.daemons.values())
    stage.run(5.0)
    after = sum(daemon.machine.reasons.total() for daemon in stage.daemons.values())
    assert after == before, "and nothing flaps"


# ---- attempts, counters, clocks ----


def test_counters_rise_above_all_that_any_member_may_have_used() -> None:
    stage = Stage("abc")
    stage.start("abc", counters={"b": 10**15})
    stage.run(0.1)
    first = counter_of(stage.daemons["a"])
    assert first == 10**15 + 1, "one that is far ahead is known to have been used"
    stage.daemons["a"].machine.gather(GatherReason.TOKEN_LOST, stage.now)
    stage.run(0.1)
    assert counter_of(stage.daemons["c"]) == first + 1


def test_the_next_counter_is_above_all_numbers_that_sessions_have_had() -> None:
    stage = in_view("ab")
    used = counter_of(stage.daemons["b"]) + 50
    stage.daemons["b"].host.used = used
    stage.daemons["a"].machine.gather(GatherReason.TOKEN_LOST, stage.now)
    stage.run(1.0)
    assert [counter_of(daemon) for daemon in stage.daemons.values()] == [used + 1] * 2


def test_counters_do_not_follow_physical_time() -> None:
    """Else a disk that is slow would chase it with its marks, and never catch up."""
    stage = Stage("abc")
    stage.start("abc", counters={"b": 1000})
    stage.run(100.0)
    stage.daemons["a"].machine.gather(GatherReason.TOKEN_LOST, stage.now)
    stage.run(0.1)
    assert [counter_of(stage.daemons[name]) for name in "abc"] == [1002] * 3


def test_a_clock_far_ahead_of_the_median_is_corrected_and_not_followed() -> None:
    stage = Stage("abc")
    for name in "abc":
        stage.place(name)
    stage.daemons["b"].host.physical.first += 11_000_000
    stage.daemons["c"].host.clock = 11_000_000_000
    for name in "abc":
        stage.daemons[name].machine.gather(GatherReason.STARTED, 0.0)
    stage.run(0.1)
    view = stage.daemons["a"].machine.view
    assert view is not None
    assert view.clock == 1000
    assert [stage.daemons[name].host.physical.corrected for name in "abc"] == [None, 1000, None]


def test_a_last_stamp_a_little_ahead_of_the_clocks_is_followed() -> None:
    """Nothing in the new view may be stamped below what a member has seen."""
    stage = Stage("ab")
    for name in "ab":
        stage.place(name)
    stage.daemons["b"].host.clock = 9_000_000
    for name in "ab":
        stage.daemons[name].machine.gather(GatherReason.STARTED, 0.0)
    stage.run(0.1)
    view = stage.daemons["a"].machine.view
    assert view is not None
    assert view.clock == 9_000_000
