"""The token stays with the sender, and losses are noticed all the same."""

import pytest

from groupcomm.config.core import CoreConfig
from groupcomm.config.view import RING
from groupcomm.level import ServiceLevel
from groupcomm.ring.lingering import STEADY, Lingering
from groupcomm.ring.states import TokenState
from groupcomm.wire.data import decode_data_untrusted
from groupcomm.wire.packet import PacketKind
from tests.groupcomm.ring.harness import (
    Daemon,
    kinds,
    make_view,
    resting_with_a,
    target_of_token,
    token_in,
    trio,
)

TIMING = CoreConfig().timing
DATA, TOKEN, REQUEST = PacketKind.DATA, PacketKind.TOKEN, PacketKind.REQUEST
Sent = list[tuple[int, bytes]]


def number(daemon: Daemon, now: float) -> Sent:
    """It has one message to send, and the token."""
    daemon.submit()
    sent = daemon.step(now)
    assert kinds(sent) == [DATA]
    assert decode_data_untrusted(sent[0][1]).lingers
    return sent


def test_messages_that_follow_each_other_need_one_datagram_each() -> None:
    a, b, c = resting_with_a()
    now = 1.0
    for _ in range(20):
        last = now
        sent = number(a, now)
        b.hear(sent, now)
        c.hear(sent, now)
        assert kinds(b.step(now) + c.step(now)) == []
        now += (0.5 if last == 1.0 else STEADY / 2) * TIMING.linger_s
    assert a.ring.deadline == pytest.approx(last + STEADY * TIMING.linger_s)
    assert a.step(now) == []
    assert kinds(a.step(a.ring.deadline)) == [TOKEN]


def test_it_goes_round_now_and_then_though_each_step_has_something_to_number() -> None:
    """Programs that connect and go once made a daemon keep it until the others had lost it."""
    a, _, _ = resting_with_a()
    begin = now = 1.0
    while a.ring.state is not TokenState.AWAY:
        a.submit()
        a.step(now)
        now += TIMING.linger_s / 2
        assert now - begin <= 1.1 * TIMING.rest_interval_s
    assert now - begin >= 0.9 * TIMING.rest_interval_s


def test_it_goes_round_now_and_then_though_others_report_that_they_hold_all() -> None:
    """They do for SAFE messages: who sent one in each step kept it until they had lost it."""
    a, b, c = resting_with_a()
    begin = now = 1.0
    while a.ring.state is not TokenState.AWAY:
        a.submit(level=ServiceLevel.SAFE)
        sent = [each for each in a.step(now) if each[1][0] == DATA]
        for other in (b, c):
            other.hear(sent, now)
            a.hear([each for each in other.step(now) if each[1][0] == PacketKind.HELD], now)
        now += TIMING.linger_s / 2
        assert now - begin <= 1.1 * TIMING.rest_interval_s
    assert now - begin >= 0.9 * TIMING.rest_interval_s


def burst_while_kept(a: Daemon, others: int) -> int:
    """Have a daemon send without end; return the bytes that it numbers before the token goes."""
    a.ring._token.burst = others
    now = 1.0
    while a.ring.state is not TokenState.AWAY:
        a.submit(count=4, size=1000)
        a.step(now)
        now += TIMING.linger_s / 100
    return a.ring._token.rows[0].sent


def test_who_sends_alone_keeps_it_for_a_window_and_else_for_a_quarter_of_it() -> None:
    """At full speed messages would wait for it to come round."""
    window = CoreConfig().windows.visit_bytes
    assert window <= burst_while_kept(resting_with_a()[0], 0) < 1.1 * window
    assert window / 4 <= burst_while_kept(resting_with_a()[0], 1000) < 1.1 * window / 4


def test_what_comes_after_a_while_goes_round_soon() -> None:
    a, _, _ = resting_with_a()
    number(a, 1.0)
    a.ring._lingering.settle_at = 2.0  # as if the token had been round
    number(a, now := 1.0 + 1.1 * STEADY * TIMING.linger_s)
    assert a.ring.deadline <= now + TIMING.linger_s


def test_who_lacks_a_packet_asks_the_holder_and_for_the_packet_at_once() -> None:
    a, b, c = resting_with_a()
    number(a, 1.0)  # c does not get the packet
    now = 1.0005
    c.hear(number(a, now), now)
    assert c.step(now) == [], "it may come a little later"
    now += TIMING.linger_s
    assert c.ring.deadline == pytest.approx(now)
    (asked,) = c.step(now)
    assert (asked[0], asked[1][0]) == (0, REQUEST)
    a.hear([asked], now)
    sent = a.step(now)
    assert target_of_token(sent) == 2
    c.hear(sent, now)
    assert token_in(c.step(now)).requests == [(0, 1, 1)]
    assert b.ring.state is TokenState.AWAY


def test_who_lacks_the_last_packet_learns_of_it_by_the_round() -> None:
    a, b, c = resting_with_a()
    for now in (1.0, 1.0005):
        sent = number(a, now)
        b.hear(sent, now)
    now = a.ring.deadline
    b.hear(a.step(now), now)
    c.hear(b.step(now), now)
    assert c.own.known == 2


def test_a_packet_that_is_only_late_is_not_asked_for() -> None:
    a, _, c = resting_with_a()
    first, second = number(a, 1.0), number(a, 1.0005)
    c.hear(second, 1.0005)
    assert c.step(1.0005) == []
    c.hear(first, 1.0008)
    assert c.step(1.0008) == []
    assert c.step(1.0005 + TIMING.linger_s) == []


