"""An operation at the edges of its view: before it, after it, and notices that go round."""

from groupcomm.engine.daemon import MAX_EARLY
from groupcomm.engine.view import ViewState
from groupcomm.level import ServiceLevel
from groupcomm.membership.recovered_set import RecoveredSet
from groupcomm.membership.states import GatherReason, MembershipState
from groupcomm.names import daemon_number
from groupcomm.security.layout import HEAD_BYTES
from groupcomm.wire.control import decode_control_untrusted
from groupcomm.wire.horizon import HorizonNotice, HorizonPacket
from groupcomm.wire.membership import ControlKind, Holding, Past
from groupcomm.wire.packet import PacketKind, peek_untrusted
from groupcomm.wire.token import TokenRequest
from tests.groupcomm.engine.cluster import Cluster

CHECKSUM_BYTES = 4
HOLD_S = 0.001
"""The longest time for which a notice waits for others."""


def view_state_of(cluster: Cluster, name: str) -> ViewState:
    view_state = cluster.cores[name].view_state
    assert view_state is not None
    return view_state


def split_site() -> Cluster:
    """Return a cluster in which a and b, and b and c hear each other: two rings in one site."""
    cluster = Cluster("abc")
    cluster.cut = {("a", "c"), ("c", "a")}
    cluster.start("abc")
    cluster.run(1.0)
    view = cluster.cores["a"].view
    assert view is not None
    assert (view.rings, view.links) == (((0, 1), (2,)), ((1, 2),))
    return cluster


def count(cluster: Cluster, kind: PacketKind) -> int:
    return sum(datagram[HEAD_BYTES] == kind for _, _, _, datagram in cluster.log)


# ---- notices ----


def test_a_horizon_notice_is_passed_on_once_and_then_only_if_it_is_newer() -> None:
    """In a split site a daemon hears the multicasts of other rings: they would go round."""
    cluster = split_site()
    core, view_state = cluster.cores["b"], view_state_of(cluster, "b")
    sent: list[tuple[str | None, bytes]] = []
    core.sender.datagrams = sent
    upto = view_state.streams[1].known
    told = view_state._noticed[1]

    def hear(later: int, frontier: int) -> int:
        before = len(sent)
        notice = HorizonNotice(
            ring=1,
            horizon=told[0] + later,
            upto=upto,
            frontier=frontier,
            unsettled=False,
            held=[],
        )
        packet = HorizonPacket(notices=[notice]).encode(view_state.key)
        view_state.receive(PacketKind.HORIZON, packet, daemon_number("c"), cluster.now)
        view_state.step(cluster.now + HOLD_S)
        return len(sent) - before

    assert hear(10**6, 0) == 1, "to its ring"
    assert hear(10**6, 0) == 0
    assert hear(10**6 - 1, 10**6) == 0, "late: nothing in it is new"
    assert hear(10**6, 1) == 1, "the frontier is"
    assert hear(10**6 + 1, 0) == 1


def test_a_split_site_falls_silent_when_nothing_is_sent_any_more() -> None:
    cluster = split_site()
    programs = [cluster.connect(name, "u") for name in "abc"]
    for program in programs:
        program.session.join("g")
    programs[0].session.multicast(["g"], b"x", level=ServiceLevel.AGREED)
    cluster.run(3.0)
    cluster.log.clear()
    cluster.run(2.0)
    assert count(cluster, PacketKind.HORIZON) == 0
    assert count(cluster, PacketKind.DATA) == 0


# ---- recovered packets ----


def united(number: int, rings: int = 1) -> RecoveredSet:
    """Return the recovered set of one member that holds all packets of ring 0 up to this one."""
    holdings = [Holding(0, ((1, number),), (), 0)] + [Holding(0, (), (), 0)] * (rings - 1)
    return RecoveredSet({0: Past(bytes(16), tuple(holdings), ())})


