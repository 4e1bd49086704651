"""The history itself, and the process that claims nothing."""

from itertools import combinations
from random import Random

import pytest
from hypothesis import given

from groupcomm.errors import LocalProtocolError
from groupcomm_lessons.algorithms.fan_out import FanOut
from groupcomm_lessons.algorithms.history import Event, History
from groupcomm_lessons.algorithms.network import Network
from groupcomm_lessons.algorithms.process import Message, Order, size_of
from tests.groupcomm_lessons.algorithms.counterexample import example_of
from tests.groupcomm_lessons.algorithms.schedules import assert_keeps, play, schedules

TO = ("p", "q", "r")
P1, P2 = (Message("p", number, TO, b"") for number in (1, 2))
Q1 = Message("q", 1, TO, b"")


def history(*events: tuple[str, Message]) -> History:
    """Return the process of each event; the sender's first one is the sending and the delivery."""
    found = History()
    for process, message in events:
        if message not in found.sent:
            found.send(message)
        found.deliver(process, message)
    return found


def test_a_sender_out_of_order_breaks_fifo_and_causal_order() -> None:
    found = history(("p", P1), ("p", P2), ("q", P2), ("q", P1))
    assert found.held() == frozenset()
    assert found.broken(Order.FIFO)[0][:4] == (Order.FIFO, "q", P2, P1)
    assert found.broken(Order.TOTAL)[0].why == "p: p1 before p2; q: the other way round"


def test_an_effect_before_its_cause_breaks_causal_order_only() -> None:
    found = history(("p", P1), ("q", P1), ("q", Q1), ("r", Q1), ("r", P1))
    assert found.causes(Q1) == {P1}
    assert found.broken(Order.FIFO) == []
    assert [each[:4] for each in found.broken(Order.CAUSAL)] == [(Order.CAUSAL, "r", Q1, P1)]


def test_causes_go_on_through_others() -> None:
    r1 = Message("r", 1, TO, b"")
    found = history(("p", P1), ("q", P1), ("q", Q1), ("r", Q1), ("r", r1))
    assert found.causes(r1) == {P1, Q1}


def test_concurrent_messages_may_change_places_but_not_in_a_total_order() -> None:
    found = history(("p", P1), ("q", Q1), ("p", Q1), ("q", P1))
    assert found.held() == {Order.FIFO, Order.CAUSAL}


def test_what_is_missing_or_comes_twice_is_reported() -> None:
    found = history(("p", P1), ("q", P1), ("q", P1))
    assert found.missing == [("r", P1)]
    assert found.twice == [("q", P1)]


def plainly_broken(found: History, order: Order) -> list[tuple[str, Message, Message]]:
    """By the plain definition: all pairs that one process, or two, deliver."""
    delivered = found.delivered
    if order is Order.TOTAL:
        return [
            (one, first, second)
            for one, other in combinations(sorted(delivered), 2)
            for first, second in combinations(
                [message for message in delivered[one] if message in delivered[other]], 2
            )
            if delivered[other].index(first) > delivered[other].index(second)
        ]
    return [
        (name, first, second)
        for name, messages in delivered.items()
        for first, second in combinations(messages, 2)
        if (
            first.sender == second.sender and first.number > second.number
            if order is Order.FIFO
            else second in plain_causes(found, first)
        )
    ]


def plain_causes(found: History, message: Message) -> set[Message]:
    """Return the messages that its sender had sent or delivered before, and their causes."""
    before = found.events[: found.events.index(Event(message.sender, message, sends=True))]
    causes = {event.message for event in before if event.process == message.sender}
    while more := {
        event.message
        for cause in causes
        for event in found.events[: found.events.index(Event(cause.sender, cause, sends=True))]
        if event.process == cause.sender and event.message not in causes
    }:
        causes |= more
    return causes


def some_history(seed: int) -> History:
    """Fifteen messages, delivered in orders that grow worse with the seed."""
    rng, found = Random(seed), History()
    waiting: dict[str, list[Message]] = {name: [] for name in TO}
    numbers = dict.fromkeys(TO, 0)
    while len(found.sent) < 15 or any(waiting.values()):
        name = rng.choice(TO)
        if rng.random() < 0.4 and len(found.sent) < 15:
            numbers[name] += 1
            to = tuple(sorted(rng.sample(TO, rng.randint(1, 3))))
            message = Message(name, numbers[name], to, b"")
            found.send(message)
            for other in to:
                waiting[other].append(message)
        elif waiting[name]:
            at = rng.randrange(min(len(waiting[name]), 1 + seed % 5))
            found.deliver(name, waiting[name].pop(at))
    return found


@pytest.mark.parametrize("seed", range(60))
def test_the_history_finds_what_the_plain_definitions_say(seed: int) -> None:
    found = some_history(seed)
    for message in found.sent:
        assert found.causes(message) == plain_causes(found, message)
    for order in Order:
        broken = [each[1:4] for each in found.broken(order)]
        assert broken == plainly_broken(found, order)
        assert (order in found.held()) == (not broken)


@given(schedules)
def test_fan_out_delivers_all_once(steps: list[tuple[int, int, int]]) -> None:
    assert_keeps(play(FanOut, steps, multicasts=True), FanOut.claims)


@pytest.mark.parametrize("order", list(Order))
def test_fan_out_keeps_no_order(order: Order) -> None:
    steps = example_of(schedules, lambda found: bool(play(FanOut, found).history.broken(order)))
    assert play(FanOut, steps).history.broken(order)


def test_who_is_no_member_cannot_be_sent_to() -> None:
    network = Network(FanOut(name, TO) for name in TO)
    for destinations in (["x"], []):
        with pytest.raises(LocalProtocolError, match="members are p, q, r"):
            network.send("p", b"", destinations)
    assert network.history.sent == []


def test_a_stamp_has_the_length_of_its_parts() -> None:
    assert size_of(None) == 0
    assert size_of({"p": 1, "qq": (2, 3)}) == (2 + 8) + (3 + 16)
    with pytest.raises(TypeError, match="a stamp with a float"):
        size_of(1.5)
