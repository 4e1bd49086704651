"""The packets of the old view that members lack, their obligations, and the mark on disk."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from msgspec.structs import replace

from groupcomm.config.core import Timing
from groupcomm.membership.recovery import MAX_SPREAD, _fits
from groupcomm.membership.states import GatherReason, MembershipState
from groupcomm.wire.membership import Commit, ControlKind, Holding, Join, Past, Repair
from tests.groupcomm.membership.stage import NUMBERS, OTHER_VIEW, Stage, counter_of, in_view

TIMING = Timing()


def held(stage: Stage, **numbers: set[int]) -> None:
    """The packets of the ending view that each holds."""
    for name, some in numbers.items():
        stage.daemons[name].host.held = some


# ---- repairs ----


def test_repairs_come_from_the_lowest_holder_and_nobody_sends_what_all_hold() -> None:
    stage = in_view("abc")
    held(stage, a={1, 2, 3}, b={1, 2, 5}, c={1})
    stage.daemons["c"].machine.gather(GatherReason.TOKEN_LOST, stage.now)
    stage.run(0.1)
    assert stage.daemons["a"].members == "abc"
    repairs = {(a, m.packet) for a, _, m in stage.sent if isinstance(m, Repair)}
    assert repairs == {("a", b"2"), ("a", b"3"), ("b", b"5")}
    for daemon in stage.daemons.values():
        _, recovered_set, transitional_members = daemon.host.installed[-1]
        assert recovered_set is not None
        assert recovered_set.spans == [[(1, 3), (5, 5)]]
        assert transitional_members == {0, 1, 2}


def test_a_lost_repair_is_sent_again_to_who_asks_and_nothing_else_is() -> None:
    stage = in_view("ab")
    held(stage, a={1, 2, 3, 4}, b={1})
    stage.drop = {("a", ControlKind.REPAIR)}
    stage.daemons["a"].machine.gather(GatherReason.TOKEN_LOST, stage.now)
    stage.run(TIMING.repeat_s * 0.5)
    stage.daemons["b"].host.held |= {2, 3}
    stage.daemons["b"].machine._agreement.recovery._lacking = None  # type: ignore[union-attr]
    stage.run(TIMING.repeat_s)
    assert stage.state("a") is MembershipState.RECOVERED
    assert stage.state("b") is MembershipState.COMMIT
    before = len(stage.sent)
    stage.drop = set()
    stage.run(TIMING.repeat_s * 2.5)
    assert stage.members == ["ab"] * 2
    assert {m.packet for _, _, m in stage.sent[before:] if isinstance(m, Repair)} == {b"4"}


def test_repairs_go_to_those_who_lack_them() -> None:
    stage = in_view("ab", "cd")
    held(stage, a={1, 2}, b={1}, c={1, 2}, d={2})
    stage.daemons["a"].machine.gather(GatherReason.TOKEN_LOST, stage.now)
    stage.run(0.1)
    assert stage.members == ["abcd"] * 4
    repairs = sorted((a, b, m.packet) for a, b, m in stage.sent if isinstance(m, Repair))
    assert repairs == [("a", "b", b"2"), ("a", "d", b"1")]


def test_repairs_for_those_whom_their_holder_does_not_hear_go_to_all_and_are_passed_on() -> None:
    stage = in_view("a", "b", "c")
    stage.cut = {("a", "c"), ("c", "a")}
    stage.daemons["b"].machine.gather(GatherReason.TOKEN_LOST, stage.now)
    stage.run(1.0)
    held(stage, a={1}, b={1}, c=set())
    stage.daemons["b"].machine.gather(GatherReason.TOKEN_LOST, stage.now)
    stage.run(0.5)
    assert stage.members == ["abc"] * 3
    repairs = [(a, b) for a, b, m in stage.sent if isinstance(m, Repair)]
    assert repairs == [("a", "b"), ("a", "c")]


def test_what_may_be_on_its_way_is_not_sent_again() -> None:
    """A daemon that often reports a packet as lacking has mostly done so before the packet came."""
    timing = Timing(longest_delay_s=0.04)
    stage = Stage("a", "b", timing=timing)
    stage.start("ab")
    stage.run(5.0)
    held(stage, a={1, 2}, b={1})
    stage.drop = {("a", ControlKind.REPAIR)}
    stage.daemons["a"].machine.gather(GatherReason.TOKEN_LOST, stage.now)
    stage.run(timing.repair_again_s - timing.repeat_s)
    assert len(stage.said(Commit)) > 10
    assert stage.said(Repair) == [("a", "b")]
    stage.drop = set()
    stage.run(4 * timing.repeat_s)
    assert stage.said(Repair) == [("a", "b")] * 2
    assert stage.members == ["ab"] * 2


def test_what_several_have_lost_waits_for_none_of_them() -> None:
    """Whoever asks gets it at once, unless it may be on its way to that one."""
    stage = in_view("abc")
    held(stage, a={1, 2}, b={1}, c={1})
    stage.drop = {("a", ControlKind.REPAIR)}
    stage.daemons["a"].machine.gather(GatherReason.TOKEN_LOST, stage.now)
    stage.run(0.01)
    agreement = stage.daemons["a"].machine._agreement
    assert agreement is not None
    recovery, lacking = agreement.recovery, (((2, 2),),)
    one, other = NUMBERS["b"], NUMBERS["c"]

    def sent(number: int, now: float) -> list[tuple[bytes, set[int]]]:
        recovery.on_missing(number, lacking, now)
        return recovery.pop_batch(now)

    later = stage.now + TIMING.repair_again_s
    assert sent(one, later) == [(b"2", {one})]
    assert sent(other, later + 0.001) == [(b"2", {other})]
    assert sent(one, later + 0.002) == sent(other, later + 0.003) == []
    assert sent(other, later + 0.003 + TIMING.repair_again_s) == [], "it may be slow"
    assert sent(other, later + 0.001 + 2 * TIMING.repair_again_s) == [(b"2", {other})]


def test_a_repair_is_taken_only_while_packets_are_fetched_and_only_of_the_recovered_set() -> None:
    """Packets that no member has reported would be here alone, and move one boundary."""
    stage = in_view("ab")
    machine, context = stage.daemons["a"].machine, stage.daemons["a"].host
    held(stage, b={1, 2})
    assert machine.view is not None
    key = machine.view.key
    stage.say("b", "a", Repair(key, b"1"))
    machine.gather(GatherReason.TOKEN_LOST, stage.now)
    stage.say("b", "a", Repair(OTHER_VIEW, b"2"))
    stage.say("b", "a", Repair(key, b"8"))
    assert context.held == set(), "the join has said what is held"
    stage.drop = {("b", ControlKind.REPAIR)}
    stage.run(TIMING.repeat_s * 1.5)
    assert stage.state("a") is MembershipState.COMMIT
    stage.say("b", "a", Repair(OTHER_VIEW, b"1"))
    stage.say("b", "a", Repair(key, b"7"))
    assert context.held == set()
    stage.say("b", "a", Repair(key, b"2"))
    stage.say("b", "a", Repair(key, b"1"))
    assert context.held == {1, 2}
    stage.run(TIMING.repeat_s)
    assert stage.members == ["ab"] * 2


def test_a_repair_that_comes_before_the_own_commit_is_kept() -> None:
    """Its sender has committed a little earlier, and would send it again only much later."""
    timing = Timing(longest_delay_s=0.04)
    stage = Stage("a", "b", timing=timing)
    stage.start("ab")
    stage.run(5.0)
    machine, context = stage.daemons["a"].machine, stage.daemons["a"].host
    held(stage, b={1, 2})
    assert machine.view is not None
    machine.gather(GatherReason.TOKEN_LOST, stage.now)
    for packet in (b"2", b"1", b"broken"):
        stage.say("b", "a", Repair(machine.view.key, packet))
    stage.drop = {("b", ControlKind.REPAIR)}
    stage.run(timing.repeat_s)
    assert stage.members == ["ab"] * 2
    assert context.installed[-1][1] is not None


def test_nothing_is_repaired_in_a_view_that_stands() -> None:
    """The recovered set of the last view says nothing about this one, whose packets come in
    order."""
    stage = in_view("ab")
    machine, context = stage.daemons["a"].machine, stage.daemons["a"].host
    held(stage, a={1, 2}, b={1, 2})
    machine.gather(GatherReason.TOKEN_LOST, stage.now)
    stage.run(0.1)
    assert stage.members == ["ab"] * 2
    assert machine.view is not None
    stage.say("b", "a", Repair(machine.view.key, b"1"))
    assert context.held == set()


def few_rings(past: Past) -> Past:
    return replace(past, holdings=past.holdings * 2)


def far_spans(past: Past) -> Past:
    return replace(past, holdings=(Holding(3, ((4, 3 + MAX_SPREAD + 1),), (), 0),))


def other_view(past: Past) -> Past:
    return replace(past, view=OTHER_VIEW)


@pytest.mark.parametrize("lie", [few_rings, far_spans, other_view])
def test_who_says_of_the_old_view_what_cannot_be_is_a_stranger(
    lie: Callable[[Past], Past],
) -> None:
    stage = in_view("ab")
    held(stage, a={1}, b={1})
    stage.drop = {("b", ControlKind.JOIN), ("b", ControlKind.COMMIT)}
    stage.daemons["a"].machine.gather(GatherReason.TOKEN_LOST, stage.now)
    stage.settle()
    stage.mute = {"b"}
    join = next(m for a, _, m in reversed(stage.sent) if a == "b" and isinstance(m, Join))
    assert join.past is not None
    stage.say("b", "a", replace(join, past=lie(join.past)))
    stage.run(TIMING.repeat_s / 2)
    agreement = stage.daemons["a"].machine._agreement
    assert agreement is not None
    assert agreement.recovery.transitional == {0}
    assert agreement.recovery.member_numbers == {stage.daemons["a"].start.daemon.number}
    assert len(agreement.view.daemons) == 2, "it comes along nevertheless"


# ---- acknowledged recovery ----


def test_nothing_is_delivered_until_all_have_said_that_they_hold_the_recovered_set() -> None:
    stage = in_view("abc")
    held(stage, a={1}, b={1}, c=set())
    stage.drop = {("c", ControlKind.COMMIT)}
    stage.daemons["a"].machine.gather(GatherReason.TOKEN_LOST, stage.now)
    stage.run(TIMING.gather_wait_s * 0.9)
    for name in "ab":
        assert stage.state(name) is MembershipState.RECOVERED
        assert stage.daemons[name].host.log[-2:] == ["freeze", "bind"]
    stage.drop = set()
    stage.run(0.1)
    for name in "abc":
        assert stage.daemons[name].host.log.count("install") == 2


def test_a_commit_without_recovery_is_not_enough() -> None:
    stage = in_view("ab")
    held(stage, a={1}, b=set())
    stage.drop = {("a", ControlKind.REPAIR)}
    stage.daemons["a"].machine.gather(GatherReason.TOKEN_LOST, stage.now)
    stage.run(TIMING.gather_wait_s * 0.9)
    said = [m.recovered for a, _, m in stage.sent if a == "b" and isinstance(m, Commit)]
    assert said[-1] is False
    assert [stage.state(name) for name in "ab"] == [
        MembershipState.RECOVERED,
        MembershipState.COMMIT,
    ]
    assert [stage.daemons[name].host.log.count("install") for name in "ab"] == [1, 1]


# ---- obligations ----


def test_obligations_are_kept_after_a_failed_attempt_and_exchanged() -> None:
    """All had obligations; the third may have installed the view. Its packets remain a member's."""
    stage = in_view("abc")
    stage.drop = {("c", ControlKind.COMMIT)}
    stage.daemons["a"].machine.gather(GatherReason.TOKEN_LOST, stage.now)
    stage.run(0.05)
    assert stage.daemons["a"].host.obligation == {0, 1, 2}
    stage.isolate("ab", "c")
    stage.drop = set()
    before = len(stage.sent)
    stage.run(1.0)
    assert stage.daemons["a"].machine.reasons[GatherReason.ATTEMPT_FAILED] == 1
    joins = [m for _, _, m in stage.sent[before:] if isinstance(m, Join) and m.past is not None]
    assert any(m.past is not None and m.past.obligation == (0, 1, 2) for m in joins)
    for name in "ab":
        view, recovered_set, transitional_members = stage.daemons[name].host.installed[-1]
        assert len(view.daemons) == 2
        assert transitional_members == {0, 1}, "the transitional view lists those who come along"
        assert recovered_set is not None
        assert recovered_set.obligation == {0, 1, 2}


