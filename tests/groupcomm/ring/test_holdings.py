"""All daemons report the SAFE messages that they hold to all, while the token stays."""

from groupcomm.config.core import CoreConfig
from groupcomm.level import ServiceLevel
from groupcomm.ring.lingering import STEADY, Holdings
from groupcomm.ring.states import TokenState
from groupcomm.wire.data import decode_data_untrusted
from groupcomm.wire.packet import PacketKind
from groupcomm.wire.token import decode_held_untrusted
from tests.groupcomm.ring.harness import Daemon, kinds, make_view, resting_with_a

TIMING = CoreConfig().timing
DATA, TOKEN, HELD = PacketKind.DATA, PacketKind.TOKEN, PacketKind.HELD
SAFE = ServiceLevel.SAFE
Sent = list[tuple[int, bytes]]


def number_safe(daemon: Daemon, now: float) -> tuple[Sent, int]:
    """Return its packets, and the message's time, with one SAFE message to send, and the token."""
    daemon.submit(level=SAFE)
    sent = daemon.step(now)
    assert kinds(sent) == [DATA]
    packet = decode_data_untrusted(sent[0][1])
    assert packet.asks
    return sent, packet.time


def answer(daemon: Daemon, sent: Sent, now: float) -> Sent:
    daemon.hear(sent, now)
    told = daemon.step(now)
    assert kinds(told) == [HELD]
    return told


def test_all_know_two_ways_after_it_has_left() -> None:
    a, b, c = resting_with_a()
    now = TIMING.rest_interval_s / 2  # before the next rest notice
    sent, time = number_safe(a, now)
    from_b, from_c = answer(b, sent, now), answer(c, sent, now)
    assert all(time not in daemon.frontiers for daemon in (a, b, c))
    for daemon, told in ((a, from_b + from_c), (b, from_c), (c, from_b)):
        daemon.hear(told, now)
        assert daemon.step(now) == []
        assert daemon.frontiers[-1] == time
    assert a.ring.state is TokenState.RESTING
    assert a.ring.held_by_all == 1
    token = a.ring._token
    assert (token.rows[0].sent, token.burst) == (0, 0), "it counts for the round no longer"
    assert a.ring.deadline >= now + STEADY * TIMING.linger_s, "it need not go round"


def test_what_is_not_answered_is_collected_by_the_token() -> None:
    a, b, c = resting_with_a()
    sent, time = number_safe(a, 1.0)
    answer(c, sent, 1.0)  # the answer is lost
    a.hear(answer(b, sent, 1.0), 1.0)
    assert a.step(1.0) == []
    assert time not in a.frontiers
    assert kinds(a.step(a.ring.deadline)) == [TOKEN]


def test_who_lacks_something_tells_nothing_until_it_has_come() -> None:
    a, b, _ = resting_with_a()
    lost, _ = number_safe(a, 1.0)
    sent, time = number_safe(a, 1.0001)
    b.hear(sent, 1.0001)
    assert b.step(1.0001) == []
    b.hear(lost, 1.0002)
    (told,) = b.step(1.0002)
    notice = decode_held_untrusted(told[1])
    assert (notice.held, notice.frontier) == (2, time)


def test_one_answer_is_enough_for_all_that_has_come() -> None:
    a, b, _ = resting_with_a()
    first, _ = number_safe(a, 1.0)
    second, time = number_safe(a, 1.0001)
    b.hear(first, 1.0001)
    assert decode_held_untrusted(answer(b, second, 1.0001)[0][1]).frontier == time


def test_an_answer_that_overtakes_the_message_counts_once_that_is_here() -> None:
    a, b, c = resting_with_a()
    sent, time = number_safe(a, 1.0)
    b.hear(answer(c, sent, 1.0), 1.0)
    assert b.step(1.0) == []
    assert time not in b.frontiers
    answer(b, sent, 1.0)
    assert b.frontiers[-1] == time


def test_who_lacks_something_itself_gives_the_token_away() -> None:
    """It lacks packets that it would have the others count on."""
    a, *_ = resting_with_a()
    a.own.learn(1)
    a.ring._token.last = 1
    a.submit(level=SAFE)
    assert TOKEN in kinds(a.step(1.0))


def test_a_slow_client_keeps_its_daemon_from_telling_more() -> None:
    a, b, _ = resting_with_a()
    answer(b, number_safe(a, 1.0)[0], 1.0)
    b.ring.flow.blocked = True
    told = answer(b, number_safe(a, 1.0001)[0], 1.0001)
    assert decode_held_untrusted(told[0][1]).held == 1


def test_in_a_larger_ring_the_token_goes_round() -> None:
    view = make_view((0, 1, 2, 3, 4))
    first = Daemon(view, 0, CoreConfig())
    first.step(0.0)
    first.submit(level=SAFE)
    assert set(kinds(first.step(1.0))) == {DATA, TOKEN}


def test_a_frontier_is_collected_once() -> None:
    holdings = Holdings((0, 1, 2), 0, single=True)
    holdings.on_report(1, 0, 5)
    assert holdings.pop_risen(9) == 0, "daemon 2 has reported nothing"
    holdings.on_report(2, 0, 7)
    assert holdings.news
    assert holdings.pop_risen(9) == 5
    assert not holdings.news
    assert holdings.pop_risen(9) == 0
    holdings.on_report(1, 0, 4)
    assert not holdings.news
    holdings.on_report(1, 0, 8)
    assert holdings.pop_risen(6) == 6, "its own frontier counts, too"


def test_beside_other_rings_who_asks_can_deliver_its_packet_and_promises_no_more() -> None:
    holdings = Holdings((0, 1, 2), 0, single=False)
    holdings.on_question(1, 5, 90)
    assert (holdings.owed, holdings.news) == (5, True)
    assert holdings.least_number(9) == 0, "daemon 2 has reported nothing"
    holdings.on_report(2, 7, 0)
    assert (holdings.least_number(9), holdings.least_number(4)) == (5, 4)
    assert holdings.pop_risen(50) == 0, "other rings may still send below its stamp"
