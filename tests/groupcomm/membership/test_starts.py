"""Starts of one daemon: later ones, clones, and those whose disk has forgotten earlier ones."""

from itertools import product

import pytest

from groupcomm.config.core import Timing
from groupcomm.config.view import Incarnation
from groupcomm.membership.failure_detector import UNHEARD
from groupcomm.membership.peer import HEARSAY_S, MOST_OVER, PeerDaemon
from groupcomm.membership.states import GatherReason, MembershipState
from groupcomm.wire.membership import Leave
from tests.groupcomm.membership.stage import NUMBERS, Stage, counter_of, in_view, join_of, packet_of

TIMEOUT_S = Timing().token_timeout_s
SOON_S = 0.2
"""The time for a view of daemons that hear each other."""


def without_b(*sites: str) -> Stage:
    """A view from which b has vanished; its restart count was 5."""
    stage = Stage(*sites)
    everybody = "".join(sorted("".join(sites)))
    stage.start(everybody, restarts=5)
    stage.run(3.0)
    stage.mute = {"b"}
    stage.run(2.0)
    assert stage.daemons["a"].members == everybody.replace("b", "")
    return stage


@pytest.mark.parametrize("restarts", [1, 3, 5])
def test_a_start_that_has_counted_anew_is_in_the_next_view(restarts: int) -> None:
    stage = without_b("abc")
    used = counter_of(stage.daemons["a"])
    old = stage.daemons["b"].start.incarnation
    stage.start("b", restarts=restarts, random_id=77)
    stage.run(SOON_S)
    assert stage.members == ["abc"] * 3
    assert counter_of(stage.daemons["b"]) > used + UNHEARD, "the old one gave numbers to programs"
    for name in "ac":
        assert stage.daemons[name].host.forgotten == [(NUMBERS["b"], old)]
        (line,) = stage.daemons[name].machine.news
        assert f"b has counted {restarts} starts, and its start before this one 5" in line


def test_a_start_that_comes_at_once_waits_until_the_one_before_it_is_silent() -> None:
    stage = in_view("abc")
    stage.start("b", restarts=1, random_id=77)
    stage.run(0.5 * TIMEOUT_S)
    assert stage.daemons["b"].members == "b"
    stage.run(0.5 * TIMEOUT_S + SOON_S)
    assert stage.members == ["abc"] * 3


def test_a_start_that_comes_after_an_orderly_end_does_not_wait() -> None:
    stage = in_view("abc")
    for name in "ac":
        stage.say("b", name, Leave())
    stage.settle()
    stage.start("b", restarts=1, random_id=77)
    stage.run(SOON_S)
    assert stage.members == ["abc"] * 3


def test_others_that_know_nothing_do_not_keep_out_whom_one_remembers() -> None:
    """The daemon b loses its disk while c and d are restarted, and a is not."""
    stage = without_b("abcd")
    for name in "cd":
        stage.mute |= {name}
        stage.run(1.0)
        stage.start(name, restarts=6, random_id=ord(name) + 100)
        stage.run(1.0)
    stage.start("b", restarts=1, random_id=77)
    stage.run(SOON_S)
    assert stage.members == ["abcd"] * 4


def test_a_clone_is_ignored_while_the_known_start_answers() -> None:
    stage = in_view("ab")
    clone = Incarnation(0, 99)
    machine = stage.daemons["a"].machine
    for _ in range(30):
        assert not machine.on_datagram(NUMBERS["b"], clone, stage.now)
        stage.run(0.1)
    assert stage.daemons["a"].members == "ab"


def test_late_datagrams_of_a_start_that_gave_way_end_no_view() -> None:
    """It has more restarts than the one that its daemon has counted anew."""
    stage = without_b("abc")
    old = stage.daemons["b"].start.incarnation
    stage.start("b", restarts=1, random_id=77)
    stage.run(SOON_S)
    reasons = dict(stage.daemons["a"].machine.reasons)
    assert not stage.daemons["a"].machine.on_datagram(NUMBERS["b"], old, stage.now)
    stage.hear("a", "c", packet_of("b", join_of("b", 9), restarts=5))
    stage.run(SOON_S)
    assert stage.members == ["abc"] * 3
    assert stage.daemons["a"].machine.reasons == reasons


