"""Steps of algorithms and filters, read into a diagram."""

from collections.abc import Callable
from typing import Any

import attrs

from groupcomm.trace.events import TraceEvent
from groupcomm.trace.steps import (
    AlgorithmStep,
    Buffered,
    Concurrent,
    Given,
    MemberAdded,
    MemberDropped,
    MessageId,
    PassedThrough,
    PathCopied,
    StampedReceived,
    StampedSent,
    VectorCreated,
)
from groupcomm_tools.traces.text import what_happened
from groupcomm_tools.view.diagram import LineKind, PointKind
from groupcomm_tools.view.draft import Draft, Mark, Reached


@attrs.frozen
class _Receipt:
    """The last packet that came to a process."""

    t: int
    message: MessageId | None


class StepSide:
    """A reader of steps into a draft.

    Internal steps of a process (its count, its buffer) have no point: the line of the message shows
    it.

    Attributes:
        handlers: a handler for each type of event that it reads.
    """

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._receipts: dict[str, _Receipt] = {}
        self.handlers: dict[type[TraceEvent], Callable[[Any], object]] = {
            StampedSent: self._sent,
            StampedReceived: self._received,
            Buffered: self._buffered,
            Given: self._given,
            PassedThrough: self._passed,
            **dict.fromkeys((Concurrent, PathCopied), self._about),
            **dict.fromkeys((VectorCreated, MemberAdded, MemberDropped), self._step),
        }

    def _line(self, process: str) -> str:
        self._draft.lines.setdefault(process, LineKind.PROCESS)
        return process

    def _sent(self, event: StampedSent) -> None:
        message = self._draft.message((event.s, event.m))
        message.stamp, message.stamp_bytes = event.stamp, event.bytes
        message.to = message.to or event.to
        if message.mark is None:
            line = self._line(event.p)
            message.mark = self._draft.mark(line, event.t, PointKind.SEND, message=message)

    def _received(self, event: StampedReceived) -> None:
        draft, line = self._draft, self._line(event.p)
        message = draft.message((event.s, event.m))
        self._receipts[event.p] = _Receipt(event.t, message.id)
        arrival = draft.latest(message, line)
        if arrival is not None and arrival.delivered is not None and not arrival.given:
            # A filter receives the connection's deliveries.
            arrival.received, arrival.delivered = arrival.delivered, None
            arrival.received.kind = PointKind.RECEIVE
            return
        if arrival is not None:
            self._about(event)
            return
        arrival = draft.reach(message, line)
        arrival.origin = self._origin(arrival, event.source)
        arrival.received = draft.mark(
            line, event.t, PointKind.RECEIVE, message=message, after=[arrival.origin, message.mark]
        )

    def _origin(self, arrival: Reached, source: str) -> Mark | None:
        """Return the origin of a message: a process that forwarded it had received it before."""
        passed_on = self._draft.latest(arrival.message, source)
        if source != arrival.message.id[0] and passed_on is not None:
            return passed_on.received or passed_on.delivered
        return arrival.message.mark

    def _buffered(self, event: Buffered) -> None:
        arrival = self._arrival(event)
        arrival.waits = event.waits
        arrival.reason = "" if event.waits else "something that its stamp does not name"

    def _given(self, event: Given) -> None:
        draft = self._draft
        arrival = self._arrival(event)
        if arrival.delivered is not None:
            arrival = draft.reach(arrival.message, event.p)
        arrival.given = True
        self._let_go(arrival, event)
        came = self._came_just_now(arrival, event)
        if came is not None:
            came.kind = PointKind.DELIVER
            arrival.delivered, arrival.received = came, None
            return
        arrival.delivered = draft.mark(
            *(self._line(event.p), event.t, PointKind.DELIVER),
            message=arrival.message,
            after=[arrival.message.mark],
        )

    def _came_just_now(self, arrival: Reached, event: Given) -> Mark | None:
        """Return the receipt if it is at the same point as the delivery; else None."""
        came = arrival.received
        if came is None or came.t != event.t or arrival.waits:
            return None
        return came if came is self._draft.last.get(event.p) else None

    def _let_go(self, arrival: Reached, event: Given) -> None:
        """Note the event that released a message, if its stamp does not name it but the last packet
        shows it.
        """
        last = self._receipts.get(event.p)
        if not arrival.reason or arrival.waits or last is None or last.t != event.t:
            return
        if last.message is None:
            arrival.reason = "a packet without a message, which released it"
        elif last.message != arrival.message.id:
            arrival.waits = (last.message,)
            arrival.reason = "the last packet before its delivery"

    def _arrival(self, event: Buffered | Given) -> Reached:
        message = self._draft.message((event.s, event.m))
        line = self._line(event.p)
        return self._draft.latest(message, line) or self._draft.reach(message, line)

    def _passed(self, event: PassedThrough) -> None:
        self._receipts[event.p] = _Receipt(event.t, None)
        self._step(event)

    def _about(self, event: StampedReceived | Concurrent | PathCopied) -> None:
        message = self._draft.message((event.s, event.m))
        self._draft.mark(
            *(self._line(event.p), event.t, PointKind.STEP),
            message=message,
            text=what_happened(event),
            after=[message.mark],
        )

    def _step(self, event: AlgorithmStep) -> None:
        line = self._line(event.p)
        self._draft.mark(line, event.t, PointKind.STEP, text=what_happened(event))
