"""Events of daemons and of their clients, read into a diagram."""

from collections import deque
from collections.abc import Callable
from typing import Any, Final

import attrs

from groupcomm.level import ServiceLevel
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
from groupcomm.trace.steps import MessageId
from groupcomm.wire.bundle import BundleKind
from groupcomm_tools.traces.text import what_happened
from groupcomm_tools.view.diagram import LineKind, PointKind
from groupcomm_tools.view.draft import Draft, Reached, Sent

AT_ONCE_US: Final = 1_000
"""A release this much later than an event had another cause, on real clocks too."""

REMEMBERED: Final = 256
"""More events than a daemon handles at once before it releases messages."""

SHOWN_CAUSES: Final = 20
"""The messages of a packet that represent it: the first ones, if it has more."""

OF_SESSIONS: Final = (Ask, Send, Deliver, Member)
"""Events that only clients' traces have."""

_BODIES: Final = (int(BundleKind.MESSAGES), int(BundleKind.FRAGMENT))
_Packet = tuple[str, int, int]  # view, ring, number


@attrs.frozen
class Passage:
    """The passage of a message through a receiver's daemon.

    Attributes:
        held: the time at which its packet came; None if that is unknown.
        released: the time at which it was released.
        by: the packet for which it waited; None if it was not a packet.
        reason: the reason for which it waited; empty if it did not wait, or for a packet.
    """

    held: int | None
    released: int
    by: _Packet | None
    reason: str


@attrs.define
class _Daemon:
    view: str = ""
    rings: tuple[tuple[str, ...], ...] = ()
    held: dict[tuple[int, int], int] = attrs.field(factory=dict)
    recent: deque[Hold | Count | Table | Conf] = attrs.field(
        factory=lambda: deque(maxlen=REMEMBERED)
    )
    safe: Release | None = None  # the last SAFE message that was released


class Holdings:
    """The packets and horizons that daemons hold, count and release."""

    def __init__(self) -> None:
        self._daemons: dict[str, _Daemon] = {}
        self._authors: dict[_Packet, str] = {}
        self._contents: dict[_Packet, list[MessageId]] = {}
        self._passages: dict[tuple[str, MessageId], Passage] = {}

    def conf(self, event: Conf) -> None:
        """Note a view; packets are numbered anew in each regular view."""
        daemon = self._daemon(event.p)
        daemon.recent.append(event)
        if event.kind == "R":
            daemon.view, daemon.rings, daemon.held = event.view, event.rings, {}

    def stamped(self, event: Stamped) -> None:
        """Note the author of a packet."""
        self._authors[event.view, event.ring, event.number] = _name(event.p)

    def held(self, event: Hold) -> None:
        """Note that a packet has come."""
        daemon = self._daemon(event.p)
        daemon.held.setdefault((event.ring, event.number), event.t)
        daemon.recent.append(event)

    def counted(self, event: Count) -> None:
        """Note that a horizon counts."""
        self._daemon(event.p).recent.append(event)

    def table(self, event: Table) -> None:
        """Note that the groups of a view are known; other changes of the table release nothing."""
        if event.pos[1] == 0:
            self._daemon(event.p).recent.append(event)

    def released(self, event: Release) -> tuple[MessageId, ...]:
        """Return the messages that are released whole; of a message in fragments the last one
        counts.
        """
        if event.kind not in _BODIES or event.index + 1 < event.count:
            return ()
        daemon = self._daemon(event.p)
        found = tuple((event.c, number) for number in range(event.first, event.last + 1))
        packet = daemon.view, event.ring, event.number
        known = self._contents.setdefault(packet, [])
        if event.number and len(known) < SHOWN_CAUSES:
            known += [name for name in found if name not in known]
        passage = _passage(daemon, packet, event)
        if event.level == ServiceLevel.SAFE:
            daemon.safe = event
        for name in found:
            self._passages[_name(event.p), name] = passage
        return found

    def passage(self, daemon: str, message: MessageId) -> Passage | None:
        """Return the last passage of a message through a daemon, by the daemon's name."""
        return self._passages.get((daemon, message))

    def messages_in(self, packet: _Packet | None) -> tuple[MessageId, ...]:
        """Return the messages that any daemon has released from a packet so far."""
        return () if packet is None else tuple(self._contents.get(packet, ())[:SHOWN_CAUSES])

    def describe(self, packet: _Packet) -> str:
        """Return a packet in words."""
        author = self._authors.get(packet)
        return f"packet {packet[2]}" + (f" of {author}" if author else f" of ring {packet[1]}")

    def _daemon(self, p: str) -> _Daemon:
        return self._daemons.setdefault(p, _Daemon())


def _passage(daemon: _Daemon, packet: _Packet, event: Release) -> Passage:
    held = daemon.held.get(packet[1:])
    if held is None or held == event.t:
        return Passage(held, event.t, None, "")
    match _let_go_by(daemon, event):
        case None:
            return _unseen(daemon, held, event)
        case Hold(ring=ring, number=number) if (ring, number) == packet[1:]:
            # SAFE needs more than its packet, unless the daemon is alone.
            alone = event.level != ServiceLevel.SAFE or sum(map(len, daemon.rings)) == 1
            return Passage(held, event.t, None, "") if alone else _unseen(daemon, held, event)
        case Hold(ring=ring, number=number):
            by = daemon.view, ring, number
            return Passage(held, event.t, by, "")
        case Count(ring=ring):
            return Passage(held, event.t, None, f"a horizon of {_ring(daemon, ring)}")
        case Table():
            return Passage(held, event.t, None, "the groups of the view")
        case Conf():
            return Passage(held, event.t, None, "the end of the view")


