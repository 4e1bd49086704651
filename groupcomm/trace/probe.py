"""A core's probe that records: what happens inside becomes trace events.

In the simulator, a fuse at a probe kills the daemon at one of these very moments: in the middle of
a step, whose datagrams are then never sent.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache

import attrs

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.config.view import DaemonId, View
from groupcomm.trace.events import (
    Accept,
    Conf,
    Count,
    Hold,
    Horizon,
    Release,
    Stamped,
    Table,
    TraceEvent,
    TracePosition,
)
from groupcomm.trace.steps import Now
from groupcomm.wire.bundle import Bundle, BundleKind

Record = Callable[[TraceEvent], None]
"""Takes the events of a run in the order in which they happen."""


FUSE_KINDS = ("installed", "transitional", "table", "stamped", "held", "released", "accepted")
"""The moments at which a fuse can burn through."""

_MESSAGES = int(BundleKind.MESSAGES)
_FRAGMENT = int(BundleKind.FRAGMENT)


class Killed(BaseException):
    """A fuse has burnt through: the daemon dies here and now."""


@attrs.define
class Fuse:
    """Kills a daemon at a moment of one kind.

    Attributes:
        kind: one of FUSE_KINDS.
        spared: how many such moments pass before.
    """

    kind: str
    spared: int = 0


def trace_position(position: Position) -> TracePosition:
    """A position as traces write it."""
    view, time, ring, bundle, message = position
    return (view_text(view), time, ring, bundle, message)


@lru_cache(maxsize=64)
def view_text(view: ViewId) -> str:
    """A view's id as traces write it."""
    return str(view)


class TraceProbe:
    """Implements `groupcomm.engine.probe.Probe` for one start of a daemon.

    Args:
        clock: gives the events their times.
        record: takes the events.
        process: identity of this start, ``name/start``.
        identities: of all starts of all daemons.

    Attributes:
        fuse: kills the daemon; None for none.
        completed: the last view whose group table is whole here; None before the first.
        counter: of the last view.
    """

    __slots__ = (
        "_clock",
        "_identities",
        "_process",
        "_record",
        "_view",
        "completed",
        "counter",
        "fuse",
    )

    def __init__(
        self, clock: Now, record: Record, process: str, identities: Mapping[DaemonId, str]
    ) -> None:
        self._clock = clock
        self._record = record
        self._process = process
        self._identities = identities
        self._view = ""
        self.fuse: Fuse | None = None
        self.completed: ViewId | None = None
        self.counter = 0

    def _burn(self, kind: str) -> None:
        fuse = self.fuse
        if fuse is not None and fuse.kind == kind:
            fuse.spared -= 1
            if fuse.spared < 0:
                self.fuse = None
                raise Killed

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
        kind = bundle.kind
        first = bundle.message
        last = first + bundle.count - 1 if kind == _MESSAGES else first
        client = f"{sender}/{bundle.session}"
        self._record(
            Release(
                self._clock.now,
                self._process,
                ring,
                number,
                time,
                bundle_index,
                kind,
                bundle.level,
                client,
                first,
                last,
                bundle.index,
                bundle.count if kind == _FRAGMENT else 1,
            )
        )
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
