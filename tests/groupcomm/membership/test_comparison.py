"""Daemons whose settings differ: each set of equals has a view that lasts, and all can say why."""

from itertools import permutations

import attrs
import pytest
from msgspec import structs

from groupcomm.config.core import CoreConfig, Timing, Windows
from groupcomm.config.roster import AddDaemon, RemoveDaemon
from groupcomm.config.shared import Difference, shared_settings
from groupcomm.errors import RemoteProtocolError
from groupcomm.membership.comparison import (
    FORGOTTEN_S,
    LONGEST_INTERVAL_S,
    SILENT_S,
    OtherConfiguration,
    Verdict,
)
from groupcomm.membership.states import GatherReason, MembershipState
from groupcomm.wire.membership import Beacon, ControlKind, Leave, RosterNotice, Settings
from tests.groupcomm.membership.stage import (
    FIRST,
    NUMBERS,
    OTHER_VIEW,
    Stage,
    in_view,
    join_of,
    packet_of,
)

SMALL = CoreConfig(sites=(("b", "c"),))
"""Return a host's findings where no daemon has listed the daemon a yet."""


def others(stage: Stage, name: str) -> list[OtherConfiguration]:
    """The settings that differ from those of a daemon."""
    machine = stage.daemons[name].machine
    return machine.comparison.others(machine.view, stage.now)


def reasons(stage: Stage) -> list[int]:
    """Return the number of times that each daemon has begun to gather."""
    return [sum(daemon.machine.reasons.values()) for daemon in stage.daemons.values()]


def steady(stage: Stage) -> bool:
    """Return whether no daemon looks for another view in ten seconds."""
    before = reasons(stage)
    stage.run(10.0)
    return reasons(stage) == before


def with_small(names: str, order: str = "abc") -> Stage:
    """The daemons a, b and c start in turn; some of them with a file that does not list a."""
    stage = Stage("abc")
    stage.configs = dict.fromkeys(names, SMALL)
    for name in order:
        stage.start(name)
        stage.run(1.0)
    stage.run(1.0)
    return stage


@pytest.mark.parametrize("order", ["".join(order) for order in permutations("abc")])
@pytest.mark.parametrize(("small", "views"), [("b", ["ac", "b", "ac"]), ("bc", ["a", "bc", "bc"])])
def test_in_every_order_of_starts_each_set_of_equals_has_a_view_that_lasts(
    order: str, small: str, views: list[str]
) -> None:
    stage = with_small(small, order)
    assert stage.members == views
    assert steady(stage)
    assert stage.members == views


CHANGES = {
    "timing.token_timeout_s": {"timing": Timing(token_timeout_s=0.9)},
    "packet_bytes": {"packet_limit": 1000},
    "expected_daemons": {"expected_daemons": 7},
    "sites.1.daemons": {"sites": (("a", "b"), ("c",))},
}


@pytest.mark.parametrize("key", CHANGES)
def test_each_part_keeps_daemons_apart_and_is_named_by_both(key: str) -> None:
    stage = Stage("abc")
    stage.configs["b"] = attrs.evolve(stage.config, **CHANGES[key])  # type: ignore[arg-type]
    stage.start("abc")
    stage.run(3.0)
    assert stage.members == ["ac", "b", "ac"]
    assert steady(stage)
    for name in "abc":
        (other,) = others(stage, name)
        assert other.excludes
        assert key in [found.key for found in other.differences]


def test_the_settings_of_most_daemons_count() -> None:
    stage = with_small("b")
    missing = (Difference("sites.1.daemons", ("b", "c"), ("a", "b", "c")),)
    assert others(stage, "b") == [
        OtherConfiguration(
            daemons=("a", "c"),
            alike=(),
            excludes=True,
            verdict=Verdict.THEIRS,
            differences=missing,
        )
    ]
    (wrong,) = others(stage, "a")
    assert (wrong.daemons, wrong.alike, wrong.verdict) == (("b",), ("c",), Verdict.OURS)
    assert [(d.key, d.here, d.there) for d in wrong.differences] == [
        (d.key, d.there, d.here) for d in missing
    ]


def test_nobody_is_right_where_as_many_have_the_one_as_the_other() -> None:
    stage = Stage("ab")
    stage.configs["b"] = attrs.evolve(stage.config, packet_limit=1000)
    stage.start("ab")
    stage.run(3.0)
    assert [others(stage, name)[0].verdict for name in "ab"] == [Verdict.OPEN] * 2


