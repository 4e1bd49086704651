"""What a space-time diagram shows, whatever draws it.

Lines run side by side, one for each process; points stand on them in the order of time; a message
goes from the point of its sending to a point on each line that it reached. Everything names lines,
points and messages by their place in the diagram's tuples.

Times are those of the trace: whole microseconds, or counts of steps, see `Diagram.counted`. Clocks
are Lamport's, by IR1 and IR2, from 1: drawn along them a diagram has logical time.
"""

import enum

import attrs


class LineKind(enum.StrEnum):
    """Whose line it is."""

    DAEMON = "daemon"
    CLIENT = "client"
    PROCESS = "process"  # of an algorithm: without a daemon


class PointKind(enum.IntEnum):
    """What happened at a point."""

    SEND = 0
    RECEIVE = 1  # by the process itself, or by a client's daemon for it; it could not be delivered
    DELIVER = 2
    ASK = 3  # a client connected, joined, left, disconnected
    VIEW = 4  # a client was told who is in a group
    TOLD = 5  # a client was told something else
    INSTALL = 6  # a daemon installed a regular view
    TRANSITION = 7  # a daemon ended one
    START = 8
    END = 9  # it was killed, crashed, or left for good
    STEP = 10  # of an algorithm, with a message or without
    PROOF = 11  # nothing that is drawn otherwise: but it proves a violation


@attrs.frozen(kw_only=True)
class Line:
    """One process; all starts of a daemon share a line.

    Attributes:
        identity: its name in the trace; of a daemon without the number of its start.
        label: the same, short.
        kind: whose it is.
        home: the line of a client's daemon; None for others.
    """

    identity: str
    label: str
    kind: LineKind
    home: int | None = None


@attrs.frozen(kw_only=True)
class Point:
    """One event on a line.

    Attributes:
        line: where it is.
        t: when, in the trace's time.
        clock: Lamport's.
        kind: what happened.
        message: which one was sent, received or delivered; None if it is about none.
        text: what happened in words; empty where kind and message say it all.
    """

    line: int
    t: int
    clock: int
    kind: PointKind
    message: int | None = None
    text: str = ""


@attrs.frozen(kw_only=True)
class Message:
    """What was sent.

    Attributes:
        sender: its identity.
        number: in its sender's count.
        sent: the point of its sending; None if that is not in the trace.
        level: of service; None where there are no levels.
        to: groups and private names, or processes.
        stamp: its position, or what an algorithm stamped it with; empty if unknown.
        stamp_bytes: length of an algorithm's stamp; 0 otherwise.
    """

    sender: str
    number: int
    sent: int | None
    level: int | None
    to: tuple[str, ...]
    stamp: str = ""
    stamp_bytes: int = 0


@attrs.frozen(kw_only=True)
class Arrival:
    """A message at one of those that it reached.

    Attributes:
        message: which.
        line: where.
        origin: the point that it came from: its sending, or where it was passed on; None if
            unknown.
        received: the point where it came and was not delivered at once; None if it was, or was
            never on its way.
        delivered: the point of its delivery; None if there was none: it waits to the end, if waits
            or reason tell so, or is one that no user gets.
        waits: messages that it waited for, as far as known.
        reason: what it waited for, in words, if there is more to tell than waits do.
    """

    message: int
    line: int
    origin: int | None
    received: int | None
    delivered: int | None
    waits: tuple[int, ...] = ()
    reason: str = ""


@attrs.frozen(kw_only=True)
class Band:
    """A view of a daemon, which its clients share.

    Attributes:
        line: the daemon's.
        begins, ends: times.
        view: its id; of a transitional one the view that is being left.
        transitional: whether it is.
        daemons: identities of its members.
    """

    line: int
    begins: int
    ends: int
    view: str
    transitional: bool
    daemons: tuple[str, ...]


@attrs.frozen(kw_only=True)
class Evidence:
    """An event that proves a violation.

    Attributes:
        t: when.
        text: who did what, in words.
        point: where it is drawn; None if it is nobody's.
    """

    t: int
    text: str
    point: int | None


@attrs.frozen(kw_only=True)
class Violation:
    """A property, or an order, that did not hold.

    Attributes:
        name: of the property in docs/properties.md; else of the order that was not kept.
        claimed: whether it had to hold; an algorithm may never have promised an order.
        text: what is wrong, in one sentence.
        evidence: what proves it, the last event first.
    """

    name: str
    claimed: bool
    text: str
    evidence: tuple[Evidence, ...]


@attrs.frozen(kw_only=True)
class Diagram:
    """All of it.

    Attributes:
        lines: clients below their daemon.
        points: in the order in which they happened.
        messages: in the order of the trace.
        arrivals: in the order of the trace.
        bands: views of daemons, by line, then time.
        violations: those that were found; the first ones, if there are very many.
        counted: times are counts of steps, not microseconds.
        complete: the trace ends with quiet, so that what is missing was judged, too.
        unjudged: what was not judged, and why; empty if all was.
    """

    lines: tuple[Line, ...]
    points: tuple[Point, ...]
    messages: tuple[Message, ...]
    arrivals: tuple[Arrival, ...]
    bands: tuple[Band, ...]
    violations: tuple[Violation, ...]
    counted: bool
    complete: bool
    unjudged: str = ""
