"""Joins are passed on once their targets have had the time to hear the origin, and did not."""

from collections import Counter

import attrs
import pytest

from groupcomm.config.core import Timing
from groupcomm.membership.states import GatherReason
from groupcomm.wire.control import ControlPacket, cut_message, decode_control_untrusted
from groupcomm.wire.membership import ControlKind, Leave, encode_message
from tests.groupcomm.membership.stage import NAMES, NUMBERS, Stage, join_of

TIMING = Timing()
FAR = Timing(longest_delay_s=0.04)


class Counting(Stage):
    """A stage that counts the joins that one daemon passes on in another's name."""

    def __init__(self, *sites: str, timing: Timing | None = None) -> None:
        super().__init__(*sites, timing=timing, crowd=True)
        self.passed_on: Counter[tuple[str, str]] = Counter()

    def _carry(self, name: str, target: str | None, packet: ControlPacket) -> None:
        origin = NAMES[packet.origin]
        if packet.kind == ControlKind.JOIN and origin != name:
            self.passed_on[origin, name] += 1
        super()._carry(name, target, packet)


@pytest.mark.parametrize("sites", [("abcdef",), ("abc", "def"), ("ab", "cd", "ef")])
def test_where_all_hear_each_other_nobody_passes_a_join_on(sites: tuple[str, ...]) -> None:
    stage = Counting(*sites, timing=FAR if len(sites) > 1 else None)
    stage.start("abcdef")
    stage.run(3.0)
    assert stage.members == ["abcdef"] * 6
    assert not stage.passed_on
    stage.daemons["a"].machine.gather(GatherReason.TOKEN_LOST, stage.now)
    stage.run(3.0)
    assert stage.members == ["abcdef"] * 6
    assert not stage.passed_on


@pytest.mark.parametrize("sites", [("abc",), ("a", "b", "c")])
def test_the_ends_of_a_chain_are_in_the_first_view(sites: tuple[str, ...]) -> None:
    stage = Counting(*sites, timing=FAR if len(sites) > 1 else None)
    stage.isolate("ab", "bc")
    stage.start("abc")
    stage.run(stage.config.timing.answer_wait_s + 0.01)
    assert stage.members == ["abc"] * 3
    assert stage.passed_on.keys() == {("a", "b"), ("c", "b")}
    assert all(len(daemon.host.installed) == 1 for daemon in stage.daemons.values())


def gathering(
    *sites: str, links: tuple[tuple[int, int, int], ...] = (), crowd: bool = True
) -> Stage:
    """The daemon b looks for a view, and hears what a test says in the names of a and c."""
    stage = Stage(*sites, timing=FAR if len(sites) > 1 else None, crowd=crowd)
    stage.config = attrs.evolve(stage.config, link_delays_us=links)
    stage.start("b")
    for name in "ac":
        stage.place(name)
    stage.mute = {"a", "c"}
    return stage


def passed_on(stage: Stage) -> list[int]:
    """Return the sequences of the joins of a that b passes on to c now."""
    daemon = stage.daemons["b"]
    daemon.machine.step(stage.now)
    return [packet.sequence for _, packet in daemon.taken() if packet.origin == NUMBERS["a"]]


def meet(stage: Stage) -> None:
    """Both a and c say that they are there, and hear b."""
    stage.say("c", "b", join_of("c", 1, "b"), 1)
    stage.say("a", "b", join_of("a", 1, "b"), 1)
    assert passed_on(stage) == []


@pytest.mark.parametrize(
    ("sites", "wait_s"),
    [(("abc",), TIMING.repeat_s / 2), (("a", "b", "c"), FAR.repeat_s / 2 + FAR.longest_delay_s)],
)
def test_the_latest_join_is_passed_on_once_the_time_to_hear_it_is_over(
    sites: tuple[str, ...], wait_s: float
) -> None:
    stage = gathering(*sites)
    meet(stage)
    stage.now = 0.8 * wait_s
    stage.say("a", "b", join_of("a", 1, "b"), 2)
    assert passed_on(stage) == []
    assert stage.daemons["b"].machine.deadline <= wait_s
    stage.now = wait_s
    assert passed_on(stage) == [2], "the first one is out of date"
    stage.now += TIMING.repeat_s
    stage.say("a", "b", join_of("a", 1, "b"), 3)
    assert passed_on(stage) == [3], "c had the time to hear a, and does not"
    stage.now += TIMING.repeat_s
    assert passed_on(stage) == []


def test_few_daemons_pass_a_join_on_at_once() -> None:
    stage = gathering("abc", crowd=False)
    stage.say("c", "b", join_of("c", 1, "b"), 1)
    stage.say("a", "b", join_of("a", 1, "b"), 1)
    assert passed_on(stage) == [1]


def test_who_says_meanwhile_that_it_hears_the_origin_gets_nothing() -> None:
    stage = gathering("abc")
    meet(stage)
    stage.say("c", "b", join_of("c", 1, "ab"), 2)
    stage.now = TIMING.repeat_s
    assert passed_on(stage) == []


def test_the_join_of_a_start_that_is_over_is_not_passed_on() -> None:
    stage = gathering("abc")
    meet(stage)
    stage.place("a", restarts=2)
    stage.mute = {"a", "c"}
    stage.say("a", "b", Leave(), 1)
    stage.daemons["b"].taken()
    stage.now = TIMING.repeat_s
    assert passed_on(stage) == []


def test_sites_without_a_link_are_not_waited_for() -> None:
    stage = gathering("a", "b", "c", links=((0, 1, 40_000), (1, 2, 40_000)))
    stage.say("c", "b", join_of("c", 1, "b"), 1)
    stage.say("a", "b", join_of("a", 1, "b"), 1)
    assert passed_on(stage) == [1]


def test_a_daemon_that_was_silent_for_long_is_new_again() -> None:
    stage = gathering("abc")
    meet(stage)
    stage.now = 10.0
    meet_again = join_of("a", 1, "b")
    stage.say("c", "b", join_of("c", 1, "b"), 2)
    stage.say("a", "b", meet_again, 2)
    assert passed_on(stage) == []
    stage.now += TIMING.repeat_s / 2
    assert passed_on(stage) == [2]


def test_all_parts_of_a_join_are_passed_on_and_what_is_held_is_one_join_a_daemon() -> None:
    stage = gathering("abc")
    meet(stage)
    kind, body = encode_message(stage.fill_in(join_of("a", 1, "b")))
    start = stage.daemons["a"].start.incarnation
    for sequence in range(2, 40):
        for raw in cut_message(NUMBERS["a"], start, sequence, kind, body, 90):
            stage.hear("b", "a", decode_control_untrusted(raw))
    parts = len(cut_message(NUMBERS["a"], start, 39, kind, body, 90))
    assert parts > 1
    stage.now = TIMING.repeat_s
    assert passed_on(stage) == [39] * parts
