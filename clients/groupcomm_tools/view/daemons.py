"""Reads what daemons and their clients did into a diagram."""

from collections.abc import Callable
from typing import Any

from groupcomm.names import daemon_of
from groupcomm.trace.events import (
    Accept,
    Ask,
    Boot,
    Bounce,
    Conf,
    Count,
    Deliver,
    Dview,
    Fail,
    Hold,
    Left,
    Member,
    Order,
    Release,
    Send,
    Stamped,
    Table,
    TraceEvent,
    TracePosition,
    Trans,
)
from groupcomm.trace.readable import what_happened
from groupcomm_tools.view.diagram import LineKind, PointKind
from groupcomm_tools.view.draft import Draft, Reached
from groupcomm_tools.view.holding import Holdings, Passage

Handler = Callable[[Any], object]


class DaemonSide:
    """Puts the events of daemons and clients into a draft.

    Attributes:
        handlers: one for each type of event that it takes.
    """

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._holdings = holdings = Holdings()
        self._passages: list[tuple[Reached, Passage]] = []
        self.handlers: dict[type[TraceEvent], Handler] = {
            Boot: lambda event: self._life(event, PointKind.START),
            **dict.fromkeys((Fail, Left), lambda event: self._life(event, PointKind.END)),
            Conf: self._conf,
            Stamped: holdings.stamped,
            Hold: holdings.held,
            Count: holdings.counted,
            Table: holdings.table,
            Accept: self._accept,
            Release: self._release,
            Send: self._send,
            Deliver: self._deliver,
            Ask: self._ask,
            Member: lambda event: self._told(event, PointKind.VIEW),
            **dict.fromkeys(
                (Order, Bounce, Trans, Dview), lambda event: self._told(event, PointKind.TOLD)
            ),
        }

    def finish(self) -> None:
        """Tell what each message waited for, now that all packets are known."""
        for arrival, passage in self._passages:
            arrival.waits = self._holdings.messages_in(passage.by)
            arrival.reason = passage.reason
            if passage.by is not None and not passage.reason:
                arrival.reason = self._holdings.told(passage.by)

    # ---- daemons ----

    def daemon_line(self, process: str) -> str:
        """The line of a daemon's start."""
        name = process.rpartition("/")[0]
        self._draft.lines.setdefault(name, LineKind.DAEMON)
        return name

    def _life(self, event: Boot | Fail | Left, kind: PointKind) -> None:
        self._draft.mark(self.daemon_line(event.p), event.t, kind, text=what_happened(event))

    def _conf(self, event: Conf) -> None:
        self._holdings.conf(event)
        kind = PointKind.INSTALL if event.kind == "R" else PointKind.TRANSITION
        self._draft.mark(self.daemon_line(event.p), event.t, kind, text=what_happened(event))

    def _accept(self, event: Accept) -> None:
        sent = [self._draft.messages.get((event.c, m)) for m in range(event.first, event.last + 1)]
        marks = [message.mark for message in sent if message is not None]
        self._draft.mark(self.daemon_line(event.p), event.t, None, after=marks)

    def _release(self, event: Release) -> None:
        given = [self._draft.message(name) for name in self._holdings.released(event)]
        marks = [message.mark for message in given]
        self._draft.mark(self.daemon_line(event.p), event.t, None, after=marks)

    # ---- clients ----

    def _client_line(self, identity: str) -> str:
        if self._draft.lines.get(identity) is not LineKind.CLIENT:  # its filter may come first
            self._draft.lines.setdefault(daemon_of(identity), LineKind.DAEMON)
            self._draft.lines[identity] = LineKind.CLIENT
        return identity

    def _ask(self, event: Ask) -> None:
        kind = PointKind.END if event.what == "crash" else PointKind.ASK
        line = self._client_line(event.c)
        self._draft.mark(line, event.t, kind, text=what_happened(event))

    def _told(self, event: Member | Order | Bounce | Trans | Dview, kind: PointKind) -> None:
        line = self._client_line(event.c)
        self._draft.mark(line, event.t, kind, text=what_happened(event))

    def _send(self, event: Send) -> None:
        message = self._draft.message((event.c, event.m))
        message.level, message.to = event.level, event.to
        line = self._client_line(event.c)
        if message.mark is None:  # else its filter has told of it
            message.mark = self._draft.mark(line, event.t, PointKind.SEND, message=message)

    def _deliver(self, event: Deliver) -> None:
        draft, line = self._draft, self._client_line(event.c)
        message = draft.message((event.s, event.m))
        message.level, message.to = event.level, event.to
        if event.pos is not None:
            message.stamp = _position(event.pos)
        arrival = draft.latest(message, line)
        if arrival is not None and arrival.given:
            return  # a filter of this client has told of it
        arrival = draft.reach(message, line)
        self._pass_through(arrival, event)
        arrival.delivered = draft.mark(
            line, event.t, PointKind.DELIVER, message=message, after=[message.mark]
        )

    def _pass_through(self, arrival: Reached, event: Deliver) -> None:
        """Show how long its daemon has had it, if it had to wait there."""
        message, line = arrival.message, arrival.line
        passage = self._holdings.passage(daemon_of(line), message.id)
        if passage is None or passage.held is None or not (passage.by or passage.reason):
            return
        self._passages.append((arrival, passage))
        if passage.held >= self._draft.begins.get(line, event.t):
            arrival.received = self._draft.mark(
                *(line, passage.held, PointKind.RECEIVE), message=message, after=[message.mark]
            )


def _position(position: TracePosition) -> str:
    view, *rest = position
    return f"{'/'.join(map(str, rest))} in view {view}"
