"""Leaving is said several times; a daemon goes on alone only if packets do not come."""

from math import inf
from types import SimpleNamespace
from typing import Any

import pytest

from groupcomm.membership.agreement import MOST_FAILURES, Isolation
from groupcomm.membership.leave import LEAVE_INTERVAL_S, LEAVE_REPEATS, LeaveSchedule


def test_a_daemon_that_leaves_says_so_some_times() -> None:
    schedule = LeaveSchedule()
    assert (schedule.begun, schedule.due) == (False, inf)
    schedule.begin(10.0)
    schedule.begin(11.0)
    assert (schedule.begun, schedule.due) == (True, 10.0)
    now, last = 10.0, False
    for _ in range(LEAVE_REPEATS - 1):
        last = schedule.count_sent(now)
        assert not last
        assert schedule.due == now + LEAVE_INTERVAL_S
        now = schedule.due
    assert schedule.count_sent(now)
    assert schedule.due == inf


def attempt(*, recovered: bool = False, complete: bool = False) -> Any:
    """Return what counts of an attempt that has failed."""
    return SimpleNamespace(recovered=recovered, recovery=SimpleNamespace(complete=complete))


FREE: Any = SimpleNamespace(obligation=None)
BOUND: Any = SimpleNamespace(obligation="to deliver")


def test_a_daemon_whose_packets_never_come_goes_on_alone_until_it_has_a_view() -> None:
    one = Isolation()
    for _ in range(MOST_FAILURES - 1):
        one.on_failed_attempt(attempt(), FREE)
        assert not one.is_isolated
    one.on_failed_attempt(attempt(), FREE)
    assert one.is_isolated
    one.on_installed()
    assert not one.is_isolated
    one.on_failed_attempt(attempt(), FREE)
    assert not one.is_isolated, "it counts anew"


@pytest.mark.parametrize(("recovered", "complete"), [(True, False), (False, True)])
def test_an_attempt_for_which_all_packets_came_counts_anew(recovered: bool, complete: bool) -> None:
    one = Isolation()
    for _ in range(MOST_FAILURES - 1):
        one.on_failed_attempt(attempt(), FREE)
    one.on_failed_attempt(attempt(recovered=recovered, complete=complete), FREE)
    one.on_failed_attempt(attempt(), FREE)
    assert not one.is_isolated


def test_who_is_bound_to_others_never_goes_on_alone() -> None:
    one = Isolation()
    for _ in range(2 * MOST_FAILURES):
        one.on_failed_attempt(attempt(), BOUND)
    assert not one.is_isolated
