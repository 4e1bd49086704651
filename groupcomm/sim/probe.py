"""A core's probe in the simulator: what happens inside becomes trace events."""

from collections.abc import Callable
from functools import lru_cache

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.sim.loop import Loop
from groupcomm.sim.trace import (
    Accept,
    Count,
    Hold,
    Horizon,
    Release,
    Stamped,
    Table,
    TraceEvent,
    TracePosition,
)
from groupcomm.wire.bundle import Bundle, BundleKind

Record = Callable[[TraceEvent], None]
"""Takes the events of a run in the order in which they happen."""

_MESSAGES = int(BundleKind.MESSAGES)
_FRAGMENT = int(BundleKind.FRAGMENT)


def trace_position(position: Position) -> TracePosition:
    """A position as traces write it."""
    view, time, ring, bundle, message = position
    return (_view_text(view), time, ring, bundle, message)


@lru_cache(maxsize=64)
def _view_text(view: ViewId) -> str:
    return str(view)


class TraceProbe:
    """Implements `groupcomm.core.probe.Probe` for the daemon with this identity.

    Args:
        loop: gives the events their times.
        record: takes the events.
        process: identity of the daemon, ``name/restarts``.
        view: identity of its view.
    """

    __slots__ = ("_loop", "_process", "_record", "_view")

    def __init__(self, loop: Loop, record: Record, process: str, view: str) -> None:
        self._loop = loop
        self._record = record
        self._process = process
        self._view = view

    def stamped(self, ring: int, number: int, time: int) -> None:
        """See Probe."""
        self._record(Stamped(self._loop.now, self._process, self._view, ring, number, time))

    def held(self, ring: int, number: int, time: int) -> None:
        """See Probe."""
        self._record(Hold(self._loop.now, self._process, ring, number, time))

    def horizon(self, ring: int, value: int, upto: int) -> None:
        """See Probe."""
        self._record(Horizon(self._loop.now, self._process, self._view, ring, value, upto))

    def counted(self, ring: int, value: int, upto: int) -> None:
        """See Probe."""
        self._record(Count(self._loop.now, self._process, ring, value, upto))

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
                self._loop.now,
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

    def table(self, position: Position, digest: str) -> None:
        """See Probe."""
        self._record(Table(self._loop.now, self._process, trace_position(position), digest))

    def accepted(self, sender: str, connection: int, first: int, last: int) -> None:
        """See Probe."""
        client = f"{sender}/{connection}"
        self._record(Accept(self._loop.now, self._process, client, first, last))
