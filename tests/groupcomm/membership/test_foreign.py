"""Daemons outside the view: when they start one, and when they are ignored."""

import pytest
from msgspec import structs

from groupcomm.config.core import Timing
from groupcomm.errors import ProtocolViolation, RemoteProtocolError
from groupcomm.membership.failure_detector import (
    ANSWER_INTERVAL_S,
    FIRST_BACKOFF_S,
    LONGEST_BACKOFF_S,
)
from groupcomm.membership.operational import STEADY_BEACONS
from groupcomm.membership.states import GatherReason, MembershipState
from groupcomm.wire.membership import Beacon, Holding, Join, Past
from tests.groupcomm.membership.stage import (
    ALIKE,
    FIRST,
    HEARS_A,
    NUMBERS,
    OTHER_VIEW,
    PLENTY,
    Stage,
    join_of,
    packet_of,
    row_of,
)

TIMING = Timing()
HEARD = Beacon(1, OTHER_VIEW, row_of("ab"), ALIKE, 1, PLENTY, 0, FIRST)
OF_D_TOO = Beacon(1, OTHER_VIEW, row_of("abd"), ALIKE, 1, PLENTY, 0, FIRST)
HALF_HEARD = Beacon(1, OTHER_VIEW, HEARS_A, ALIKE, 1, PLENTY, 0, FIRST)
UNHEARD = Beacon(1, OTHER_VIEW, (), ALIKE, 1, PLENTY, 0, FIRST)


def with_stranger() -> Stage:
    """a and b in a view; c says only what the test says in its name."""
    stage = Stage("abc")
    stage.start("ab")
    stage.run(3.0)
    assert stage.members == ["ab"] * 2
    stage.place("c")
    stage.mute = {"c"}
    return stage


def begun(stage: Stage) -> int:
    """Return the number of times that a has gathered because it heard a daemon outside."""
    return stage.daemons["a"].machine.reasons[GatherReason.FOREIGN_HEARD]


def tell(stage: Stage, beacon: Beacon) -> bool:
    """Send c's beacon to a, and let a view form; return whether a began to gather by the beacon."""
    before = begun(stage)
    stage.say("c", "a", beacon)
    began = begun(stage) > before
    stage.run(0.12)
    return began


# ---- whom to take for a neighbour ----


def test_a_foreign_daemon_starts_a_view_only_if_both_hear_each_other() -> None:
    stage = with_stranger()
    machine = stage.daemons["a"].machine
    before = len(stage.sent)
    stage.say("c", "a", UNHEARD)
    stage.settle()
    assert stage.state("a") is MembershipState.OPERATIONAL
    assert ("a", "c") in stage.said(Beacon, before), "it is told that it is heard"
    with pytest.raises(RemoteProtocolError, match="is never passed on"):
        machine.on_control(packet_of("c", stage.fill_in(HEARD), 100), NUMBERS["b"], stage.now)
    assert stage.state("a") is MembershipState.OPERATIONAL, (
        "passed on by another: that shows nothing"
    )
    stage.say("c", "a", HEARD, 101)
    assert stage.state("a") is MembershipState.GATHER, "at once, as it was never ignored"
    assert begun(stage) == 1


def test_a_foreign_join_starts_a_view_only_if_both_hear_each_other() -> None:
    stage = with_stranger()
    machine = stage.daemons["a"].machine
    before = len(stage.sent)
    stage.say("c", "a", join_of("c", 1, hears=""))
    stage.settle()
    assert stage.state("a") is MembershipState.OPERATIONAL
    assert ("a", "c") in stage.said(Beacon, before), "it is told that it is heard"
    machine.on_control(
        packet_of("c", stage.fill_in(join_of("c", 1, "ab")), 100), NUMBERS["b"], stage.now
    )
    assert stage.state("a") is MembershipState.OPERATIONAL, (
        "passed on by another: b has to see to it"
    )
    stage.say("c", "a", join_of("c", 1, hears="ab"), 101)
    assert begun(stage) == 1


@pytest.mark.parametrize(
    "half",
    [HALF_HEARD, join_of("c", 1, hears="a"), OF_D_TOO],
    ids=["beacon", "join", "of one who is not heard"],
)
def test_daemons_that_do_not_hear_all_of_the_other_view_are_given_time_to(
    half: Beacon | Join,
) -> None:
    """A view that is sought before that leaves one of the two out, and one more is needed."""
    stage = with_stranger()
    began = stage.now
    while stage.now < began + 0.9 * TIMING.token_timeout_s:
        stage.say("c", "a", half)
        stage.run(0.05)
        assert begun(stage) == 0
    stage.say("c", "a", HEARD)
    assert begun(stage) == 1, "at once when it does"


def test_a_daemon_that_has_left_its_own_view_is_not_kept_waiting() -> None:
    """Both may have waited, and not at the same time: views that are sought in turn never meet."""
    stage = with_stranger()
    left = Past(OTHER_VIEW, (Holding(0, (), (), 0),), ())
    stage.say("c", "a", HALF_HEARD)
    assert begun(stage) == 0
    stage.say("c", "a", structs.replace(join_of("c", 1, hears="a"), past=left), 101)
    assert begun(stage) == 1


def test_a_daemon_that_some_members_never_hear_is_given_a_token_timeout() -> None:
    stage = with_stranger()
    began = stage.now
    while not tell(stage, HALF_HEARD):
        assert stage.now < began + TIMING.token_timeout_s + 0.2
    assert stage.now >= began + TIMING.token_timeout_s
    assert not tell(stage, HALF_HEARD), "the next view gives it time anew"


