"""Causal order for any destinations, by what is known to have been sent to whom."""

from hypothesis import given

from groupcomm.algorithms.network import Network
from groupcomm.algorithms.process import Order
from groupcomm.algorithms.schiper_eggli_sandoz import SchiperEggliSandoz, SentStamp
from groupcomm.clocks.vector import VectorClock
from tests.groupcomm.algorithms.counterexample import Steps, counterexample
from tests.groupcomm.algorithms.schedules import assert_keeps, play, schedules


@given(schedules)
def test_it_keeps_fifo_and_causal_order_for_any_destinations(steps: Steps) -> None:
    network = play(SchiperEggliSandoz, steps, processes=4, multicasts=True)
    assert_keeps(network, SchiperEggliSandoz.claims)
    assert not any(process.waiting for process in network.processes.values())


def test_it_does_not_keep_a_total_order() -> None:
    def run(steps: Steps) -> Network:
        return play(SchiperEggliSandoz, steps, multicasts=True)

    first, second = counterexample(run, Order.TOTAL).history.broken(Order.TOTAL)[0][2:4]
    assert first.sender != second.sender


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
