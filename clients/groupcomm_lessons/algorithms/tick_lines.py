"""Tick lines: the events of a history in the strips between equal values of all clocks.

Source: L. Lamport, "Time, Clocks, and the Ordering of Events in a Distributed System", CACM 21(7),
1978, section "Logical Clocks": a line through the ticks of equal value in a space-time diagram. Two
events of a process have at least one such line between them (C1), and every message crosses one
(C2). So events may be moved about between two lines, and drawn in logical time instead of physical
one, and the history stays the same.
"""

from collections.abc import Mapping, Sequence

from groupcomm.clocks.lamport import LamportClock
from groupcomm_lessons.algorithms.history import Event
from groupcomm_lessons.algorithms.process import Message, Name


def clocks_of(events: Sequence[Event], starts: Mapping[Name, int] | None = None) -> list[int]:
    """Return the clock of each event by IR1 and IR2: the lowest that keep C1 and C2.

    Args:
        events: the events as they happened; a message's sending before its deliveries.
        starts: the clock of a process before its first event; 0 by default.
    """
    clocks = {name: LamportClock(start) for name, start in (starts or {}).items()}
    sendings: dict[Message, int] = {}
    found = []
    for event in events:
        clock = clocks.setdefault(event.process, LamportClock())
        if event.sends:
            sendings[event.message] = clock.send()
        else:
            clock.receive(sendings[event.message])
        found.append(clock.value)
    return found


def tick_lines(
    events: Sequence[Event], clocks: Sequence[int] | None = None
) -> list[tuple[Event, ...]]:
    """Return the strips between tick lines that have events, the earliest first.

    Args:
        events: the events as they happened; a message's sending before its deliveries.
        clocks: the clock of each event; None for `clocks_of` the events.

    Returns:
        For each strip the events of one clock value, by process: at most one of each.

    Raises:
        ValueError: the clocks break C1 or C2.
    """
    values = clocks_of(events) if clocks is None else clocks
    stamped = list(zip(values, events, strict=True))
    _check(stamped)
    return [
        tuple(sorted(event for value, event in stamped if value == line))
        for line in sorted(set(values))
    ]


def _check(stamped: Sequence[tuple[int, Event]]) -> None:
    latest: dict[Name, int] = {}
    sendings: dict[Message, int] = {}
    for clock, event in stamped:
        before = latest.get(event.process)
        if before is not None and clock <= before:
            raise ValueError(
                f"C1: {event.process} has {clock} at {event.message} and {before} before"
            )
        latest[event.process] = clock
        if event.sends:
            sendings[event.message] = clock
        elif clock <= sendings[event.message]:
            raise ValueError(
                f"C2: {event.process} has {clock} as {event.message} comes,"
                f" {sendings[event.message]} when it was sent"
            )
