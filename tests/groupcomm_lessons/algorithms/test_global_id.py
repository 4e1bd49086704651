"""One number for all: as long as processes take turns."""

import pytest
from hypothesis import given

from groupcomm_lessons.algorithms.concurrency import ConcurrentMessage
from groupcomm_lessons.algorithms.global_id import GlobalId, GlobalIdOrError, NumberStamp
from groupcomm_lessons.algorithms.network import Network
from groupcomm_lessons.algorithms.process import Order
from tests.groupcomm_lessons.algorithms.counterexample import Steps, counterexample
from tests.groupcomm_lessons.algorithms.schedules import assert_keeps, play, schedules
from tests.groupcomm_lessons.algorithms.turns import (
    beside_a_buffered_message,
    concurrent_pairs,
    play_in_turn,
)


@pytest.mark.parametrize("make", [GlobalId, GlobalIdOrError])
@given(steps=schedules)
def test_in_turn_it_keeps_all_orders(make: type[GlobalId], steps: Steps) -> None:
    assert_keeps(play_in_turn(make, steps), frozenset(Order))


@given(schedules)
def test_delivered_at_once_nothing_is_lost(steps: Steps) -> None:
    assert_keeps(play(GlobalId, steps), GlobalId.claims)


@pytest.mark.parametrize("order", list(Order))
def test_delivered_at_once_no_order_is_kept(order: Order) -> None:
    assert concurrent_pairs(counterexample(lambda steps: play(GlobalId, steps), order).history)


@given(schedules)
def test_an_error_is_raised_where_messages_are_concurrent_and_only_there(steps: Steps) -> None:
    networks: list[Network] = []

    def make(name: str, names: object) -> GlobalIdOrError:
        return GlobalIdOrError(name, "pqr")

    try:
        networks.append(play(make, steps))
    except ConcurrentMessage:
        assert concurrent_pairs(play(GlobalId, steps).history)
    for network in networks:
        assert not concurrent_pairs(network.history)
        assert_keeps(network, frozenset(Order))


def test_a_message_with_a_number_that_was_used_is_refused() -> None:
    network = Network(GlobalIdOrError(name, "pqr") for name in "pqr")
    network.send("p", b"")
    refused = network.send("q", b"")
    with pytest.raises(ConcurrentMessage, match="q has received p1, which is concurrent") as error:
        network.bring(network.under_way[0])
    assert error.value.message.sender == "p"
    assert refused is not None
    assert network.history.delivered["q"] == [refused]


def test_equal_numbers_are_a_sign_of_concurrency() -> None:
    assert NumberStamp(1, "p").concurrent_with(NumberStamp(1, "q"))
    assert not NumberStamp(1, "p").concurrent_with(NumberStamp(2, "q"))
    assert not NumberStamp(1, "p").concurrent_with(NumberStamp(1, "p"))


def test_what_is_concurrent_with_a_buffered_message_is_refused() -> None:
    network, r_to_s = beside_a_buffered_message(GlobalIdOrError)
    with pytest.raises(ConcurrentMessage, match="s has received r1"):
        network.bring(r_to_s)
