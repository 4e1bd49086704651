"""Recorders: turn acts of a core and of a client's session into trace events.

In the simulator, a fuse at a core's probe kills the daemon at the moment of an event: in the middle
of a step, whose datagrams are then never sent.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import attrs
import google_crc32c

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.config.view import DaemonId, View
from groupcomm.errors import Code
from groupcomm.events import (
    Closed,
    DaemonView,
    Event,
    GroupView,
    Message,
    Ordered,
    Transition,
    Undeliverable,
)
from groupcomm.level import ServiceLevel
from groupcomm.trace.events import (
    REQUESTS,
    Accept,
    Ask,
    Bounce,
    Conf,
    Count,
    Deliver,
    Dview,
    Hold,
    Horizon,
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
from groupcomm.trace.steps import TraceClock
from groupcomm.wire.bundle import Bundle, BundleKind
from groupcomm.wire.membership import Join, Proposal

RecordEvent = Callable[[TraceEvent], None]
"""Receives the events of a run in the order in which they happen."""


FUSE_KINDS = ("installed", "transitional", "table", "stamped", "held", "released", "accepted")
"""The events at which a fuse can kill a daemon."""

_LEAVE = int(BundleKind.LEAVE)
_MESSAGES = int(BundleKind.MESSAGES)
_FRAGMENT = int(BundleKind.FRAGMENT)


class Killed(BaseException):
    """A fuse has burnt through: the daemon is killed here and now."""


@attrs.define
class Fuse:
    """Kills a daemon at an event of one kind.

    Attributes:
        kind: one of FUSE_KINDS.
        spared: the number of such events before.
    """

    kind: str
    spared: int = 0


def trace_position(position: Position) -> TracePosition:
    """Return a position as traces write it."""
    view, time, ring, bundle, message = position
    return (view_text(view), time, ring, bundle, message)


@lru_cache(maxsize=64)
def view_text(view: ViewId) -> str:
    """Return a view's id as traces write it."""
    return str(view)


@attrs.define(eq=False, repr=False)
class TraceProbe:
    """Implements `groupcomm.engine.probe.Probe` for one start of a daemon.

    Args:
        clock: gives the events their times.
        record: takes the events.
        process: identity of this start, ``name/start``.
        identities: the identities of all starts of all daemons.

    Attributes:
        fuse: the fuse that kills the daemon; None for none.
        completed: the last view whose group table is complete here; None before the first.
        counter: the counter of the last view.
    """

    _clock: TraceClock
    _record: RecordEvent
    _process: str
    _identities: Mapping[DaemonId, str]
    _view: str = ""
    fuse: Fuse | None = None
    completed: ViewId | None = None
    counter: int = 0

    def _burn(self, kind: str) -> None:
        fuse = self.fuse
        if fuse is not None and fuse.kind == kind:
            fuse.spared -= 1
            if fuse.spared < 0:
                self.fuse = None
                raise Killed

    def gathered(self, join: Join) -> None:
        """Ignore it: traces say what daemons deliver, not what they look for."""

    def committed(self, proposal: Proposal, view: View, transitional: frozenset[int]) -> None:
        """Ignore it, too."""

    def recovered(self) -> None:
        """Ignore it, too."""

    def installed(self, view: View) -> None:
        """See Probe."""
        self._view = view_text(view.id)
        self.counter = view.id.counter
        names = [self._identities[daemon] for daemon in view.daemons]
        rings = tuple(tuple(names[member] for member in ring) for ring in view.rings)
        self._record(Conf(self._clock.now, self._process, "R", self._view, rings))
        self._burn("installed")

    def transitional(self, old: ViewId, new: ViewId, members: tuple[DaemonId, ...]) -> None:
        """See Probe."""
        ring = tuple(self._identities[daemon] for daemon in members)
        now, next_ = self._clock.now, view_text(new)
        self._record(Conf(now, self._process, "T", next_, (ring,), view_text(old)))
        self._burn("transitional")

    def stamped(self, ring: int, number: int, time: int) -> None:
        """See Probe."""
        self._record(Stamped(self._clock.now, self._process, self._view, ring, number, time))
        if self.fuse is not None:
            self._burn("stamped")

    def held(self, ring: int, number: int, time: int) -> None:
        """See Probe."""
        self._record(Hold(self._clock.now, self._process, ring, number, time))
        if self.fuse is not None:
            self._burn("held")

    def horizon(self, ring: int, value: int, upto: int) -> None:
        """See Probe."""
        self._record(Horizon(self._clock.now, self._process, self._view, ring, value, upto))

    def counted(self, ring: int, value: int, upto: int) -> None:
        """See Probe."""
        self._record(Count(self._clock.now, self._process, ring, value, upto))

    def released(
        self, ring: int, number: int, time: int, bundle_index: int, bundle: Bundle, sender: str
    ) -> None:
        """See Probe."""
        now, me, level = self._clock.now, self._process, bundle.level
        kind, first, part = bundle.kind, bundle.message, bundle.index
        last = first + bundle.count - 1 if kind == _MESSAGES else first
        client, parts = f"{sender}/{bundle.session}", bundle.count if kind == _FRAGMENT else 1
        group = bundle.groups[0] if kind == _LEAVE and not first else ""
        place = (ring, number, time, bundle_index)
        self._record(Release(now, me, *place, kind, level, client, first, last, part, parts, group))
        if self.fuse is not None:
            self._burn("released")

    def table(self, position: Position, digest: str) -> None:
        """See Probe."""
        self._record(Table(self._clock.now, self._process, trace_position(position), digest))
        if position.time == 0:
            self.completed = position.view
            self._burn("table")

    def accepted(self, sender: str, connection: int, first: int, last: int) -> None:
        """See Probe."""
        client = f"{sender}/{connection}"
        self._record(Accept(self._clock.now, self._process, client, first, last))
        if self.fuse is not None:
            self._burn("accepted")


