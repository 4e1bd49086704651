"""A daemon that leaves waits until nothing of it is missing anywhere, but not for ever."""

from math import inf
from types import SimpleNamespace
from typing import Any, cast

import pytest

from groupcomm.engine.leaving import Leaving, LeavingContext
from groupcomm.membership.states import MembershipState

TIMEOUT_S = 5.0


def core(**changes: Any) -> SimpleNamespace:
    """Return a daemon that is in a view and has nothing left to do, but for these changes."""
    facts = {
        "empty": True,
        "unfinished": 0,
        "backlog": 0,
        "settled": True,
        "unsettled": 0,
        "complete": True,
        "state": MembershipState.OPERATIONAL,
    } | changes
    return SimpleNamespace(
        state=facts["state"],
        sessions=SimpleNamespace(
            is_empty=facts["empty"],
            unfinished=facts["unfinished"],
            backlog=SimpleNamespace(size=facts["backlog"]),
        ),
        view_state=SimpleNamespace(
            is_settled=facts["settled"],
            unsettled_packets=facts["unsettled"],
            delivery=SimpleNamespace(complete=facts["complete"]),
        ),
    )


def leaving(around: SimpleNamespace) -> Leaving:
    return Leaving(cast(LeavingContext, around), TIMEOUT_S)


@pytest.mark.parametrize(
    "changes",
    [{}, {"complete": False, "state": MembershipState.GATHER}],
    ids=["in a view", "between two views"],
)
def test_a_daemon_that_has_nothing_left_goes_at_once(changes: dict[str, Any]) -> None:
    some = leaving(core(**changes))
    assert some.may_go(1.0)
    assert (some.due, some.unfinished) == (inf, "")


def test_a_daemon_without_any_view_goes_at_once() -> None:
    around = core(empty=False)
    around.view_state = None
    assert leaving(around).may_go(1.0)


LEFT_OVER: list[tuple[dict[str, Any], str]] = [
    ({"empty": False, "unfinished": 2}, "2 sessions have not ended everywhere"),
    ({"settled": False, "backlog": 3}, "3 bundles of messages have no number"),
    ({"settled": False, "unsettled": 4}, "4 packets are not held by the whole view"),
    (
        {"settled": False, "unsettled": 4, "state": MembershipState.GATHER},
        "4 packets are not held by the whole view, the daemon was looking for a view (gather)",
    ),
    ({"complete": False}, "the view was not complete"),
]


@pytest.mark.parametrize(("changes", "text"), LEFT_OVER)
def test_a_daemon_waits_for_what_is_left_until_its_time_is_up(
    changes: dict[str, Any], text: str
) -> None:
    some = leaving(core(**changes))
    assert not some.may_go(1.0)
    assert some.due == 1.0 + TIMEOUT_S
    assert not some.may_go(1.0 + TIMEOUT_S - 0.001)
    assert (some.due, some.unfinished) == (1.0 + TIMEOUT_S, "")
    assert some.may_go(1.0 + TIMEOUT_S)
    assert (some.due, some.unfinished) == (inf, text)
