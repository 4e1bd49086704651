"""The fate of a concurrent message, by each choice."""

import pytest
from hypothesis import given

from groupcomm_lessons.algorithms.concurrency import ConcurrentMessage
from groupcomm_lessons.algorithms.network import Network
from groupcomm_lessons.algorithms.process import Order
from groupcomm_lessons.algorithms.vector import Vector
from groupcomm_lessons.algorithms.vector_choices import (
    VectorAdvancing,
    VectorNotUpdating,
    VectorOrError,
    VectorUpdating,
)
from groupcomm_lessons.algorithms.vector_paths import VectorPaths, VectorTree
from tests.groupcomm_lessons.algorithms.counterexample import Steps, counterexample
from tests.groupcomm_lessons.algorithms.schedules import assert_keeps, play, schedules
from tests.groupcomm_lessons.algorithms.turns import (
    beside_a_buffered_message,
    concurrent_pairs,
    play_in_turn,
)

CHOICES = [VectorUpdating, VectorNotUpdating, VectorAdvancing]


@pytest.mark.parametrize("make", [VectorOrError, *CHOICES, VectorPaths, VectorTree])
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


@pytest.mark.parametrize("make", [VectorAdvancing, VectorTree])
@given(steps=schedules)
def test_delivered_at_once_nothing_is_lost(make: type[Vector], steps: Steps) -> None:
    assert_keeps(play(make, steps, processes=4), make.claims)


@pytest.mark.parametrize("make", [*CHOICES, VectorTree])
def test_delivered_at_once_a_message_comes_before_its_cause(make: type[Vector]) -> None:
    network = counterexample(lambda steps: play(make, steps), Order.CAUSAL)
    assert concurrent_pairs(network.history)


def beside_p1(make: type[Vector], follower: str) -> Network:
    """r has p1, then the concurrent q1; then a message comes that follows one of them, or both.

    s follows p1 alone, t follows q1 alone, u follows both.
    """
    network = Network(make(name, "pqrstu") for name in "pqrstu")
    network.send("p", b"")
    network.send("q", b"")
    for sender, to in ("pr", "qr", "ps", "qt", "pu", "qu"):
        network.bring(next(packet for packet in network.under_way if packet[:2] == (sender, to)))
    network.send(follower, b"")
    network.bring(next(packet for packet in network.under_way if packet[:2] == (follower, "r")))
    return network


def delivered_at_r(network: Network) -> list[str]:
    return [str(message) for message in network.history.delivered["r"]]


@pytest.mark.parametrize(
    ("make", "follower", "processed"),
    [
        (VectorUpdating, "t", True),
        (VectorUpdating, "u", False),  # the message also follows the previous one
        (VectorNotUpdating, "s", True),
        (VectorNotUpdating, "u", False),  # the message also follows the concurrent one
        (VectorAdvancing, "u", True),
        (VectorTree, "s", True),
        (VectorTree, "t", True),
        (VectorTree, "u", True),
    ],
)
def test_what_a_choice_loses(make: type[Vector], follower: str, *, processed: bool) -> None:
    network = beside_p1(make, follower)
    assert delivered_at_r(network) == ["p1", "q1", *([f"{follower}1"] if processed else [])]
    network.bring_all()
    assert (f"{follower}1" in delivered_at_r(network)) is processed


@pytest.mark.parametrize(("make", "follower"), [(VectorUpdating, "s"), (VectorNotUpdating, "t")])
def test_what_follows_only_what_the_stamp_has_left_is_beside_it_again(
    make: type[VectorUpdating] | type[VectorNotUpdating], follower: str
) -> None:
    network = beside_p1(make, follower)
    r = network.processes["r"]
    assert isinstance(r, make)
    assert delivered_at_r(network) == ["p1", "q1", f"{follower}1"]
    assert [str(message) for message in r.flagged] == ["q1", f"{follower}1"]
    left = {name for name, count in r.stamp.items() if count}
    assert left == ({"p", "s"} if make is VectorUpdating else {"p"})


def test_a_concurrent_message_is_flagged() -> None:
    for make in (*CHOICES, VectorTree):
        r = beside_p1(make, "u").processes["r"]
        assert isinstance(r, (VectorUpdating, VectorNotUpdating, VectorAdvancing, VectorTree))
        assert [str(message) for message in r.flagged] == ["q1"]


def test_the_tree_makes_a_copy_and_a_new_buffer_for_each_leaf() -> None:
    network = Network(VectorTree(name, "pqr") for name in "pqr")
    r = network.processes["r"]
    assert isinstance(r, VectorTree)
    for sender in "ppqq":
        network.send(sender, b"")
    p1, p2, q1, q2 = (packet for packet in network.under_way if packet.destination == "r")
    for packet in (p1, q1):
        network.bring(packet)
    assert [dict(path.clock.items()) for path in r.paths] == [
        {"p": 1, "q": 0, "r": 0},
        {"p": 0, "q": 1, "r": 0},
    ]
    network.bring(q2)  # it is above the second leaf's stamp, and next there
    network.bring(p2)
    assert delivered_at_r(network) == ["p1", "q1", "q2", "p2"]
    assert [str(message) for message in r.flagged] == ["q1"]


def test_the_tree_delivers_a_concurrent_message_at_once_also_if_a_cause_is_missing() -> None:
    network = Network(VectorTree(name, "pqr") for name in "pqr")
    network.send("p", b"")
    for _ in range(2):
        network.send("q", b"")
    r = network.processes["r"]
    assert isinstance(r, VectorTree)
    p1, q1, q2 = (packet for packet in network.under_way if packet.destination == "r")
    network.bring(p1)
    network.bring(q2)
    assert delivered_at_r(network) == ["p1", "q2"]
    network.bring(q1)
    assert delivered_at_r(network) == ["p1", "q2", "q1"]
    assert [str(message) for message in r.flagged] == ["q2", "q1"]
    assert len(r.paths) == 3


@given(schedules)
def test_paths_deliver_as_the_plain_rule_does(steps: Steps) -> None:
    network = play(VectorPaths, steps, processes=4)
    assert_keeps(network, VectorPaths.claims)
    plain = play(Vector, steps, processes=4).history.delivered
    # If several messages become next at once, those of one path may come before another's.
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
    network.send("p", b"")  # p had delivered both
    network.bring_all()
    assert len(r.paths) == 1


def test_paths_do_not_keep_a_total_order() -> None:
    network = counterexample(lambda steps: play(VectorPaths, steps), Order.TOTAL)
    assert concurrent_pairs(network.history)


def test_what_is_concurrent_with_a_buffered_message_is_refused() -> None:
    network, r_to_s = beside_a_buffered_message(VectorOrError)
    with pytest.raises(ConcurrentMessage, match="s has received r1"):
        network.bring(r_to_s)