def test_who_was_not_bound_itself_learns_the_obligations_of_others() -> None:
    """b was still fetching when a had an obligation to c: all of T must treat c as a member."""
    stage = in_view("abc")
    held(stage, a={1}, b=set(), c={1})
    stage.drop = {("a", ControlKind.REPAIR), ("c", ControlKind.COMMIT)}
    stage.daemons["a"].machine.gather(GatherReason.TOKEN_LOST, stage.now)
    stage.run(0.05)
    stage.isolate("ab", "c")
    for _ in range(100):
        if stage.state("b") is MembershipState.COMMIT:
            stage.run(0.005)
    assert stage.daemons["a"].host.obligation == {0, 1, 2}
    assert stage.daemons["b"].host.obligation == frozenset()
    stage.drop = set()
    stage.run(1.5)
    assert stage.daemons["b"].members == "ab"
    _, recovered_set, transitional_members = stage.daemons["b"].host.installed[-1]
    assert recovered_set is not None
    assert transitional_members == {0, 1}
    assert recovered_set.obligation == {0, 1, 2}


# ---- the mark on disk ----


def test_no_view_is_agreed_to_above_the_mark_on_disk() -> None:
    stage = in_view("ab")
    disk = stage.daemons["a"].disk
    disk.mark = counter_of(stage.daemons["a"]) + 1
    stage.daemons["a"].machine.gather(GatherReason.TOKEN_LOST, stage.now)
    disk.mark -= 1  # the disk differs from what the others were told
    stage.run(0.03)
    assert stage.state("a") is MembershipState.COMMIT
    assert "bind" not in stage.daemons["a"].host.log
    assert stage.state("b") is MembershipState.RECOVERED
    assert disk.to_store is not None
    assert disk.to_store > counter_of(stage.daemons["b"])
    disk.stored(disk.to_store, stage.now)
    stage.run(0.03)
    assert stage.members == ["ab"] * 2


