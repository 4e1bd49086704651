"""Members that the view vouches for, at one daemon: whom it counts as heard, and until when."""

from math import inf

import attrs
import pytest

from groupcomm.config.core import Timing
from groupcomm.config.versions import CROWDS, SPOKEN
from groupcomm.config.view import Incarnation
from groupcomm.membership.failure_detector import FailureDetector
from groupcomm.membership.reservation import SLOW_S
from groupcomm.membership.states import GatherReason, MembershipState
from groupcomm.membership.vouched import MOST_ROUNDS, beside, rounds_of
from groupcomm.wire.membership import Beacon, ControlKind, Leave
from tests.groupcomm.membership.stage import NUMBERS, Stage, join_of, packet_of

FAR = Timing(longest_delay_s=0.04)
SITES = ("ab", "cd", "ef")
GATEWAYS = "ace"


def in_view(*sites: str, old: str = "") -> Stage:
    """All daemons in one view that has stood for so long that nobody else is heard any more."""
    stage = Stage(*(sites or SITES), timing=FAR, crowd=True)
    for name in old:
        features = SPOKEN.features & ~CROWDS
        stage.configs[name] = attrs.evolve(
            stage.config, versions=attrs.evolve(SPOKEN, features=features)
        )
    everybody = "".join(stage.config.daemons)
    stage.start(everybody)
    stage.run(3.0)
    assert stage.members == [everybody] * len(everybody)
    return stage


def detector_of(stage: Stage, name: str) -> FailureDetector:
    return stage.daemons[name].machine._detector  # what it knows is what these tests are about


def names_of(numbers: frozenset[int]) -> str:
    return "".join(name for name, number in NUMBERS.items() if number in numbers)


def beacons(stage: Stage, seconds: float) -> set[tuple[str, str]]:
    count = len(stage.sent)
    stage.run(seconds)
    return {(a, b) for a, b in stage.said(Beacon, count) if a != b}


@pytest.mark.parametrize(
    ("size", "few", "rounds"),
    [(1, 16, 1), (16, 16, 1), (17, 16, 2), (33, 16, 3), (64, 16, 4), (1024, 16, 4), (3, 0, 1)],
)
def test_the_larger_a_ring_is_the_rarer_is_a_beacon_to_all_of_it(
    size: int, few: int, rounds: int
) -> None:
    assert rounds_of(range(size), few) == rounds <= MOST_ROUNDS


def test_a_ring_ends_where_it_begins() -> None:
    assert beside((1, 2, 3, 4), 1) == (4, 2)
    assert beside((1, 2, 3, 4), 4) == (3, 1)


@pytest.mark.parametrize(("name", "others"), [("a", "df"), ("b", "cdef")])
def test_who_is_no_partner_is_vouched_for_and_sends_nothing(name: str, others: str) -> None:
    stage = in_view()
    detector = detector_of(stage, name)
    assert names_of(detector.vouched.numbers) == others
    assert {a for a, b in beacons(stage, 1.0) if b == name} == set("abcdef") - {name, *others}
    heard = {number for number, _ in detector.heard_since(detector.fresh_since(stage.now))}
    assert not heard & detector.vouched.numbers
    ages = {peer.name: stage.now - peer.heard_at for peer in detector.status(stage.now)}
    assert max(ages.values()) < 3 * FAR.beacon_interval_s, "operators see them as heard"


def test_with_one_that_expects_beacons_of_all_they_are_sent_as_ever() -> None:
    stage = in_view(old="f")
    assert not detector_of(stage, "b").vouched.is_used
    assert beacons(stage, 0.3) == {(a, b) for a in "abcdef" for b in "abcdef" if a != b}


def test_another_roster_is_told_to_all() -> None:
    stage = in_view()
    f = stage.daemons["f"].machine
    f.use_config(attrs.evolve(stage.config, former=("z",)), stage.now)
    interval_s = FAR.beacon_interval_s
    for _ in range(5):
        assert {b for a, b in beacons(stage, interval_s) if a == "f"} == set("abcde")
    assert {b for a, b in beacons(stage, 2 * interval_s) if a == "f"} == {"e"}


def test_a_slow_disk_is_told_to_all() -> None:
    stage = in_view()
    stage.daemons["f"].disk.write_s = 2 * SLOW_S
    assert {b for a, b in beacons(stage, 0.3) if a == "f"} == set("abcde")


def test_what_others_say_in_a_vouched_members_name_counts_for_nothing_while_the_view_stands() -> (
    None
):
    stage = in_view()
    a, b = (stage.daemons[name].machine for name in "ab")
    leave = packet_of("f", Leave(), 10**5)
    b.on_control(leave, NUMBERS["a"], stage.now)
    assert b.state is MembershipState.OPERATIONAL
    assert not b.peers[NUMBERS["f"]].left
    a.gather(GatherReason.TOKEN_LOST, stage.now)
    a.on_control(leave, NUMBERS["b"], stage.now)
    assert not a.peers[NUMBERS["f"]].left, "it was there a moment ago"


def test_another_start_that_is_not_later_is_a_clone_while_the_view_stands() -> None:
    stage = in_view()
    b, number = stage.daemons["b"].machine, NUMBERS["f"]
    assert not b.on_datagram(number, Incarnation(1, 77), stage.now)
    b.gather(GatherReason.TOKEN_LOST, stage.now)
    later = stage.now + FAR.token_timeout_s
    assert not b.on_datagram(number, Incarnation(1, 77), later - 0.01)
    assert b.on_datagram(number, Incarnation(1, 77), later + 0.01)


