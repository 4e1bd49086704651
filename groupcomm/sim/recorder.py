"""Records a run: keeps its last events, hashes its JSON lines, passes events to the checkers."""

import hashlib
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from groupcomm.trace.events import Conf, Count, Deliver, Horizon, TraceEvent

BATCH = 512
LAST_EVENTS = 30
REMEMBERED = 4096
"""Events among which the last ones are looked for; most of an idle cluster's are horizons."""


class Recorder:
    """Takes the events of one run in their order.

    Args:
        check: is given every event as it happens.
        write: is given the trace as JSON lines, some at a time; None to keep no trace.

    Attributes:
        events: how many were recorded.
        deliveries: how many of them are deliveries to clients.
        views: ids of all regular views that were installed.
    """

    __slots__ = (
        "_batch",
        "_check",
        "_encode",
        "_hash",
        "_last",
        "_write",
        "deliveries",
        "events",
        "views",
    )

    def __init__(
        self,
        check: Callable[[TraceEvent], None],
        write: Callable[[bytes], object] | None = None,
    ) -> None:
        self.events = 0
        self.deliveries = 0
        self.views: set[str] = set()
        self._last: deque[TraceEvent] = deque(maxlen=REMEMBERED)
        self._check = check
        self._write = write
        self._batch: list[TraceEvent] = []
        self._encode = msgspec.json.Encoder().encode_lines
        self._hash = hashlib.blake2b(digest_size=16)

    def record(self, event: TraceEvent) -> None:
        """Take one event."""
        batch = self._batch
        batch.append(event)
        if len(batch) >= BATCH:
            self._flush()
        self._check(event)

    def last_events(self) -> Sequence[TraceEvent]:
        """The most recent events but for horizons, oldest first."""
        events = [*self._last, *self._batch]
        return [event for event in events if not isinstance(event, Horizon | Count)][-LAST_EVENTS:]

    def trace_hash(self) -> str:
        """A BLAKE2b digest over all lines so far, in hexadecimal."""
        self._flush()
        return self._hash.hexdigest()

    def _flush(self) -> None:
        batch, self._batch = self._batch, []
        lines = self._encode(batch)
        self.events += len(batch)
        for event in batch:
            if type(event) is Deliver:
                self.deliveries += 1
            elif type(event) is Conf and event.kind == "R":
                self.views.add(event.view)
        self._last.extend(batch)
        self._hash.update(lines)
        if self._write is not None:
            self._write(lines)
