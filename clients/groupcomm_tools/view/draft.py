"""The draft of a diagram, while its trace is read.

Points may be added late: a delivered message shows how long its daemon has held it. Indexes and
clocks are assigned at the end, when all points are there.
"""

from collections.abc import Iterable

import attrs

from groupcomm.clocks.lamport import LamportClock
from groupcomm.trace.steps import MessageId
from groupcomm_tools.view.diagram import LineKind, PointKind


@attrs.define(eq=False)
class Mark:
    """A future point.

    Attributes:
        line: identity of the line.
        kind: the kind; None for a point that is not drawn, and only passes clocks on.
        after: the marks whose clock must be lower, besides those of its own line.
        clock: Lamport's clock, once all marks are there.
        place: its index among the drawn points, once all marks are there.
    """

    line: str
    t: int
    kind: PointKind | None
    message: "Sent | None" = None
    text: str = ""
    after: "tuple[Mark, ...]" = ()
    clock: int = 0
    place: int = -1


@attrs.define(eq=False)
class Sent:
    """A future message; see `diagram.Message`."""

    id: MessageId
    place: int
    mark: Mark | None = None
    level: int | None = None
    to: tuple[str, ...] = ()
    stamp: str = ""
    stamp_bytes: int = 0


@attrs.define(eq=False)
class Reached:
    """A future arrival; see `diagram.Arrival`.

    Attributes:
        waits: the messages that it waits for, by their names in the trace.
        given: whether a step of an algorithm or a filter delivered it.
    """

    message: Sent
    line: str
    origin: Mark | None = None
    received: Mark | None = None
    delivered: Mark | None = None
    waits: tuple[MessageId, ...] = ()
    reason: str = ""
    given: bool = False


class Draft:
    """A draft of a diagram: lines, marks, messages and arrivals.

    Attributes:
        lines: kind of each line by identity, in the order in which they were first seen.
        begins: time of the first mark on each line.
        last: the last mark on each line.
        marks: the marks in the order of the trace.
        messages: the messages by sender and number, in the order of the trace.
        arrivals: the arrivals in the order of the trace.
    """

    def __init__(self) -> None:
        self.lines: dict[str, LineKind] = {}
        self.begins: dict[str, int] = {}
        self.last: dict[str, Mark] = {}
        self.marks: list[Mark] = []
        self.messages: dict[MessageId, Sent] = {}
        self.arrivals: list[Reached] = []
        self._latest: dict[tuple[MessageId, str], Reached] = {}

    def mark(
        self,
        line: str,
        t: int,
        kind: PointKind | None,
        *,
        message: Sent | None = None,
        text: str = "",
        after: Iterable[Mark | None] = (),
    ) -> Mark:
        """Add a mark, and return it."""
        self.begins.setdefault(line, t)
        causes = tuple(mark for mark in after if mark is not None)
        made = Mark(line, t, kind, message, text, causes)
        self.marks.append(made)
        self.last[line] = made
        return made

    def message(self, name: MessageId) -> Sent:
        """Return the message of this name, which may be new."""
        found = self.messages.get(name)
        if found is None:
            found = self.messages[name] = Sent(name, len(self.messages))
        return found

    def latest(self, message: Sent, line: str) -> Reached | None:
        """Return the last arrival of the message at a line; None without one."""
        return self._latest.get((message.id, line))

    def reach(self, message: Sent, line: str) -> Reached:
        """Add an arrival of a message at a line, and return it."""
        found = Reached(message, line, origin=message.mark)
        self.arrivals.append(found)
        self._latest[message.id, line] = found
        return found

    def settle(self) -> list[Mark]:
        """Assign clocks and indexes to all marks; return those that are drawn, in the order of
        time.
        """
        self.marks.sort(key=lambda mark: mark.t)  # stable: equal times stay in order
        clocks: dict[str, LamportClock] = {}
        drawn: list[Mark] = []
        for mark in self.marks:
            clock = clocks.setdefault(mark.line, LamportClock())
            seen = max((cause.clock for cause in mark.after), default=0)
            if mark.kind is None:
                clock.value = mark.clock = max(clock.value, seen)
                continue
            mark.clock = clock.receive(seen)
            mark.place = len(drawn)
            drawn.append(mark)
        return drawn
