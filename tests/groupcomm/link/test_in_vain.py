"""A packet that never arrives over a link is noticed; one that is late, or lost by chance, not."""

from math import inf

import pytest

from groupcomm.config.core import Timing
from groupcomm.link.in_vain import ATTEMPTS, FOLLOWED, MOST_REMEMBERED, PacketsInVain
from groupcomm.link.queue import Queued
from groupcomm.wire.link import LinkFragment
from groupcomm.wire.packet import HEAD_BYTES, PacketKind
from tests.groupcomm.link.pair import Pair, Wire, packet

LIMIT_S = 3 * Timing().token_timeout_s
SHORT_BYTES = 300
LONG = bytes(600)


def queued(number: int, fragment: LinkFragment | None = None) -> Queued:
    return Queued(0, number, packet(), fragment)


def give_up(packets: PacketsInVain, attempts: int, of: Queued) -> None:
    for attempt in range(attempts):
        packets.note_given_up(attempt, of, 1.0 + attempt)


# ---- the rule ----


def test_a_packet_whose_attempts_are_all_given_up_never_arrives() -> None:
    packets = PacketsInVain()
    give_up(packets, ATTEMPTS - 1, queued(1))
    assert packets.since == inf
    packets.note_given_up(99, queued(1), 99.0)
    assert packets.since == 1.0, "the time of its first attempt"
    packets.note_arrived(queued(1))
    assert packets.since == inf


def test_packets_outside_the_streams_do_not_count() -> None:
    packets = PacketsInVain()
    give_up(packets, 10 * ATTEMPTS, queued(0))
    assert packets.since == inf


def test_fragments_count_each_for_itself() -> None:
    packets = PacketsInVain()
    give_up(packets, ATTEMPTS, queued(1, LinkFragment(7, 0, 2, b"")))
    packets.note_arrived(queued(1, LinkFragment(7, 1, 2, b"")))
    assert packets.since == 1.0
    packets.note_arrived(queued(1, LinkFragment(7, 0, 2, b"")))
    assert packets.since == inf


def test_an_attempt_that_arrives_late_counts() -> None:
    packets = PacketsInVain()
    give_up(packets, ATTEMPTS, queued(1))
    packets.note_acknowledged([(0, FOLLOWED - 2), (ATTEMPTS, ATTEMPTS + 1)])
    assert packets.since == 1.0, "the first attempts are not remembered"
    packets.note_acknowledged([(0, 0), (FOLLOWED, FOLLOWED)])
    assert packets.since == inf


def test_few_attempts_are_remembered() -> None:
    packets = PacketsInVain()
    give_up(packets, MOST_REMEMBERED + FOLLOWED, queued(1))
    packets.note_acknowledged([(0, FOLLOWED - 1)])
    assert packets.since == 1.0


# ---- on a link ----


def in_vain(pair: Pair, until: float) -> bool:
    """Return whether the first end has found a packet unreached, at any time until then."""
    while pair.now < until:
        pair.run(pair.now + 0.05)
        if pair.ends[0].in_vain_since <= pair.now - LIMIT_S:
            return True
    return False


@pytest.mark.parametrize("size", [len(LONG), 1500], ids=["whole", "in fragments"])
@pytest.mark.parametrize("delay_s", [0.002, 0.02])
def test_a_link_that_loses_long_packets_is_noticed_without_other_traffic(
    size: int, delay_s: float
) -> None:
    wire = Wire(delay_s, loses=lambda raw: len(raw) > SHORT_BYTES)
    pair = Pair(wire, guess_s=2 * delay_s, known=False)
    pair.ends[0].send(0, 1, packet(bytes(size)))
    assert in_vain(pair, 2 * LIMIT_S)
    assert len(wire.sent) < 5_000


def test_a_slow_one_takes_some_round_trips() -> None:
    wire = Wire(0.5, loses=lambda raw: len(raw) > SHORT_BYTES)
    pair = Pair(wire, guess_s=1.0)
    pair.ends[0].send(0, 1, packet(LONG))
    assert not in_vain(pair, ATTEMPTS * 1.0)
    assert in_vain(pair, 2 * ATTEMPTS * 1.0)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("delay_s", [0.001, 0.5])
def test_a_link_that_loses_much_is_left_in_peace(delay_s: float, seed: int) -> None:
    wire = Wire(delay_s, loss=0.3, seed=seed)
    pair = Pair(wire, Wire(delay_s, loss=0.3, seed=seed + 100), guess_s=2 * delay_s)
    rate, last = 200, 2000
    sent = 0

    def feed(now: float) -> float:
        nonlocal sent
        while sent < min(last, now * rate):
            sent += 1
            pair.ends[0].send(0, sent, packet(sent.to_bytes(4, "big") + LONG))
        return now + 1 / rate if sent < last else inf

    pair.feed = feed
    assert not in_vain(pair, 25.0)
    assert {int.from_bytes(raw[HEAD_BYTES : HEAD_BYTES + 4], "big") for _, raw in pair.got} == set(
        range(1, last + 1)
    )


def test_what_is_given_up_is_sent_no_more_and_may_be_sent_again() -> None:
    wire = Wire(0.01, loses=lambda raw: len(raw) > SHORT_BYTES)
    pair = Pair(wire, guess_s=0.02)
    one = pair.ends[0]
    one.send(0, 1, packet(LONG))
    assert in_vain(pair, 5.0)
    one.give_up()
    before = len(wire.sent)
    pair.run(pair.now + 5.0)
    assert not any(raw[0] == PacketKind.LINK for raw in wire.sent[before + 2 :])
    assert one.in_vain_since == inf
    wire.loses = lambda raw: False
    one.send(0, 1, packet(LONG))
    pair.run(pair.now + 1.0)
    assert [raw for _, raw in pair.got] == [packet(LONG)]
