"""When a ring tells the others its horizon."""

from math import inf

import attrs

from groupcomm.config.core import CoreConfig
from groupcomm.ring.counts import RingCounts
from groupcomm.ring.horizon_notices import NEAR_S, REPEATS, HoldingsReport, NoticeSchedule
from groupcomm.wire.horizon import MOST_HELD, decode_horizon_untrusted
from groupcomm.wire.packet import PacketKind
from tests.groupcomm.ring.harness import Daemon, kinds, make_view


def test_horizon_notices_come_often_in_use_and_rarely_in_silence() -> None:
    timing = CoreConfig().timing
    holder = Daemon(make_view((0, 1), (2,)), 0)
    assert PacketKind.HORIZON not in kinds(holder.step(0.0))
    holder.ring.notices.agreed_at = 1.0
    sent = holder.step(1.0)
    assert kinds(sent).count(PacketKind.HORIZON) == 1, "at once after silence"
    assert holder.ring.deadline == 1.0 + timing.horizon_interval_max_s
    now, notices = 1.0, 0
    while now < 4.0:
        notices += kinds(holder.step(now)).count(PacketKind.HORIZON)
        now = holder.ring.deadline
    assert abs(notices - 2.0 / timing.horizon_interval_max_s) < 5, "for two seconds, then none"


def test_a_members_horizon_notice_counts_as_the_rings() -> None:
    holder = Daemon(make_view((0, 1), (2,)), 0)
    holder.step(0.0)
    holder.ring.notices.agreed_at = 1.0
    holder.ring.notices.issued(1.0, 0, 0)
    assert PacketKind.HORIZON not in kinds(holder.step(1.001))


def test_a_frontier_that_safe_waits_for_is_reported_at_once() -> None:
    holder = Daemon(make_view((0,), (1,)), 0)
    holder.step(0.0)
    holder.submit()
    holder.step(1.0)
    holder.ring.notices.agreed_at = 1.0
    sent = holder.step(1.0)
    holder.safe = [holder.own.packets[1].time + 5]
    holder.frontier = holder.safe[0]
    sent = holder.step(1.002)
    (packet,) = (raw for _, raw in sent if raw[0] == PacketKind.HORIZON)
    (notice,) = decode_horizon_untrusted(packet).notices
    assert notice.frontier == holder.frontier


def test_holdings_are_reported_while_they_are_new_and_all_of_them_now_and_then() -> None:
    told = HoldingsReport(3, 0.15)
    assert told.pop_next([5, 6, 7], 1.0) == [(0, 5), (1, 6), (2, 7)], "a first notice tells all"
    for _ in range(REPEATS):
        told.pop_next([5, 6, 7], 1.01)
    assert told.pop_next([5, 6, 7], 1.02) == []
    for now in range(REPEATS):
        assert told.pop_next([5, 6, 9], 1.03 + now / 1000) == [(2, 9)], "a notice may be lost"
    assert told.pop_next([5, 6, 9], 1.04) == []
    assert told.pop_next([5, 6, 9], 1.15) == [(0, 5), (1, 6), (2, 9)]


def test_a_ring_lags_by_what_was_not_reported() -> None:
    report = HoldingsReport(2, all_interval_s=1.0)
    assert not report.lagging([9, 9], 10)
    assert report.lagging([0, 10], 10) == 0b10
    report.pop_next([9, 10], 0.0)
    assert not report.lagging([18, 19], 10)
    assert report.lagging([19, 20], 10) == 0b11


# ---- the schedule by itself ----

TIMING = CoreConfig().timing
LEAST_S, MOST_S, REST_S = (
    TIMING.horizon_interval_min_s,
    TIMING.horizon_interval_max_s,
    TIMING.rest_interval_s,
)


def due(
    schedule: NoticeSchedule,
    now: float = 1.0,
    *,
    safe: bool = False,
    holds: bool = False,
    more: bool = False,
) -> float:
    """Return how long after the last notice the next one is due."""
    due = schedule.next_due(now, safe_waits=safe, holds_packets=holds, holds_more=more)
    return due.at - schedule.last_at