@pytest.mark.parametrize(("less_s", "begins"), [(1e-6, False), (0.0, True)])
def test_the_time_of_a_daemon_that_is_half_heard_is_a_token_timeout_and_no_more(
    less_s: float, begins: bool
) -> None:
    stage = with_stranger()
    began = stage.now
    stage.say("c", "a", HALF_HEARD)
    stage.now = began + TIMING.token_timeout_s - less_s
    stage.say("c", "a", HALF_HEARD)
    assert (begun(stage) == 1) is begins


@pytest.mark.parametrize(("view", "waits"), [(bytes(16), False), (OTHER_VIEW, True)])
def test_a_slow_disk_of_neither_of_the_two_views_is_not_waited_for(
    view: bytes, waits: bool
) -> None:
    stage = Stage("abcd")
    stage.start("ab")
    stage.run(3.0)
    for name in "cd":
        stage.place(name)
    stage.mute = {"c", "d"}
    slow = structs.replace(HEARD, view=view, heard=(), mark=0, write_us=500_000)
    stage.say("d", "a", slow)
    stage.say("c", "a", HEARD)
    assert (begun(stage) == 0) is waits


@pytest.mark.parametrize(("more", "waits"), [(0, True), (1, False)])
def test_a_slow_disk_that_holds_the_next_number_is_not_waited_for(more: int, waits: bool) -> None:
    stage = with_stranger()
    used = stage.daemons["a"].disk.used
    view = stage.daemons["a"].machine.view
    assert view is not None
    slow = Beacon(1, view.key, row_of("a"), ALIKE, 1, used + more, 500_000, FIRST)
    stage.say("b", "a", slow)
    stage.say("c", "a", HEARD)
    assert (begun(stage) == 0) is waits


def test_who_does_not_know_that_it_is_heard_learns_so_once_in_an_interval() -> None:
    stage = with_stranger()
    before = len(stage.sent)
    for _ in range(10):
        stage.say("c", "a", UNHEARD)
        stage.settle()
    assert stage.said(Beacon, before).count(("a", "c")) == 1
    stage.now += ANSWER_INTERVAL_S
    stage.say("c", "a", UNHEARD)
    stage.settle()
    assert stage.said(Beacon, before).count(("a", "c")) == 2


def test_islands_that_hear_each_other_again_merge() -> None:
    stage = Stage("abc", "d")
    stage.start("abcd")
    stage.run(3.0)
    stage.isolate("ab", "cd")
    stage.run(2.0)
    assert stage.members == ["ab", "ab", "cd", "cd"]
    stage.cut = set()
    stage.run(1.5)
    assert stage.members == ["abcd"] * 4
    for name in "ad":
        assert stage.daemons[name].host.installed[-1][2] == {0, 1}, "who comes from its own view"


# ---- patience: daemons that are heard and do not come along ----


def test_who_is_heard_and_does_not_come_along_is_ignored_longer_and_longer() -> None:
    """It never joins, so a view comes out without it each time."""
    stage = with_stranger()
    waits: list[float] = []
    began = stage.now
    tell(stage, HEARD)
    step = 0
    while len(waits) < 5:
        step += 1
        if tell(stage, HEARD if step % 2 else UNHEARD):
            waits.append(stage.now - began)
            began = stage.now
    for times, wait in enumerate(waits):
        expected = FIRST_BACKOFF_S * 2**times
        assert expected - 0.1 <= wait <= expected + 0.5


def test_it_is_never_ignored_for_longer_than_the_bound() -> None:
    stage = with_stranger()
    for _ in range(12):
        stage.now += LONGEST_BACKOFF_S
        stage.run(0.2)
        assert tell(stage, HEARD), "that long it was ignored at most"
        assert stage.members == ["ab"] * 2


def test_who_says_steadily_that_it_hears_this_daemon_is_not_ignored() -> None:
    """Its network has healed, so its past no longer counts."""
    stage = with_stranger()
    for _ in range(6):
        stage.now += LONGEST_BACKOFF_S
        stage.run(0.2)
        tell(stage, HEARD)
    assert [tell(stage, HEARD) for _ in range(STEADY_BEACONS)] == [False] * 3 + [True]
    tell(stage, UNHEARD)
    assert not any(tell(stage, HEARD) for _ in range(STEADY_BEACONS - 1)), "it counts from new"


def test_who_has_come_along_is_no_longer_ignored() -> None:
    """Patience begins anew, however long it had become."""
    stage = with_stranger()
    for _ in range(6):
        stage.now += LONGEST_BACKOFF_S
        stage.run(0.2)
        assert tell(stage, HEARD)
    peer = stage.daemons["a"].machine.peers[NUMBERS["c"]]
    assert peer.backoff_s > 10 * FIRST_BACKOFF_S
    stage.start("c", restarts=2)
    stage.run(1.0)
    assert stage.members == ["abc"] * 3
    assert peer.backoff_s == 0.0
    stage.mute = {"c"}
    stage.run(3.0)
    assert stage.members == ["ab"] * 2
    assert tell(stage, HEARD), "at once, as at first"
    assert peer.backoff_s == FIRST_BACKOFF_S


def test_a_beacon_with_a_number_that_nobody_can_have_used_is_a_violation() -> None:
    stage = with_stranger()
    with pytest.raises(ProtocolViolation, match="number"):
        stage.say("c", "a", structs.replace(HEARD, used=2**62))
    tell(stage, HEARD)
    assert stage.daemons["a"].disk.used < 2**62
