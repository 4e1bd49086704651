"""The model of a space-time diagram, independent of how it is drawn.

Lines run side by side, one for each process. Points are on the lines, in the order of time. A
message goes from the point of its sending to a point on each line that it reached. Lines, points
and messages are named by their index in the diagram's tuples.

Times are those of the trace: whole microseconds, or counts of steps (see `Diagram.counted`). Clocks
are Lamport's, by IR1 and IR2, from 1; a diagram drawn along them has logical time.
"""

import enum

import attrs


class LineKind(enum.StrEnum):
    """The kind of process that a line is for."""

    DAEMON = "daemon"
    CLIENT = "client"
    PROCESS = "process"  # a process of an algorithm, without a daemon


class PointKind(enum.IntEnum):
    """The event at a point."""

    SEND = 0
    RECEIVE = 1  # a process, or a client's daemon, received a message and could not deliver it yet
    DELIVER = 2
    ASK = 3  # a client connected, joined, left, disconnected
    VIEW = 4  # a client received a group view
    NOTIFIED = 5  # a client was notified of something else
    INSTALL = 6  # a daemon installed a regular view
    TRANSITION = 7  # a daemon ended a regular view
    START = 8
    END = 9  # a daemon or client was killed, crashed, or left for good
    STEP = 10  # an algorithm took a step, with a message or without
    PROOF = 11  # an event that is only drawn because it proves a violation


@attrs.frozen(kw_only=True)
class Line:
    """One process; all starts of a daemon share a line.

    Attributes:
        identity: name in the trace; for a daemon without the number of its start.
        label: short name.
        kind: kind of process.
        home: line of a client's daemon; None for others.
    """

    identity: str
    label: str
    kind: LineKind
    home: int | None = None


@attrs.frozen(kw_only=True)
class Point:
    """One event on a line.

    Attributes:
        line: index of its line.
        t: time of the trace.
        clock: Lamport's clock.
        kind: the kind of event.
        message: the message that was sent, received or delivered; None without a message.
        text: the event in words; empty if kind and message say everything.
    """

    line: int
    t: int
    clock: int
    kind: PointKind
    message: int | None = None
    text: str = ""


@attrs.frozen(kw_only=True)
class Message:
    """A message.

    Attributes:
        sender: identity of the sender.
        number: number in its sender's count.
        sent: point of its sending; None if that is not in the trace.
        level: service level; None where there are no levels.
        to: destinations: groups and private names, or processes.
        stamp: position, or the stamp of an algorithm; empty if unknown.
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
    """A message at one process that it reached.

    Attributes:
        message: index of the message.
        line: the index of the line.
        origin: the point from which it came: its sending, or its forwarding; None if unknown.
        received: point of its receipt if it was not delivered at once; None if it was, or if it
            never travelled.
        delivered: point of its delivery; None without a delivery: then it waits to the end, if
            waits or reason say so, or no user receives it.
        waits: messages that it waited for, as far as known.
        reason: the reason for which it waited, in words, if waits do not say everything.
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
        line: line of the daemon.
        begins, ends: times.
        view: id of the view; for a transitional view, of the view that is left.
        transitional: the view is transitional.
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
        t: the time.
        text: the event in words, with its subject.
        point: the point at which it is drawn; None if it belongs to no process.
    """

    t: int
    text: str
    point: int | None


@attrs.frozen(kw_only=True)
class Violation:
    """A property, or an order, that did not hold.

    Attributes:
        name: name of the property in docs/properties.md, or of the order that was not kept.
        claimed: whether it had to hold; an algorithm may never have claimed an order.
        text: the violation, in one sentence.
        evidence: the events that prove it, the last one first.
    """

    name: str
    claimed: bool
    text: str
    evidence: tuple[Evidence, ...]


@attrs.frozen(kw_only=True)
class Diagram:
    """A whole diagram.

    Attributes:
        lines: the lines, with clients below their daemon.
        points: the points in the order in which they happened.
        messages: the messages in the order of the trace.
        arrivals: the arrivals in the order of the trace.
        bands: the views of daemons, by line, then time.
        violations: violations found; only the first ones if there are very many.
        counted: times are counts of steps, not microseconds.
        complete: whether the trace ends with quiet, so that missing deliveries were checked, too.
        unjudged: the unchecked parts, with the reasons; empty if everything was checked.
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