def test_a_start_that_gave_way_counts_again_once_it_alone_is_there() -> None:
    """It was cut off, and the other one was a copy of its host."""
    stage = without_b("ab")
    machine, old = stage.daemons["a"].machine, stage.daemons["b"].start.incarnation
    assert machine.on_datagram(NUMBERS["b"], Incarnation(1, 77), stage.now)
    assert not machine.on_datagram(NUMBERS["b"], old, stage.now)
    stage.now += HEARSAY_S
    assert not machine.on_datagram(NUMBERS["b"], old, stage.now), "it may be a late datagram"
    stage.now += 0.1
    assert machine.on_datagram(NUMBERS["b"], old, stage.now)


def test_only_so_many_starts_are_remembered_to_be_over() -> None:
    stage = Stage("ab")
    stage.start("a")
    machine = stage.daemons["a"].machine
    for restarts in range(1, 5 * MOST_OVER):
        assert machine.on_datagram(NUMBERS["b"], Incarnation(restarts, restarts), stage.now)
    assert len(machine.peers[NUMBERS["b"]].over) == MOST_OVER


def test_a_later_start_of_a_member_ends_the_view_and_its_former_one() -> None:
    stage = in_view("abc")
    old = stage.daemons["b"].start.incarnation
    stage.start("b", restarts=2, random_id=55)
    stage.settle()
    assert stage.daemons["a"].machine.reasons[GatherReason.MEMBER_RESTARTED] == 1
    assert stage.daemons["a"].host.forgotten == [(NUMBERS["b"], old)]
    assert not stage.daemons["a"].machine.news
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
    assert stage.daemons["a"].machine.reasons[GatherReason.MEMBER_RESTARTED] == 0


# ---- whatever each daemon remembers ----

MEMORIES = ("nothing", "met earlier", "met later", "mentioned earlier", "mentioned later")
STARTS = {"lost": 1, "old": 4, "copied": 5, "whole": 6}
"""The restart count of the next start of b, by what has become of its disk: 5 were counted."""


def remember(stage: Stage, name: str, memory: str, heard_at: float) -> None:
    """Have a daemon know a start of b from before, with fewer restarts than 5 or with more."""
    if memory == "nothing":
        return
    how, when = memory.split()
    incarnation = Incarnation(9 if when == "later" else 2, 1000 + ord(name))
    peer = PeerDaemon(NUMBERS["b"], "b", incarnation, met=how == "met")
    if how == "met":
        peer.heard_at = heard_at
    else:
        peer.mentioned_at = heard_at
    stage.daemons[name].machine.peers[peer.number] = peer


WAYS = {"all hear b": TIMEOUT_S, "only c hears b": HEARSAY_S + TIMEOUT_S}
"""The time within which all are together, by who hears b: membership.md has it."""


def meet(others: str, memories: tuple[str, ...], disk: str, ways: str) -> None:
    """The daemon b starts while the others remember what they do: all of them meet in time."""
    stage = Stage("abcd")
    if ways == "only c hears b":
        stage.cut = {pair for name in "ad" for pair in ((name, "b"), ("b", name))}
    stage.start(others)
    for name, memory in zip(others, memories, strict=True):
        remember(stage, name, memory, stage.now)
    stage.start("b", restarts=STARTS[disk], random_id=77)
    stage.run(WAYS[ways] + SOON_S)
    everybody = "".join(sorted(others + "b"))
    assert stage.members == [everybody] * len(everybody), (memories, disk)


@pytest.mark.parametrize("ways", WAYS)
def test_two_meet_a_start_soon_whatever_they_remember(ways: str) -> None:
    for memories in product(MEMORIES, repeat=2):
        meet("ac", memories, "lost", ways)


@pytest.mark.long
@pytest.mark.parametrize("disk", STARTS)
@pytest.mark.parametrize("ways", WAYS)
def test_three_meet_a_start_soon_whatever_they_remember(disk: str, ways: str) -> None:
    for memories in product(MEMORIES, repeat=3):
        meet("acd", memories, disk, ways)
