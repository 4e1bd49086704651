"""A lost link: others take its place without a view change, or the view ends."""

from groupcomm.config.view import View
from groupcomm.membership.operational import STEADY_BEACONS
from groupcomm.membership.states import GatherReason, MembershipState
from groupcomm.wire.membership import Beacon, Links
from tests.groupcomm.membership.stage import NUMBERS, OTHER_VIEW, Stage, in_view

LONG_S = 3.0
SHORT_S = 0.3


def view_of(stage: Stage) -> View:
    view = stage.daemons["a"].machine.view
    assert view is not None
    return view


def routes(stage: Stage) -> list[tuple[tuple[int, int], ...]]:
    """Return the links that each daemon was told to use last; all of them if never."""
    view = view_of(stage)
    hosts = [stage.daemons[name].host for name in sorted(stage.daemons)]
    return [context.routes[-1] if context.routes else view.links for context in hosts]


def cut(stage: Stage, one: str, other: str) -> None:
    stage.cut |= {(one, other), (other, one)}


def three_sites() -> Stage:
    stage = in_view("ab", "cd", "ef")
    assert view_of(stage).links == ((0, 2), (0, 4), (2, 4))
    return stage


def test_others_take_the_place_of_a_lost_link_and_the_view_stands() -> None:
    stage = three_sites()
    view = view_of(stage)
    cut(stage, "a", "c")
    stage.run(LONG_S)
    assert stage.members == ["abcdef"] * 6
    assert view_of(stage) is view
    assert routes(stage) == [((0, 4), (2, 4))] * 6
    stage.cut.clear()
    stage.run(LONG_S)
    assert routes(stage) == [view.links] * 6
    assert view_of(stage) is view


def test_one_end_that_hears_nothing_is_enough() -> None:
    stage = three_sites()
    view = view_of(stage)
    stage.cut = {("c", "a")}
    stage.run(LONG_S)
    assert routes(stage) == [((0, 4), (2, 4))] * 6
    assert view_of(stage) is view
    stage.cut.clear()
    stage.run(LONG_S)
    assert routes(stage) == [view.links] * 6


def test_a_link_is_used_again_after_a_few_beacons_and_none_of_before_the_silence_counts() -> None:
    stage = three_sites()
    stage.cut = {("c", "a")}  # so c still says that it hears a
    stage.run(LONG_S)
    stage.cut.clear()
    interval_s = stage.config.timing.beacon_interval_s
    stage.run((STEADY_BEACONS - 1) * interval_s)
    assert stage.daemons["a"].host.routes[-1] == ((0, 4), (2, 4))
    stage.run(2 * interval_s)
    assert stage.daemons["a"].host.routes[-1] == view_of(stage).links


def test_a_short_silence_changes_nothing() -> None:
    stage = three_sites()
    cut(stage, "a", "c")
    stage.run(SHORT_S)
    stage.cut.clear()
    stage.run(LONG_S)
    assert not any(daemon.host.routes for daemon in stage.daemons.values())


def test_the_last_link_between_two_sites_ends_the_view_and_another_pair_links_the_next() -> None:
    stage = in_view("ab", "cd")
    assert view_of(stage).links == ((0, 2),)
    cut(stage, "a", "c")
    stage.run(LONG_S)
    assert stage.members == ["abcd"] * 4
    assert view_of(stage).links == ((0, 3),)


def test_two_links_that_are_lost_at_once_end_the_view_although_each_end_misses_only_one() -> None:
    """The chain b - a - c has no way around; each of the far ends knows of its own loss only."""
    stage = three_sites()
    view = view_of(stage)
    for far in "cd":
        for near in "abef":
            cut(stage, near, far)
    stage.run(LONG_S)
    assert stage.members == ["abef", "abef", "cd", "cd", "abef", "abef"]
    reasons = [stage.daemons[name].machine.reasons for name in "abcdef"]
    assert view_of(stage) is not view
    assert any(reason[GatherReason.PATH_LOST] for reason in reasons)


def test_a_fellow_of_the_ring_is_no_link() -> None:
    stage = three_sites()
    stage.mute.add("b")
    stage.run(LONG_S)
    assert stage.members == ["acdef"] * 5


