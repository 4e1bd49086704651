"""Queues replicated over server instances, with clocks that survive restarts and some that do not.

A producer writes a message to the same queue at several servers. Each server counts the message,
and these counts are the message's clock: a vector over servers. A consumer sends the clock of the
last message that it has, and gets later ones. Messages have a time to live; a queue whose messages
have all expired is collected, with everything that is kept in it.

Source: the design of such a queue, as a sequence of failures, each of which has its run in the
tests and as a story: the counter in the queue, the counter in the server instance, the counter
written at each event, and the pair (restarts, events), which is `restart_clock.RestartCount`.

Claimed, for COUNTED_RESTARTS only. AFTER: a consumer gets every message once, if every message is
written to all servers. NOT_COVERED_BY_MAXIMUM: the same if two sets of servers that are written or
asked share a server. Here a producer writes a message to all its servers at once, and the messages
survive a restart of their server: what may be lost is the count.
"""

import enum
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import attrs

from groupcomm.clocks.vector import Relation
from groupcomm_lessons.algorithms.restart_clock import (
    NOTHING,
    NodeClock,
    RestartClock,
    RestartCount,
)

FOR_EVER = float("inf")
"""A time to live in seconds."""


class Keeping(enum.Enum):
    """The place of a server's counters."""

    IN_QUEUE = enum.auto()  # one counter a queue; it is collected with the queue
    IN_MEMORY = enum.auto()  # one counter a server, shared by its queues; a restart resets it
    EVERY_EVENT = enum.auto()  # the same, written to disk at each event; last writes may be missing
    COUNTED_RESTARTS = enum.auto()  # only restarts are on disk, written before the first event


class Asking(enum.Enum):
    """The messages that a consumer asks for."""

    AFTER = enum.auto()  # no count is below that of its last message, and one is above
    NOT_COVERED = enum.auto()  # one count is above that of its last message
    NOT_COVERED_BY_MAXIMUM = enum.auto()  # one count is above the highest of that server


class Entry(NamedTuple):
    """A message in a queue.

    Attributes:
        clock: counts of all servers that it was written to.
        data: the user's.
        expires_at: virtual time in seconds from which nobody gets it.
    """

    clock: RestartClock[str]
    data: str
    expires_at: float


@attrs.define
class Queue:
    """One queue at one server.

    Attributes:
        clock: counts its messages, or those of all queues of the server.
        entries: messages, in the order in which they were written here.
    """

    clock: NodeClock
    entries: list[Entry] = attrs.field(factory=list)


class Server:
    """One server instance.

    Attributes:
        name: unique among the servers of a queue.
        keeping: the place of its counters.
        queues: the queues by name; a queue exists from its first message to the expiry of its last
            one.
        now: virtual time in seconds.
        writes: the number of writes of counts to the disk so far.
    """

    def __init__(self, name: str, keeping: Keeping) -> None:
        self.name = name
        self.keeping = keeping
        self.queues: dict[str, Queue] = {}
        self.now = 0.0
        self.writes = 0
        self._on_disk: list[RestartCount] = [NOTHING]
        self._clock = self._start()

    def _start(self) -> NodeClock:
        """Return the counter with which the server starts."""
        last = self._on_disk[-1]
        if self.keeping is Keeping.COUNTED_RESTARTS:
            self._write(RestartCount(last.restarts + 1, 0))
            return NodeClock(last.restarts + 1)
        return NodeClock(0, last.events if self.keeping is Keeping.EVERY_EVENT else 0)

    def _write(self, count: RestartCount) -> None:
        self._on_disk.append(count)
        self.writes += 1

    def latest(self, queue: str) -> RestartCount:
        """Return the count of the latest message, as far as a queue's counter knows it."""
        return self._clock_of(queue).value

    def _clock_of(self, queue: str) -> NodeClock:
        if self.keeping is not Keeping.IN_QUEUE:
            return self._clock
        return self.queues[queue].clock if queue in self.queues else NodeClock(0)

    def count(self, queue: str) -> RestartCount:
        """Count a message that is being written to a queue, which is made if it does not exist.

        Raises:
            LocalProtocolError: the counter has reached 2**64 - 1.
        """
        kept = self.queues.setdefault(queue, Queue(self._clock_of(queue)))
        count = kept.clock.tick()
        if self.keeping is Keeping.EVERY_EVENT:
            self._write(count)
        return count

    def restart(self, *, writes_missing: int = 0) -> None:
        """Stop and start; messages stay, counters in memory go.

        Args:
            writes_missing: the last writes of a count that had not reached the disk. The count of
                restarts always has: the server waits for that write before its first event.
        """
        if self.keeping is Keeping.EVERY_EVENT:
            del self._on_disk[max(1, len(self._on_disk) - writes_missing) :]
        self._clock = self._start()
        if self.keeping is not Keeping.IN_QUEUE:
            for queue in self.queues.values():
                queue.clock = self._clock

    def advance(self, now: float) -> list[str]:
        """Let virtual time pass; drop expired messages; return the names of collected queues.

        Args:
            now: seconds; not before the last one.
        """
        self.now = now
        collected = []
        for name, queue in list(self.queues.items()):
            queue.entries = [entry for entry in queue.entries if entry.expires_at > now]
            if not queue.entries:
                del self.queues[name]
                collected.append(name)
        return collected


def produce(
    data: str, servers: Iterable[Server], queue: str = "", time_to_live_s: float = FOR_EVER
) -> Entry:
    """Write a message to a queue at these servers, and return it with its clock.

    Raises:
        LocalProtocolError: a counter has reached 2**64 - 1.
    """
    chosen = list(servers)
    expires_at = max(server.now for server in chosen) + time_to_live_s
    entry = Entry(RestartClock(), data, expires_at)
    for server in chosen:
        entry.clock.observe(server.name, server.count(queue))
    for server in chosen:
        server.queues[queue].entries.append(entry)
    return entry


class Consumer:
    """A consumer that asks for later messages than it has.

    Args:
        asking: the messages that it asks for.
        queue: the queue that it reads.

    Attributes:
        clock: the clock that it asks with: its last message's, or the maximum of all that it got.
    """

    def __init__(self, asking: Asking = Asking.AFTER, queue: str = "") -> None:
        self.asking = asking
        self.queue = queue
        self.clock: RestartClock[str] = RestartClock()

    def consume(self, servers: Sequence[Server]) -> list[str]:
        """Ask each of these servers once, with one clock, and return their messages, each once."""
        found: list[Entry] = []
        for server in servers:
            queue = server.queues.get(self.queue)
            entries = queue.entries if queue else ()
            found += [e for e in entries if self.asks_for(e.clock) and e not in found]
        if self.asking is Asking.NOT_COVERED_BY_MAXIMUM:
            for entry in found:  # not earlier: one message may cover the message of another server
                self.clock.merge(entry.clock)
        elif found:
            self.clock = found[-1].clock.copy()
        return [entry.data for entry in found]

    def asks_for(self, clock: RestartClock[str]) -> bool:
        """Return whether the message with this clock is asked for."""
        if self.asking is Asking.AFTER:
            return clock.compare(self.clock) is Relation.AFTER
        return not self.clock.covers(clock)
