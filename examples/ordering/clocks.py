"""Lamport clocks: the orders that they show, and those that they do not."""

from examples.ordering.stage import Stage
from examples.ordering.story import Run, story
from groupcomm_lessons.algorithms.history import Event
from groupcomm_lessons.algorithms.lamport_clocks import LamportClocks
from groupcomm_lessons.algorithms.tick_lines import clocks_of, tick_lines


def _conversation() -> Stage:
    """Play: p asks and q answers; meanwhile r says something of its own."""
    stage = Stage(LamportClocks, "pqr")
    question, aside = stage.send("p"), stage.send("r")
    stage.bring(question, "q")
    answer = stage.send("q")
    stage.bring(aside, "p", "q")
    stage.bring(answer, "p", "r")
    stage.bring(question, "r")
    return stage


@story("tick-lines", "Tick lines join equal clocks")
def lines() -> Run:
    """At least one line lies between two events of a process (C1), and every message crosses a line
    (C2). An event may be moved between its two lines, and the history stays the same."""
    stage = _conversation()
    events = stage.network.history.events
    return stage.end(lines=[[_told(event) for event in line] for line in tick_lines(events)])


@story("logical-time", "The same history in logical time")
def logical_time() -> Run:
    """Drawn along the clocks, the lines are straight, and events with the same clock stand in one
    column. No process can distinguish this history from the previous one: no message arrives before
    it was sent."""
    return _conversation().end()


@story("converse", "A lower clock need not be a cause")
def converse() -> Run:
    """r's message has a lower clock than q's answer, but neither can have caused the other. The
    clock condition holds in one direction only."""
    stage = _conversation()
    history = stage.network.history
    clocks = dict(zip(map(_told, history.events), clocks_of(history.events), strict=True))
    _, aside, answer = history.sent
    return stage.end(
        clock_of_r1=clocks["r sends r1"],
        clock_of_q1=clocks["q sends q1"],
        concurrent=aside not in history.causes(answer) and answer not in history.causes(aside),
    )


@story("happens-before", "Events that a chain of messages orders, and concurrent events")
def happens_before() -> Run:
    """The events of each process are numbered: p1 is the first event of p. A message from p to r
    and one from r to q form a chain, so p1 happens before q3. No chain leads from p3 to q3 or back:
    these two events are concurrent."""
    stage = Stage(LamportClocks, "pqr")
    first = stage.send("p", "r")  # p1
    aside = stage.send("p", "r")  # p2
    stage.bring(first, "r")
    stage.bring(stage.send("r", "q"), "q")  # q1 is its receipt
    stage.send("q", "r")  # q2
    stage.send("q", "p")  # q3
    stage.send("p", "q")  # p3
    stage.bring(aside, "r")
    stage.rest()
    events = stage.network.history.events
    return stage.end(
        p1_before_q3=_is_before(events, ("p", 1), ("q", 3)),
        p3_before_q3=_is_before(events, ("p", 3), ("q", 3)),
        q3_before_p3=_is_before(events, ("q", 3), ("p", 3)),
    )


def _is_before(events: list[Event], first: tuple[str, int], second: tuple[str, int]) -> bool:
    """Return whether an event happens before another; each is a process and its place there."""
    latest: dict[str, int] = {}
    before: list[set[int]] = []
    places: dict[tuple[str, int], int] = {}
    for at, event in enumerate(events):
        direct = {latest[event.process]} if event.process in latest else set()
        if not event.sends:
            direct.add(events.index(Event(event.message.sender, event.message, sends=True)))
        before.append(direct.union(*(before[each] for each in direct)))
        latest[event.process] = at
        places[event.process, 1 + sum(e.process == event.process for e in events[:at])] = at
    return places[first] in before[places[second]]


@story("two-total-orders", "One history, two total orders")
def two_total_orders() -> Run:
    """Sorted by clock and process, r's message stands before q's answer. IR1 and IR2 also allow r's
    clock to begin at 10; then r's message stands behind the answer. So the total order depends on
    the clocks."""
    stage = _conversation()
    events = stage.network.history.events
    low, high = clocks_of(events), clocks_of(events, {"r": 9})
    tick_lines(events, high)  # raises ValueError if these broke C1 or C2
    return stage.end(low=_sorted(events, low), high=_sorted(events, high))


def _sorted(events: list[Event], clocks: list[int]) -> list[str]:
    stamped = sorted(
        (clock, event.process, str(event.message))
        for clock, event in zip(clocks, events, strict=True)
        if event.sends
    )
    return [message for _, _, message in stamped]


def _told(event: Event) -> str:
    return f"{event.process} {'sends' if event.sends else 'receives'} {event.message}"
