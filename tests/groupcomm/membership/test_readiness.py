"""Daemons that stand aside because their disks lack a needed mark, and their return."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.config.core import Timing
from groupcomm.membership.proposal import CounterClaim, Ready, find_ready, mutual_pairs
from groupcomm.membership.reservation import SPARE
from groupcomm.membership.states import GatherReason, MembershipState
from tests.groupcomm.membership.stage import PLENTY, Stage, counter_of, in_view

TIMING = Timing()

# ---- who can be in one view ----


def ready(me: str, hears: dict[str, str], **claims: tuple[int, int]) -> str:
    """The members that a daemon finds; `hears` has whom each hears both ways, else all do."""
    names = sorted(claims)
    numbers = {name: number for number, name in enumerate(names)}
    mutual = {
        numbers[name]: frozenset(numbers[other] for other in hears.get(name, "".join(names)))
        - {numbers[name]}
        for name in names
    }
    found = find_ready(
        mutual, {numbers[n]: CounterClaim(*claim) for n, claim in claims.items()}, numbers[me]
    )
    return "".join(names[number] for number in sorted(found.members))


WELL = (10, 1000)


def test_all_are_ready_whose_disks_reach_above_all_counters() -> None:
    for me in "abc":
        assert ready(me, {}, a=WELL, b=(998, 1000), c=(5, 999)) == "abc"


def test_who_does_not_reach_the_highest_counter_stands_aside() -> None:
    claims = {"a": WELL, "b": WELL, "c": (10, 11), "d": (11, 1000)}
    assert [ready(me, {}, **claims) for me in "abcd"] == ["abd", "abd", "c", "abd"]


def test_those_who_stand_aside_are_together() -> None:
    claims = {"a": (500, 1000), "b": (10, 100), "c": (20, 200)}
    assert [ready(me, {}, **claims) for me in "abc"] == ["a", "bc", "bc"]


def test_who_has_used_up_its_mark_is_in_no_view_and_holds_nobody_up() -> None:
    claims = {"a": WELL, "b": WELL, "c": (2000, 2000)}
    assert [ready(me, {}, **claims) for me in "abc"] == ["ab", "ab", ""]


def test_who_is_heard_only_by_a_daemon_that_stands_aside_is_not_reached() -> None:
    hears = {"a": "b", "b": "ac", "c": "b"}
    claims = {"a": WELL, "b": (10, 11), "c": (11, 1000)}
    assert [ready(me, hears, **claims) for me in "abc"] == ["a", "b", "c"]


def test_a_daemon_learns_which_mark_it_lacks() -> None:
    mutual = {0: frozenset({1}), 1: frozenset({0})}
    claims = {0: CounterClaim(10, 20), 1: CounterClaim(70, 1000)}
    assert find_ready(mutual, claims, 0) == Ready(frozenset({0}), 71)
    assert find_ready(mutual, {**claims, 0: CounterClaim(20, 20)}, 0) == Ready(frozenset(), 21)


@given(data=st.data(), count=st.integers(1, 6))
def test_all_find_the_same_and_each_counter_is_reserved(data: st.DataObject, count: int) -> None:
    everybody = range(count)
    rows = st.frozensets(st.sampled_from(everybody))
    mutual = mutual_pairs({one: data.draw(rows) - {one} for one in everybody})
    claims = {
        one: CounterClaim(*data.draw(st.tuples(*[st.integers(0, 6)] * 2))) for one in everybody
    }
    found = {one: find_ready(mutual, claims, one).members for one in everybody}
    for one, members in found.items():
        assert (one in members) == (claims[one].used < claims[one].mark)
        assert all(found[other] == members for other in members)
        assert all(claims[n].used < claims[m].mark for n in members for m in members)


# ---- what daemons do ----


def test_a_daemon_whose_disk_does_not_answer_is_left_out_within_the_usual_time() -> None:
    stage = in_view("abc")
    high = counter_of(stage.daemons["a"]) + 10
    stage.daemons["c"].disk.mark = high
    stage.daemons["a"].disk.use(high)
    stage.daemons["a"].machine.gather(GatherReason.TOKEN_LOST, stage.now)
    stage.run(TIMING.gather_wait_s + 0.02)
    assert [stage.daemons[name].members for name in "ab"] == ["ab"] * 2
    assert counter_of(stage.daemons["a"]) == high + 1
    assert stage.state("c") is MembershipState.GATHER, "it waits for its disk"
    assert stage.daemons["c"].disk.is_short


def test_it_comes_back_as_soon_as_its_disk_has_answered() -> None:
    stage = in_view("abc")
    high = counter_of(stage.daemons["a"]) + 10
    disk = stage.daemons["c"].disk
    disk.mark = high
    stage.daemons["a"].disk.use(high)
    stage.daemons["a"].machine.gather(GatherReason.TOKEN_LOST, stage.now)
    stage.run(0.2)
    assert disk.to_store is not None
    assert disk.to_store >= high + SPARE
    disk.stored(disk.to_store, stage.now)
    stage.run(0.05)
    assert stage.members == ["abc"] * 3
    installed = stage.daemons["c"].host.installed
    assert len(installed) == 2, "it had no view of its own meanwhile"


def test_it_has_a_view_of_its_own_once_its_disk_took_too_long() -> None:
    stage = in_view("abc")
    high = counter_of(stage.daemons["a"]) + 10
    disk = stage.daemons["c"].disk
    disk.mark = high
    stage.daemons["a"].disk.use(high)
    stage.daemons["a"].machine.gather(GatherReason.TOKEN_LOST, stage.now)
    stage.run(TIMING.token_timeout_s + 0.1)
    assert stage.members == ["ab", "ab", "c"]
    before = [counter_of(stage.daemons[name]) for name in "abc"]
    stage.run(60.0)
    assert [counter_of(stage.daemons[name]) for name in "abc"] == before, "nothing flaps"
    assert disk.to_store is not None
    disk.stored(disk.to_store, stage.now)
    stage.run(0.3)
    assert stage.members == ["abc"] * 3


def test_views_that_need_no_new_mark_have_all_whatever_their_disks_do() -> None:
    stage = in_view("abc")
    for name in "abc":
        stage.daemons[name].disk.mark = counter_of(stage.daemons[name]) + 5
    for _ in range(5):
        stage.daemons["a"].machine.gather(GatherReason.TOKEN_LOST, stage.now)
        stage.run(1.0)
        assert stage.members == ["abc"] * 3


def test_a_start_that_would_take_a_daemon_above_its_mark_is_met_once_the_disk_has_answered() -> (
    None
):
    stage = Stage("abc")
    stage.start("ab")
    stage.run(3.0)
    disk = stage.daemons["a"].disk
    disk.mark = 10**6
    stage.start("c", counters={"c": 10**9})
    stage.drop = set()
    stage.daemons["b"].disk.mark = 10**6
    stage.run(1.0)
    assert stage.members == ["ab", "ab", "c"], "their view stands meanwhile"
    for name in "ab":
        disk = stage.daemons[name].disk
        assert disk.to_store is not None
        assert disk.to_store > 10**9
        disk.stored(disk.to_store, stage.now)
    stage.run(0.3)
    assert stage.members == ["abc"] * 3


def test_a_daemon_without_any_mark_waits_for_its_disk_and_then_has_its_view() -> None:
    stage = Stage("a")
    stage.place("a", counter=7)
    disk = stage.daemons["a"].disk
    disk.mark = 7
    stage.daemons["a"].machine.gather(GatherReason.STARTED, 0.0)
    stage.run(30.0)
    assert stage.state("a") is MembershipState.GATHER
    assert disk.to_store is not None
    disk.stored(disk.to_store, stage.now)
    stage.run(0.1)
    assert stage.members == ["a"]


@pytest.mark.parametrize("site", ["same", "other"])
def test_who_starts_late_on_a_slow_disk_finds_the_others_in_their_view(site: str) -> None:
    stage = Stage("abc") if site == "same" else Stage("ab", "c")
    stage.start("ab", counters={"a": 5, "b": 5})
    stage.run(20.0)
    assert stage.members == ["ab"] * 2
    stage.start("c", counters={"c": 3})
    stage.daemons["c"].disk.mark = PLENTY
    stage.run(0.5)
    assert stage.members == ["abc"] * 3


# ---- members whose disks are slow ----


def slow_fellow(write_s: float) -> Stage:
    """A daemon c has started with a high counter; b is known to have a slow disk, and lacks it."""
    stage = in_view("ab", "c")
    stage.daemons["c"].machine.leave(stage.now)
    stage.run(1.0)
    disk = stage.daemons["b"].disk
    disk.mark, disk.write_s = 10**6, write_s
    stage.run(1.0)
    stage.start("c", restarts=2, counters={"c": 10**9})
    return stage


def test_a_daemon_that_starts_waits_for_members_whose_disks_are_slow() -> None:
    stage = slow_fellow(0.5)
    stage.run(1.2)
    assert [stage.daemons[name].members for name in "abc"] == ["ab", "ab", "c"]
    disk = stage.daemons["b"].disk
    assert disk.to_store is not None
    disk.stored(disk.to_store, stage.now)
    stage.run(0.3)
    assert stage.members == ["abc"] * 3
    assert len(stage.daemons["b"].host.installed) == 3, "it was never without the others"


def test_it_waits_for_three_writes_and_no_longer() -> None:
    stage = slow_fellow(0.5)
    stage.run(3 * 0.5 + 0.3)
    assert [stage.daemons[name].members for name in "ac"] == ["ac"] * 2


@pytest.mark.parametrize("write_s", [0.005, 5.0])
def test_it_does_not_wait_for_a_disk_that_is_quick_or_hopeless(write_s: float) -> None:
    stage = slow_fellow(write_s)
    stage.run(0.4)
    assert [stage.daemons[name].members for name in "ac"] == ["ac"] * 2
