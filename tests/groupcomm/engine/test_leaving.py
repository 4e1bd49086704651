"""A daemon that leaves waits until nothing of it is missing anywhere, but not for ever."""

from math import inf
from typing import Any

import attrs
import pytest

from groupcomm.engine.leaving import LeaveProgress, Leaving
from groupcomm.membership.states import MembershipState

TIMEOUT_S = 5.0


NOTHING_LEFT = LeaveProgress(
    others_differ=False,
    is_missed=False,
    state=MembershipState.OPERATIONAL,
    is_complete=True,
    is_settled=True,
    sessions=0,
    bundles=0,
    packets=0,
)


@pytest.mark.parametrize(
    "changes",
    [{}, {"is_complete": False, "state": MembershipState.GATHER}],
    ids=["in a view", "between two views"],
)
def test_a_daemon_that_has_nothing_left_goes_at_once(changes: dict[str, Any]) -> None:
    some = Leaving(TIMEOUT_S)
    assert some.may_go(attrs.evolve(NOTHING_LEFT, **changes), 1.0)
    assert (some.due, some.unfinished) == (inf, "")


def test_a_daemon_without_any_view_goes_at_once() -> None:
    assert Leaving(TIMEOUT_S).may_go(None, 1.0)


LEFT_OVER: list[tuple[dict[str, Any], str]] = [
    ({"sessions": 2}, "2 sessions have not ended everywhere"),
    ({"is_settled": False, "bundles": 3}, "3 bundles of messages have no number"),
    ({"is_settled": False, "packets": 4}, "4 packets are not held by the whole view"),
    (
        {"is_settled": False, "packets": 4, "state": MembershipState.GATHER},
        "4 packets are not held by the whole view, the daemon was looking for a view (gather)",
    ),
    ({"is_complete": False}, "the view was not complete"),
]


@pytest.mark.parametrize(("changes", "text"), LEFT_OVER)
def test_a_daemon_waits_for_what_is_left_until_its_time_is_up(
    changes: dict[str, Any], text: str
) -> None:
    some, left = Leaving(TIMEOUT_S), attrs.evolve(NOTHING_LEFT, **changes)
    assert not some.may_go(left, 1.0)
    assert some.due == 1.0 + TIMEOUT_S
    assert not some.may_go(left, 1.0 + TIMEOUT_S - 0.001)
    assert (some.due, some.unfinished) == (1.0 + TIMEOUT_S, "")
    assert some.may_go(left, 1.0 + TIMEOUT_S)
    assert (some.due, some.unfinished) == (inf, text)
