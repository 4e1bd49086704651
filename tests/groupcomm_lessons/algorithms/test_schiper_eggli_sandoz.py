"""Causal order for any destinations, by the known sendings to each process."""

import pytest
from hypothesis import given

from groupcomm.clocks.vector import VectorClock
from groupcomm_lessons.algorithms.network import Network
from groupcomm_lessons.algorithms.process import Order
from groupcomm_lessons.algorithms.schiper_eggli_sandoz import (
    SchiperEggliSandoz,
    SchiperEggliSandozSends,
    SentStamp,
)
from tests.groupcomm_lessons.algorithms.counterexample import Steps, counterexample
from tests.groupcomm_lessons.algorithms.schedules import assert_keeps, play, schedules


@pytest.mark.parametrize("make", [SchiperEggliSandoz, SchiperEggliSandozSends])
@given(steps=schedules)
def test_it_keeps_fifo_and_causal_order_for_any_destinations(
    steps: Steps, make: type[SchiperEggliSandoz]
) -> None:
    network = play(make, steps, processes=4, multicasts=True)
    assert_keeps(network, SchiperEggliSandoz.claims)
    assert not any(process.waiting for process in network.processes.values())


def test_it_does_not_keep_a_total_order() -> None:
    def run(steps: Steps) -> Network:
        return play(SchiperEggliSandoz, steps, multicasts=True)

    first, second = counterexample(run, Order.TOTAL).history.broken(Order.TOTAL)[0][2:4]
    assert first.sender != second.sender


def carried(network: Network) -> list[dict[str, int]]:
    """The vectors of the packets that are under way."""
    return [dict(packet.stamp.clock.items()) for packet in network.under_way]


def test_a_process_counts_each_send_each_receipt_and_each_delivery() -> None:
    network = Network(SchiperEggliSandoz(name, "pqr") for name in "pqr")
    network.send("p", b"", "r")
    network.send("p", b"", "q")
    assert carried(network) == [{"p": 1, "q": 0, "r": 0}, {"p": 2, "q": 0, "r": 0}]
    network.bring(network.under_way[1])
    network.send("q", b"", "r")  # the third event of q, after a receipt and a delivery
    assert carried(network)[-1] == {"p": 2, "q": 3, "r": 0}
    network.bring(network.under_way[-1])  # the message is received and held back: one event
    network.bring_all()  # a receipt and two deliveries: three more
    network.send("r", b"", "p")
    assert carried(network) == [{"p": 2, "q": 3, "r": 5}]


def test_a_message_is_delivered_if_its_buffer_names_no_vector_or_one_that_is_reached() -> None:
    network = Network(SchiperEggliSandoz(name, "pqr") for name in "pqr")
    network.send("p", b"", "r")
    assert network.under_way[0].stamp.sent_to == {}
    network.send("p", b"", "r")
    (noted,) = network.under_way[1].stamp.sent_to.values()
    assert dict(noted.items()) == {"p": 1, "q": 0, "r": 0}
    network.bring(network.under_way[1])
    assert arrivals(network, "r") == []
    network.bring_all()
    assert arrivals(network, "r") == ["p1", "p2"]


@given(schedules)
def test_counting_sends_only_delivers_the_same_with_smaller_counts(steps: Steps) -> None:
    every = play(SchiperEggliSandoz, steps, processes=4, multicasts=True)
    sends = play(SchiperEggliSandozSends, steps, processes=4, multicasts=True)
    assert every.history.events == sends.history.events
    assert every.stamp_bytes == sends.stamp_bytes  # a number has 8 bytes there
    for name in "pqrs":
        for network in (every, sends):
            network.send(name, b"", "pqrs")
    for one, other in zip(carried(every), carried(sends), strict=True):
        assert all(count >= other[name] for name, count in one.items())


def arrivals(network: Network, at: str) -> list[str]:
    return [str(message) for message in network.history.delivered.get(at, [])]


def test_a_chain_of_unicasts_does_not_overtake_what_was_sent_before_it() -> None:
    network = Network(SchiperEggliSandoz(name, "pqr") for name in "pqr")
    network.send("p", b"", "r")
    network.send("p", b"", "q")
    direct, to_q = network.under_way
    network.bring(to_q)
    network.send("q", b"", "r")
    network.bring(network.under_way[-1])
    assert arrivals(network, "r") == []
    network.bring(direct)
    assert arrivals(network, "r") == ["p1", "q1"]


def test_a_reaction_does_not_overtake_the_multicast_it_reacts_to() -> None:
    network = Network(SchiperEggliSandoz(name, "pqr") for name in "pqr")
    network.send("p", b"", "qr")
    to_q, to_r = network.under_way
    network.bring(to_q)
    network.send("q", b"", "r")
    network.bring(network.under_way[-1])
    network.bring(to_r)
    assert arrivals(network, "r") == ["p1", "q1"]


def test_stamps_tell_what_is_concurrent() -> None:
    zero = VectorClock("pq")
    p1, q1 = zero.copy(), zero.copy()
    p1.tick("p")
    q1.tick("q")
    assert SentStamp(p1, {}).concurrent_with(SentStamp(q1, {}))
    assert not SentStamp(p1, {}).concurrent_with(SentStamp(zero, {}))
