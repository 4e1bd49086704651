"""A link repairs its losses, fills what there is, and shares it; rates by virtual time."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.link.queue import NoticeQueue, Queued
from groupcomm.wire.horizon import HORIZON_HEAD_BYTES
from groupcomm.wire.packet import HEAD_BYTES, PacketKind
from tests.examples import examples
from tests.groupcomm.link.pair import Pair, Wire, notice, packet

SECONDS = 6.0
WARM_S = 2.0
BODY = bytes(1300)


def numbered(origin: int, number: int) -> bytes:
    return packet(bytes([origin]) + number.to_bytes(8, "big") + BODY)


def keep_full(pair: Pair, origins: int) -> None:
    """Each origin always has something waiting."""
    counts = [0] * origins

    def feed(now: float) -> float:
        for origin in range(origins):
            sent = sum(1 for _, raw in pair.got if raw[HEAD_BYTES] == origin)
            while counts[origin] - sent < 3000:
                counts[origin] += 1
                pair.ends[0].send(origin, counts[origin], numbered(origin, counts[origin]))
        return now + 0.05

    pair.feed = feed


def share(pair: Pair, mbit: float) -> float:
    """Return the share of the line's capacity that arrived after the first seconds."""
    arrived = sum(len(raw) for at, raw in pair.got if at > WARM_S)
    return arrived * 8 / (SECONDS - WARM_S) / (mbit * 1e6)


@pytest.mark.parametrize(
    ("delay_s", "loss", "least"),
    [
        pytest.param(0.02, 0.0, 0.9, marks=pytest.mark.long),
        pytest.param(0.04, 0.02, 0.5, marks=pytest.mark.long),
        (0.08, 0.02, 0.5),
    ],
    ids=["no loss", "80 ms there and back, 2 % lost", "160 ms there and back, 2 % lost"],
)
def test_a_link_is_filled(delay_s: float, loss: float, least: float) -> None:
    mbit = 20.0
    wire = Wire(delay_s, mbit * 1e6 / 8, queue_bytes=200_000, loss=loss)
    pair = Pair(wire, Wire(delay_s, loss=loss, seed=2), guess_s=0.1)
    keep_full(pair, 1)
    pair.run(SECONDS)
    assert share(pair, mbit) >= least


def test_streams_that_share_a_link_get_the_same() -> None:
    pair = Pair(Wire(0.02, 20e6 / 8, queue_bytes=200_000))
    keep_full(pair, 2)
    pair.run(SECONDS)
    counts = Counter(raw[HEAD_BYTES] for at, raw in pair.got if at > WARM_S)
    assert abs(counts[0] - counts[1]) <= 0.1 * counts[0]
    assert share(pair, 20.0) >= 0.9


def test_a_queue_on_the_way_is_not_kept_full() -> None:
    """The round trip under load stays near that of an idle link, whatever room a router has."""
    pair = Pair(Wire(0.02, 20e6 / 8))
    keep_full(pair, 1)
    pair.run(SECONDS)
    assert pair.ends[0].trip.smoothed_s < 2 * pair.ends[0].trip.least_s


@examples(30)
@given(
    seed=st.integers(0, 2**32),
    loss=st.floats(0.0, 0.5),
    jitter_s=st.floats(0.0, 0.05),
    count=st.integers(1, 300),
)
def test_everything_arrives_once_whatever_is_lost_or_overtaken(
    seed: int, loss: float, jitter_s: float, count: int
) -> None:
    rng = Random(seed)
    pair = Pair(Wire(0.02, loss=loss, seed=seed), Wire(0.02, loss=loss, seed=seed + 1))
    for wire in pair.wires:
        send = wire.send
        wire.send = lambda raw, now, send=send: (  # type: ignore[method-assign, misc]
            at + rng.random() * jitter_s if (at := send(raw, now)) is not None else None
        )
    for number in range(1, count + 1):
        pair.ends[0].send(0, number, numbered(0, number))
    pair.run(120.0)
    got = Counter(pair.texts())
    assert set(got) == {numbered(0, n)[HEAD_BYTES:] for n in range(1, count + 1)}
    assert not pair.ends[0].queue
    assert pair.ends[0].in_flight.bytes == 0
    assert pair.ends[0].deadline == float("inf"), "a link that has nothing to do is silent"


def test_a_lone_packet_that_is_lost_comes_soon_after_the_next_one_shows_it() -> None:
    """At 200 a second: a round trip after the next packet, and half of one, are enough."""
    delay_s, count = 0.02, 1000
    pair = Pair(Wire(delay_s, loss=0.05), Wire(delay_s))
    sent_at: dict[bytes, float] = {}

    def feed(now: float) -> float:
        number = len(sent_at) + 1
        if number > count:
            return float("inf")
        raw = numbered(0, number)
        sent_at[raw] = now
        pair.ends[0].send(0, number, raw)
        return now + 0.005

    pair.feed = feed
    pair.run(10.0)
    delays = sorted(at - sent_at[raw] for at, raw in pair.got)
    assert len(delays) == count
    assert delays[int(0.99 * count)] <= delay_s + 1.5 * 2 * delay_s


def test_when_nothing_is_heard_the_oldest_are_tried_again_but_rarely() -> None:
    pair = Pair(Wire(0.02, loses=lambda raw: True))
    for number in range(1, 5):
        pair.ends[0].send(0, number, numbered(0, number))
    pair.run(0.01)
    assert len(pair.wires[0].sent) == 4
    pair.run(20.0)
    assert 20 <= len(pair.wires[0].sent) <= 4 + 2 * 40


