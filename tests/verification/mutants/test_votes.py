"""Wrong ways to count votes are noticed by the proof's facts, and by small clusters, at once."""

from collections.abc import Callable
from functools import partial

import pytest

from tests.groupcomm.config import test_votes as facts
from tests.groupcomm.engine import test_votes as clusters
from tests.verification.mutants import votes
from tests.verification.mutants.mutant import Mutant

pytestmark = pytest.mark.verification


@pytest.mark.parametrize(
    ("bug", "check"),
    [
        (
            votes.all_votes_at_once,
            partial(facts.test_at_most_one_side_acts_whatever_changes, "ab", 2),
        ),
        (
            votes.ties_before_they_are_settled,
            partial(facts.test_at_most_one_side_acts_whatever_changes, "abc", 1),
        ),
        (
            votes.half_acts_at_once,
            clusters.test_half_acts_only_once_its_disk_holds_that_it_is_more_than_half,
        ),
        (
            votes.leaver_uncounted_by_those_who_hear_it,
            clusters.test_a_leaver_that_cannot_store_leaves_in_time_and_stays_missing,
        ),
        (
            votes.votes_as_they_were_given,
            clusters.test_who_is_left_of_an_orderly_shrink_acts_down_to_the_last_one,
        ),
        (
            votes.votes_forgotten_at_a_start,
            clusters.test_who_is_left_of_an_orderly_shrink_acts_down_to_the_last_one,
        ),
        (
            votes.leavers_keep_their_votes,
            clusters.test_the_last_daemon_keeps_its_vote_and_leaves_in_order,
        ),
    ],
    ids=lambda each: each.name if isinstance(each, Mutant) else "",
)
def test_each_wrong_count_is_noticed(bug: Mutant, check: Callable[[], None]) -> None:
    check()
    with bug.active(), pytest.raises(AssertionError):
        check()
