"""The lag of other rings: small for packets that they get whole, larger for those that stay."""

from groupcomm.clocks.stamp import ViewId
from groupcomm.config.core import CoreConfig, Windows
from groupcomm.config.view import DaemonId, Incarnation, View
from groupcomm.ring.flow_control import LEAST_AHEAD_BYTES, MOST_HEADERS, FlowControl
from groupcomm.ring.token_handling import first_token
from groupcomm.stream.packet_size import PacketSize
from groupcomm.stream.stream import Stream
from groupcomm.wire.token import Token

CONFIG = CoreConfig(sites=(("a",), ("b",), ("c",)))
VIEW = View(
    id=ViewId(1, "a", 1),
    daemons=tuple(DaemonId(name, Incarnation(1, 1)) for name in "abc"),
    rings=((0,), (1,), (2,)),
    links=((0, 1), (1, 2)),
)
LIMIT = -(-LEAST_AHEAD_BYTES // VIEW.packet_limit)
"""Packets that another ring may lack at least."""


def flow() -> FlowControl:
    return FlowControl(CONFIG, VIEW, Stream(0, 0), PacketSize(1340))


def test_the_slowest_ring_holds_up_what_it_gets_whole() -> None:
    one = flow()
    assert one.may_leave_ring(LIMIT - 1)
    assert not one.may_leave_ring(LIMIT)
    one.on_held_remotely(1, LIMIT, 1.0)
    assert not one.may_leave_ring(LIMIT), "ring 2 lags behind"
    one.on_held_remotely(2, 10, 1.0)
    assert one.may_leave_ring(LIMIT + 9)
    assert one.held_remotely == 10


def test_rings_hold_what_is_forgotten_though_their_reports_were_lost() -> None:
    stream = Stream(0, 0)
    one = FlowControl(CONFIG, VIEW, stream, PacketSize(1340))
    one.on_held_remotely(1, LIMIT, 1.0)
    assert not one.on_forgotten(1.0)
    assert not one.may_leave_ring(LIMIT)
    stream.forgotten = LIMIT - 1
    assert one.on_forgotten(2.0)
    assert not one.on_forgotten(2.0), "all is told"
    assert one.held_remotely == LIMIT - 1
    assert one.may_leave_ring(2 * LIMIT - 2)
    stream.forgotten = LIMIT
    one.on_held_remotely(2, LIMIT, 3.0)
    assert not one.on_forgotten(3.0), "the report has come"


def test_what_stays_does_not_count() -> None:
    one = flow()
    for number in range(1, 1001):
        if number % 2:
            one.note_local_only(number)
    assert one.may_leave_ring(1000 + LIMIT - 501)
    assert not one.may_leave_ring(1000 + LIMIT - 500)
    one.on_held_remotely(1, 500, 1.0)
    one.on_held_remotely(2, 500, 1.0)
    assert one.may_leave_ring(1000 + LIMIT - 251), "250 whole packets and 250 headers are there"
    assert not one.may_leave_ring(1000 + LIMIT - 250)


def test_headers_have_a_limit_of_their_own() -> None:
    one = flow()
    for number in range(1, MOST_HEADERS + 1):
        one.note_local_only(number)
    assert one.may_leave_ring(MOST_HEADERS)
    assert one.may_number(MOST_HEADERS - 1)
    assert not one.may_number(MOST_HEADERS)
    one.on_held_remotely(1, MOST_HEADERS, 1.0)
    assert not one.may_number(MOST_HEADERS)
    one.on_held_remotely(2, 5, 1.0)
    assert one.may_number(MOST_HEADERS)


def test_what_all_hold_is_forgotten_and_counts_as_before() -> None:
    one = flow()
    held = 3 * MOST_HEADERS
    for number in range(1, held + 1):
        one.note_local_only(number)
    for ring in (1, 2):
        one.on_held_remotely(ring, held - 10, 1.0)
    assert len(one._local_only) == 10
    one.on_held_remotely(1, held, 2.0)
    assert one.may_leave_ring(held + LIMIT - 1)
    assert not one.may_leave_ring(held + LIMIT)


TRIO = View(
    id=ViewId(1, "a", 1),
    daemons=tuple(DaemonId(name, Incarnation(1, 1)) for name in "abc"),
    rings=((0, 1, 2),),
    links=(),
)


def one_ring(windows: Windows) -> tuple[FlowControl, Token]:
    """Return the limits of a daemon in a ring of three, and its token."""
    stream = Stream(0, 0)
    config = CoreConfig(windows=windows)
    token = first_token(0, (0, 1, 2), hop=1, clock=0, streams=[stream])
    return FlowControl(config, TRIO, stream, PacketSize(1340)), token


def test_what_was_numbered_in_this_round_is_taken_off() -> None:
    limits, token = one_ring(Windows(visit_bytes=5000, ring_bytes=8000))
    row = token.rows[0]
    assert limits.budget(token, row) == 5000
    row.sent = token.burst = 3000
    assert limits.budget(token, row) == 2000


def test_each_daemon_that_has_numbered_something_gets_its_share() -> None:
    limits, token = one_ring(Windows(visit_bytes=50_000, ring_bytes=9000))
    assert limits.budget(token, token.rows[0]) == 9000
    token.rows[1].sent, token.burst = 1, 8999
    assert limits.budget(token, token.rows[0]) == 4500, "even a byte makes a sender"
    token.rows[2].sent, token.burst = 1, 9000
    assert limits.budget(token, token.rows[0]) == 3000
    token.burst = 2
    assert limits.budget(token, token.rows[0]) == 8998, "what the others leave is more"


def test_the_stream_is_ahead_by_bytes_or_by_packets_whichever_is_less() -> None:
    few_bytes = Windows(stream_packets=8192, stream_bytes=10 * TRIO.packet_limit)
    few_packets = Windows(stream_packets=10, stream_bytes=8192 * TRIO.packet_limit)
    for windows in (few_bytes, few_packets):
        limits, token = one_ring(windows)
        token.last = 9
        assert limits.budget(token, token.rows[0]) > 0
        token.last = 10
        assert limits.budget(token, token.rows[0]) == 0


def test_what_the_ring_does_not_hold_yet_has_so_many_bytes_and_each_sender_its_part() -> None:
    limits, token = one_ring(Windows(ahead_bytes=10_000))
    assert limits.budget(token, token.rows[0]) == 10_000
    for token.last in (1, 2):
        limits.note_numbered(token.last, 3000)
    assert limits.budget(token, token.rows[0]) == 4000
    for row in token.rows:
        row.held = [1]
    assert limits.budget(token, token.rows[0]) == 7000, "the first packet is held by all"
    token.rows[1].sent = token.burst = 1
    assert limits.budget(token, token.rows[0]) == 2000, "of half as much"
    token.rows[2].held = [0]
    limits.note_numbered(3, 90_000)
    assert limits.budget(token, token.rows[0]) < 0


def test_a_packet_may_always_be_ahead() -> None:
    limits, token = one_ring(Windows(ahead_bytes=1))
    assert limits.budget(token, token.rows[0]) >= 1340


def test_the_window_grows_when_the_token_is_back_and_the_burst_is_over() -> None:
    limits, token = one_ring(Windows(visit_bytes=80_000))
    row = token.rows[0]
    row.sent, token.burst = 80_000, 100_000
    limits.window.token_left(row.sent)
    limits.token_returned(token, row, 0.0)
    assert limits.window.bytes == 90_000
    assert (row.sent, token.burst) == (0, 20_000)


def test_a_slow_client_stops_the_report() -> None:
    limits, _ = one_ring(Windows())
    limits.blocked = True
    assert limits.to_report([3]) == [3], "the first report has to be made"
    assert limits.to_report([5]) == [3]
    limits.blocked = False
    assert limits.to_report([5]) == [5]
