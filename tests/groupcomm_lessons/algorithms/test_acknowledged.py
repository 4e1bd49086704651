"""Lamport's acknowledged stamps: all orders over channels that keep theirs, none over others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm_lessons.algorithms.acknowledged import AcknowledgedStamps
from groupcomm_lessons.algorithms.network import Network
from groupcomm_lessons.algorithms.process import Order
from tests.groupcomm_lessons.algorithms.counterexample import example_of
from tests.groupcomm_lessons.algorithms.schedules import assert_keeps, play, schedules


class OverAnyChannel(AcknowledgedStamps):
    """Told that packets come as they were sent, where they do not."""

    needs_fifo = False


@given(schedules, st.integers(1, 4), st.booleans())
def test_it_keeps_all_orders(
    steps: list[tuple[int, int, int]], processes: int, multicasts: bool
) -> None:
    network = play(AcknowledgedStamps, steps, processes=processes, multicasts=multicasts)
    assert_keeps(network, AcknowledgedStamps.claims)
    assert not any(process.waiting for process in network.processes.values())


@pytest.mark.parametrize("order", list(Order))
def test_channels_must_keep_their_order(order: Order) -> None:
    steps = example_of(
        schedules, lambda found: bool(play(OverAnyChannel, found).history.broken(order))
    )
    assert play(OverAnyChannel, steps).history.broken(order)


def test_a_message_waits_until_everybody_is_beyond_it() -> None:
    network = Network(AcknowledgedStamps(name, "pqr") for name in "pqr")
    p1 = network.send("p", b"")
    assert network.processes["p"].waiting == (p1,)
    for source, destination in (("p", "q"), ("q", "p"), ("p", "r")):
        assert network.history.delivered.get("p") is None
        network.bring(
            next(e for e in network.ready if (e.source, e.destination) == (source, destination))
        )
    network.bring(next(e for e in network.ready if e.source == "r" and e.destination == "p"))
    assert network.history.delivered["p"] == [p1]


def test_equal_clocks_are_distinguished_by_the_sender() -> None:
    network = Network(AcknowledgedStamps(name, "pq") for name in "pq")
    q1, p1 = network.send("q", b""), network.send("p", b"")
    network.bring_all()
    assert network.history.delivered == {"p": [p1, q1], "q": [p1, q1]}


@pytest.mark.parametrize("processes", [2, 3, 4])
def test_a_message_costs_about_the_square_of_the_members(processes: int) -> None:
    network = play(AcknowledgedStamps, [(0, 0, 0)], processes=processes)
    assert network.packets == (processes + 1) * (processes - 1)
