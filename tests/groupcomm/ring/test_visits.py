"""One visit of the token: what it counts, the time that it takes along, and the next step."""

import pytest

from groupcomm.config.core import CoreConfig, Windows
from groupcomm.wire.data import decode_data_untrusted
from groupcomm.wire.packet import PacketKind
from tests.groupcomm.ring.harness import Daemon, kinds, make_view, token_in, trio


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