def _let_go_by(daemon: _Daemon, event: Release) -> Hold | Count | Table | Conf | None:
    """Return the last event that may have caused a release; a later packet of its stream never
    does.
    """
    for each in reversed(daemon.recent):
        if event.t - each.t > AT_ONCE_US:
            return None
        if not isinstance(each, Hold) or each.ring != event.ring or each.number <= event.number:
            return each
    return None


def _unseen(daemon: _Daemon, held: int, event: Release) -> Passage:
    """Return the passage of a release that no event of the trace explains.

    A SAFE message may have caused it, which waited itself: it delays the messages after it in the
    agreed order or in that of its sender, and those that depend on it.
    """
    if event.level == ServiceLevel.SAFE:
        return Passage(
            held, event.t, None, "confirmation that every daemon of the view can deliver it"
        )
    safe = daemon.safe
    if safe is None or event.t - safe.t > AT_ONCE_US:
        return Passage(held, event.t, None, "something that the trace does not show")
    by = daemon.view, safe.ring, safe.number
    return Passage(held, event.t, by, "a SAFE message before it")


def _ring(daemon: _Daemon, ring: int) -> str:
    known = daemon.rings[ring] if ring < len(daemon.rings) else ()
    return f"ring {ring}" + (f" ({', '.join(map(_name, known))})" if known else "")


def _name(process: str) -> str:
    return process.rpartition("/")[0]


Handler = Callable[[Any], object]


class DaemonSide:
    """A reader of the events of daemons and clients into a draft.

    Args:
        draft: receives them.
        alone: there are no events of clients, as in the dump of a flight recorder: messages are
            then drawn at the daemons, which accept and release them.

    Attributes:
        handlers: a handler for each type of event that it reads.
    """

    def __init__(self, draft: Draft, *, alone: bool = False) -> None:
        self._draft = draft
        self._alone = alone
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
            Member: lambda event: self._note_event(event, PointKind.VIEW),
            **dict.fromkeys(
                (Order, Bounce, Trans, Dview),
                lambda event: self._note_event(event, PointKind.NOTIFIED),
            ),
        }

    def finish(self) -> None:
        """Note the reason for which each message waited, now that all packets are known."""
        for arrival, passage in self._passages:
            arrival.waits = self._holdings.messages_in(passage.by)
            arrival.reason = passage.reason
            if passage.by is not None and not passage.reason:
                arrival.reason = self._holdings.describe(passage.by)

    # ---- daemons ----

    def daemon_line(self, process: str) -> str:
        """Return the line of a daemon."""
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
        if self._alone:
            for number in range(event.first, event.last + 1):
                message = self._draft.message((event.c, number))
                line = self.daemon_line(event.p)
                message.mark = self._draft.mark(line, event.t, PointKind.SEND, message=message)
            return
        sent = [self._draft.messages.get((event.c, m)) for m in range(event.first, event.last + 1)]
        marks = [message.mark for message in sent if message is not None]
        self._draft.mark(self.daemon_line(event.p), event.t, None, after=marks)

    def _release(self, event: Release) -> None:
        given = [self._draft.message(name) for name in self._holdings.released(event)]
        if self._alone:
            for message in given:
                self._release_to_all(message, event)
            return
        marks = [message.mark for message in given]
        self._draft.mark(self.daemon_line(event.p), event.t, None, after=marks)

    def _release_to_all(self, message: Sent, event: Release) -> None:
        """Draw a message at the daemon that has released it."""
        draft, line = self._draft, self.daemon_line(event.p)
        message.level = event.level
        arrival = draft.reach(message, line)
        passage = self._holdings.passage(line, message.id)
        if passage is not None and passage.held is not None and (passage.by or passage.reason):
            self._passages.append((arrival, passage))
            arrival.received = draft.mark(
                *(line, passage.held, PointKind.RECEIVE), message=message, after=[message.mark]
            )
        arrival.delivered = draft.mark(
            line, event.t, PointKind.DELIVER, message=message, after=[message.mark]
        )

    # ---- clients ----

    def _client_line(self, identity: str) -> str:
        # An event of the client's filter may have come first.
        if self._draft.lines.get(identity) is not LineKind.CLIENT:
            self._draft.lines.setdefault(daemon_of(identity), LineKind.DAEMON)
            self._draft.lines[identity] = LineKind.CLIENT
        return identity

    def _ask(self, event: Ask) -> None:
        kind = PointKind.END if event.what == "crash" else PointKind.ASK
        line = self._client_line(event.c)
        self._draft.mark(line, event.t, kind, text=what_happened(event))

    def _note_event(self, event: Member | Order | Bounce | Trans | Dview, kind: PointKind) -> None:
        line = self._client_line(event.c)
        self._draft.mark(line, event.t, kind, text=what_happened(event))

    def _send(self, event: Send) -> None:
        message = self._draft.message((event.c, event.m))
        message.level, message.to = event.level, event.to
        line = self._client_line(event.c)
        if message.mark is None:  # otherwise its filter has sent the message
            message.mark = self._draft.mark(line, event.t, PointKind.SEND, message=message)

    def _deliver(self, event: Deliver) -> None:
        draft, line = self._draft, self._client_line(event.c)
        message = draft.message((event.s, event.m))
        message.level, message.to = event.level, event.to
        if event.pos is not None:
            message.stamp = _position(event.pos)
        arrival = draft.latest(message, line)
        if arrival is not None and arrival.given:
            return  # a filter of this client has delivered it
        arrival = draft.reach(message, line)
        self._pass_through(arrival, event)
        arrival.delivered = draft.mark(
            line, event.t, PointKind.DELIVER, message=message, after=[message.mark]
        )

    def _pass_through(self, arrival: Reached, event: Deliver) -> None:
        """Show how long the daemon held a message, if it had to wait there."""
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