def test_three_configurations_are_distinguished() -> None:
    stage = Stage("abcde")
    for name, limit in zip("de", (1000, 1100), strict=True):
        stage.configs[name] = attrs.evolve(stage.config, packet_limit=limit)
    stage.start("abcde")
    stage.run(3.0)
    assert stage.members == ["abc"] * 3 + ["d", "e"]
    assert {other.daemons for other in others(stage, "a")} == {("d",), ("e",)}
    verdicts = {other.daemons: other.verdict for other in others(stage, "e")}
    assert verdicts == {("a", "b", "c"): Verdict.THEIRS, ("d",): Verdict.OPEN}


def test_what_only_should_be_equal_is_reported_and_keeps_nobody_apart() -> None:
    stage = Stage("abc")
    stage.configs["b"] = attrs.evolve(stage.config, windows=Windows(ring_bytes=1000))
    stage.start("abc")
    stage.run(3.0)
    assert stage.members == ["abc"] * 3
    (other,) = others(stage, "b")
    assert (other.daemons, other.excludes, other.verdict) == (("a", "c"), False, Verdict.THEIRS)
    assert [found.key for found in other.differences] == ["windows.ring_bytes"]
    (other,) = others(stage, "a")
    assert (other.alike, other.verdict) == (("c",), Verdict.OURS)


def test_daemons_that_do_not_hear_each_other_are_notified_by_a_third() -> None:
    """A daemon that is not listed is heard by nobody there whose datagrams have seals."""
    stage = Stage("abc")
    stage.configs["b"] = SMALL
    stage.cut = {("a", "b"), ("b", "a")}
    stage.start("abc")
    stage.run(10.0)
    assert others(stage, "b")[0].daemons == ("a", "c")
    assert others(stage, "a")[0].daemons == ("b",)


def test_nobody_waits_for_a_daemon_that_differs() -> None:
    stage = Stage("abcd")
    stage.configs["d"] = attrs.evolve(stage.config, packet_limit=1000)
    stage.start("abcd")
    stage.run(3.0)
    assert stage.members == ["abc"] * 3 + ["d"]
    stage.say("c", "a", Leave())
    stage.say("c", "b", Leave())
    stage.mute.add("c")
    began = stage.now
    while stage.members[:2] != ["ab"] * 2:
        stage.run(0.001)
    assert stage.now - began < stage.config.timing.gather_wait_s / 2


def test_a_member_with_the_next_roster_that_has_left_the_view_ends_it() -> None:
    """Simulator seed 3000742 with rosters: the other member waited for a step of this view."""
    other = bytes(range(16))
    stage = in_view("ab")
    machine = stage.daemons["a"].machine
    view = machine.view
    assert view is not None
    counter, heard = view.id.counter, (machine._detector.key,)
    stage.mute.add("b")
    stage.say("b", "a", Beacon(counter, view.key, heard, other, 1, 10**18, 0, FIRST))
    assert [each.daemons for each in others(stage, "a")] == [("b",)]
    assert machine.state is MembershipState.OPERATIONAL, "it is in the view still"
    stage.say("b", "a", Beacon(counter + 1, OTHER_VIEW, heard, other, 1, 10**18, 0, FIRST))
    assert machine.reasons[GatherReason.MEMBER_MOVED] == 1

    stage = in_view("ab")
    machine = stage.daemons["a"].machine
    stage.mute.add("b")
    for attempt, gathers in ((1, 0), (2, 1)):
        stage.say("b", "a", structs.replace(join_of("b", attempt, "a"), digests=other))
        assert machine.reasons[GatherReason.MEMBER_GATHERS] == gathers


def test_a_daemon_that_differs_begins_no_view_whatever_it_says() -> None:
    stage = in_view("abc")
    before, said = reasons(stage), len(stage.sent)
    hears = tuple(sorted((NUMBERS[name], ord(name)) for name in "abc"))
    stage.place("z")
    stage.mute.add("z")
    for _ in range(20):
        stage.say("z", "a", Beacon(1, OTHER_VIEW, hears, b"x" * 16, 1, 2, 3, FIRST))
        stage.say("z", "a", structs.replace(join_of("z", 1, "abc"), digests=b"x" * 16))
        stage.run(0.12)
    assert reasons(stage)[:3] == before
    assert ("a", "z") not in stage.said(Beacon, said), "nor is it answered"


