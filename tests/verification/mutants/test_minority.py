"""Wrong ways to let groups pause are noticed by small clusters, at once."""

from collections.abc import Callable

import pytest

from tests.groupcomm.engine import test_minority as clusters
from tests.verification.mutants import minority
from tests.verification.mutants.mutant import Mutant

pytestmark = pytest.mark.verification


@pytest.mark.parametrize(
    ("bug", "check"),
    [
        (
            minority.joins_do_not_wait,
            clusters.test_a_join_that_needs_a_quorum_waits_for_one,
        ),
        (
            minority.pauses_are_not_announced,
            clusters.test_the_member_that_wants_most_decides_for_all_members_of_its_part,
        ),
        (
            minority.what_waits_already_is_let_through,
            clusters.test_what_is_sent_between_two_views_waits_too,
        ),
    ],
    ids=lambda each: each.name if isinstance(each, Mutant) else "",
)
def test_each_wrong_pause_is_noticed(bug: Mutant, check: Callable[[], None]) -> None:
    check()
    with bug.active(), pytest.raises(AssertionError):
        check()
