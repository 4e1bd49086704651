"""A ring among several tells itself up to where it can deliver, while no other one speaks."""

from groupcomm.config.core import CoreConfig
from groupcomm.config.versions import LOCAL_SAFE, LOCALITY
from groupcomm.level import ServiceLevel
from groupcomm.ring.states import TokenState
from groupcomm.wire.data import DataPacket, decode_data_untrusted
from groupcomm.wire.packet import PacketKind
from groupcomm.wire.token import decode_held_untrusted, decode_rest_untrusted
from tests.groupcomm.ring.harness import Daemon, kinds, make_view, token_in

TIMING = CoreConfig().timing
DATA, TOKEN, HELD, REQUEST = PacketKind.DATA, PacketKind.TOKEN, PacketKind.HELD, PacketKind.REQUEST
SAFE = ServiceLevel.SAFE
Sent = list[tuple[int, bytes]]


class Site(Daemon):
    """A daemon of a site, whose SAFE packets are local; no other site sends a promise.

    Attributes:
        lacks: the first packet that it cannot deliver, as something is missing that that follows.
    """

    lacks = 2**64

    def originate(self, packet: DataPacket) -> None:
        frontier = self.frontier
        super().originate(packet)
        self.frontier = frontier
        self.follow()

    def hear(self, packets: Sent, now: float) -> None:
        super().hear(packets, now)
        self.frontier = 0
        self.follow()

    def follow(self) -> None:
        """Follow the stream, as far as it can be delivered."""
        while self.line.upto < min(self.own.held, self.lacks - 1):
            packet = self.own.packets[self.line.upto + 1]
            safe = any(bundle.level == SAFE for bundle in packet.bundles)
            self.line.follow(packet, None, packet.number * safe)


def site_of(count: int) -> list[Site]:
    """Return the daemons of a site beside one of one daemon; the token rests with the first."""
    view = make_view(tuple(range(count)), (count,), features=LOCALITY | LOCAL_SAFE)
    daemons = [Site(view, me, CoreConfig()) for me in range(count)]
    for daemon in daemons:
        daemon.holds_packets = True
    rest = [each for each in daemons[0].step(0.0) if each[1][0] == PacketKind.REST]
    for other in daemons[1:]:
        other.hear(rest, 0.0)
        other.step(0.0)
    return daemons


def tell(sent: Sent, others: list[Site], now: float) -> Sent:
    """Have others receive what concerns the ring; return what they send."""
    told: Sent = []
    kept = [each for each in sent if each[1][0] != PacketKind.HORIZON]
    for other in others:
        other.hear(kept, now)
        told += other.step(now)
    return [each for each in told if each[1][0] != PacketKind.HORIZON]


def number_safe(daemon: Site, now: float) -> Sent:
    daemon.submit(level=SAFE)
    sent = [each for each in daemon.step(now) if each[1][0] != PacketKind.HORIZON]
    assert kinds(sent)[0] is DATA
    return sent


def rings(daemons: list[Site]) -> list[int]:
    return [daemon.deliverable.ring for daemon in daemons]


def test_all_know_two_ways_after_a_safe_packet_has_left_and_the_token_rests_again() -> None:
    daemons = site_of(3)
    sent = number_safe(daemons[0], 0.01)
    packet = decode_data_untrusted(sent[0][1])
    assert (packet.lingers, packet.asks, len(sent)) == (True, True, 1)
    told = tell(sent, daemons[1:], 0.01)
    assert kinds(told) == [HELD, HELD]
    assert [decode_held_untrusted(each).held for _, each in told] == [1, 1]
    assert rings(daemons) == [0, 0, 0]
    assert tell(told, daemons, 0.01) == []
    assert rings(daemons) == [1, 1, 1]
    assert daemons[0].ring.state is TokenState.RESTING
    assert daemons[0].frontiers == [], "no frontier has moved"


def test_an_agreed_packet_asks_for_nothing() -> None:
    daemons = site_of(3)
    daemons[0].submit()
    sent = [each for each in daemons[0].step(0.01) if each[1][0] == DATA]
    assert not decode_data_untrusted(sent[0][1]).asks


