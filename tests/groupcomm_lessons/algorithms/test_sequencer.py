"""The sequencer: a total order, and the conditions under which it is causal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm_lessons.algorithms.network import Network
from groupcomm_lessons.algorithms.process import Order
from groupcomm_lessons.algorithms.sequencer import SenderSequencer, Sequencer
from tests.groupcomm_lessons.algorithms.counterexample import example_of
from tests.groupcomm_lessons.algorithms.schedules import assert_keeps, play, schedules


class OverFifo(Sequencer):
    """The same over channels that keep their order."""

    needs_fifo = True
    claims = frozenset(Order)


@pytest.mark.parametrize("make", [Sequencer, SenderSequencer, OverFifo])
@given(schedules, st.integers(1, 4), st.booleans())
def test_it_keeps_what_it_claims(
    make: type[Sequencer], steps: list[tuple[int, int, int]], processes: int, multicasts: bool
) -> None:
    network = play(make, steps, processes=processes, multicasts=multicasts)
    assert_keeps(network, make.claims)
    assert not any(process.waiting for process in network.processes.values())


@pytest.mark.parametrize("order", sorted(set(Order) - Sequencer.claims, key=str))
def test_a_total_order_need_not_be_a_causal_one(order: Order) -> None:
    steps = example_of(schedules, lambda found: bool(play(Sequencer, found).history.broken(order)))
    history = play(Sequencer, steps).history
    assert history.broken(order)
    assert not history.broken(Order.TOTAL)


def test_two_messages_change_places_before_they_are_numbered() -> None:
    """The run that docs/algorithms.md shows: total, and neither FIFO nor causal."""
    network = Network(Sequencer(name, "pqr") for name in "pqr")
    q1, q2 = network.send("q", b"cause"), network.send("q", b"effect")
    network.bring(network.under_way[1])
    network.bring_all()
    assert network.history.delivered == {name: [q2, q1] for name in "pqr"}
    assert network.history.held() == {Order.TOTAL}


def test_an_early_message_waits_at_the_sequencer() -> None:
    network = Network(SenderSequencer(name, "pqr") for name in "pqr")
    q1, q2 = network.send("q", b"cause"), network.send("q", b"effect")
    network.bring(network.under_way[1])
    assert network.processes["p"].waiting == (q2,)
    assert network.history.delivered == {}
    network.bring_all()
    assert network.history.delivered == {name: [q1, q2] for name in "pqr"}


def test_a_message_costs_a_packet_to_the_sequencer_and_one_to_each_other() -> None:
    for sender, packets in (("p", 2), ("q", 3)):
        network = Network(Sequencer(name, "pqr") for name in "pqr")
        network.send(sender, b"")
        network.bring_all()
        assert network.packets == packets
