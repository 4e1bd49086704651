"""The token's way: numbering, repair, rest, requests, copies, windows."""

from math import inf

import pytest
from attrs import evolve

from groupcomm.config.core import CoreConfig, Windows
from groupcomm.config.view import RING
from groupcomm.ring.ring import ACCELERATED_PACKETS
from groupcomm.ring.states import TokenState
from groupcomm.wire.data import DataPacket, decode_data_untrusted
from groupcomm.wire.packet import PacketKind
from groupcomm.wire.token import (
    RestNotice,
    TokenRequest,
    decode_request_untrusted,
    decode_rest_untrusted,
)
from tests.groupcomm.ring.harness import (
    AT_ONCE,
    Daemon,
    kinds,
    make_view,
    target_of_token,
    token_in,
    trio,
)


def test_the_lowest_daemon_starts_with_the_token_and_says_so() -> None:
    a, b, _ = trio()
    assert (a.ring.state, b.ring.state) == (TokenState.RESTING, TokenState.AWAY)
    sent = a.step(0.0)
    assert kinds(sent) == [PacketKind.REST]
    assert a.ring.deadline == CoreConfig().timing.rest_interval_s
    assert a.promises == [(decode_rest_untrusted(sent[0][1]).horizon, 0)]


def test_a_round_after_one_packet_and_then_rest_with_its_sender() -> None:
    a, b, c = trio()
    a.step(0.0)
    a.submit()
    sent = a.step(1.0)
    assert kinds(sent) == [PacketKind.DATA, PacketKind.TOKEN], "a lone packet goes first"
    assert target_of_token(sent) == 1
    b.hear(sent, 1.0)
    second = b.step(1.0)
    c.hear(sent[:1] + second, 1.0)
    third = c.step(1.0)
    assert target_of_token(third) == 0
    a.hear(third, 1.0)
    fourth = a.step(1.0)
    assert kinds(fourth) == [PacketKind.REST]
    assert a.ring.state is TokenState.RESTING
    notice = decode_rest_untrusted(fourth[0][1])
    assert (notice.last, notice.hop) == (1, 3)
    assert min(notice.frontiers[1:]) == a.own.packets[1].time


def test_a_request_brings_the_resting_token_straight_and_others_queue() -> None:
    a, b, c = trio()
    notice = a.step(0.0)
    requests = []
    for daemon in (c, b):
        daemon.hear(notice, 0.0)
        daemon.submit()
        sent = daemon.step(0.1)
        assert kinds(sent) == [PacketKind.REQUEST], "at once: the token is known to rest"
        requests += sent
    a.hear(requests, 0.1)
    passed = a.step(0.1)
    assert target_of_token(passed) == 2
    assert token_in(passed).wanted == [1]
    c.hear(passed, 0.1)
    assert target_of_token(c.step(0.1)) == 1


def test_a_daemon_that_knows_the_token_moves_waits_before_it_asks() -> None:
    a, b, _ = trio()
    b.hear(a.step(0.0), 0.0)
    a.submit()
    b.hear(a.step(0.1), 0.1)
    assert target_of_token(b.step(0.1)) == 2
    b.submit()
    assert b.step(0.1) == []
    wait_s = 2 * CoreConfig().timing.token_retransmit_s
    early, late = b.step(0.1 + 0.9 * wait_s), b.step(0.1 + 1.1 * wait_s)
    assert PacketKind.REQUEST not in kinds(early), "a copy of the token may be on its way"
    assert PacketKind.REQUEST in kinds(late)


def test_a_request_is_repeated_until_the_token_comes() -> None:
    a, b, _ = trio()
    b.hear(a.step(0.0), 0.0)
    b.submit()
    now, asked = 0.0, 0
    while now < 0.1:
        asked += len(b.step(now))
        now = b.ring.deadline
    assert 3 <= asked <= 10


