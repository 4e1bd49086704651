"""Builds the diagram of a trace from its events."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from groupcomm.names import daemon_of, split_private
from groupcomm.sim.check import check_events
from groupcomm.trace.events import Boot, Conf, Fail, Left, TraceEvent
from groupcomm.trace.steps import STEPS
from groupcomm_tools.traces.text import readable, what_happened
from groupcomm_tools.view.daemon_events import OF_SESSIONS, DaemonSide
from groupcomm_tools.view.diagram import (
    Arrival,
    Band,
    Diagram,
    Evidence,
    Line,
    LineKind,
    Message,
    Point,
    PointKind,
    Violation,
)
from groupcomm_tools.view.draft import Draft, Mark, Reached, Sent
from groupcomm_tools.view.orders import unkept_orders
from groupcomm_tools.view.step_events import StepSide


def make_diagram(name: str, trace: Iterable[TraceEvent]) -> Diagram:
    """Return the diagram of a trace, with the findings of the checkers.

    Args:
        name: name of the trace.
        trace: valid events, as `groupcomm_tools.traces` reads them.
    """
    events = list(trace)
    alone = not any(isinstance(event, (*OF_SESSIONS, *STEPS)) for event in events)
    # `orders` judges the steps of algorithms; a flight recorder keeps only the last events.
    judged = check_events(name, [] if alone else events)
    orders, unjudged = unkept_orders(events)
    if alone:
        unjudged = "no program has written a trace, so properties were not checked"
    claims = [(found.property, found.text, found.events) for found in judged.violations]
    unkept = [(found.order, found.text, found.proof) for found in orders]
    proofs = {id(event) for _, _, proof in (*claims, *unkept) for event in proof}
    draft, marks = _read(events, proofs, alone=alone)
    drawn = draft.settle()
    lines = _lines(draft)
    places = {line.identity: place for place, line in enumerate(lines)}
    return Diagram(
        lines=lines,
        points=tuple(_point(mark, places) for mark in drawn),
        messages=tuple(map(_message, draft.messages.values())),
        arrivals=tuple(_arrival(each, draft, places) for each in draft.arrivals),
        bands=_bands(events, places),
        violations=tuple(
            Violation(name=name, claimed=claimed, text=text, evidence=_evidence(proof, marks))
            for claimed, found in ((True, claims), (False, unkept))
            for name, text, proof in found
        ),
        counted=_counted(events),
        complete=judged.complete,
        unjudged=unjudged,
    )


def _read(
    events: Sequence[TraceEvent], proofs: set[int], *, alone: bool
) -> tuple[Draft, dict[int, Mark]]:
    """Return a draft of all events, and the marks of the events that prove something.

    Args:
        events: the events of the trace.
        proofs: the `id` of each event that proves a violation.
        alone: see `DaemonSide`.
    """
    draft = Draft()
    daemons, steps = DaemonSide(draft, alone=alone), StepSide(draft)
    handlers: Mapping[type[TraceEvent], Callable[[Any], object]] = {
        **daemons.handlers,
        **steps.handlers,
    }
    marks = {}
    for event in events:
        before = len(draft.marks)
        handler = handlers.get(type(event))
        if handler is not None:
            handler(event)
        if id(event) in proofs:
            drawn = [mark for mark in draft.marks[before:] if mark.kind is not None]
            mark = drawn[-1] if drawn else _mark_of_proof(event, draft, daemons)
            if mark is not None:
                marks[id(event)] = mark
    daemons.finish()
    return draft, marks


def _mark_of_proof(event: TraceEvent, draft: Draft, daemons: DaemonSide) -> Mark | None:
    """Return a mark for an event that has none; None if it belongs to no process."""
    process = getattr(event, "p", None)
    if process is None:
        return None
    if isinstance(event, STEPS):
        # Where a message is delivered on arrival, its receipt is the mark.
        found = draft.latest(draft.message((event.s, event.m)), process)  # type: ignore[union-attr]
        return None if found is None else found.delivered
    line = daemons.daemon_line(process)
    return draft.mark(line, event.t, PointKind.PROOF, text=what_happened(event))


# ---- lines ----


def _lines(draft: Draft) -> tuple[Line, ...]:
    """Return daemons by name, each followed by its clients as they came; then all others by
    name.
    """
    by_name = sorted(draft.lines, key=_natural)
    labels = _labels(draft)
    found: list[Line] = []
    for daemon in (name for name in by_name if draft.lines[name] is LineKind.DAEMON):
        home = len(found)
        found.append(Line(identity=daemon, label=daemon, kind=LineKind.DAEMON))
        found += [
            Line(identity=name, label=labels[name], kind=kind, home=home)
            for name, kind in draft.lines.items()
            if kind is LineKind.CLIENT and daemon_of(name) == daemon
        ]
    found += [
        Line(identity=name, label=name, kind=LineKind.PROCESS)
        for name in by_name
        if draft.lines[name] is LineKind.PROCESS
    ]
    return tuple(found)


def _labels(draft: Draft) -> dict[str, str]:
    """Return the names of users, with a number where a user had several connections to a daemon."""
    labels: dict[str, str] = {}
    seen: dict[str, int] = {}
    for identity, kind in draft.lines.items():
        if kind is LineKind.CLIENT:
            private = identity.rpartition("/")[0]
            seen[private] = count = seen.get(private, 0) + 1
            user = split_private(private)[0]
            labels[identity] = user if count == 1 else f"{user} ({count})"
    return labels


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts p2 before p10."""
    return [
        (int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)
    ]