def test_only_an_end_of_a_link_can_say_that_it_is_lost_and_only_in_its_view() -> None:
    stage = three_sites()
    key = view_of(stage).key
    stage.say("b", "e", Links(key, ((0, 2),)))
    stage.say("a", "e", Links(OTHER_VIEW, ((0, 2),)))
    stage.say("c", "e", Links(key, ((2, 3), (9, 2))))
    stage.settle()
    assert routes(stage) == [view_of(stage).links] * 6
    stage.say("c", "e", Links(key, ((0, 2),)))
    assert stage.daemons["e"].host.routes == [((0, 4), (2, 4))]


def test_a_link_state_that_is_lost_is_reported_again() -> None:
    stage = three_sites()
    cut(stage, "a", "c")
    stage.run(0.7)
    stage.cut |= {(near, far) for near in "abcde" for far in "f"}
    told = len(stage.sent)
    stage.run(0.1)
    stage.cut = {("a", "c"), ("c", "a")}
    stage.run(LONG_S)
    assert len(stage.said(Links, told)) > 0
    assert routes(stage) == [((0, 4), (2, 4))] * 6


def test_a_daemon_that_learns_that_the_last_link_is_lost_leaves_the_view() -> None:
    """Of the two ends only one has noticed, and b is neither."""
    stage = in_view("ab", "cd")
    stage.say("a", "b", Links(OTHER_VIEW, ((0, 2),)))
    stage.say("a", "b", Links(view_of(stage).key, ((1, 2),)))
    assert stage.state("b") is MembershipState.OPERATIONAL
    stage.say("a", "b", Links(view_of(stage).key, ((0, 2),)))
    assert stage.state("b") is MembershipState.GATHER
    assert stage.daemons["b"].machine.reasons[GatherReason.PATH_LOST] == 1


def test_links_are_reported_with_each_beacon_while_one_is_lost_and_a_few_times_after() -> None:
    stage = three_sites()
    cut(stage, "a", "c")
    stage.run(LONG_S)
    before = len(stage.sent)
    stage.run(1.0)
    reports = stage.said(Links, before).count(("a", "e"))
    assert reports == stage.said(Beacon, before).count(("a", "e")) > 1
    stage.cut.clear()
    stage.run(LONG_S)
    assert stage.said(Links, before).count(("a", "e")) > reports
    before = len(stage.sent)
    stage.run(LONG_S)
    assert stage.said(Links, before) == []


# ---- packets that are sent in vain ----


def test_a_link_over_which_packets_are_sent_in_vain_is_routed_around_though_its_end_is_heard() -> (
    None
):
    stage = three_sites()
    view = view_of(stage)
    stage.daemons["a"].machine.on_unreached(NUMBERS["c"], stage.now)
    stage.settle()
    assert routes(stage) == [((0, 4), (2, 4))] * 6
    assert view_of(stage) is view
    assert stage.members == ["abcdef"] * 6


def test_the_silence_of_an_end_that_is_routed_around_breaks_nothing() -> None:
    stage = three_sites()
    a = stage.daemons["a"]
    a.machine.on_unreached(NUMBERS["c"], stage.now)
    stage.settle()
    assert len(a.host.routes) == 1
    stage.cut = {("c", "a"), ("d", "a")}
    stage.run(LONG_S)
    assert len(a.host.routes) == 1, "the link is lost already"
    assert stage.members == ["abcdef"] * 6


def test_the_silence_of_other_ends_is_noticed_all_the_same() -> None:
    stage = three_sites()
    stage.daemons["a"].machine.on_unreached(NUMBERS["c"], stage.now)
    stage.settle()
    stage.cut = {("e", "a")}
    stage.run(SHORT_S)
    assert stage.daemons["a"].machine.reasons.total() == 1
    stage.run(LONG_S)
    assert stage.daemons["a"].machine.reasons[GatherReason.PATH_LOST] >= 1, "no link is left"


def test_packets_sent_in_vain_over_the_only_link_end_the_view_and_leave_its_end_out() -> None:
    stage = in_view("ab", "cd")
    machine = stage.daemons["a"].machine
    machine.on_unreached(NUMBERS["c"], stage.now)
    assert machine.reasons[GatherReason.NOT_RECEIVED] == 1
    assert not machine.trust.is_heard(NUMBERS["c"], stage.daemons["c"].start.incarnation, stage.now)
    stage.run(0.9)
    assert view_of(stage).links == ((0, 3),), "another pair links the sites"
    assert stage.members == ["abcd"] * 4