def test_a_recovered_packet_is_taken_only_if_it_is_of_the_recovered_set() -> None:
    """One that only another attempt knew of would raise one daemon's horizons alone."""
    cluster = Cluster("ab")
    cluster.start("ab")
    cluster.run(0.5)
    program = cluster.connect("a", "u")
    cluster.run(1.0)
    cluster.isolate("a", "b")
    for _ in range(2):
        program.session.multicast(["g"], b"x" * 1000, level=ServiceLevel.RELIABLE)
    cluster.run(0.01)
    ahead, behind = view_state_of(cluster, "a"), view_state_of(cluster, "b")
    known = behind.streams[0].held
    packets = ahead.streams[0].packets
    assert {known + 1, known + 2} <= packets.keys(), "numbered at a, lost on the way to b"
    cluster.cores["b"].membership.gather(GatherReason.TOKEN_LOST, cluster.now)
    first, second = packets[known + 1].raw, packets[known + 2].raw
    recovered_set = united(known + 1)
    assert not behind.view_change.receive_repair(second, recovered_set)
    assert known + 2 not in behind.streams[0].packets
    assert behind.view_change.receive_repair(first, recovered_set)
    assert not behind.view_change.receive_repair(first, recovered_set), "it is here already"
    assert behind.streams[0].held == known + 1
    assert behind.view_change.receive_repair(second, united(known + 2))
    assert behind.streams[0].held == known + 2


# ---- the token ----


def test_a_token_that_is_lost_for_good_ends_the_view() -> None:
    """Beacons go on, so no path is lost; without a token nothing could be numbered."""
    cluster = Cluster("ab")
    cluster.start("ab")
    cluster.run(1.0)
    ring_only = (PacketKind.TOKEN, PacketKind.REST, PacketKind.REQUEST)
    cluster.lost = lambda datagram: datagram[HEAD_BYTES] in ring_only
    cluster.run(1.0)
    reasons = cluster.cores["a"].membership.reasons + cluster.cores["b"].membership.reasons
    assert reasons[GatherReason.TOKEN_LOST] >= 1
    assert reasons[GatherReason.PATH_LOST] == 0
    cluster.lost = lambda _: False
    cluster.run(2.0)
    assert cluster.members("a") == cluster.members("b") == "ab"


# ---- packets that come before their view ----


def is_commit_of_b(datagram: bytes) -> bool:
    if datagram[HEAD_BYTES] != PacketKind.CONTROL:
        return False
    packet = decode_control_untrusted(datagram[HEAD_BYTES:-CHECKSUM_BYTES])
    return (packet.origin, packet.kind) == (daemon_number("b"), ControlKind.COMMIT)


def while_b_is_ahead() -> Cluster:
    """b has installed the view and begins; a still awaits b's last commit."""
    cluster = Cluster("ab")
    cluster.lost = is_commit_of_b
    cluster.start("ab")
    cluster.run(0.009)
    return cluster


def test_what_comes_of_a_view_before_it_is_installed_is_kept_for_it() -> None:
    cluster = while_b_is_ahead()
    core = cluster.cores["a"]
    coming = core.membership.coming
    assert core.state is MembershipState.RECOVERED
    assert coming is not None
    assert cluster.members("b") == "ab"
    assert {peek_untrusted(packet)[1] for _, packet in core._early} == {coming.key}
    assert core.counters.foreign == 0
    cluster.lost = lambda _: False
    cluster.run(0.02)
    assert cluster.members("a") == "ab"
    assert core._early == []
    assert view_state_of(cluster, "a").delivery.complete


def test_only_so_much_is_kept_and_only_of_the_coming_view() -> None:
    cluster = while_b_is_ahead()
    core = cluster.cores["a"]
    coming = core.membership.coming
    assert coming is not None
    core._early.clear()
    for _ in range(MAX_EARLY + 3):
        core._receive_packet(
            daemon_number("b"), TokenRequest(ring=0, daemon=1, hop=0).encode(coming.key)
        )
    assert len(core._early) == MAX_EARLY
    assert core.counters.foreign == 0
    core._receive_packet(
        daemon_number("b"), TokenRequest(ring=0, daemon=1, hop=0).encode(bytes(16))
    )
    assert core.counters.foreign == 1
    core.membership.gather(GatherReason.PAUSED, cluster.now)
    assert core._early == [], "that view may never come"
