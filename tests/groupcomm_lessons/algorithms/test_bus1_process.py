"""bus1 over a network: its claims, its costs, and the orders that it does not claim."""

import pytest
from hypothesis import given

from groupcomm_lessons.algorithms.bus1.process import Bus1
from groupcomm_lessons.algorithms.network import Network
from tests.groupcomm_lessons.algorithms.schedules import assert_keeps, play, schedules

Steps = list[tuple[int, int, int]]


@pytest.mark.parametrize("multicasts", [False, True])
@given(steps=schedules)
def test_all_orders_hold_over_any_network(steps: Steps, *, multicasts: bool) -> None:
    assert_keeps(play(Bus1, steps, multicasts=multicasts), Bus1.claims)


def test_five_packets_a_destination() -> None:
    network = Network(Bus1(name, "pqrs") for name in "pqrs")
    network.send("p", b"m", "qr")
    network.bring_all()
    assert network.packets == 5 * 2
    assert [len(network.history.delivered[name]) for name in "qr"] == [1, 1]
    assert not any(each.waiting for each in network.processes.values())


def test_a_block_holds_back_what_is_complete() -> None:
    """Not claimed: that one slow sender delays only its own messages."""
    network = Network(Bus1(name, "pqr") for name in "pqr")
    network.send("p", b"slow", "qr")
    for packet in network.ready:
        network.bring(packet)  # the blocks are put; the answers stay in flight
    slow = set(network.under_way)
    network.send("r", b"quick", "q")
    while others := [packet for packet in network.ready if packet not in slow]:
        network.bring(others[0])
    assert network.history.delivered == {}
    network.bring_all()
    assert len(network.history.delivered["q"]) == 2


def test_a_sending_that_has_not_ended_is_overtaken_by_a_telephone() -> None:
    """Not claimed: here `send` returns before the blocks are put, and bus1's own at its end."""
    network = Network(Bus1(name, "pqr") for name in "pqr")
    cause = network.send("p", b"cause", "q")
    slow = network.under_way[0]
    effect = network.send("r", b"effect", "q")  # q has called r
    while others := [packet for packet in network.ready if packet != slow]:
        network.bring(others[0])
    network.bring_all()
    assert network.history.delivered["q"] == [effect, cause]