def give(holder: Daemon, wisher: Daemon, now: float) -> Sent:
    """Have one daemon ask for the token, and another give it; return what the first then sends."""
    wisher.submit()
    holder.hear(wisher.step(now), now)
    wisher.hear(holder.step(now), now)
    return wisher.step(now)


def test_who_asked_for_it_keeps_it_and_others_ask_there() -> None:
    a, b, c = resting_with_a()
    sent = number(a, 1.0)
    b.hear(sent, 1.0)
    c.hear(sent, 1.0)
    given = give(a, b, 1.0005)
    assert kinds(given) == [DATA]
    assert b.ring.state is TokenState.LINGERING
    a.hear(given, 1.0005)
    c.hear(given, 1.0005)
    c.submit()
    (asked,) = c.step(1.002)
    assert (asked[0], asked[1][0]) == (1, REQUEST)
    a.submit()
    (asked,) = a.step(1.002)
    assert (asked[0], asked[1][0]) == (1, REQUEST)


def test_a_wish_from_before_goes_to_who_has_it_now() -> None:
    """It had been asked of the daemon that had it before."""
    a, b, c = resting_with_a()
    b.hear(sent := number(a, 1.0), 1.0)
    c.hear(sent, 1.0)
    c.submit()
    assert c.step(1.0)[0][0] == 0, "it asks a"
    c.hear(give(a, b, 1.0), 1.0)
    asked = c.step(1.0)
    assert [(target, packet[0]) for target, packet in asked] == [(1, REQUEST)]


def test_members_are_asked_while_safe_messages_wait() -> None:
    a, b, _ = resting_with_a()
    b.hear(number(a, 1.0), 1.0)
    b.safe = [10**15]
    sent = give(a, b, 1.0)
    assert kinds(sent) == [DATA]
    assert decode_data_untrusted(sent[0][1]).asks


def test_a_message_behind_silence_of_who_asked_goes_round_at_once() -> None:
    """The token then rests again before the next message, maybe of another daemon, comes."""
    a, b, _ = resting_with_a()
    assert kinds(give(a, b, 1.0)) == [DATA, TOKEN]


def test_those_that_send_by_turns_do_not_keep_it_from_others() -> None:
    """Scenario 16: a daemon that only received took it for lost, again and again."""
    a, b, c = resting_with_a()
    now = begin = 1.0
    holder, wisher = a, b
    c.hear(sent := number(a, now), now)
    b.hear(sent, now)
    while True:
        now += TIMING.linger_s
        sent = give(holder, wisher, now)
        for other in (holder, c):
            other.hear([each for each in sent if each[1][0] == DATA], now)
        if TOKEN in kinds(sent):
            break
        holder, wisher = wisher, holder
        assert now - begin <= 1.1 * TIMING.rest_interval_s
    assert now - begin >= 0.9 * TIMING.rest_interval_s


def test_wishes_without_end_do_not_keep_it_from_others_either() -> None:
    a, b, c = resting_with_a()
    now = 1.0
    b.hear(number(a, now), now)
    a.hear(give(a, b, now), now)
    now += 2.1 * TIMING.rest_interval_s
    a.submit()
    b.hear(a.step(now), now)
    assert target_of_token(b.step(now)) == 2, "c has not had it for longest"
    assert c.ring.state is TokenState.AWAY


@pytest.mark.parametrize("level", [ServiceLevel.SAFE, ServiceLevel.AGREED])
def test_it_does_not_stay_where_it_comes_by_for_somebody_else(level: ServiceLevel) -> None:
    """Nothing was numbered here: it goes on, and rests with the last sender once all is held."""
    a, b, _ = trio()
    a.step(0.0)
    a.submit(level=level)
    sent = a.step(1.0)
    b.hear(sent, 1.0)
    assert kinds(b.step(1.0)) == [TOKEN]


def test_in_a_view_of_several_rings_it_goes_soon() -> None:
    """Other rings wait for headers of what stays in this one until the whole ring holds it."""
    view = make_view((0, 1), (2, 3))
    a = Daemon(view, 0, CoreConfig())
    a.step(0.0)
    for now in (1.0, 1.0005):
        a.submit()
        sent = [packet for _, packet in a.step(now) if packet[0] == DATA]
        assert [decode_data_untrusted(packet).lingers for packet in sent] == [False]
    assert a.ring.deadline <= 1.0 + TIMING.linger_s
    assert all(target != RING or packet[0] != TOKEN for target, packet in a.step(1.0005))


def test_the_token_may_stay_until_it_has_to_go_round() -> None:
    lingering = Lingering(TIMING, single=True, now=0.0)
    assert lingering.may_stay(TIMING.rest_interval_s - 1e-6)
    assert not lingering.may_stay(TIMING.rest_interval_s)
    lingering.note_round(0.1)
    assert lingering.may_stay(TIMING.rest_interval_s)


def test_others_may_starve_when_the_token_is_overdue_for_as_long_again() -> None:
    lingering = Lingering(TIMING, single=True, now=0.0)
    assert not lingering.is_starving(2 * TIMING.rest_interval_s - 1e-6)
    assert lingering.is_starving(2 * TIMING.rest_interval_s)


def test_messages_follow_each_other_if_they_come_soon() -> None:
    lingering = Lingering(TIMING, single=True, now=0.0)
    lingering.note_packet(0.0)
    assert not lingering.steady
    lingering.note_packet(STEADY * TIMING.linger_s)
    assert lingering.steady
    lingering.note_packet(2.01 * STEADY * TIMING.linger_s)
    assert not lingering.steady
    several = Lingering(TIMING, single=False, now=0.0)
    several.note_packet(0.0)
    several.note_packet(0.0)
    assert not several.steady