def digest_of(kind: int, data: bytes) -> int:
    """Return the digest of a message's type and data: a CRC32C that starts with the type."""
    return int(google_crc32c.extend(kind, data))


@attrs.define(eq=False, repr=False)
class SessionTrace:
    """Records the events of one session.

    Args:
        clock: gives the events their times.
        record: accepts the events.
        identity: the session's identity, if it is known already.

    Attributes:
        identity: the same; set before anything is recorded.
    """

    _clock: TraceClock
    _record: RecordEvent
    identity: str = ""

    def requested(
        self, what: str, group: str = "", number: int = 0, *, needs_quorum: bool = False
    ) -> None:
        """Record a request to connect, join, leave or disconnect, or a crash; see Ask."""
        assert what in REQUESTS, f"no tool reads that a session asks for {what!r}"
        self._record(Ask(self._clock.now, self.identity, what, group, number, needs_quorum))

    def sent(
        self,
        number: int,
        level: ServiceLevel,
        to: Sequence[str],
        type: int,
        data: bytes,
        *,
        discard: bool,
        ordered: bool,
    ) -> None:
        """Record that the session sent a message; see Send."""
        digest = digest_of(type, data)
        now = self._clock.now
        self._record(Send(now, self.identity, number, level, tuple(to), digest, discard, ordered))

    def received(self, event: Event) -> None:
        """Record that the session got an event; some events are not recorded."""
        now, me = self._clock.now, self.identity
        match event:
            case Message(sender=sender, position=position):
                place = None if position is None else trace_position(position)
                number, level, to = event.number, event.level, event.groups
                by, digest = f"{sender.name}/{sender.connection}", digest_of(event.type, event.data)
                self._record(Deliver(now, me, by, number, level, to, digest, place))
            case GroupView():
                self._group_view(event)
            case Ordered():
                place = trace_position(event.position)
                self._record(Order(now, me, event.number, place, event.transitional))
            case Undeliverable():
                place = trace_position(event.position)
                self._record(Bounce(now, me, event.number, event.target, place))
            case Transition(view=view):
                self._record(Trans(now, me, view_text(view)))
            case DaemonView(id=id):
                self._record(Dview(now, me, view_text(id), event.daemons, event.majority))
            case Closed(code=Code.REJECT_NOT_UNIQUE):
                self.requested("refused")
            case _:
                pass

    def _group_view(self, view: GroupView) -> None:
        now, pos, cause = self._clock.now, trace_position(view.id), view.cause.name.lower()
        members, changed = tuple(map(str, view.members)), tuple(map(str, view.changed))
        vs = tuple(map(str, view.vs_set))
        self._record(Member(now, self.identity, view.group, pos, members, cause, changed, vs))