# ---- contents of lines ----


def _point(mark: Mark, places: Mapping[str, int]) -> Point:
    assert mark.kind is not None
    return Point(
        line=places[mark.line],
        t=mark.t,
        clock=mark.clock,
        kind=mark.kind,
        message=None if mark.message is None else mark.message.place,
        text=mark.text,
    )


def _message(sent: Sent) -> Message:
    return Message(
        sender=sent.id[0],
        number=sent.id[1],
        sent=_place(sent.mark),
        level=sent.level,
        to=sent.to,
        stamp=sent.stamp,
        stamp_bytes=sent.stamp_bytes,
    )


def _arrival(reached: Reached, draft: Draft, places: Mapping[str, int]) -> Arrival:
    waits = [draft.messages[name].place for name in reached.waits if name in draft.messages]
    return Arrival(
        message=reached.message.place,
        line=places[reached.line],
        origin=_place(reached.origin or reached.message.mark),
        received=_place(reached.received),
        delivered=_place(reached.delivered),
        waits=tuple(waits),
        reason=reached.reason,
    )


def _place(mark: Mark | None) -> int | None:
    return None if mark is None else mark.place


def _bands(events: Sequence[TraceEvent], places: Mapping[str, int]) -> tuple[Band, ...]:
    """Return the views of each daemon: from one change to the next, or to its end."""
    changes: dict[int, list[Boot | Conf | Fail | Left]] = {}
    for event in events:
        if isinstance(event, Boot | Conf | Fail | Left):
            line = places[event.p.rpartition("/")[0]]
            changes.setdefault(line, []).append(event)
    found = []
    for line, of_line in sorted(changes.items()):
        ends = [event.t for event in of_line[1:]] + [events[-1].t]
        for event, end in zip(of_line, ends, strict=True):
            if isinstance(event, Conf):
                found.append(
                    Band(
                        line=line,
                        begins=event.t,
                        ends=end,
                        view=event.old if event.kind == "T" else event.view,
                        transitional=event.kind == "T",
                        daemons=tuple(member for ring in event.rings for member in ring),
                    )
                )
    return tuple(found)


def _evidence(proof: Sequence[TraceEvent], marks: Mapping[int, Mark]) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(
            t=event.t,
            text=" ".join(readable(event).split()[1:]),  # the page draws the time
            point=_place(marks.get(id(event))),
        )
        for event in proof
    )


def _counted(events: Sequence[TraceEvent]) -> bool:
    """Return whether times count steps; a network in memory has at least one step at each time."""
    return all(isinstance(event, STEPS) and event.t <= len(events) for event in events)
