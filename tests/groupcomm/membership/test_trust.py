"""Trust: who breaks the protocol is left out for a while; contradictions end a view."""

import pytest

from groupcomm.config.view import Incarnation
from groupcomm.errors import BadDatagram, ProtocolViolation, RemoteProtocolError
from groupcomm.membership.peer import PeerDaemon
from groupcomm.membership.states import GatherReason
from groupcomm.membership.trust import (
    FEW,
    FIRST_S,
    LONGEST_S,
    MEMORY_S,
    TOLD_EVERY_S,
    WITHIN_S,
    Trust,
)
from tests.groupcomm.membership.stage import NUMBERS, in_view

WRONG = ProtocolViolation("token", "hop 7")


def test_each_view_ends_only_after_as_many_contradictions_as_the_one_before() -> None:
    trust = Trust()
    ended = [trust.doubt("two packets with one number", 0.1 * n) for n in range(3 * FEW)]
    assert ended == [*[False] * (FEW - 1), True] * 3
    assert len(trust.news) == 3


def test_contradictions_that_are_rare_end_no_view() -> None:
    trust = Trust()
    apart_s = 1.01 * WITHIN_S / (FEW - 1)
    assert not any(trust.doubt("two packets with one number", n * apart_s) for n in range(3 * FEW))


# ---- breaches ----


def peer_b() -> PeerDaemon:
    return PeerDaemon(NUMBERS["b"], "b", Incarnation(1, 5))


def breaks(trust: Trust, peer: PeerDaemon, now: float, times: int = FEW) -> list[bool]:
    """Have a daemon break the protocol some times; return whether it was left out each time."""
    return [trust.blame(peer, WRONG, now) for _ in range(times)]


def test_a_daemon_that_breaks_the_protocol_a_few_times_is_left_out_for_a_while() -> None:
    trust, peer = Trust(), peer_b()
    assert breaks(trust, peer, 10.0) == [*[False] * (FEW - 1), True]
    assert trust.broken[peer.number].counts == {"token": FEW}
    start = peer.incarnation
    heard = [trust.is_heard(peer.number, start, 10.0 + s) for s in (0.0, 0.99 * FIRST_S, FIRST_S)]
    assert heard == [False, False, True]
    assert trust.is_heard(peer.number, Incarnation(2, 6), 10.0), "a restart repairs most faults"
    assert trust.is_heard(NUMBERS["c"], start, 10.0)


def test_breaches_that_are_rare_leave_nobody_out() -> None:
    trust, peer = Trust(), peer_b()
    apart_s = 1.01 * WITHIN_S / (FEW - 1)
    assert not any(trust.blame(peer, BadDatagram("tag"), n * apart_s) for n in range(3 * FEW))
    assert trust.is_heard(peer.number, peer.incarnation, 3 * FEW * apart_s)


@pytest.mark.parametrize(("within_s", "left_out"), [(WITHIN_S, True), (1.01 * WITHIN_S, False)])
def test_the_first_and_the_last_of_a_few_breaches_are_no_further_apart_than_that(
    within_s: float, left_out: bool
) -> None:
    trust, peer = Trust(), peer_b()
    assert not any(trust.blame(peer, WRONG, 0.0) for _ in range(FEW - 1))
    assert trust.blame(peer, WRONG, within_s) is left_out


def test_what_a_daemon_has_passed_on_may_be_the_fault_of_another() -> None:
    trust, peer = Trust(), peer_b()
    error = RemoteProtocolError("passed on: hop 7")
    assert not any(trust.blame(peer, error, 0.1) for _ in range(3 * FEW))
    assert (trust.broken, list(trust.news)) == ({}, [])
    assert trust.on_breach(peer, error, 0.1) is None


def test_each_time_is_twice_as_long_up_to_a_bound_until_its_past_is_forgotten() -> None:
    trust, peer, now, lasted = Trust(), peer_b(), 0.0, list[float]()
    for _ in range(9):
        breaks(trust, peer, now)
        lasted.append(trust.broken[peer.number].lasts_s)
        now = trust.broken[peer.number].until
    assert lasted == [min(FIRST_S * 2**n, LONGEST_S) for n in range(9)]
    breaks(trust, peer, now + MEMORY_S)
    assert trust.broken[peer.number].lasts_s == FIRST_S


def test_what_comes_of_it_while_it_is_left_out_changes_nothing_and_it_starts_afresh() -> None:
    trust, peer = Trust(), peer_b()
    breaks(trust, peer, 0.0)
    until = trust.broken[peer.number].until
    assert breaks(trust, peer, 0.5 * FIRST_S) == [False] * FEW
    assert trust.broken[peer.number].until == until
    assert breaks(trust, peer, FIRST_S) == [*[False] * (FEW - 1), True]


def test_the_log_tells_of_breaches_now_and_then_and_of_each_time_that_it_is_left_out() -> None:
    trust, peer = Trust(), peer_b()
    apart_s = WITHIN_S  # never a few within that time
    for n in range(7):
        trust.blame(peer, WRONG, n * apart_s)
    assert len(trust.news) == 1 + 6 * WITHIN_S // TOLD_EVERY_S
    assert all("b has broken the protocol (token: hop 7" in line for line in trust.news)
    assert "so far: 1)" in trust.news[0]
    trust.news.clear()
    breaks(trust, peer, 6 * apart_s)
    assert len(trust.news) == 1
    assert "b is left out for 1 s, as it breaks the protocol" in trust.news[0]


def test_a_daemon_whose_packets_do_not_arrive_is_left_out_and_nothing_is_counted() -> None:
    trust, peer = Trust(), peer_b()
    peer.heard_at = 3.0
    trust.leave_out_unreceived(peer, 4.0)
    assert trust.broken == {}
    assert peer.heard_at < 0
    assert not trust.is_heard(peer.number, peer.incarnation, 4.5)
    trust.leave_out_unreached(peer, 5.0)
    assert not trust.is_heard(peer.number, peer.incarnation, 5.0 + 1.5 * FIRST_S), "twice as long"
    assert trust.is_heard(peer.number, peer.incarnation, 5.0 + 2 * FIRST_S)
    texts = ("packets from it do not arrive here", "packets from here do not reach it")
    assert len(trust.news) == 2
    assert all(text in line for text, line in zip(texts, trust.news, strict=True))


def test_no_datagram_of_a_daemon_that_is_left_out_counts_until_its_time_is_over() -> None:
    stage = in_view("abc")
    machine, b = stage.daemons["a"].machine, stage.daemons["b"]
    start = b.start.incarnation
    assert machine.on_datagram(NUMBERS["b"], start, stage.now)
    for _ in range(FEW):
        machine.on_broken(NUMBERS["b"], WRONG, stage.now)
    assert machine.reasons[GatherReason.MEMBER_BROKEN] == 1
    assert not machine.on_datagram(NUMBERS["b"], start, stage.now)
    stage.run(0.9 * FIRST_S)
    assert not machine.on_datagram(NUMBERS["b"], start, stage.now)
    assert machine.view is not None
    assert machine.view.rings == ((0, 2), (1,)), "c hears both"
    stage.run(0.2 * FIRST_S)
    assert machine.on_datagram(NUMBERS["b"], start, stage.now)