def test_who_is_vouched_for_is_waited_for_when_the_view_ends() -> None:
    """Else a daemon would have a view with its site alone: that is all that it hears."""
    stage = in_view()
    stage.drop = {(name, ControlKind.JOIN) for name in "cdef"}
    for name in "ab":
        stage.daemons[name].machine.gather(GatherReason.TOKEN_LOST, stage.now)
    stage.run(FAR.token_timeout_s)
    assert stage.daemons["b"].members == ""
    stage.drop.clear()
    stage.run(0.5)
    assert stage.members == ["abcdef"] * 6


def test_nobody_waits_for_a_member_whose_partners_miss_it() -> None:
    stage = in_view()
    stage.mute.add("f")
    stage.run(FAR.token_timeout_s + FAR.beacon_interval_s)
    stage.run(FAR.answer_wait_s)
    assert stage.members == ["abcde"] * 5
    assert detector_of(stage, "a").peers[NUMBERS["f"]].vouched_at == -inf


def test_a_ring_that_is_silent_altogether_is_given_up_by_the_other_ends_of_its_links() -> None:
    stage = in_view()
    stage.mute |= {"e", "f"}
    stage.run(FAR.token_timeout_s + FAR.beacon_interval_s)
    stage.run(FAR.answer_wait_s + 3 * FAR.longest_delay_s)
    assert stage.members == ["abcd"] * 4


def test_a_daemon_that_hears_nobody_of_its_own_large_ring_goes_on_alone() -> None:
    stage = in_view("abcdef")
    stage.mute |= set("bcdef")
    stage.run(4 * FAR.token_timeout_s)
    assert stage.daemons["a"].members == "a"


def test_a_ring_that_is_heard_by_one_other_end_of_its_links_is_waited_for() -> None:
    stage = in_view()
    stage.drop = {(name, ControlKind.JOIN) for name in "ef"}
    stage.daemons["b"].machine.gather(GatherReason.TOKEN_LOST, stage.now)
    stage.run(FAR.token_timeout_s)
    assert "abcd" not in stage.members
    stage.drop.clear()
    stage.run(0.5)
    assert stage.members == ["abcdef"] * 6


def test_a_daemon_outside_gets_each_beacon_of_the_first_of_a_ring_and_few_of_the_others() -> None:
    stage = in_view()
    stage.mute.add("f")
    stage.run(2.0)
    assert stage.members == ["abcde"] * 5
    count = len(stage.sent)
    stage.run(8 * FAR.beacon_interval_s)
    said = [a for a, b in stage.said(Beacon, count) if b == "f"]
    assert {name: said.count(name) for name in "abcd"} == {"a": 8, "b": 1, "c": 8, "d": 1}


@pytest.mark.parametrize(("name", "passes_on"), [("a", True), ("b", False)])
def test_only_ends_of_links_pass_on_to_members_what_far_members_say(
    name: str, *, passes_on: bool
) -> None:
    """No list of the daemons heard names them, so each of a site would tell all others of it."""
    stage = in_view()
    machine = stage.daemons[name].machine
    machine.on_control(packet_of("f", Leave(), 10**5), NUMBERS["f"], stage.now)
    origins = {packet.origin for _, packet in stage.daemons[name].taken()}
    assert (NUMBERS["f"] in origins) == passes_on


def test_what_a_far_member_says_of_its_settings_is_passed_on_to_a_daemon_outside() -> None:
    stage = in_view()
    stage.mute.add("f")
    stage.run(2.0)
    b, d = stage.daemons["b"], NUMBERS["d"]
    assert b.machine.on_datagram(NUMBERS["f"], stage.daemons["f"].start.incarnation, stage.now)
    detector = detector_of(stage, "b")
    assert NUMBERS["f"] in detector.pass_on_targets(
        detector.peers[d], d, ControlKind.SETTINGS, stage.now
    )
    assert detector.pass_on_targets(detector.peers[d], d, ControlKind.JOIN, stage.now) == []


def test_a_partner_that_hears_nobody_yet_does_not_say_that_a_member_is_gone() -> None:
    """It stood still, perhaps, and has joined before it has heard anybody."""
    stage = in_view()
    a = stage.daemons["a"].machine
    stage.mute |= {"e", "f"}
    a.gather(GatherReason.MEMBER_GATHERS, stage.now)
    began = stage.now
    stage.say("e", "a", join_of("e", 9, hears="e"))
    stage.run(0.001)
    assert a.peers[NUMBERS["f"]].vouched_at == began
    stage.say("e", "a", join_of("e", 9, hears="a"))
    stage.run(0.01)
    assert a.peers[NUMBERS["f"]].vouched_at == -inf


def test_a_join_that_came_while_the_view_stood_is_passed_on_once_it_has_ended() -> None:
    """To b, which does not hear c: a is the one that can tell it."""
    stage = in_view()
    c = stage.daemons["c"].machine
    c.gather(GatherReason.TOKEN_LOST, stage.now)
    join = packet_of("c", stage.fill_in(c._own_join.latest), c.flood.sequence)
    a = stage.daemons["a"]
    assert a.machine.on_datagram(NUMBERS["c"], stage.daemons["c"].start.incarnation, stage.now)
    a.machine.on_control(join, NUMBERS["c"], stage.now)
    assert a.machine.state is MembershipState.GATHER
    assert NUMBERS["c"] not in {packet.origin for _, packet in a.taken()}
    stage.now += FAR.longest_delay_s + FAR.repeat_s
    for name in "bc":
        stage.hear("a", name, packet_of(name, Leave(), 1))  # of the past, but both are heard
    a.machine.step(stage.now)
    assert NUMBERS["c"] in {packet.origin for _, packet in a.taken()}