def test_a_passed_token_is_copied_until_something_proves_that_it_moved_on() -> None:
    a, b, c = trio()
    a.step(0.0)
    a.submit()
    sent = a.step(0.0)
    copy = a.step(a.ring.deadline)
    assert copy == [packet for packet in sent if packet[1][0] == PacketKind.TOKEN], "identical"
    b.hear(sent, 0.0)
    b.submit()
    a.hear([packet for packet in b.step(0.0) if packet[1][0] == PacketKind.DATA], 0.0)
    assert a.ring.deadline > 0
    a.step(0.05)
    assert a.ring.deadline > 0.5, "packet 2 can only be of a later holder"
    assert a.ring.monitor.token_retransmissions == 1
    assert c.ring.state is TokenState.AWAY


def test_a_copy_of_the_token_changes_nothing() -> None:
    a, b, _ = trio()
    a.step(0.0)
    a.submit()
    sent = a.step(0.0)
    b.hear(sent, 0.0)
    b.step(0.0)
    b.hear(sent[1:], 0.0)
    assert b.ring.state is TokenState.AWAY
    assert b.step(0.0) == []
    assert b.ring.duplicate_tokens == 1


def test_a_copy_that_meets_the_resting_token_is_answered_with_a_notice() -> None:
    a, b, c = trio()
    a.step(0.0)
    a.submit()
    first = a.step(0.0)
    b.hear(first, 0.0)
    second = b.step(0.0)
    c.hear(first[:1] + second, 0.0)
    third = c.step(0.0)
    a.hear(third, 0.0)
    a.step(0.0)
    a.hear(third, 0.01)
    assert kinds(a.step(0.01)) == [PacketKind.REST]


def test_a_gap_is_asked_for_only_if_the_visit_before_showed_it() -> None:
    a, b, c = trio()
    a.step(0.0)
    a.submit()
    first = a.step(0.0)
    b.hear(first[1:], 0.0)  # the packet is lost to b
    second = b.step(0.0)
    assert token_in(second).requests == []
    c.hear(first[:1] + second, 0.0)
    a.hear(c.step(0.0), 0.0)
    again = a.step(0.0)
    assert kinds(again) == [PacketKind.TOKEN], "b does not hold the stream: no rest"
    b.hear(again, 0.0)
    asked = b.step(0.0)
    assert token_in(asked).requests == [(0, 1, 1)]
    c.hear(asked, 0.0)
    answer = c.step(0.0)
    assert kinds(answer) == [PacketKind.DATA, PacketKind.TOKEN]
    assert token_in(answer).requests == []
    b.hear(answer[:1], 0.0)
    assert b.own.held == 1


def test_a_long_burst_lets_the_token_overtake_its_last_packets() -> None:
    a, _, _ = trio()
    a.step(0.0)
    a.submit(count=100, size=1000)
    sent = a.step(0.0)
    assert kinds(sent).index(PacketKind.TOKEN) == 100 - ACCELERATED_PACKETS
    assert token_in(sent).last == 100, "it never owns numbers that the token does not show"


def test_windows_limit_a_token_visit_and_a_rotation() -> None:
    config = evolve(AT_ONCE, windows=Windows(visit_bytes=5000, ring_bytes=8000))
    a, b, _ = trio(config)
    a.step(0.0)
    a.submit(count=50, size=1000)
    first = a.step(0.0)
    assert kinds(first).count(PacketKind.DATA) == 5
    b.submit(count=50, size=1000)
    b.hear(first, 0.0)
    assert kinds(b.step(0.0)).count(PacketKind.DATA) == 4, "what a leaves, or half of all"


def test_daemons_that_want_more_than_fits_share_it_alike() -> None:
    """The first takes all there is while it is alone, and makes room for the others."""
    config = evolve(AT_ONCE, windows=Windows(visit_bytes=90_000, ring_bytes=90_000))
    ring = trio(config)
    ring[0].step(0.0)
    for daemon in ring:
        daemon.submit(count=1000, size=1000)
    shares: list[int] = []
    sent: list[tuple[int, bytes]] = []
    for visit in range(15):
        ring[visit % 3].hear(sent, 0.0)
        sent = ring[visit % 3].step(0.0)
        shares.append(kinds(sent).count(PacketKind.DATA))
        for other in ring:
            other.hear([item for item in sent if item[1][0] == PacketKind.DATA], 0.0)
    assert shares[0] > 80
    assert max(shares[9:]) - min(shares[9:]) <= 1
    assert 80 < sum(shares[-3:]) < 95