def test_spans_below_what_is_forgotten_cannot_be() -> None:
    """Else one join names 2**40 packets, and the union counts them one by one."""
    view = in_view("ab").daemons["a"].machine.view
    assert view is not None
    assert not _fits(Past(view.key, (Holding(2**40, ((1, 2**40 + 9),), (), 0),), ()), view)
    assert _fits(Past(view.key, (Holding(2**40, ((2**40 + 1, 2**40 + 9),), (), 0),), ()), view)


def test_repairs_leave_in_batches_with_time_between_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groupcomm.membership.recovery.BATCH_BYTES", 100)
    stage = in_view("ab")
    a, b = (stage.daemons[name] for name in "ab")
    a.host.held, b.host.held = set(range(1, 200)), {1}
    before, repeat_s = len(b.host.installed), stage.config.timing.repeat_s
    a.machine.gather(GatherReason.TOKEN_LOST, stage.now)
    times, sent = [], 0
    for _ in range(200):
        stage.run(repeat_s / 10)
        if len(stage.said(Repair)) > sent:
            times.append(stage.now)
        sent = len(stage.said(Repair))
    assert len(b.host.installed) == before + 1
    assert len(times) > 3
    assert min(later - earlier for earlier, later in pairwise(times)) > 0.8 * repeat_s
