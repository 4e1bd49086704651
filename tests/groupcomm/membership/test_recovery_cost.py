"""The cost of recovery where thousands of single packets are lacking.

Counted are the steps of the interpreter within the project, which are the same on every machine.
"""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from groupcomm.membership.recovery import Recovery
from groupcomm.membership.states import GatherReason
from groupcomm.wire.membership import MAX_MISSING, ControlKind
from tests.groupcomm.membership.stage import NUMBERS, Stage, in_view

FEW, MANY = 250, 2000
LATER = 1e9
"""Seconds; by then what was sent has been lost."""


def steps(act: Callable[[], object]) -> int:
    """Return the number of Python's own instructions while it runs a function."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
    return count


def holes(count: int) -> range:
    """Return the packets that are lacking; nobody holds any that is next to one of them."""
    return range(3, 4 * count + 3, 4)


def torn(count: int) -> tuple[Stage, Recovery, Recovery]:
    """Return the recoveries of a daemon that holds this many packets and of one that lacks them."""
    stage = in_view("ab")
    stage.daemons["a"].host.held = {1, 5, *holes(count)}
    stage.daemons["b"].host.held = {1, 5}
    stage.drop = {("a", ControlKind.REPAIR)}
    stage.daemons["a"].machine.gather(GatherReason.TOKEN_LOST, stage.now)
    stage.run(0.01)
    found = [daemon.machine._agreement for daemon in stage.daemons.values()]
    whole, holed = (agreement.recovery for agreement in found if agreement is not None)
    while whole.has_packets_to_send:
        whole.pop_batch(stage.now)
    return stage, whole, holed


def test_a_commit_costs_the_same_however_much_is_lacking() -> None:
    def cost(count: int) -> int:
        _, whole, holed = torn(count)
        said = holed.missing
        assert len(said[0]) == MAX_MISSING
        hear = steps(lambda: whole.on_missing(NUMBERS["b"], said, LATER))
        assert whole.has_packets_to_send
        return hear + steps(lambda: holed.missing)

    assert cost(MANY) <= cost(FEW) * 1.1


def test_recovery_costs_as_much_for_each_packet_however_many_are_lacking() -> None:
    """A daemon that looks after each repair whether it holds all now."""

    def cost(count: int) -> int:
        _, _, holed = torn(count)

        def take_all() -> None:
            for number in holes(count):
                assert not holed.complete
                holed.receive(NUMBERS["a"], b"%d" % number)
                assert len(holed.missing[0]) <= MAX_MISSING

        taken = steps(take_all)
        assert holed.complete
        return taken // count

    assert cost(MANY) <= cost(FEW) * 1.1


def test_an_attempt_begins_at_a_cost_for_each_packet() -> None:
    def cost(count: int) -> int:
        _, whole, _ = torn(count)
        recovered_set = whole.recovered_set
        assert recovered_set is not None
        assert len(recovered_set.duties(0)) == count
        found = steps(lambda: recovered_set.duties(0))
        return (found + steps(lambda: [recovered_set.holds(0, n) for n in holes(count)])) // count

    assert cost(MANY) <= cost(FEW) * 1.1