def test_a_lone_message_goes_first_and_the_token_a_moment_later() -> None:
    a, b, c = trio(CoreConfig())
    b.hear(rest := a.step(0.0), 0.0)
    c.hear(rest, 0.0)
    a.submit()
    sent = a.step(1e-6)
    assert kinds(sent) == [PacketKind.DATA]
    b.hear(sent, 1e-6)
    c.hear(sent, 1e-6)
    assert a.ring.deadline == pytest.approx(1e-6 + CoreConfig().timing.linger_s)
    assert kinds(a.step(a.ring.deadline)) == [PacketKind.TOKEN]
    assert a.ring.state is TokenState.AWAY


def test_a_lingering_token_goes_at_once_to_who_asks_for_it() -> None:
    a, b, _ = trio(CoreConfig())
    b.hear(a.step(0.0), 0.0)
    a.submit()
    a.step(1e-6)
    b.submit()
    a.hear(b.step(1e-6), 1e-6)
    assert kinds(a.step(2e-6)) == [PacketKind.TOKEN]


def test_the_token_does_not_linger_behind_much() -> None:
    a, _, _ = trio(CoreConfig())
    a.step(0.0)
    a.submit(count=270, size=1000)
    assert PacketKind.TOKEN in kinds(a.step(1e-6))


def test_a_rest_notice_that_is_due_meanwhile_waits_for_the_round() -> None:
    a, _, _ = trio(CoreConfig())
    a.step(0.0)
    now = a.ring.deadline
    a.submit()
    assert kinds(a.step(now)) == [PacketKind.DATA]
    assert a.ring.deadline == pytest.approx(now + CoreConfig().timing.linger_s)


def test_nothing_says_that_all_hold_what_was_sent_while_the_token_lingers() -> None:
    """A rest notice would; a copy of the token that came before asks for one."""
    a, b, _ = trio(CoreConfig())
    b.hear(a.step(0.0), 0.0)
    a.submit()
    a.step(1e-6)
    a.ring.on_token(a.ring._token, 2e-6)
    assert kinds(a.step(2e-6)) == []
    assert kinds(a.step(a.ring.deadline)) == [PacketKind.TOKEN]


def test_a_ring_that_falls_behind_stops_the_numbering() -> None:
    config = evolve(AT_ONCE, windows=Windows(stream_packets=10))
    a, _, _ = trio(config)
    a.step(0.0)
    a.submit(count=50, size=1000)
    first = a.step(0.0)
    token = token_in(first)
    assert token.last > 10
    token.hop += 5
    a.hear([(0, token.encode(bytes(16)))], 0.1)
    assert PacketKind.DATA not in kinds(a.step(0.1)), "nobody else holds anything yet"


def test_stamps_rise_above_everything_that_was_seen_or_promised() -> None:
    a, _, _ = trio()
    a.step(0.0)
    a.clock.follow(10**15)
    a.submit()
    packet = decode_data_untrusted(a.step(0.0)[0][1])
    assert packet.time > 10**15
    assert all(packet.time > value for value, _ in a.promises)


def test_the_token_is_late_only_after_its_timeout() -> None:
    _, b, _ = trio()
    b.step(0.0)
    assert b.ring.deadline == CoreConfig().timing.token_timeout_s
    b.step(0.59)
    assert b.ring.monitor.token_losses == 0
    b.step(0.6)
    assert b.ring.monitor.token_losses == 1


def test_a_ring_of_one_sends_nothing_but_its_packets() -> None:
    view = make_view((0,))
    alone = Daemon(view, 0)
    assert alone.step(0.0) == []
    assert alone.ring.deadline == inf
    alone.submit(count=3)
    assert kinds(alone.step(1.0)) == [PacketKind.DATA]
    assert alone.ring.state is TokenState.RESTING


