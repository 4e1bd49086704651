"""Wrong ways to pass messages on between sites are noticed by one daemon's tests, at once."""

from collections.abc import Callable

import pytest

from tests.groupcomm.membership import (
    test_expected_pairs,
    test_held_packets,
    test_passed_on_together,
    test_relays,
    test_vouched,
)
from tests.verification.mutants import relays
from tests.verification.mutants.mutant import Mutant

pytestmark = pytest.mark.verification


@pytest.mark.parametrize(
    ("bug", "check"),
    [
        (
            relays.second_relay_passes_nothing_on,
            lambda: test_relays.test_relays_speak_to_those_of_their_rank("b", "eh"),
        ),
        (
            relays.messages_of_other_sites_stay_with_the_relay,
            test_relays.test_the_first_relay_tells_its_site_soon_what_comes_from_others,
        ),
        (
            relays.late_join_goes_in_place_of_a_later_one,
            test_held_packets.test_an_earlier_message_does_not_come_back,
        ),
        (
            relays.relays_speak_for_those_that_are_heard,
            test_passed_on_together.test_what_a_relay_says_in_the_name_of_a_daemon_that_speaks_for_itself_does_not_count,
        ),
        (
            relays.silent_daemon_stays_a_relay,
            test_relays.test_who_is_silent_counts_no_more_whenever_an_attempt_begins,
        ),
        (
            relays.site_that_is_not_heard_is_not_tried,
            lambda: test_relays.test_of_a_site_that_nobody_hears_all_are_tried_in_turn("abc"),
        ),
        (
            relays.nothing_goes_round_between_sites,
            test_relays.test_messages_of_other_sites_go_round_to_those_that_hear_nobody_there,
        ),
        (
            relays.who_hears_no_relay_is_not_served,
            test_relays.test_who_hears_none_of_the_site_before_this_one_is_served,
        ),
        (
            relays.vouched_members_are_waited_for,
            test_vouched.test_a_ring_that_is_silent_altogether_is_given_up_by_the_other_ends_of_its_links,
        ),
        (
            relays.whoever_hears_whom_all_that_joined_are_enough,
            test_expected_pairs.test_another_start_of_a_daemon_is_not_the_one_that_is_heard,
        ),
        (
            relays.broken_packet_bars_those_behind_it,
            lambda: test_passed_on_together.test_a_broken_message_bars_no_others(0),
        ),
    ],
    ids=lambda each: each.name if isinstance(each, Mutant) else "",
)
def test_each_wrong_relay_is_noticed(bug: Mutant, check: Callable[[], None]) -> None:
    check()
    with bug.active(), pytest.raises(AssertionError):
        check()


def test_each_has_its_check() -> None:
    (marks,) = test_each_wrong_relay_is_noticed.pytestmark  # type: ignore[attr-defined]
    assert {bug for bug, _ in marks.args[1]} == set(relays.BUGS)
