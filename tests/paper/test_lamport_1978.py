"""Lamport, "Time, Clocks, and the Ordering of Events in a Distributed System", CACM 21(7), 1978.

Histories are drawn at random; happens-before is computed from its definition, by search, and knows
nothing of clocks.
"""

import itertools

import attrs
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.clocks.lamport import LamportClock

PROCESSES = "pqr"
STEPS = st.lists(st.tuples(st.sampled_from(PROCESSES), st.integers(0, 5)), max_size=25)
STARTS = st.one_of(
    st.integers(0, 50), *[st.integers(edge - 9, edge + 1) for edge in (2**31, 2**32, 2**63)]
)


@attrs.frozen(eq=False)
class Event:
    """`cause`: the sending, if this is a receipt."""

    process: str
    clock: int
    sends: bool
    cause: "Event | None"


def history(steps: list[tuple[str, int]], starts: dict[str, int]) -> list[Event]:
    """Run steps: 0 is internal, 1 and 2 send, the others receive the oldest message if any."""
    clocks = {name: LamportClock(starts.get(name, 0)) for name in PROCESSES}
    under_way: list[Event] = []
    events: list[Event] = []
    for name, action in steps:
        clock = clocks[name]
        cause = next((one for one in under_way if one.process != name), None)
        if action in {1, 2}:
            events.append(Event(name, clock.send(), True, None))
            under_way.append(events[-1])
        elif action and cause is not None:
            under_way.remove(cause)
            events.append(Event(name, clock.receive(cause.clock), False, cause))
        else:
            events.append(Event(name, clock.tick(), False, None))
    return events


def causes_of(event: Event, events: list[Event]) -> set[Event]:
    """Return the events that happened before an event: search back over processes and messages."""
    found: set[Event] = set()
    todo = [event]
    while todo:
        one = todo.pop()
        earlier = [past for past in events[: events.index(one)] if past.process == one.process]
        direct = earlier[-1:] + ([one.cause] if one.cause is not None else [])
        todo += [past for past in direct if past not in found]
        found.update(direct)
    return found


@given(steps=STEPS, starts=st.fixed_dictionaries(dict.fromkeys(PROCESSES, STARTS)))
def test_the_clock_condition(steps: list[tuple[str, int]], starts: dict[str, int]) -> None:
    """If a happens before b, then C(a) < C(b)."""
    events = history(steps, starts)
    for event in events:
        assert all(cause.clock < event.clock for cause in causes_of(event, events))


@given(steps=STEPS, starts=st.fixed_dictionaries(dict.fromkeys(PROCESSES, STARTS)))
def test_C1_later_events_of_a_process_have_higher_clocks(
    steps: list[tuple[str, int]], starts: dict[str, int]
) -> None:
    events = history(steps, starts)
    for name in PROCESSES:
        clocks = [event.clock for event in events if event.process == name]
        assert all(first < second for first, second in itertools.pairwise(clocks))


@given(steps=STEPS, starts=st.fixed_dictionaries(dict.fromkeys(PROCESSES, STARTS)))
def test_C2_a_receipt_has_a_higher_clock_than_its_sending(
    steps: list[tuple[str, int]], starts: dict[str, int]
) -> None:
    for event in history(steps, starts):
        assert event.cause is None or event.cause.clock < event.clock


def test_IR1_the_clock_is_incremented_between_two_events() -> None:
    clock = LamportClock(7)
    assert [clock.tick(), clock.send(), clock.receive(0), clock.tick()] == [8, 9, 10, 11]


def test_IR2a_a_message_carries_the_clock_of_its_sending() -> None:
    clock = LamportClock(7)
    assert clock.send() == clock.value == 8


def test_IR2b_a_receiver_moves_above_the_stamp_and_not_below_its_own() -> None:
    ahead, behind, level = LamportClock(100), LamportClock(3), LamportClock(50)
    assert ahead.receive(50) == 101
    assert behind.receive(50) == 51
    assert level.receive(50) == 51


def test_the_converse_does_not_hold() -> None:
    """A smaller clock is no proof: p's first event and q's second know nothing of each other."""
    events = history([("p", 0), ("q", 0), ("q", 0)], {})
    first, _, last = events
    assert first.clock < last.clock
    assert first not in causes_of(last, events)
    assert last not in causes_of(first, events)


def total_order(events: list[Event]) -> list[int]:
    """Indices of events by clock, ties by process."""
    return sorted(range(len(events)), key=lambda at: (events[at].clock, events[at].process))


def test_one_history_has_two_total_orders() -> None:
    """Both are right: which event is first where none causes the other is the clocks' choice."""
    steps = [("p", 1), ("q", 0), ("r", 5), ("q", 0)]  # r receives the message of p
    slow = total_order(history(steps, {}))
    fast = total_order(history(steps, {"p": 10}))
    assert slow.index(0) < slow.index(3)
    assert fast.index(3) < fast.index(0)
    for order in (slow, fast):
        assert order.index(0) < order.index(2)  # the order of the message
        assert order.index(1) < order.index(3)  # the order of q's own events


@given(steps=STEPS)
def test_ties_are_broken_by_process_and_there_are_no_others(steps: list[tuple[str, int]]) -> None:
    events = history(steps, {})
    keys = [(event.clock, event.process) for event in events]
    assert len(set(keys)) == len(keys)