def test_a_ring_of_one_keeps_the_token_while_a_client_is_slow() -> None:
    """A pass would be to itself; what counts as held again lets it number on."""
    windows = Windows(stream_packets=2)
    alone = Daemon(make_view((0,)), 0, CoreConfig(windows=windows))
    alone.submit(count=1)
    alone.step(0.0)
    alone.ring.flow.blocked = True
    alone.submit(count=2)
    for second in range(1, 5):
        assert set(kinds(alone.step(float(second)))) <= {PacketKind.DATA}
        assert alone.ring.state is TokenState.RESTING
    assert alone.ring.held_by_all < alone.own.held
    assert alone.ring.deadline < inf  # the ring has a time to look again
    alone.ring.flow.blocked = False
    alone.step(5.0)
    assert alone.ring.held_by_all == alone.own.held
    assert alone.ring.deadline == inf


def test_a_foreign_gap_wakes_the_token_and_the_gateway_takes_it_over() -> None:
    view = make_view((0, 1), (2,))
    gateway, member = Daemon(view, 0), Daemon(view, 1)
    member.hear(gateway.step(0.0), 0.0)
    member.streams[1].learn(3)
    member.gaps[0].update(0.0)
    now, sent = 0.0, list[tuple[int, bytes]]()
    while not sent:
        now = member.ring.deadline
        sent = member.step(now)
    assert kinds(sent) == [PacketKind.REQUEST]
    gateway.hear(sent, now)
    member.hear(gateway.step(now), now)
    asked = member.step(now)
    assert token_in(asked).requests == [(1, 1, 3)]
    gateway.hear(asked, now)
    rest = gateway.step(now)
    assert PacketKind.REST in kinds(rest), "the gateway fetches them; the token need not go round"


def test_rest_notice_and_request_survive_their_encoding() -> None:
    notice = RestNotice(ring=1, hop=2, holder=3, last=4, horizon=5, frontiers=[6, 7])
    assert decode_rest_untrusted(notice.encode(bytes(16))).frontiers == [6, 7]
    request = decode_request_untrusted(TokenRequest(ring=1, daemon=2, hop=3).encode(bytes(16)))
    assert (request.ring, request.daemon, request.hop) == (1, 2, 3)


def test_a_token_with_all_its_requests_fits_a_packet() -> None:
    view = make_view(tuple(range(5)))
    member = Daemon(view, 1)
    token = Daemon(view, 0).ring._token
    for number in range(2, 1000, 2):
        packet = DataPacket(ring=0, number=number, time=number, daemon=0, previous=0, bundles=[])
        member.own.accept(packet)
    token.last = 1000
    for hop in (1, 2):
        token.hop = hop
        member.hear([(1, token.encode(view.key))], 0.0)
        sent = member.step(0.0)
    packet_sizes = [len(packet) for _, packet in sent]
    assert len(token_in(sent).requests) > 30
    assert max(packet_sizes) <= view.packet_limit


def test_the_first_request_of_a_resting_token_goes_to_its_holder_the_next_to_all() -> None:
    _, _, c = trio()
    retry_s = CoreConfig().timing.request_retry_s
    c.submit()
    assert [target for target, _ in c.step(0.0)] == [0], "with whom a token rests at first"
    notice = RestNotice(ring=0, hop=5, holder=1, last=0, horizon=9, frontiers=[9, 9, 9])
    c.hear([(RING, notice.encode(bytes(16)))], 0.001)
    assert [target for target, _ in c.step(0.001)] == [1]
    assert [target for target, _ in c.step(0.002 + retry_s)] == [RING], "it may have moved"


def test_no_token_that_moves_is_asked_for_because_safe_waits() -> None:
    a, b, _ = trio()
    b.hear(a.step(0.0), 0.0)
    a.submit()
    b.hear(a.step(0.1), 0.1)
    b.step(0.1)
    b.safe, b.frontier = [b.frontier + 1], b.frontier + 2
    sent = [packet for step in range(100) for packet in b.step(0.1 + 0.001 * step)]
    assert PacketKind.REQUEST not in kinds(sent)
    notice = RestNotice(ring=0, hop=9, holder=2, last=1, horizon=b.frontier, frontiers=[1, 1, 1])
    b.hear([(RING, notice.encode(bytes(16)))], 0.2)
    sent = [packet for step in range(100) for packet in b.step(0.2 + 0.001 * step)]
    assert PacketKind.REQUEST in kinds(sent), "its holder does not see the need"


