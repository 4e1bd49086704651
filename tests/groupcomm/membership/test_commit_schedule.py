"""When a commit is said again."""

import attrs
import pytest
from msgspec import structs

from groupcomm.config.core import Timing
from groupcomm.membership.agreement import QUICK_REPEATS, CommitSchedule
from groupcomm.wire.membership import Commit, Proposal

TIMING = attrs.evolve(Timing(), longest_delay_s=0.07)

LACKING = Commit(
    attempt=1,
    proposal=Proposal(seats=()),
    recovered=False,
    installed=False,
    missing=(((3, 9),),),
)


def waits(*commits: Commit) -> list[float]:
    """Return the time after each of these at which it is to be repeated."""
    schedule = CommitSchedule(TIMING)
    found = []
    for commit in commits:
        schedule.on_sent(commit, 5.0)
        found.append(schedule.due - 5.0)
    return found


def test_the_same_is_said_ever_more_rarely() -> None:
    found = waits(*([LACKING] * 3 * QUICK_REPEATS))
    assert found[:QUICK_REPEATS] == pytest.approx([TIMING.repeat_s] * QUICK_REPEATS)
    assert found[-1] > 2 * TIMING.repeat_s
    assert found == sorted(found)


def test_what_is_lacking_is_reported_no_more_often_than_it_can_have_come() -> None:
    """Else the commits of all take a narrow way from the packets (simulator seed 1300346)."""
    less = structs.replace(LACKING, missing=(((5, 9),),))
    least = structs.replace(LACKING, missing=(((9, 9),),))
    assert waits(LACKING, less, least)[1:] == pytest.approx([TIMING.repair_again_s / 2] * 2)
    assert TIMING.repair_again_s > 4 * TIMING.repeat_s


def test_what_others_wait_for_is_said_again_soon() -> None:
    done = structs.replace(LACKING, missing=(), recovered=True)
    assert waits(LACKING, LACKING, done)[2] == pytest.approx(TIMING.repeat_s)
