"""The flight recorder: the last protocol events, kept in memory and written out on request.

The dump is a trace, so `groupcomm view` draws it, also together with those of other daemons of the
host.
"""

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from time import monotonic_ns as now_ns
from typing import Any, Final

import attrs
import msgspec

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.config.view import DaemonId, Start, View
from groupcomm.host.private_files import write_private
from groupcomm.host.trace_file import Identities
from groupcomm.trace.events import Boot, TraceEvent
from groupcomm.trace.recorders import TraceProbe
from groupcomm.wire.bundle import Bundle
from groupcomm.wire.membership import Join, Proposal

REMEMBERED: Final = 8192
VIEWS: Final = 64
"""Views are kept beyond the other events, as these need the view to which they belong."""

_encode_lines: Final = msgspec.json.Encoder().encode_lines
_Entry = tuple[Any, ...]  # time in nanoseconds, name of the method, arguments


@attrs.frozen
class _BundleHead:
    """The parts of a bundle that traces need; its messages are not kept."""

    kind: int
    level: int
    session: int
    message: int
    index: int
    count: int


class _Clock:
    now = 0


class FlightRecorder:
    """A `groupcomm.engine.probe.Probe` with an entry for each call; the oldest are dropped.

    Args:
        start: the start of the daemon.
    """

    def __init__(self, start: Start) -> None:
        self._start = start
        self._started = now_ns()
        self._events: deque[_Entry] = deque(maxlen=REMEMBERED)
        self._views: deque[_Entry] = deque(maxlen=VIEWS)
        self._note = self._events.append

    def __len__(self) -> int:
        return len(self._events)

    def copy(self) -> "FlightRecorder":
        """Return a recorder with the entries so far, which a thread may write."""
        found = FlightRecorder(self._start)
        found._started = self._started
        found._events.extend(self._events)
        found._views.extend(self._views)
        return found

    def dump(self, path: Path) -> None:
        """Write them as a trace, which takes a while and waits for the disk; see docs/trace.md.

        Raises:
            OSError: it cannot be written.
        """
        write_private(path, _encode_lines(self.trace()).decode())

    def trace(self) -> list[TraceEvent]:
        """Return the events of the trace: the start, the view before the first entry, and all
        entries.
        """
        clock, events, identities = _Clock(), list[TraceEvent](), Identities()
        name = identities[self._start.daemon]
        probe = TraceProbe(clock, events.append, name, identities)
        incarnation = self._start.incarnation
        text = f"{incarnation.restarts}.{incarnation.random_id:x}"
        events.append(Boot(self._started // 1000, name, text))
        for at, method, *arguments in self._entries():
            clock.now = at // 1000
            if method == "released":
                arguments[4] = _BundleHead(*arguments[4])
            getattr(probe, method)(*arguments)
        return events

    def _entries(self) -> Iterator[_Entry]:
        if not self._events:
            return
        begins = self._events[0][0]
        before = [entry for entry in self._views if entry[0] < begins]
        yield from before[-1:]
        yield from self._events

    def gathered(self, join: Join) -> None:
        """See MembershipProbe; no trace has it."""

    def committed(self, proposal: Proposal, view: View, transitional: frozenset[int]) -> None:
        """See MembershipProbe; no trace has it."""

    def recovered(self) -> None:
        """See MembershipProbe; no trace has it."""

    def installed(self, view: View) -> None:
        """See Probe."""
        entry = now_ns(), "installed", view
        self._views.append(entry)
        self._note(entry)

    def transitional(self, old: ViewId, new: ViewId, members: tuple[DaemonId, ...]) -> None:
        """See Probe."""
        self._note((now_ns(), "transitional", old, new, members))

    def stamped(self, ring: int, number: int, time: int) -> None:
        """See Probe."""
        self._note((now_ns(), "stamped", ring, number, time))

    def held(self, ring: int, number: int, time: int) -> None:
        """See Probe."""
        self._note((now_ns(), "held", ring, number, time))

    def horizon(self, ring: int, value: int, upto: int) -> None:
        """See Probe."""
        self._note((now_ns(), "horizon", ring, value, upto))

    def counted(self, ring: int, value: int, upto: int) -> None:
        """See Probe."""

    def released(
        self, ring: int, number: int, time: int, bundle_index: int, bundle: Bundle, sender: str
    ) -> None:
        """See Probe."""
        head = (
            *(bundle.kind, bundle.level, bundle.session),
            *(bundle.message, bundle.index, bundle.count),
        )
        self._note((now_ns(), "released", ring, number, time, bundle_index, head, sender))

    def table(self, position: Position, digest: str) -> None:
        """See Probe."""
        self._note((now_ns(), "table", position, digest))

    def accepted(self, sender: str, connection: int, first: int, last: int) -> None:
        """See Probe."""
        self._note((now_ns(), "accepted", sender, connection, first, last))