def rest_notice(hop: int, last: int = 0, holder: int = 2) -> list[tuple[int, bytes]]:
    """Return the notice of a token that rests in a ring of three."""
    notice = RestNotice(ring=0, hop=hop, holder=holder, last=last, horizon=9, frontiers=[0] * 3)
    return [(RING, notice.encode(bytes(16)))]


def test_all_hold_what_a_rest_notice_names_and_an_older_notice_takes_nothing_back() -> None:
    _, b, _ = trio()
    b.hear(rest_notice(5, last=4), 0.0)
    assert (b.ring.held_by_all, b.own.known) == (4, 4)
    b.hear(rest_notice(4, last=3), 0.0)
    assert b.ring.held_by_all == 4


def test_a_rest_notice_that_comes_late_says_nothing_about_where_the_token_is() -> None:
    a, b, _ = trio()
    a.step(0.0)
    a.submit()
    sent = a.step(0.0)
    a.hear(rest_notice(0), 0.0)
    assert not a.ring.monitor.at_rest, "the token has moved on since"
    b.hear(sent, 0.0)
    b.hear(rest_notice(9), 0.0)
    assert not b.ring.monitor.at_rest, "the token is here"


def test_repeated_packets_of_its_own_make_a_window_smaller_and_others_do_not() -> None:
    a, b, _ = trio()
    a.step(0.0)
    a.submit()
    first = a.step(0.0)
    b.hear(first, 0.0)
    b.step(0.0)
    for daemon, repeated in ((a, len(first[0][1])), (b, 0)):
        token = token_in(first)
        token.hop, token.requests = 10, [(0, 1, 1)]
        daemon.hear([(0, token.encode(bytes(16)))], 0.1)
        assert kinds(daemon.step(0.1))[0] == PacketKind.DATA
        assert daemon.ring.flow.window.repeated == repeated
        assert daemon.ring_counts.repeated_packets == 1


def test_a_gateway_leaves_requests_for_the_rings_own_packets_in_the_token() -> None:
    gateway = Daemon(make_view((0, 1), (2,)), 0)
    token = Daemon(make_view((0, 1), (2,)), 1).ring._token
    token.hop, token.last, token.requests = 5, 3, [(0, 1, 3), (1, 2, 3)]
    gateway.hear([(0, token.encode(bytes(16)))], 0.0)
    assert token_in(gateway.step(0.0)).requests == [(0, 1, 3)]


def test_a_daemon_without_gaps_asks_for_the_token_when_no_notice_comes() -> None:
    view = make_view((0, 1), (2,))
    gateway, member = Daemon(view, 0), Daemon(view, 1)
    member.hear(gateway.step(0.0), 0.0)
    member.submit()
    gateway.hear(member.step(0.0), 0.0)
    assert PacketKind.TOKEN in kinds(gateway.step(0.0))
    assert gateway.gaps == []
    gateway.hear(rest_notice_of_two(9), 0.0)
    gateway.holds_packets = True
    missed_at = gateway.ring.notices.missed_at()
    assert PacketKind.REQUEST not in kinds(gateway.step(missed_at - 1e-6))
    gateway.step(missed_at)
    wait_s = CoreConfig().timing.request_retry_s
    assert PacketKind.REQUEST in kinds(gateway.step(missed_at + wait_s))


def rest_notice_of_two(hop: int) -> list[tuple[int, bytes]]:
    """Return the notice of a token that rests with daemon 1 in a ring of two."""
    notice = RestNotice(ring=0, hop=hop, holder=1, last=0, horizon=9, frontiers=[0, 0])
    return [(RING, notice.encode(bytes(16)))]


def test_a_ring_of_one_goes_on_numbering_at_once_when_its_window_was_full() -> None:
    alone = Daemon(make_view((0,)), 0, CoreConfig(windows=Windows(visit_bytes=5000)))
    alone.submit(count=12, size=1000)
    steps = []
    now = 1.0
    while alone.backlog.size:
        steps.append(kinds(alone.step(now)).count(PacketKind.DATA))
        if alone.backlog.size:
            assert alone.ring.deadline == now
    assert sum(steps) == 12
    assert len(steps) > 1
    assert alone.ring.deadline == inf


