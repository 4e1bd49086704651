"""Records a run: keeps its last events, hashes its JSON lines, passes events to the oracles."""

import hashlib
from collections import deque
from collections.abc import Callable

import msgspec

from groupcomm.sim.trace import Deliver, TraceEvent

BATCH = 512
LAST_EVENTS = 30


class Recorder:
    """Takes the events of one run in their order.

    Args:
        write: is given the trace as JSON lines, some at a time; None to keep no trace.

    Attributes:
        events: how many were recorded.
        deliveries: how many of them are deliveries to clients.
    """

    __slots__ = ("_batch", "_encode", "_hash", "_last", "_write", "deliveries", "events")

    def __init__(
        self,
        write: Callable[[bytes], object] | None = None,
    ) -> None:
        self.events = 0
        self.deliveries = 0
        self._last: deque[TraceEvent] = deque(maxlen=LAST_EVENTS)
        self._write = write
        self._batch: list[TraceEvent] = []
        self._encode = msgspec.json.Encoder().encode_lines
        self._hash = hashlib.blake2b(digest_size=16)

    def record(self, event: TraceEvent) -> None:
        """Take one event."""
        batch = self._batch
        batch.append(event)
        if type(event) is Deliver:
            self.deliveries += 1
        if len(batch) >= BATCH:
            self._flush()

    def last_events(self) -> list[TraceEvent]:
        """The most recent events, oldest first."""
        return [*self._last, *self._batch][-LAST_EVENTS:]

    def trace_hash(self) -> str:
        """A BLAKE2b digest over all lines so far, in hexadecimal."""
        self._flush()
        return self._hash.hexdigest()

    def _flush(self) -> None:
        batch, self._batch = self._batch, []
        lines = self._encode(batch)
        self.events += len(batch)
        self._last.extend(batch[-LAST_EVENTS:])
        self._hash.update(lines)
        if self._write is not None:
            self._write(lines)
