"""Numbers for pairs: enough for two, not for three."""

import pytest
from hypothesis import given

from groupcomm_lessons.algorithms.network import Network
from groupcomm_lessons.algorithms.pair_numbers import PairNumbers
from groupcomm_lessons.algorithms.process import Order
from tests.groupcomm_lessons.algorithms.counterexample import Steps, counterexample
from tests.groupcomm_lessons.algorithms.schedules import assert_keeps, play, schedules


@given(schedules)
def test_it_keeps_fifo_order(steps: Steps) -> None:
    network = play(PairNumbers, steps, processes=4, multicasts=True)
    assert_keeps(network, PairNumbers.claims)
    assert not any(process.waiting for process in network.processes.values())


@given(schedules)
def test_among_two_it_keeps_causal_order(steps: Steps) -> None:
    assert_keeps(play(PairNumbers, steps, processes=2), frozenset({Order.FIFO, Order.CAUSAL}))


@pytest.mark.parametrize("order", [Order.CAUSAL, Order.TOTAL])
def test_among_three_it_keeps_neither_causal_nor_total_order(order: Order) -> None:
    history = counterexample(lambda steps: play(PairNumbers, steps), order).history
    assert not history.broken(Order.FIFO)


def test_three_processes_diverge() -> None:
    """p sets a value, q changes what it has got; r gets the change first and ends with the old."""
    network = Network(PairNumbers(name, "pqr") for name in "pqr")
    network.send("p", b"red")
    to_q, to_r = network.under_way
    network.bring(to_q)
    network.send("q", b"green")
    for packet in [each for each in network.under_way if each != to_r]:
        network.bring(packet)
    network.bring(to_r)
    values = {name: messages[-1].data for name, messages in network.history.delivered.items()}
    assert values == {"p": b"green", "q": b"green", "r": b"red"}


def test_what_is_behind_a_hole_waits_in_its_order() -> None:
    network = Network(PairNumbers(name, "pq") for name in "pq")
    for _ in range(3):
        network.send("p", b"", "q")
    first, second, third = network.under_way
    network.bring(third)
    network.bring(second)
    assert [str(message) for message in network.processes["q"].waiting] == ["p2", "p3"]
    network.bring(first)
    assert [str(message) for message in network.history.delivered["q"]] == ["p1", "p2", "p3"]
