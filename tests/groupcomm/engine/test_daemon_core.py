"""A whole core against bad input of every kind: it counts, and goes on."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.config.core import CoreConfig
from groupcomm.config.view import DaemonId, Incarnation, Start
from groupcomm.engine import ClientBytes, ClientInput, ClientOpened, DaemonCore
from groupcomm.engine.stalls import GRACE_PART
from groupcomm.membership.states import GatherReason, MembershipState
from groupcomm.names import cluster_number
from groupcomm.ring.states import TokenState as RingState
from groupcomm.security.keys import KeyRing
from groupcomm.security.layout import HEAD_BYTES
from groupcomm.security.plain import PlainSealer
from groupcomm.session.frames import encode_hello
from groupcomm.wire.control import ControlPacket
from groupcomm.wire.packet import PacketKind
from groupcomm.wire.token import TokenRequest
from tests.groupcomm.engine.cluster import Cluster
from tests.groupcomm.membership.stage import join_of, packet_of

ANOTHER_KEY = bytes(range(16))


def sealer(name: str, restarts: int = 1, random_id: int = 0, counter: int = 2**40) -> PlainSealer:
    """Return the start of a daemon of the cluster, with unused counters."""
    daemon = DaemonId(name, Incarnation(restarts, random_id or ord(name)))
    cluster = cluster_number(CoreConfig().cluster)
    return PlainSealer(cluster, daemon.number, daemon.incarnation, counter)


def three() -> tuple[Cluster, DaemonCore]:
    """Three cores in one view, and the one that has the token."""
    cluster = Cluster("abc")
    cluster.start("abc")
    cluster.run(0.01)
    assert [cluster.members(name) for name in "abc"] == ["abc"] * 3
    return cluster, next(core for core in cluster.cores.values() if core.start.name == "a")


def kind_of(datagram: bytes) -> PacketKind:
    return PacketKind(datagram[HEAD_BYTES])


def key_of(core: DaemonCore) -> bytes:
    assert core.view is not None
    return core.view.key


@given(st.lists(st.binary(max_size=200), max_size=5))
def test_random_bytes_are_counted_and_dropped(datagrams: list[bytes]) -> None:
    config = CoreConfig(sites=(("a", "b"),))
    start = Start(name="a", incarnation=Incarnation(1, 1))
    keys = KeyRing({1: bytes(32)}, 1)
    one = DaemonCore(config, start, keys=keys, now=0.0, wall=0.0)
    one.step(0.0, [], [])
    assert one.step(0.0, datagrams, []).datagrams == []
    assert one.counters.bad == len(datagrams)


def test_a_request_of_a_fellow_is_answered_with_the_token_and_a_replay_is_not() -> None:
    cluster, _ = three()
    cluster.run(0.05)
    rings = {n: core.view_state.ring for n, core in cluster.cores.items() if core.view_state}
    name = next(name for name in "abc" if rings[name].state is RingState.RESTING)
    holder, other = cluster.cores[name], "abc"[("abc".index(name) + 1) % 3]
    hop = rings[name]._token.hop
    request = TokenRequest(ring=0, daemon="abc".index(other), hop=hop).encode(key_of(holder))
    datagram = sealer(other).seal(request)
    sent = holder.step(cluster.now, [datagram], []).datagrams
    assert [target for target, _ in sent] == [other]
    assert holder.step(cluster.now, [datagram], []).datagrams == [], "a replay"
    assert holder.counters.rejected == {"replay": 1}


def test_what_is_of_no_view_of_this_daemon_is_not_heard() -> None:
    cluster, core = three()
    request = TokenRequest(ring=0, daemon=1, hop=0)
    foreign = core.counters.foreign
    datagrams = [
        sealer("b").seal(request.encode(ANOTHER_KEY)),
        sealer("z").seal(request.encode(ANOTHER_KEY)),
        sealer("c", restarts=0).seal(request.encode(key_of(core))),
    ]
    assert core.step(cluster.now, datagrams, []).datagrams == []
    assert core.counters.foreign == foreign + 3
    assert core.state is MembershipState.OPERATIONAL


def test_a_later_start_of_a_member_ends_the_view() -> None:
    cluster, core = three()
    request = TokenRequest(ring=0, daemon=1, hop=0).encode(key_of(core))
    core.step(cluster.now, [sealer("b", restarts=2, random_id=9).seal(request)], [])
    assert core.state is MembershipState.GATHER
    assert core.membership.reasons[GatherReason.MEMBER_RESTARTED] == 1


@pytest.mark.parametrize(
    "packet",
    [TokenRequest(ring=1, daemon=1, hop=0), TokenRequest(ring=0, daemon=9, hop=0)],
    ids=["another ring's", "of no daemon"],
)
def test_packets_that_break_the_protocol_are_counted_apart(packet: TokenRequest) -> None:
    cluster, core = three()
    bad = core.counters.bad
    datagram = sealer("b").seal(packet.encode(key_of(core)))
    assert core.step(cluster.now, [datagram], []).datagrams == []
    assert (core.counters.violations, core.counters.bad) == ({"request": 1}, bad)


@given(st.binary(max_size=60), st.integers(0, 9))
def test_any_control_message_of_a_fellow_is_taken_or_counted(body: bytes, kind: int) -> None:
    cluster, core = three()
    fellow = DaemonId("b", Incarnation(1, ord("b")))
    for payload in (body, bytes((0x90 + len(body) % 8,)) + body):
        packet = ControlPacket(
            origin=fellow.number,
            incarnation=fellow.incarnation,
            sequence=2**12 + len(payload),
            kind=kind,
            part=0,
            parts=1,
            payload=payload,
        )
        datagram = sealer("b", counter=2**41 + len(payload)).seal(packet.encode())
        core.step(cluster.now, [datagram], [])
    assert core.counters.violations.keys() <= {"control", "kind"}, "a body that is no message"


def test_a_lone_daemon_wakes_for_its_beacons_only() -> None:
    cluster = Cluster("a")
    cluster.start("a")
    cluster.run(1.0)
    core = cluster.cores["a"]
    assert cluster.members("a") == "a"
    interval_s = core.config.timing.beacon_interval_s
    assert cluster.now < core.deadline <= cluster.now + interval_s
    assert cluster.log == [], "there is nobody to tell"


def test_no_view_is_agreed_to_before_the_disk_holds_its_mark() -> None:
    cluster = Cluster("ab")
    cluster.stores = False
    cluster.start("ab")
    cluster.run(0.3)
    for name in "ab":
        core = cluster.cores[name]
        assert core.state in (MembershipState.GATHER, MembershipState.COMMIT)
        assert core.view is None
        assert cluster.shells[name].marks
        cluster.shells[name].store_now()
    cluster.stores = True
    cluster.run(0.5)
    assert cluster.members("a") == cluster.members("b") == "ab"
    view = cluster.cores["a"].view
    assert view is not None
    assert view.id.counter <= cluster.cores["a"].reservation.mark


def test_each_view_is_below_a_mark_that_is_on_disk() -> None:
    cluster, core = three()
    marks = []
    for pause in (0.0, 1.0, 700.0):
        cluster.run(pause)
        cluster.isolate("ab", "c")
        cluster.run(2.0)
        cluster.isolate("abc")
        cluster.run(2.0)
        assert core.view is not None
        assert core.view.id.counter <= core.reservation.mark
        marks.append(core.reservation.mark)
    assert marks == sorted(marks)
    assert marks[-1] > marks[0]


def test_after_a_pause_what_had_come_is_dropped_and_the_view_is_left() -> None:
    cluster, core = three()
    cluster.run(0.3)
    later = core.deadline + core.config.timing.token_timeout_s + 0.001
    request = TokenRequest(ring=0, daemon=1, hop=0).encode(key_of(core))
    violation = TokenRequest(ring=1, daemon=1, hop=0).encode(key_of(core))
    late = sealer("b")
    forged = late.seal(request)[:-1] + b"?"
    rejected = core.counters.bad
    datagrams = [late.seal(request), late.seal(violation), forged, b"", b"x"]
    sent = core.step(later, datagrams, []).datagrams
    assert core.state is MembershipState.GATHER
    assert core.counters.rejected == {"tag": 1, "short": 2}, "each forged one is counted as such"
    assert core.counters.bad == rejected + 3
    assert core.membership.reasons[GatherReason.PAUSED] == 1
    assert not core.counters.violations
    assert core.counters.stale == 2
    assert {kind_of(datagram) for _, datagram in sent} == {PacketKind.CONTROL}


def test_a_step_that_is_a_little_late_is_no_pause() -> None:
    _, core = three()
    core.step(core.deadline + core.config.timing.token_timeout_s - 0.001, [], [])
    assert core.membership.reasons[GatherReason.PAUSED] == 0
    assert core.state is MembershipState.OPERATIONAL, "what had come meanwhile is to be read"


def test_who_stood_still_judges_nobody_before_it_has_read_what_had_come() -> None:
    """Its receive buffer may hold more than one step reads."""
    cluster, core = three()
    cluster.run(0.3)
    timeout_s = core.config.timing.token_timeout_s
    awake, began = core.deadline + 0.99 * timeout_s, [-inf]
    for part in range(15):
        now = awake + part * 0.04 * timeout_s
        core.step(now, [], [])
        core.deliver()
        if core.state is not MembershipState.OPERATIONAL:
            began.append(now)
    assert began[1] >= awake + GRACE_PART * timeout_s, "a moment to read was left"
    reasons = core.membership.reasons
    assert reasons[GatherReason.PAUSED] == 0
    assert reasons[GatherReason.TOKEN_LOST] + reasons[GatherReason.PATH_LOST] == 1, "and no more"


def test_who_is_late_all_the_time_still_notices_a_crash_within_two_timeouts() -> None:
    cluster, core = three()
    cluster.run(0.3)
    timeout_s, now = core.config.timing.token_timeout_s, cluster.now
    begun, late_s = now, core.config.timing.token_timeout_s / 10
    while core.state is MembershipState.OPERATIONAL:
        now = max(now, core.deadline) + late_s
        core.step(now, [], [])
        core.deliver()
        assert now < begun + 3 * timeout_s
    assert now < begun + 2.5 * timeout_s


def test_who_leaves_in_order_is_out_at_once_and_loses_nothing() -> None:
    cluster, core = three()
    leaver, stayer = cluster.connect("b", "u"), cluster.connect("c", "v")
    for program in (leaver, stayer):
        program.session.join("g")
    cluster.run(0.6)
    stayer.events.clear()
    began = cluster.now
    cluster.cores["b"].leave()
    cluster.run(0.05)
    assert cluster.cores["b"].state is MembershipState.LEFT
    assert cluster.members("a") == cluster.members("c") == "ac"
    assert core.membership.reasons[GatherReason.MEMBER_LEFT] == 1
    told = [type(event).__name__ for event in stayer.events]
    assert told == ["GroupView", "Transition", "DaemonView", "GroupView"], "it left before the view"
    assert leaver.session.closed
    assert cluster.now - began <= 0.051


def test_who_has_left_agrees_to_nothing_any_more() -> None:
    cluster, _ = three()
    core = cluster.cores["b"]
    core.leave()
    core.leave()
    cluster.run(0.05)
    assert core.state is MembershipState.LEFT
    cluster.run(2.0)
    assert core.state is MembershipState.LEFT
    assert core.membership.deadline == float("inf")
    assert core.membership.reasons == {GatherReason.STARTED: 1}
    assert cluster.members("a") == cluster.members("c") == "ac"


def test_who_has_left_sends_nothing_whatever_comes_and_however_late() -> None:
    cluster, _ = three()
    core = cluster.cores["b"]
    request = TokenRequest(ring=0, daemon=0, hop=10**6).encode(key_of(core))
    old = sealer("a").seal(request)
    core.leave()
    cluster.run(0.05)
    assert core.state is MembershipState.LEFT
    assert core.deadline == float("inf")
    connection = core.next_connection()
    opened: list[ClientInput] = [
        ClientOpened(connection),
        ClientBytes(connection, encode_hello("u")),
    ]
    join = packet_of("c", join_of("c", 9), restarts=9, random_id=5).raw
    now = [sealer("c").seal(request), sealer("c", 9, 5).seal(join), b""]
    assert core.step(cluster.now, [old], opened).datagrams == []
    assert core.step(cluster.now + 100.0, now, []).datagrams == [], "after a pause, too"
    assert core.state is MembershipState.LEFT
    assert core.deadline == float("inf")
    assert core.membership.reasons == {GatherReason.STARTED: 1}


def test_a_start_with_a_lost_disk_is_in_the_next_view() -> None:
    cluster = Cluster("abc")
    cluster.start("abc", restarts=7)
    cluster.run(0.1)
    del cluster.cores["b"]
    cluster.run(2.0)
    assert cluster.members("a") == "ac"
    cluster.start("b", restarts=1, random_id=99)
    cluster.run(1.0)
    assert cluster.members("a") == cluster.members("b") == "abc"
