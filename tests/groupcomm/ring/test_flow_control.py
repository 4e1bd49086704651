"""The lag of other rings: small for packets that they get whole, larger for those that stay."""

from groupcomm.clocks.stamp import ViewId
from groupcomm.config.core import CoreConfig
from groupcomm.config.view import DaemonId, Incarnation, View
from groupcomm.ring.flow_control import LEAST_AHEAD_BYTES, MOST_HEADERS, FlowControl
from groupcomm.stream.stream import Stream

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
    return FlowControl(CONFIG, VIEW, Stream(0, 0))


def test_the_slowest_ring_holds_up_what_it_gets_whole() -> None:
    one = flow()
    assert one.may_leave_ring(LIMIT - 1)
    assert not one.may_leave_ring(LIMIT)
    one.on_held_remotely(1, LIMIT, 1.0)
    assert not one.may_leave_ring(LIMIT), "ring 2 lags behind"
    one.on_held_remotely(2, 10, 1.0)
    assert one.may_leave_ring(LIMIT + 9)
    assert one.held_remotely == 10


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
