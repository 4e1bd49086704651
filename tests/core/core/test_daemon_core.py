"""A whole core against bad input of every kind: it counts, and goes on."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.clocks.stamp import ViewId
from groupcomm.config.core import CoreConfig
from groupcomm.config.view import RING, DaemonId, Incarnation, View
from groupcomm.core import DaemonCore
from groupcomm.names import cluster_number
from groupcomm.security.keys import KeyRing
from groupcomm.security.sealing import Sealer
from groupcomm.wire.control import ControlPacket
from groupcomm.wire.request import TokenRequest

KEYS = KeyRing({1: bytes(32)}, 1)
CONFIG = CoreConfig()
DAEMONS = tuple(DaemonId(name, Incarnation(1, number)) for number, name in enumerate("abc"))
VIEW = View(id=ViewId(1, "a", 0), daemons=DAEMONS, rings=((0, 1, 2),))
ALONE = View(id=ViewId(1, "a", 0), daemons=DAEMONS[:1], rings=((0,),))


def core(view: View = VIEW) -> DaemonCore:
    return DaemonCore(CONFIG, view, 0, keys=KEYS, now=0.0, wall=0.0)


def sealer(daemon: DaemonId) -> Sealer:
    return Sealer(1, KEYS, cluster_number(CONFIG.cluster), daemon.number, daemon.incarnation)


@given(st.lists(st.binary(max_size=200), max_size=5))
def test_random_bytes_are_counted_and_dropped(datagrams: list[bytes]) -> None:
    one = core()
    one.handle(0.0, [], [])
    assert one.handle(0.0, datagrams, []) == []
    assert one.counters.bad == len(datagrams)


def test_a_request_of_a_fellow_is_answered_with_the_token() -> None:
    one = core()
    one.handle(0.0, [], [])
    request = TokenRequest(ring=0, daemon=1, hop=0).encode(VIEW.key)
    sent = one.handle(0.0, [sealer(DAEMONS[1]).seal(request)], [])
    assert [target for target, _ in sent] == [1]
    assert one.handle(0.0, [sealer(DAEMONS[1]).seal(request)], []) == [], "a replay"
    assert one.counters.rejected == {"replay": 1}


def test_strangers_other_starts_and_other_views_are_not_heard() -> None:
    request = TokenRequest(ring=0, daemon=1, hop=0)
    stranger = sealer(DaemonId("z", Incarnation(1, 1)))
    restarted = sealer(DaemonId("b", Incarnation(2, 9)))
    other_view = attrs.evolve(VIEW, id=ViewId(2, "a", 0))
    one = core()
    one.handle(0.0, [], [])
    datagrams = [
        stranger.seal(request.encode(VIEW.key)),
        restarted.seal(request.encode(VIEW.key)),
        sealer(DAEMONS[1]).seal(request.encode(other_view.key)),
    ]
    assert one.handle(0.0, datagrams, []) == []
    assert one.counters.rejected == {"sender": 2, "view": 1}


@pytest.mark.parametrize(
    "packet",
    [
        TokenRequest(ring=1, daemon=1, hop=0),
        TokenRequest(ring=0, daemon=9, hop=0),
        ControlPacket(kind=3, payload=b"later"),
    ],
)
def test_packets_that_break_the_protocol_are_counted_apart(
    packet: TokenRequest | ControlPacket,
) -> None:
    one = core()
    one.handle(0.0, [], [])
    assert one.handle(0.0, [sealer(DAEMONS[1]).seal(packet.encode(VIEW.key))], []) == []
    assert (one.counters.violations, one.counters.bad) == (1, 0)


def test_the_deadline_of_a_lone_daemon_is_never() -> None:
    one = core(ALONE)
    assert one.handle(0.0, [], []) == []
    assert one.deadline == float("inf")
    three = core()
    sent = three.handle(0.0, [], [])
    assert [target for target, _ in sent] == [RING]
    assert three.deadline == CONFIG.timing.rest_interval_s