def test_who_lacks_something_that_the_packet_follows_answers_once_it_has_come() -> None:
    daemons = site_of(3)
    late = daemons[2]
    late.lacks = 1
    told = tell(number_safe(daemons[0], 0.01), daemons[1:], 0.01)
    assert kinds(told) == [HELD], "it holds the packet"
    tell(told, daemons, 0.01)
    assert rings(daemons) == [0, 0, 0]
    late.lacks = 2**64
    late.follow()
    told = late.step(0.02)
    assert kinds(told) == [HELD]
    tell(told, daemons[:2], 0.02)
    assert rings(daemons[:2]) == [1, 1]


def test_a_slow_client_leaves_the_answer_to_the_token() -> None:
    daemons = site_of(2)
    daemons[1].ring.flow.blocked = True
    assert tell(number_safe(daemons[0], 0.01), daemons[1:], 0.01) == []
    (passed,) = (each for each in daemons[0].step(daemons[0].ring.deadline) if each[1][0] == TOKEN)
    told = tell([passed], daemons[1:], 0.1)
    assert [row.held[-1] for row in token_in(told).rows] == [1, 1]
    assert rings(daemons) == [0, 1]


def test_in_a_larger_ring_rows_of_the_token_collect_it_and_a_rest_notice_tells_it() -> None:
    daemons = site_of(5)
    sent, now = number_safe(daemons[0], 0.01), 0.01
    assert set(kinds(sent)) == {DATA, TOKEN}
    packets = [each for each in sent if each[1][0] == DATA]
    for daemon in daemons[1:]:
        daemon.hear(packets, now)
    for daemon in daemons[1:]:
        token = [each for each in sent if each[1][0] == TOKEN]
        sent = tell(token, [daemon], now)
    assert rings(daemons) == [0, 0, 0, 0, 1], "the last one sees all rows"
    rest = tell([each for each in sent if each[1][0] == TOKEN], daemons[:1], now)
    (notice,) = (decode_rest_untrusted(raw) for _, raw in rest if raw[0] == PacketKind.REST)
    assert notice.deliverable == 1
    tell(rest, daemons[1:], now)
    assert rings(daemons) == [1] * 5


def rested_too_early() -> list[Site]:
    """Two daemons that hold a SAFE packet, the second of which cannot deliver it as the token
    rests."""
    daemons = site_of(2)
    first, late = daemons
    late.lacks = 1
    tell(number_safe(first, 0.01), [late], 0.01)
    token = [each for each in first.step(first.ring.deadline) if each[1][0] == TOKEN]
    back = tell(token, [late], 0.05)
    tell(tell(back, [first], 0.05), [late], 0.05)
    assert first.ring.state is TokenState.RESTING
    assert rings(daemons) == [0, 0]
    late.ring._holdings.owed = 0  # its answer would be lost
    return daemons


def test_who_can_deliver_more_while_the_token_rests_asks_for_it_soon() -> None:
    _, late = rested_too_early()
    late.lacks = 2**64
    late.follow()
    assert late.step(0.06) == [], "the one that has it may have noticed"
    assert kinds(late.step(late.ring.deadline)) == [REQUEST]


def test_a_token_that_rests_goes_round_now_and_then_while_a_packet_waits() -> None:
    first, late = rested_too_early()
    late.lacks = 2**64
    late.line.follow(late.own.packets[1], None, 1)
    due = first.ring.deadline
    while TOKEN not in kinds(sent := first.step(due)):
        assert due < 0.05 + 2 * TIMING.rest_interval_s
        due = first.ring.deadline
    back = tell([each for each in sent if each[1][0] == TOKEN], [late], due)
    tell(back, [first], due)
    assert rings([first, late]) == [1, 1]


def test_a_daemon_that_is_alone_in_its_site_needs_to_hear_nobody() -> None:
    (alone,) = site_of(1)
    number_safe(alone, 0.01)
    assert alone.deliverable.ring == 1
