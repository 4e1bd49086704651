"""A daemon that goes on alone has told nobody what it knows of the others.

Seed 4 of the long lives of three daemons had one that did not know yet that all could deliver a
SAFE message: it delivered that in the transitional part, and what followed it. The specification
took it for granted that it knew all that was true, and allowed the message in the regular part
only.
"""

import pytest

from tests.verification.specification.form import Disabled
from tests.verification.specification.order import Held
from tests.verification.specification.recovery import (
    Past,
    Recovery,
    RecoveryCondition,
    RecoveryState,
)

SAFE_ONE, AGREED_ONE = (0, 1), (0, 2)


def all_can_deliver_both() -> tuple[Recovery, RecoveryState]:
    """Return a view of two daemons that both hold two packets, with stamps 5 and 6."""
    recovery, state = Recovery((("a", "b"),)), RecoveryState()
    for packet, time in ((SAFE_ONE, 5), (AGREED_ONE, 6)):
        recovery.stamp(state, "a", packet, time)
        recovery.hold(state, "a", packet, time)
        recovery.hold(state, "b", packet, time)
    assert min(state.least.values()) >= 6
    return recovery, state


def begin_alone(recovery: Recovery, state: RecoveryState) -> None:
    """Have b go on alone, without having told anything in its present attempt."""
    recovery.gather(state, "b", 2, None)
    recovery.commit(state, "b", frozenset({("b", 2)}))
    recovery.recover(state, "b")


def test_what_it_may_not_know_to_be_safe_it_may_deliver_in_the_transitional_part() -> None:
    recovery, state = all_can_deliver_both()
    begin_alone(recovery, state)
    recovery.turn(state, "b")
    recovery.rest(state, "b", SAFE_ONE, safe=True)
    recovery.rest(state, "b", AGREED_ONE, safe=False)
    recovery.finish(state, "b")


def test_what_it_may_know_to_be_safe_it_may_deliver_in_the_regular_part() -> None:
    recovery, state = all_can_deliver_both()
    begin_alone(recovery, state)
    recovery.settle(state, "b", SAFE_ONE, safe=True)
    recovery.settle(state, "b", AGREED_ONE, safe=False)
    recovery.turn(state, "b")
    recovery.finish(state, "b")


def test_what_it_has_said_before_it_knows() -> None:
    recovery, state = all_can_deliver_both()
    said = Past((Held(2),), (frozenset(),), (6,), frozenset())
    recovery.gather(state, "b", 1, said)
    begin_alone(recovery, state)
    recovery.turn(state, "b")
    recovery.rest(state, "b", SAFE_ONE, safe=True)
    with pytest.raises(Disabled) as caught:
        recovery.rest(state, "b", AGREED_ONE, safe=False)
    assert caught.value.condition is RecoveryCondition.AFTER_BOUNDARY