def test_settings_are_reported_ever_more_rarely_and_only_while_any_differ() -> None:
    stage = with_small("b")
    before = len(stage.sent)
    stage.run(10 * LONGEST_INTERVAL_S)
    told = stage.said(Settings, before).count(("b", "c"))
    assert 10 <= told <= 16
    alike = in_view("abc")
    alike.run(10.0)
    assert alike.said(Settings) == []


def test_a_daemon_that_starts_with_the_right_settings_comes_along() -> None:
    stage = with_small("b")
    del stage.configs["b"]
    stage.start("b", restarts=2, random_id=77)
    stage.run(2.0)
    assert stage.members == ["abc"] * 3
    assert [others(stage, name) for name in "abc"] == [[]] * 3


def test_a_daemon_that_is_gone_is_not_compared_any_more() -> None:
    stage = with_small("b")
    stage.mute.add("b")
    stage.run(SILENT_S - 1.0)
    assert others(stage, "c")
    stage.run(2.0)
    assert others(stage, "c") == []


def test_daemons_that_hear_each_other_again_tell_their_settings_again() -> None:
    stage = Stage("abc")
    stage.configs["b"] = SMALL
    stage.drop = {(name, ControlKind.SETTINGS) for name in "abc"}
    stage.start("abc")
    stage.run(3.0)
    stage.isolate("ac", "b")
    stage.run(2 * SILENT_S)
    assert others(stage, "c") == []
    stage.drop, stage.cut = set(), set()
    stage.run(3.0)
    assert [len(others(stage, name)[0].differences) for name in "abc"] == [1, 1, 1]


def test_a_daemon_of_which_others_tell_is_forgotten_later() -> None:
    stage = Stage("abc")
    stage.configs["b"] = SMALL
    stage.cut = {("a", "b"), ("b", "a")}
    stage.start("abc")
    stage.run(3.0)
    stage.mute.add("b")
    stage.run(LONGEST_INTERVAL_S)
    assert others(stage, "a")
    stage.run(FORGOTTEN_S)
    assert others(stage, "a") == []


def test_a_daemon_that_has_left_in_order_is_forgotten_at_once() -> None:
    stage = with_small("b")
    stage.say("b", "c", Leave())
    assert others(stage, "c") == []


def test_settings_under_another_name_are_a_breach_of_the_protocol() -> None:
    stage = in_view("ab")
    told = Settings("z", bytes(16), (), ())
    with pytest.raises(RemoteProtocolError, match="calls itself 'z'"):
        stage.daemons["a"].machine.on_control(packet_of("b", told), NUMBERS["b"], stage.now)


def test_a_daemon_that_was_removed_is_sent_the_roster_though_no_message_to_all_reaches_it() -> None:
    """It may have been down meanwhile, and its beacons do not say its name."""
    stage = Stage("ab", "c")
    before = stage.config
    after = before.with_roster(before.roster.changed(RemoveDaemon(name="c")))
    stage.config = after
    stage.start("ab")
    stage.run(3.0)
    assert stage.members == ["ab"] * 2
    stage.configs["c"] = before
    stage.place("c")
    stage.mute = {"c"}
    said = len(stage.sent)
    digests = shared_settings(before).digests
    stage.say("c", "a", Beacon(1, OTHER_VIEW, (), digests, 1, 1, 0, FIRST))
    stage.run(0.5)
    assert ("a", "c") in stage.said(RosterNotice, said)


def test_a_daemon_with_an_earlier_roster_is_sent_the_present_one_once() -> None:
    stage = Stage("ab")
    roster = stage.config.roster.changed(AddDaemon(name="c", site="1"))
    stage.config = stage.config.with_roster(roster)
    stage.start("ab")
    stage.run(3.0)
    machine = stage.daemons["a"].machine
    assert stage.said(RosterNotice) == []
    machine.comparison.on_superseded_roster(machine.peers[NUMBERS["b"]], stage.now)
    stage.run(1.0)
    count = len(stage.said(RosterNotice))
    assert ("a", "b") in stage.said(RosterNotice)
    machine.comparison.step(stage.now)
    stage.run(1.0)
    assert len(stage.said(RosterNotice)) == count
