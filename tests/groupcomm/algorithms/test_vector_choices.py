"""What becomes of a concurrent message, by each choice."""

import pytest
from hypothesis import given

from groupcomm.algorithms.concurrency import ConcurrentMessage
from groupcomm.algorithms.network import Network
from groupcomm.algorithms.process import Order
from groupcomm.algorithms.vector import Vector
from groupcomm.algorithms.vector_choices import VectorAdvancing, VectorOrError, VectorStaying
from groupcomm.algorithms.vector_paths import VectorPaths
from tests.groupcomm.algorithms.counterexample import Steps, counterexample
from tests.groupcomm.algorithms.schedules import assert_keeps, play, schedules
from tests.groupcomm.algorithms.turns import (
    beside_a_buffered_message,
    concurrent_pairs,
    play_in_turn,
)


@pytest.mark.parametrize("make", [VectorOrError, VectorStaying, VectorAdvancing, VectorPaths])
@given(steps=schedules)
def test_in_turn_all_keep_all_orders(make: type[Vector], steps: Steps) -> None:
    network = play_in_turn(make, steps)
    assert_keeps(network, frozenset(Order))
    for process in network.processes.values():
        assert not isinstance(process, VectorPaths) or len(process.paths) == 1


@given(schedules)
def test_an_error_is_raised_where_messages_are_concurrent_and_only_there(steps: Steps) -> None:
    concurrent = concurrent_pairs(play(Vector, steps).history)
    if concurrent:
        with pytest.raises(ConcurrentMessage):
            play(VectorOrError, steps)
    else:
        assert_keeps(play(VectorOrError, steps), VectorOrError.claims)


@pytest.mark.parametrize("make", [VectorAdvancing, VectorStaying])
@given(steps=schedules)
def test_delivered_at_once_nothing_is_lost(make: type[Vector], steps: Steps) -> None:
    assert_keeps(play(make, steps, processes=4), make.claims)


@pytest.mark.parametrize("make", [VectorAdvancing, VectorStaying])
def test_delivered_at_once_a_message_comes_before_its_cause(make: type[Vector]) -> None:
    network = counterexample(lambda steps: play(make, steps), Order.CAUSAL)
    assert concurrent_pairs(network.history)


@pytest.mark.parametrize(
    ("make", "delivered"),
    [(VectorAdvancing, ["p1", "q1", "r1"]), (VectorStaying, ["p1", "r1", "q1"])],
)
def test_what_does_not_advance_does_not_name_what_was_beside(
    make: type[Vector], delivered: list[str]
) -> None:
    network = Network(make(name, "pqr") for name in "pqr")
    network.send("p", b"")
    network.send("q", b"")
    _, p_to_r, q_to_p, q_to_r = network.under_way
    network.bring(p_to_r)
    network.bring(q_to_r)  # beside p1
    network.send("r", b"")
    network.bring(next(packet for packet in network.under_way if packet[:2] == ("r", "p")))
    network.bring(q_to_p)
    assert [str(message) for message in network.history.delivered["p"]] == delivered


@given(schedules)
def test_paths_deliver_as_the_plain_rule_does(steps: Steps) -> None:
    network = play(VectorPaths, steps, processes=4)
    assert_keeps(network, VectorPaths.claims)
    plain = play(Vector, steps, processes=4).history.delivered
    # Of what becomes next at once, one path's may come before another's.
    assert {name: set(found) for name, found in network.history.delivered.items()} == {
        name: set(found) for name, found in plain.items()
    }


@given(schedules)
def test_the_ends_of_paths_are_concurrent(steps: Steps) -> None:
    network = play(VectorPaths, steps, processes=4)
    for process in network.processes.values():
        assert isinstance(process, VectorPaths)
        clocks = [path.clock for path in process.paths]
        for at, clock in enumerate(clocks):
            assert all(clock.concurrent_with(other) for other in clocks[:at])


def test_paths_part_and_join() -> None:
    network = Network(VectorPaths(name, "pqr") for name in "pqr")
    r = network.processes["r"]
    assert isinstance(r, VectorPaths)
    network.send("p", b"")
    network.send("q", b"")
    network.bring_all()
    assert len(r.paths) == 2
    network.send("p", b"")  # p had both
    network.bring_all()
    assert len(r.paths) == 1


def test_paths_do_not_keep_a_total_order() -> None:
    network = counterexample(lambda steps: play(VectorPaths, steps), Order.TOTAL)
    assert concurrent_pairs(network.history)


def test_what_is_concurrent_with_a_buffered_message_is_refused() -> None:
    network, r_to_s = beside_a_buffered_message(VectorOrError)
    with pytest.raises(ConcurrentMessage, match="s has received r1"):
        network.bring(r_to_s)
