"""Every mutant of a crowd is on its page, and fits what it replaces.

`python -m tests.verification.mutants.crowds` hunts them in their crowds. Those that no crowd has
found are found by a test each, which fails while the mutant is there.
"""

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from groupcomm.errors import ConfigError
from tests.groupcomm.engine import test_lines as local_lines
from tests.groupcomm.groups import test_lines
from tests.groupcomm.sim.test_mutants import CROWD_ROWS
from tests.groupcomm_archive import (
    test_agreement,
    test_compacting,
    test_digests,
    test_layout,
)
from tests.groupcomm_client.coordination import (
    test_mutex_forms,
    test_work_exchange,
    test_work_queue,
)
from tests.groupcomm_client.history import test_live, test_subscriber
from tests.verification.mutants import crowds
from tests.verification.mutants.mutant import Mutant, Right, mutant

pytestmark = pytest.mark.verification

MUTANTS: Final = [(crowd, bug) for crowd, bugs in crowds.CROWDS for bug in bugs]

FINDERS: Final[dict[str, Callable[..., None]]] = {
    "lost-piece-unnoticed": (
        test_subscriber.test_a_piece_that_does_not_follow_the_last_one_is_not_given
    ),
    "mark-proves-after-the-transition": (
        test_live.test_a_mark_of_the_transitional_part_proves_nothing
    ),
    "digest-leaves-out-the-level": test_digests.test_every_change_of_an_event_is_seen,
    "digest-leaves-out-the-sender": test_digests.test_every_change_of_an_event_is_seen,
    "difference-is-taken-over-in-silence": (
        test_agreement.test_a_difference_is_not_taken_over_and_stays
    ),
    "last-message-goes-for-one-of-another-group": (
        test_compacting.test_messages_of_other_groups_in_the_log_do_not_count
    ),
    "key-of-one-group-counts-for-another": (
        test_layout.test_each_group_is_compacted_by_its_own_key_and_in_its_own_log
    ),
    "stream-goes-on-in-the-next-snapshot": (
        test_compacting.test_a_stream_of_a_snapshot_that_was_replaced_does_not_go_on
    ),
    "late-jobs-are-waited-for": (
        test_work_queue.test_a_late_worker_loses_all_jobs_until_it_is_ready_again
    ),
    "late-report-of-an-earlier-assignment-counts": (
        test_work_queue.test_only_its_worker_says_of_the_present_assignment_that_it_failed
    ),
    "transitional-mark-confirms": (
        test_mutex_forms.test_a_mark_of_the_transitional_part_confirms_nothing_before_the_next_view
    ),
    "requests-of-others-last-through-reports": (
        test_mutex_forms.test_a_request_whose_release_came_elsewhere_is_forgotten
    ),
    "nobody-goes-on-for-the-lost": (
        test_work_exchange.test_another_one_goes_on_for_a_worker_that_leaves
    ),
    "majority-does-not-lead": test_lines.test_of_equally_late_tables_counts_that_of_a_majority,
    "any-table-is-trusted": (
        test_lines.test_a_table_that_a_majority_may_have_gone_beyond_is_not_trusted
    ),
    "fragment-counts-as-a-message": (
        test_lines.test_a_line_counts_whole_messages_of_its_holder_alone
    ),
    "table-outlives-earlier-releases": (
        test_lines.test_daemons_of_an_earlier_release_keep_no_table
    ),
    "rosters-without-lines-do-not-count": (
        test_lines.test_what_others_may_have_done_by_a_roster_in_between_counts
    ),
    "granted-before-all-hold-it": (
        local_lines.test_a_session_is_told_once_all_daemons_hold_what_came_before
    ),
    "next-session-overtakes-the-one-before": (
        local_lines.test_the_messages_of_a_session_come_behind_what_its_line_depends_on
    ),
    "what-a-lost-session-has-submitted-is-sent": (
        local_lines.test_without_a_majority_sessions_with_lines_end_and_none_begins
    ),
}
"""The tests that find what no crowd does, by mutant; some take a folder."""

FOUND_BY_CROWD: Final = re.compile(
    r"(history|cursors|digests|compaction|work|mutex|lines|upgrades|spread): \d+ \| [a-zA-Z0-9 ]+"
)


def test_the_page_of_mutants_has_them_all() -> None:
    assert sorted((row[0], row[1]) for row in CROWD_ROWS) == sorted(
        (f"`{bug.name}`", bug.sentence) for _, bug in MUTANTS
    )


def test_the_page_says_what_finds_each() -> None:
    for name, _, seed, how in CROWD_ROWS:
        test = FINDERS.get(name.strip("`"))
        if test is None:
            assert FOUND_BY_CROWD.fullmatch(f"{seed} | {how}"), name
        else:
            assert (seed, how) == ("-", f"`{test.__name__}`"), name


@pytest.mark.parametrize(("crowd", "bug"), MUTANTS, ids=lambda each: getattr(each, "name", ""))
def test_each_replaces_what_is_there_for_the_length_of_a_run(crowd: str, bug: Mutant) -> None:
    assert crowd in crowds.PLAYS
    rights = [inspect.getattr_static(owner, name) for owner, name in bug.targets]
    with bug.active():
        wrongs = [inspect.getattr_static(owner, name) for owner, name in bug.targets]
        assert all(right is not wrong for right, wrong in zip(rights, wrongs, strict=True))
    assert [inspect.getattr_static(owner, name) for owner, name in bug.targets] == rights


@pytest.mark.parametrize("name", FINDERS)
def test_what_no_crowd_finds_a_test_finds(name: str, tmp_path: Path) -> None:
    _, bug = crowds.find(name)
    run_finder(FINDERS[name], tmp_path / "right")
    with bug.active(), pytest.raises((AssertionError, pytest.fail.Exception)):
        run_finder(FINDERS[name], tmp_path / "wrong")


def run_finder(test: Callable[..., None], folder: Path) -> None:
    folder.mkdir()
    test(*([folder] if "tmp_path" in inspect.signature(test).parameters else []))


def test_a_hunt_ends_with_the_seed_that_finds_the_mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    class Part:
        right = True

    @mutant((Part, "right"))
    def wrong_part(_right: Right) -> Any:
        """It is wrong."""
        return False

    def play(seed: int) -> None:
        assert Part.right or seed < 3, f"found at {seed}: (more), such as this"

    monkeypatch.setitem(crowds.PLAYS, "work", play)
    assert crowds.hunt("work", wrong_part, range(1, 9), 1.0) == (3, "found at 3")
    assert crowds.hunt("work", wrong_part, range(1, 3), 1.0) is None
    assert crowds.hunt("work", wrong_part, range(1, 9), -1.0) is None


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ConfigError):
        crowds.find("no-such-mutant")
