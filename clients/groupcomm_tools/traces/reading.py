"""Reading traces: check the events of a file, and merge the traces of several processes.

Checkers rely on events that make sense: names of the right form, known levels. The events of a file
may not, so each is checked before it is judged.

Each process writes its events with times of the host's monotonic clock, before any of them has an
effect elsewhere. So in the order of time, causes stand before their effects.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import merge as merge_sorted
from operator import attrgetter
from typing import Any, Final

import msgspec

from groupcomm.errors import GroupCommError
from groupcomm.names import split_private
from groupcomm.trace.events import (
    REQUESTS,
    Accept,
    Ask,
    Boot,
    Bounce,
    Conf,
    Count,
    Deliver,
    Dview,
    Fail,
    Heal,
    Hold,
    Horizon,
    Left,
    Member,
    Order,
    Quiet,
    Rejects,
    Release,
    Send,
    Stamped,
    Table,
    TraceEvent,
    Trans,
    decode_event_untrusted,
    view_order,
)
from groupcomm.trace.steps import STEPS, AlgorithmStep
from groupcomm.wire.bundle import OF_SESSIONS, BundleKind

MAX_BUNDLE: Final = 65_536
"""More messages than any bundle holds; an event with more is refused."""

_START: Final = re.compile(r"[0-9]+(\.[0-9a-f]+)?")


class TraceError(GroupCommError):
    """A line is no event, or no event of this trace; the text has file, line and reason."""


class EventCheck:
    """Checks single events, without those before, for contents that checkers cannot process.

    Each method raises ValueError with the reason.
    """

    def __init__(self) -> None:
        self._checks: dict[type[TraceEvent], Callable[[Any], None]] = {
            Boot: self._boot,
            Conf: self._conf,
            Heal: self._heal,
            Accept: self._accept,
            Release: self._release,
            Send: self._send,
            Deliver: self._deliver,
            Ask: self._ask,
            Member: self._member,
            Table: self._table,
            **dict.fromkeys((Fail, Left, Rejects, Hold, Count), self._daemon),
            **dict.fromkeys((Stamped, Horizon), self._of_view),
            **dict.fromkeys((Order, Bounce), self._at_position),
            **dict.fromkeys((Trans, Dview), self._at_client),
            **dict.fromkeys(STEPS, self._step),
        }
        self._processes: set[str] = set()  # names known to be of the right form
        self._clients: set[str] = set()
        self._views: set[str] = set()

    def check(self, event: TraceEvent) -> None:
        """Raise ValueError if an event makes no sense."""
        check = self._checks.get(type(event))
        if check is not None:
            check(event)

    # ---- daemons ----

    def _boot(self, event: Boot) -> None:
        self._daemon(event)
        restarts, dot, random_id = event.incarnation.partition(".")
        if not restarts.isdecimal() or not dot or not random_id:
            raise ValueError(f"{event.incarnation!r} is not of the form restarts.random-id")

    def _conf(self, event: Conf) -> None:
        self._daemon(event)
        self._view(event.view)
        members = [member for ring in event.rings for member in ring]
        for member in members:
            self._process(member)
        if not event.rings or not all(event.rings):
            raise ValueError("a view without daemons, or with a ring without any")
        if len({member.rpartition("/")[0] for member in members}) < len(members):
            raise ValueError("a view with one daemon twice")
        if event.kind == "T":
            self._view(event.old)
        elif event.kind != "R":
            raise ValueError(f"a view of kind {event.kind!r}")

    def _heal(self, event: Heal) -> None:
        if not event.core:
            raise ValueError("a heal names no daemon of the core")
        for identity in (*event.core, *event.aside):
            self._process(identity)

    def _daemon(self, event: Any) -> None:
        self._process(event.p)

    def _of_view(self, event: Stamped | Horizon) -> None:
        self._daemon(event)
        self._view(event.view)

    def _table(self, event: Table) -> None:
        self._daemon(event)
        self._view(event.pos[0])

    def _accept(self, event: Accept) -> None:
        self._daemon(event)
        self._bundle(event)

    def _release(self, event: Release) -> None:
        self._daemon(event)
        self._bundle(event)
        self._level(event)
        if event.kind not in OF_SESSIONS or not 0 <= event.index < event.count:
            raise ValueError(f"kind {event.kind}, part {event.index} of {event.count}")

    def _bundle(self, event: Accept | Release) -> None:
        self._client(event.c)
        if not 0 <= event.last - event.first < MAX_BUNDLE:
            raise ValueError(f"a bundle of messages {event.first} to {event.last}")

    # ---- clients ----

    def _ask(self, event: Ask) -> None:
        self._client(event.c)
        if event.what not in REQUESTS:
            raise ValueError(f"a client asks for {event.what!r}")

    def _send(self, event: Send) -> None:
        self._client(event.c)
        self._level(event)

    def _deliver(self, event: Deliver) -> None:
        self._client(event.c)
        self._client(event.s)
        self._level(event)
        if event.pos is not None:
            self._view(event.pos[0])

    def _level(self, event: Any) -> None:
        if not 0 <= event.level <= 5:
            raise ValueError(f"level {event.level} is none of 0 to 5")
        if not isinstance(event, Release) and not all(event.to or [""]):
            raise ValueError("a message without a destination")

    def _member(self, event: Member) -> None:
        self._at_position(event)
        for identity in event.changed:
            self._client(identity)

    def _at_position(self, event: Member | Order | Bounce) -> None:
        self._client(event.c)
        self._view(event.pos[0])

    def _at_client(self, event: Trans | Dview) -> None:
        self._client(event.c)
        self._view(event.view)

    # ---- algorithms and filters ----

    def _step(self, event: AlgorithmStep) -> None:
        if not event.p or getattr(event, "s", "-") == "":
            raise ValueError("a process or a sender without a name")

    # ---- names ----

    def _client(self, text: str) -> None:
        if text not in self._clients:
            name, slash, connection = text.rpartition("/")
            if name.count("#") != 2 or name[0] != "#" or not slash or not connection.isdecimal():
                raise ValueError(f"{text!r} is not of the form #user#daemon/connection")
            self._clients.add(text)

    def _process(self, text: str) -> None:
        if text not in self._processes:
            name, _, start = text.rpartition("/")
            if not name or not _START.fullmatch(start):
                raise ValueError(f"{text!r} is not of the form name/start")
            self._processes.add(text)

    def _view(self, text: str) -> None:
        if text not in self._views:
            try:
                view_order(text)
            except ValueError:
                raise ValueError(
                    f"{text!r} is not of the form counter.daemon.incarnation"
                ) from None
            self._views.add(text)


def read_event(sense: EventCheck, name: str, number: int, line: bytes) -> TraceEvent:
    """Return the event of a line, checked.

    Raises:
        TraceError: the line is no valid event; the text has file, line and reason.
    """
    try:
        event: TraceEvent = decode_event_untrusted(line)
        sense.check(event)
    except (msgspec.MsgspecError, ValueError) as error:
        raise TraceError(f"{name}:{number}: {_what_is_wrong(line, error)}") from None
    return event


def _what_is_wrong(line: bytes, error: Exception) -> str:
    if not line.strip():
        return "an empty line; a trace has one event on each"
    if not line.endswith(b"\n") and not line.endswith(b"}"):
        return "the line is cut off; the trace is good up to the line before"
    return f"not an event of this trace: {error}"


def read_trace(name: str, lines: Iterable[bytes]) -> Iterator[TraceEvent]:
    """Yield the events of one trace.

    Args:
        name: its name in errors, usually that of the file.
        lines: one event a line, as bytes; an open binary file is one.

    Raises:
        TraceError: a line is broken, cut off, or makes no sense where it stands.
    """
    sense = EventCheck()
    for number, line in enumerate(lines, 1):
        yield read_event(sense, name, number, line)


def read_together(traces: Mapping[str, Iterable[bytes]]) -> Iterator[TraceEvent]:
    """Yield the events of several processes as one trace, in the order of their times.

    A last line that is cut off, as a killed process may leave it, is ignored.

    Args:
        traces: lines by the name of their file.

    Raises:
        TraceError: a line is broken, or makes no sense where it stands.
    """
    sense = EventCheck()
    return merge([_events(sense, *trace) for trace in traces.items()])


def _events(sense: EventCheck, name: str, lines: Iterable[bytes]) -> list[TraceEvent]:
    whole = [line for line in lines if line.endswith(b"\n")]
    return [read_event(sense, name, number, line) for number, line in enumerate(whole, 1)]


_CONNECT = int(BundleKind.CONNECT)


def merge(traces: Sequence[Sequence[TraceEvent]]) -> Iterator[TraceEvent]:
    """Yield all events in the order of their times, up to Quiet.

    A daemon's end comes after all that its clients have read, as they can still read what it wrote
    before. Events after Quiet, of processes that end then, are left out.

    Args:
        traces: the events of one process, or of one session, each; in order.
    """
    last_reads = _last_reads(traces)
    for event in merge_sorted(*(_with_late_ends(t, last_reads) for t in traces), key=_time):
        yield event
        if isinstance(event, Quiet):
            return


_time = attrgetter("t")


def _last_reads(traces: Sequence[Sequence[TraceEvent]]) -> dict[str, int]:
    """Return for each start of a daemon the time of the last event of its clients.

    A client belongs to the start of its daemon that has released its connect. The time of its
    request does not tell, as a socket accepts connections before its daemon boots.
    """
    homes = {
        event.c: event.p
        for trace in traces
        for event in trace
        if isinstance(event, Release) and event.kind == _CONNECT and _is_home(event)
    }
    found: dict[str, int] = {}
    for trace in traces:
        if trace and isinstance(trace[0], Ask) and trace[0].what == "connect":  # of a session
            start = homes.get(trace[0].c)
            if start is not None:
                found[start] = max(found.get(start, 0), trace[-1].t)
    return found


def _is_home(connect: Release) -> bool:
    client = connect.c.rpartition("/")[0]
    return split_private(client)[1] == connect.p.rpartition("/")[0]


def _with_late_ends(
    trace: Sequence[TraceEvent], last_reads: dict[str, int]
) -> Sequence[TraceEvent]:
    moved = [
        msgspec.structs.replace(event, t=max(event.t, last_reads.get(event.p, 0) + 1))
        if isinstance(event, Fail | Left)
        else event
        for event in trace
    ]
    return sorted(moved, key=_time)