def test_a_link_that_was_dead_for_long_is_of_use_soon_after() -> None:
    """Seed 36 with three rings: a probe timeout that doubled six times outlasted the run."""
    pair = Pair(Wire(0.02, loses=lambda raw: True))
    for number in range(1, 5):
        pair.ends[0].send(0, number, numbered(0, number))
    pair.run(100.0)
    pair.wires[0].loses = lambda raw: False
    pair.run(100.0 + 5 * pair.ends[0].trip.probe_timeout_s)
    assert len(pair.got) == 4


def test_what_is_not_sent_again_costs_no_probe() -> None:
    """Seed 339: it was the oldest that was under way on a link that had been dead for long."""
    pair = Pair(Wire(0.02, loses=lambda raw: True))
    for _ in range(20):
        pair.ends[0].send(0, 0, packet(b"u", PacketKind.UNRELIABLE))
    pair.ends[0].send(0, 1, packet(b"d"))
    pair.run(0.05)
    pair.wires[0].loses = lambda raw: False
    pair.run(2 * pair.ends[0].trip.probe_timeout_s)
    assert pair.texts() == [b"d"]


def test_what_is_outside_the_streams_is_not_repeated() -> None:
    pair = Pair(Wire(0.02, loses=lambda raw: raw[HEAD_BYTES + 10] == PacketKind.UNRELIABLE))
    pair.ends[0].send(0, 0, packet(b"u", PacketKind.UNRELIABLE))
    pair.ends[0].send(0, 1, packet(b"d"))
    pair.run(10.0)
    assert pair.texts() == [b"d"]
    assert sum(raw[HEAD_BYTES + 10] == PacketKind.UNRELIABLE for raw in pair.wires[0].sent) == 1


def test_what_is_outside_the_streams_is_dropped_when_the_link_is_too_slow() -> None:
    pair = Pair(Wire(0.02, 10_000))
    for _ in range(1000):
        pair.ends[0].send(0, 0, packet(BODY, PacketKind.UNRELIABLE))
    assert pair.ends[0].queue.dropped > 0
    assert pair.ends[0].queue.bytes <= 256 * 1024


def test_notices_go_first_and_a_newer_one_takes_the_place_of_an_older() -> None:
    pair = Pair(Wire(0.02, 20e6 / 8))
    for number in range(1, 500):
        pair.ends[0].send(0, number, numbered(0, number))
    for ring, text in ((0, b"old"), (1, b"other"), (0, b"new")):
        pair.ends[0].send_notice(notice(ring), text, 0.0)
    pair.run(0.001)
    pair.ends[0].send_notice(notice(0), b"newest", pair.now)
    pair.run(1.0)
    notices = [raw[HORIZON_HEAD_BYTES:] for _, raw in pair.notices]
    assert notices == [b"newother", b"newest"], "in one packet, by rising ring"
    assert pair.notices[0][0] < pair.got[0][0]
    assert pair.notices[1][0] < pair.got[-1][0], "the window does not hold a notice back"


def test_notices_that_fit_no_packet_together_leave_in_several() -> None:
    waiting = NoticeQueue(bytes(16), HORIZON_HEAD_BYTES + 10)
    for ring, size in ((3, 10), (0, 4), (1, 6), (2, 1)):
        waiting.add(notice(ring), bytes([ring]) * size, 1.0)
    assert waiting.pop_due(0.9) == []
    packets = waiting.pop_due(1.0)
    assert [Counter(raw[HORIZON_HEAD_BYTES:]) for raw in packets] == [{0: 4, 1: 6}, {2: 1}, {3: 10}]
    assert waiting.pop_due(2.0) == []


def test_a_packet_is_not_queued_twice_while_it_is_on_its_way() -> None:
    pair = Pair(Wire(0.02))
    for _ in range(3):
        pair.ends[0].send(0, 1, numbered(0, 1))
    pair.run(0.01)
    pair.ends[0].send(0, 1, numbered(0, 1))
    pair.run(1.0)
    assert len(pair.wires[0].sent) == 1
    pair.ends[0].send(0, 1, numbered(0, 1))
    pair.run(2.0)
    assert len(pair.got) == 2, "whoever asks for it after it has arrived, gets it"


def test_what_the_other_end_asks_for_is_lost_if_it_was_sent_a_round_trip_ago() -> None:
    """Not before: it may be under way. And a probe does not come for long on a lossy link."""
    pair = Pair(Wire(0.02), guess_s=0.04)
    pair.ends[0].send(1, 1, numbered(1, 1))
    pair.run(0.2)
    link = pair.ends[0]
    link.send(1, 2, numbered(1, 2))
    assert len(link.step(pair.now)) == 1
    wanted = [Queued(1, 2, numbered(1, 2))]
    link.send_requested(wanted, pair.now + 0.01)
    assert link.step(pair.now + 0.01) == []
    link.send_requested(wanted, pair.now + 0.06)
    assert len(link.step(pair.now + 0.06)) == 1


def test_an_end_that_is_busy_most_of_the_time_does_not_lower_the_rate() -> None:
    """It acknowledges and sends in rare turns; a rate measured by that would fall and fall."""
    mbit = 20.0
    pair = Pair(Wire(0.005, mbit * 1e6 / 8, queue_bytes=200_000), Wire(0.005))
    keep_full(pair, 1)
    pair.run(1.0)
    pair.turn_s = 0.05
    pair.run(SECONDS)
    assert share(pair, mbit) >= 0.5