def test_a_message_at_the_moment_when_the_token_must_go_takes_it_along() -> None:
    a, b, _ = trio(CoreConfig())
    b.hear(a.step(0.0), 0.0)
    a.submit()
    assert kinds(a.step(1.0)) == [PacketKind.DATA]
    a.submit()
    assert kinds(a.step(a.ring.deadline)) == [PacketKind.DATA, PacketKind.TOKEN]


def test_a_short_burst_goes_before_the_token() -> None:
    a, _, _ = trio()
    a.step(0.0)
    a.submit(count=ACCELERATED_PACKETS, size=1000)
    data = [PacketKind.DATA] * ACCELERATED_PACKETS
    assert kinds(a.step(0.0)) == [*data, PacketKind.TOKEN]


def test_the_notice_of_a_token_that_has_just_been_passed_says_where_it_rests() -> None:
    a, _, _ = trio()
    a.step(0.0)
    a.submit()
    hop = token_in(a.step(0.0)).hop
    a.hear(rest_notice(hop), 0.0)
    assert a.ring.monitor.at_rest
    assert a.step(CoreConfig().timing.token_retransmit_s) == [], "it has arrived"


def test_in_a_view_of_several_rings_the_token_tells_what_its_ring_holds() -> None:
    view = make_view((0, 1), (2,))
    gateway, member = Daemon(view, 0), Daemon(view, 1)
    gateway.step(0.0)
    gateway.submit()
    sent = gateway.step(0.0)
    assert gateway.ring.held_by_all == 0
    member.hear(sent, 0.0)
    gateway.hear(member.step(0.0), 0.0)
    gateway.step(0.0)
    assert gateway.ring.held_by_all == 1


def test_a_packet_that_does_not_linger_says_nothing_about_where_the_token_stays() -> None:
    a, b, c = trio()
    a.step(0.0)
    a.submit()
    first = a.step(0.0)
    b.hear(first, 0.0)
    b.submit()
    second = b.step(0.0)
    c.hear(first[:1], 0.0)
    a.hear([packet for packet in second if packet[1][0] == PacketKind.DATA], 0.0)
    assert not a.ring.monitor.at_rest, "b has passed it on"


@pytest.mark.parametrize("holds_packets", [True, False])
def test_a_resting_token_collects_frontiers_once_in_a_while_if_packets_are_kept(
    holds_packets: bool,
) -> None:
    a, b, c = trio()
    a.step(0.0)
    a.submit()
    sent = a.step(1.0)
    b.hear(sent, 1.0)
    c.hear(sent[:1] + b.step(1.0), 1.0)
    a.hear(c.step(1.0), 1.0)
    assert kinds(a.step(1.0)) == [PacketKind.REST]
    assert a.ring.monitor.at_rest
    a.frontier, a.holds_packets = a.frontier + 1, holds_packets
    due = 1.0 + CoreConfig().timing.rest_interval_s
    assert PacketKind.TOKEN not in kinds(a.step(due - 0.001))
    assert (PacketKind.TOKEN in kinds(a.step(due))) is holds_packets


@pytest.mark.parametrize(("less", "blocked"), [(0, False), (1, False), (0, True)])
def test_a_resting_token_collects_what_the_ring_holds_of_another_before_its_senders_wait(
    less: int, blocked: bool
) -> None:
    gateway = Daemon(make_view((0, 1), (2,)), 0, CoreConfig())
    assert PacketKind.TOKEN not in kinds(gateway.step(0.0))
    for number in range(1, gateway.ring._horizons.report_after + 1 - less):
        packet = DataPacket(
            ring=1, number=number, time=number, daemon=2, previous=number - 1, bundles=[]
        )
        gateway.streams[1].accept(packet)
    gateway.ring.flow.blocked = blocked
    goes = PacketKind.TOKEN in kinds(gateway.step(0.001))
    assert goes is (less == 0 and not blocked)
