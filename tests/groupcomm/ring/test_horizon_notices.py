"""When a ring tells the others its horizon."""

from groupcomm.config.core import CoreConfig
from groupcomm.ring.horizon_notices import REPEATS, HoldingsReport
from groupcomm.wire.horizon import decode_horizon_untrusted
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
    assert not report.lags([9, 9], 10)
    assert report.lags([0, 10], 10)
    report.pop_next([9, 10], 0.0)
    assert not report.lags([18, 19], 10)
    assert report.lags([19, 10], 10)
