"""When a ring tells the others its horizon."""

from groupcomm.config.core import CoreConfig
from groupcomm.wire.horizon import decode_horizon_untrusted
from groupcomm.wire.packet import PacketKind
from tests.core.ring.harness import Daemon, kinds, make_view


def test_horizon_notices_come_often_in_use_and_rarely_in_silence() -> None:
    timing = CoreConfig().timing
    holder = Daemon(make_view((0, 1), (2,)), 0)
    assert PacketKind.HORIZON not in kinds(holder.step(0.0))
    holder.ring.notices.agreed_at = 1.0
    sent = holder.step(1.0)
    assert kinds(sent).count(PacketKind.HORIZON) == 2, "at once after silence: ring and others"
    assert holder.ring.deadline == 1.0 + timing.horizon_interval_max_s
    now, notices = 1.0, 0
    while now < 4.0:
        notices += kinds(holder.step(now)).count(PacketKind.HORIZON) // 2
        now = holder.ring.deadline
    assert abs(notices - 2.0 / timing.horizon_interval_max_s) < 5, "for two seconds, then none"


def test_a_fellows_horizon_notice_counts_as_the_rings() -> None:
    holder = Daemon(make_view((0, 1), (2,)), 0)
    holder.step(0.0)
    holder.ring.notices.agreed_at = 1.0
    holder.ring.notices.issued(1.0, 0, 0)
    assert PacketKind.HORIZON not in kinds(holder.step(1.001))


def test_a_frontier_that_safe_waits_for_is_told_at_once() -> None:
    holder = Daemon(make_view((0,), (1,)), 0)
    holder.step(0.0)
    holder.submit()
    holder.step(1.0)
    holder.ring.notices.agreed_at = 1.0
    sent = holder.step(1.0)
    holder.safe = [holder.own.packets[1].time]
    holder.frontier = holder.safe[0]
    sent = holder.step(1.002)
    notices = [decode_horizon_untrusted(p) for _, p in sent if p[0] == PacketKind.HORIZON]
    assert [notice.frontier for notice in notices] == [holder.frontier]
