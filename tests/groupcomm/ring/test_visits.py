"""One visit of the token: what it counts, the time that it takes along, and the next step."""

import pytest

from groupcomm.config.core import CoreConfig, Windows
from groupcomm.config.view import RING
from groupcomm.ring.states import TokenState
from groupcomm.wire.data import decode_data_untrusted
from groupcomm.wire.packet import PacketKind
from groupcomm.wire.token import RestNotice
from tests.groupcomm.ring.harness import Daemon, kinds, make_view, resting_with_a, token_in, trio


def test_each_visit_counts_once_and_a_rotation_only_if_the_token_did_not_rest() -> None:
    a, b, c = trio()
    rest = a.step(0.0)
    for other in (b, c):
        other.hear(rest, 0.0)
    a.submit()
    first = a.step(1.0)
    b.hear(first, 1.1)
    second = b.step(1.1)
    c.hear([*first[:1], *second], 1.2)
    a.hear(c.step(1.2), 1.3)
    a.step(1.3)
    assert [daemon.ring_counts.visits for daemon in (a, b, c)] == [1, 1, 1]
    assert [daemon.ring_counts.rotations for daemon in (a, b, c)] == [1, 0, 0], "it has rested"
    assert a.ring_counts.rotations_s == pytest.approx(0.3)


def test_packets_and_the_token_take_along_the_physical_time_of_the_holder() -> None:
    """Otherwise stamps of two rings drift apart, and the agreed order waits for the slower one."""
    a, _, _ = trio()
    a.step(0.0)
    a.submit()
    sent = a.step(7.0)
    assert decode_data_untrusted(sent[0][1]).time > 7_000_000
    assert token_in(sent).clock > 7_000_000


def test_a_daemon_that_may_not_number_the_rest_takes_no_further_step_at_once() -> None:
    """The limit does not rise by looking at it again."""
    windows = Windows(stream_packets=1, visit_bytes=5000)
    alone = Daemon(make_view((0,)), 0, CoreConfig(windows=windows))
    alone.submit()
    alone.step(1.0)
    alone.ring.flow.blocked = True
    alone.submit(count=20, size=1000)
    assert kinds(alone.step(2.0)) == [PacketKind.DATA] * 5
    assert alone.backlog.size
    assert alone.ring.deadline > 2.0


@pytest.mark.parametrize(("more", "holds_packets"), [(0, True), (1, False), (0, False)])
def test_a_resting_token_waits_for_the_next_notice_if_no_round_is_due(
    more: int, holds_packets: bool
) -> None:
    """A time in the past would have the daemon step again and again."""
    a, _, _ = resting_with_a()
    a.frontier, a.holds_packets = a.frontier + more, holds_packets
    interval_s = CoreConfig().timing.rest_interval_s
    for now in (interval_s, 2 * interval_s, 3 * interval_s):
        assert kinds(a.step(now)) == [PacketKind.REST]
        assert a.ring.deadline == now + interval_s


def test_a_resting_token_goes_as_soon_as_its_holder_may_ask_for_foreign_packets() -> None:
    view = make_view((0, 1), (2,))
    gateway, member = Daemon(view, 0), Daemon(view, 1)
    member.hear(gateway.step(0.0), 0.0)
    member.submit()
    for _ in range(3):
        gateway.hear(member.step(0.0), 0.0)
        member.hear(gateway.step(0.0), 0.0)
    assert member.ring.state is TokenState.RESTING
    member.step(0.001)
    assert member.ring.deadline > 0.02
    member.streams[1].learn(3)
    member.gaps[0].update(0.001)
    assert PacketKind.TOKEN not in kinds(member.step(0.001))
    assert member.ring.deadline == member.gaps[0].deadline == pytest.approx(0.011)
    assert token_in(member.step(member.ring.deadline)).requests == [(1, 1, 3)]


@pytest.mark.parametrize("less", [0, 1])
def test_a_rest_notice_says_whether_the_ring_knows_what_is_held_here(less: int) -> None:
    """If it does, SAFE messages wait here for others, and the token is of no use."""
    _, b, _ = trio()
    b.safe, b.frontier = [50], 50
    frontiers = [20, 50 - less, 20]
    notice = RestNotice(ring=0, hop=9, holder=2, last=0, horizon=60, frontiers=frontiers)
    b.hear([(RING, notice.encode(bytes(16)))], 0.2)
    sent = [packet for step in range(100) for packet in b.step(0.2 + 0.001 * step)]
    assert (PacketKind.REQUEST in kinds(sent)) is (less > 0)