def test_in_silence_no_notice_is_due() -> None:
    for delay_s in (0.0, 1.0):
        assert due(NoticeSchedule(TIMING, delay_s, 0.0)) == inf


def test_what_others_wait_for_is_reported_after_the_least_interval() -> None:
    schedule = NoticeSchedule(TIMING, 1.0, 0.0)
    assert due(schedule, safe=True) == LEAST_S
    assert due(schedule, more=True) == LEAST_S


def test_packets_that_are_held_or_missed_have_notices_now_and_then() -> None:
    schedule = NoticeSchedule(TIMING, 1.0, 0.0)
    assert due(schedule, holds=True) == REST_S
    schedule.asked = True
    assert due(schedule) == REST_S
    schedule.issued(0.0, 0, 0)
    assert due(schedule) == inf, "the question is answered"


def test_far_rings_have_a_series_while_the_agreed_order_is_in_use() -> None:
    for delay_s, interval_s in ((8 * MOST_S, MOST_S), (80.0, MOST_S), (NEAR_S, LEAST_S)):
        schedule = NoticeSchedule(TIMING, delay_s, 0.0)
        schedule.agreed_at = 0.0
        assert due(schedule, TIMING.agreed_memory_s) == max(LEAST_S, min(interval_s, delay_s / 8))
        assert due(schedule, TIMING.agreed_memory_s * 1.01) == inf


def test_near_rings_have_one_notice_for_what_they_have_sent() -> None:
    schedule = NoticeSchedule(TIMING, NEAR_S * 0.99, 0.0)
    schedule.agreed_at = 1.0
    assert due(schedule) == inf, "there is no series"
    schedule.foreign_time = 5
    assert due(schedule) == LEAST_S
    schedule.issued(0.0, 0, 5)
    assert due(schedule) == inf


def test_what_was_announced_never_falls() -> None:
    schedule = NoticeSchedule(TIMING, 1.0, 0.0)
    schedule.issued(1.0, 7, 9)
    schedule.issued(2.0, 6, 8)
    assert (schedule.announced, schedule.announced_frontier, schedule.last_at) == (9, 7, 2.0)
    assert schedule.missed_at() == 2.0 + 2 * REST_S


def test_a_horizon_that_is_announced_is_a_promise() -> None:
    holder = Daemon(make_view((0, 1), (2,)), 0)
    holder.step(0.0)
    holder.ring.notices.agreed_at = MOST_S
    sent = holder.step(MOST_S)
    assert kinds(sent) == [PacketKind.HORIZON], "nothing else promises anything now"
    (notice,) = decode_horizon_untrusted(sent[0][1]).notices
    assert holder.promises[-1] == (notice.horizon, notice.upto)


def test_nothing_is_counted_at_first() -> None:
    assert attrs.astuple(RingCounts()) == (0,) * 6


def test_all_numbers_of_many_rings_take_several_notices_one_after_another() -> None:
    rings = 2 * MOST_HELD + 1
    report, held = HoldingsReport(rings, 1.0), [7] * rings
    parts = [report.pop_next(held, 5.0) for _ in range(3)]
    assert [len(part) for part in parts] == [MOST_HELD, MOST_HELD, 1]
    assert [each for part in parts for each in part] == list(enumerate(held))
    changed = report.pop_next(held, 5.5)
    assert len(changed) == MOST_HELD, "each is new, and goes into three notices besides"
    for _ in range(20):
        report.pop_next(held, 5.9)
    assert report.pop_next(held, 5.9) == []
    assert report.pop_next(held, 6.0) == list(enumerate(held))[:MOST_HELD]


def test_of_many_numbers_that_change_all_the_time_each_is_reported_in_its_turn() -> None:
    rings = 2 * MOST_HELD + 22
    report = HoldingsReport(rings, 1000.0)
    for _ in range(3):
        report.pop_next([0] * rings, 5.0)
    seen = [0] * rings
    for number in range(1, 31):
        told = report.pop_next([number] * rings, 6.0)
        assert len(told) == MOST_HELD
        assert told == sorted(told)
        for ring, _ in told:
            seen[ring] += 1
    assert max(seen) - min(seen) <= 1
