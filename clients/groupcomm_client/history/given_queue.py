"""What a subscription may give and its program has not taken yet: a bounded queue. Pure."""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from groupcomm.events import Message
from groupcomm_client.history.given import Given

QUEUE_BYTES: Final = 32 * 1024 * 1024
"""The memory of live events that may wait, by default; beyond it they come from an archive."""

EVENT_BYTES: Final = 200
"""Approximate memory of an event, besides the data of a message."""

READ_AHEAD: Final = 50_000
"""No more history is read while more events wait."""

READ_AHEAD_PART: Final = 8
"""No more history is read while more than this part of the bytes waits."""

MOST_WAITING: Final = 200_000
"""With more events, live ones stay in their own queue."""


class GivenQueue:
    """Events in the order in which the program takes them.

    The queue refuses nothing: who fills it asks `is_full` and `is_overfull` before.
    """

    def __init__(self, queue_bytes: int) -> None:
        """Begin without events; `queue_bytes` is the memory beyond which no live event comes in."""
        self._events: deque[Given] = deque()
        self._most_bytes = queue_bytes
        self._bytes = 0

    def __len__(self) -> int:
        """Return the number of events."""
        return len(self._events)

    def __iter__(self) -> Iterator[Given]:
        """Iterate over the events and leave them."""
        return iter(self._events)

    @property
    def is_full(self) -> bool:
        """Return whether no more history should be read."""
        most = self._most_bytes // READ_AHEAD_PART
        return len(self._events) > READ_AHEAD or self._bytes > most

    @property
    def is_overfull(self) -> bool:
        """Return whether live events should not follow either."""
        return len(self._events) > MOST_WAITING or self._bytes > self._most_bytes

    def append(self, event: Given) -> None:
        """Add an event at the end."""
        self.extend([event])

    def extend(self, events: Sequence[Given]) -> None:
        """Add events at the end."""
        self._events += events
        self._bytes += memory_of(events)

    def pop(self, most: int | None = None) -> list[Given]:
        """Remove and return the first events: all, or up to a number."""
        if most is None or most >= len(self._events):
            taken = list(self._events)
            self._events.clear()
            self._bytes = 0
            return taken
        taken = [self._events.popleft() for _ in range(most)]
        self._bytes -= memory_of(taken)
        return taken


def memory_of(events: Sequence[Given]) -> int:
    """Return about the memory of events, in bytes."""
    data = sum([len(event.data) for event in events if type(event) is Message])
    return EVENT_BYTES * len(events) + data
