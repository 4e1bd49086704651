"""In large clusters a ring tells those that wait at once, and all others now and then."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.config.core import Timing
from groupcomm.ring.addressed_notices import AddressedNotices, rings_of
from groupcomm.ring.horizon_notices import NEAR_S, REPEATS, Due, HoldingsReport

TIMING = Timing()
LEAST_S, MOST_S = TIMING.horizon_interval_min_s, TIMING.horizon_interval_max_s
REST_S, MEMORY_S = TIMING.rest_interval_s, TIMING.agreed_memory_s
OWN, SOME, ALL = 0, 0b0110, 0b1110


def schedule(delay_s: float = 1.0) -> AddressedNotices:
    return AddressedNotices(TIMING, delay_s, 0.0, rings=4, own=OWN)


def due(
    notices: AddressedNotices,
    now: float,
    *,
    safe: bool = False,
    holds: bool = False,
    more: int = 0,
) -> Due:
    return notices.next_due(now, safe_waits=safe, holds_packets=holds, holds_more=more)


def use(
    notices: AddressedNotices, rings: int, time: int, now: float, *, foreign: bool = True
) -> None:
    notices.note_use(rings, time, now, agreed=True, foreign=foreign)


def issue_all(notices: AddressedNotices, now: float, horizon: int) -> list[float]:
    """Issue all that is due to some rings, from now on; return the times."""
    times: list[float] = []
    while (following := due(notices, now)).at < inf:
        now = max(now, following.at)
        times.append(now)
        notices.issued(now, 0, horizon, following.targets)
        assert len(times) < 10_000
    return times


def test_a_lone_packet_has_a_few_notices_to_those_who_wait() -> None:
    notices = schedule()
    use(notices, SOME | 1 << OWN, 5, 1.0)
    assert due(notices, 1.0) == Due(MOST_S, SOME), "at once after silence, and not to itself"
    times = issue_all(notices, 1.0, 5)
    assert times == pytest.approx([1.0 + MOST_S * count for count in range(REPEATS)])


def test_who_was_told_already_does_not_wait() -> None:
    notices = schedule()
    notices.issued(0.0, 0, 5, SOME)
    use(notices, ALL, 5, 1.0)
    assert due(notices, 1.0).targets == ALL & ~SOME
    for agreed in (False, True):
        notices.note_use(SOME, 5, 1.0, agreed=agreed, foreign=True)
    assert due(notices, 1.0).targets == ALL & ~SOME


def test_what_precedes_other_levels_has_its_notices_unless_all_have_heard() -> None:
    for told, waits in ((4, True), (5, False)):
        notices = schedule()
        notices.known_to_all = told
        notices.note_use(SOME, 5, 1.0, agreed=False, foreign=True)
        assert (due(notices, 1.0).targets == SOME) is waits


def test_from_the_second_use_on_there_is_a_series() -> None:
    notices = schedule()
    use(notices, SOME, 5, 1.0)
    issue_all(notices, 1.0, 10)
    use(notices, 0b0010, 6, 2.0)
    times = issue_all(notices, 2.0, 10)
    assert times[-1] == pytest.approx(2.0 + MEMORY_S, abs=2 * MOST_S)
    assert len(times) == pytest.approx(MEMORY_S / MOST_S, abs=3)
    use(notices, 0b0010, 20, 10.0)
    assert len(issue_all(notices, 10.0, 20)) == REPEATS, "it was long ago: the first one again"


def test_a_burst_is_one_use() -> None:
    notices = schedule()
    for time in range(10):
        use(notices, SOME, time, 1.0 + time / 1e4)
    assert len(issue_all(notices, 1.001, 10)) == REPEATS


def test_own_packets_are_named_to_far_rings_which_may_lack_them() -> None:
    for delay_s, targets in ((NEAR_S, SOME), (NEAR_S * 0.99, 0)):
        notices = schedule(delay_s)
        use(notices, SOME, 5, 1.0, foreign=False)
        assert due(notices, 1.0).targets == targets


def test_near_rings_answer_once() -> None:
    notices = schedule(NEAR_S * 0.99)
    for now, time in ((1.0, 5), (2.0, 6)):
        use(notices, SOME, time, now)
        assert due(notices, now) == Due(notices.last_at + LEAST_S, SOME)
        assert len(issue_all(notices, now, time)) == 1


def test_safe_tells_all_and_tells_it_again() -> None:
    notices = schedule()
    assert due(notices, 1.0, safe=True) == Due(LEAST_S, ALL)
    notices.issued(1.0, 7, 9, ALL)
    assert notices.announced_frontier == 7
    assert len(issue_all(notices, 1.0, 10)) == REPEATS - 1


def test_a_frontier_that_some_have_heard_of_is_not_known_to_all() -> None:
    notices = schedule()
    notices.issued(1.0, 7, 9, SOME)
    assert (notices.announced, notices.announced_frontier) == (9, 0)
    notices.issued(1.0, 7, 9, shared=True)
    assert notices.announced_frontier == 7


def test_packets_that_are_held_have_notices_of_the_shared_tree_now_and_then() -> None:
    notices = schedule()
    assert due(notices, 1.0, holds=True) == Due(REST_S, shared=True)
    notices.issued(1.0, 0, 0, SOME)
    notices.asked = True
    assert due(notices, 1.0) == Due(REST_S, shared=True), "some are not all"
    notices.issued(1.0, 0, 0, shared=True)
    assert due(notices, 1.0) == Due(inf)
    assert notices.missed_at() == 1.0 + 2 * REST_S


def test_a_horizon_counts_as_known_to_all_once_another_one_has_followed_it() -> None:
    notices = schedule()
    for horizon, known in ((5, 0), (8, 5), (9, 8)):
        notices.issued(1.0, 0, horizon, shared=True)
        assert notices.known_to_all == known


def test_what_senders_will_wait_for_goes_to_their_rings() -> None:
    notices = schedule()
    use(notices, 0b1000, 5, 1.0)
    assert due(notices, 1.0, more=0b0100) == Due(LEAST_S, 0b1100)


def test_a_notice_to_some_rings_reports_what_is_held_of_their_streams() -> None:
    report = HoldingsReport(3, 1.0)
    assert report.pop_next([5, 6, 7], 0.0, 0b010) == [(1, 6)]
    assert report.pop_next([5, 6, 7], 0.0) == [(0, 5), (1, 6), (2, 7)]
    for _ in range(REPEATS):
        assert report.pop_next([5, 6, 9], 0.1, 0b100) == [(2, 9)]
    assert report.pop_next([5, 6, 9], 0.1, 0b100) == []


def test_what_another_daemon_of_the_ring_has_reported_is_no_news() -> None:
    report = HoldingsReport(2, 1.0)
    report.pop_next([0, 0], 0.0)
    for _ in range(REPEATS):
        report.note_reported([(1, 7)])
    assert report.pop_next([0, 7], 0.1) == []
    report.note_reported([(1, 6)])
    assert report.pop_next([0, 8], 0.1) == [(1, 8)]


@given(st.sets(st.integers(0, 200)))
def test_sets_of_rings_are_bits(rings: set[int]) -> None:
    assert list(rings_of(sum(1 << ring for ring in rings))) == sorted(rings)
