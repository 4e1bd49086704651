"""Orders that clocks alone do not give, and the tick lines that they draw through a history."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm_lessons.algorithms.history import Event, History
from groupcomm_lessons.algorithms.lamport_clocks import LamportClocks
from groupcomm_lessons.algorithms.network import Network
from groupcomm_lessons.algorithms.process import Message, Order
from groupcomm_lessons.algorithms.tick_lines import clocks_of, tick_lines
from tests.groupcomm_lessons.algorithms.counterexample import example_of
from tests.groupcomm_lessons.algorithms.schedules import assert_keeps, play, schedules

Steps = list[tuple[int, int, int]]

P1 = Message("p", 1, ("p", "q"), b"")
SENT, DELIVERED = Event("p", P1, sends=True), Event("q", P1, sends=False)


@given(schedules)
def test_all_is_delivered_once(steps: Steps) -> None:
    assert_keeps(play(LamportClocks, steps, multicasts=True), LamportClocks.claims)


@pytest.mark.parametrize("order", list(Order))
def test_clocks_alone_keep_no_order(order: Order) -> None:
    steps = example_of(
        schedules, lambda found: bool(play(LamportClocks, found).history.broken(order))
    )
    assert play(LamportClocks, steps).history.broken(order)


def test_they_sort_afterwards_what_they_did_not_keep_in_order() -> None:
    """q delivers the effect first, and sees from the stamps that it was the effect: too late."""
    q = LamportClocks("q", "pqr")
    network = Network([LamportClocks("p", "pqr"), q, LamportClocks("r", "pqr")])
    p1 = network.send("p", b"cause")
    to_q, to_r = network.under_way
    network.bring(to_r)
    r1 = network.send("r", b"effect")
    network.bring(next(each for each in network.under_way if each[1:3] == ("q", r1)))
    network.bring(to_q)
    assert network.history.delivered["q"] == [r1, p1]
    assert [message for _, _, message in sorted(q.stamped)] == [p1, r1]


@given(schedules, st.booleans())
def test_stamps_are_the_clocks_of_the_history(steps: Steps, multicasts: bool) -> None:
    network = play(LamportClocks, steps, multicasts=multicasts)
    events = network.history.events
    pairs = zip(events, clocks_of(events), strict=True)
    sendings = {event.message: clock for event, clock in pairs if event.sends}
    for process in network.processes.values():
        assert isinstance(process, LamportClocks)
        assert all(sendings[message] == clock for clock, _, message in process.stamped)


# ---- tick lines ----


@given(schedules, st.booleans())
def test_a_line_lies_between_two_events_of_a_process_and_across_every_message(
    steps: Steps, multicasts: bool
) -> None:
    events = play(LamportClocks, steps, multicasts=multicasts).history.events
    strips = tick_lines(events)
    assert sorted(event for strip in strips for event in strip) == sorted(events)
    place = {event: at for at, strip in enumerate(strips) for event in strip}
    for strip in strips:
        assert len({event.process for event in strip}) == len(strip), "C1"
    for event in events:
        if not event.sends:
            sending = Event(event.message.sender, event.message, sends=True)
            assert place[sending] < place[event], "C2"


@given(schedules)
def test_events_may_move_between_lines_and_the_history_stays(steps: Steps) -> None:
    history = play(LamportClocks, steps).history
    moved = History()
    for strip in tick_lines(history.events):
        for event in reversed(strip):
            if event.sends:
                moved.send(event.message)
            else:
                moved.deliver(event.process, event.message)
    assert moved.delivered == history.delivered
    assert all(moved.causes(each) == history.causes(each) for each in history.sent)


@given(schedules, st.integers(1, 2**62), st.integers(1, 3))
def test_many_clocks_fit_one_history(steps: Steps, start: int, pace: int) -> None:
    events = play(LamportClocks, steps).history.events
    clocks = [start + pace * clock for clock in clocks_of(events)]
    assert tick_lines(events, clocks) == tick_lines(events)
    assert len(tick_lines(events, range(len(events)))) == len(events), "physical time fits, too"


def test_a_strip_has_the_events_of_one_clock() -> None:
    q1 = Message("q", 1, ("p",), b"")
    events = [SENT, Event("q", q1, sends=True), DELIVERED]
    assert clocks_of(events) == [1, 1, 2]
    assert tick_lines(events) == [(events[0], events[1]), (DELIVERED,)]


@pytest.mark.parametrize(
    ("events", "clocks", "why"),
    [
        ([SENT, Event("p", P1, sends=False)], [2, 2], "C1: p has 2 at p1 and 2 before"),
        ([SENT, DELIVERED], [2, 2], "C2: q has 2 as p1 comes, 2 when it was sent"),
    ],
)
def test_clocks_that_break_the_conditions_are_refused(
    events: list[Event], clocks: list[int], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        tick_lines(events, clocks)
