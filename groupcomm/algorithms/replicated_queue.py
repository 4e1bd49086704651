"""A queue replicated over nodes by quorums, with clocks that survive restarts, and some that don't.

A producer writes to some of the nodes, a quorum, and not always to the same; two quorums share a
node. Each node of the quorum counts the message, and these counts are its clock: a vector over
nodes. A consumer asks a quorum for all that its own clock does not cover, and merges the clocks of
what it got when all have answered.

Source: `groupcomm.clocks.restart`, and `vector` for the comparison. What differs is what a node
knows of its count after a restart, see `Keeping`. Claimed for COUNTED_RESTARTS, and for no other: a
consumer gets every message once.
"""

import enum
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from groupcomm.clocks.restart import NOTHING, NodeClock, RestartClock, RestartCount


class Keeping(enum.Enum):
    """Where a node's count is."""

    IN_QUEUE = enum.auto()  # is reset when the queue expires
    IN_MEMORY = enum.auto()  # the node's; is lost when it restarts
    EVERY_EVENT = enum.auto()  # on disk at each: a write each, and the last may be missing
    COUNTED_RESTARTS = enum.auto()  # only restarts on disk, written before the first event


class Entry(NamedTuple):
    """A message in a queue.

    Attributes:
        clock: counts of all nodes that it was written to.
        data: the user's.
    """

    clock: RestartClock[str]
    data: str


class QueueNode:
    """One node; its messages survive, and only its count may not.

    Attributes:
        name: unique.
        keeping: see there.
        entries: in the order in which they were written here.
        writes: of counts to the disk, so far.
    """

    def __init__(self, name: str, keeping: Keeping) -> None:
        self.name = name
        self.keeping = keeping
        self.entries: list[Entry] = []
        self.writes = 0
        self._on_disk: list[RestartCount] = [NOTHING]
        self._clock = self._start()

    def _start(self) -> NodeClock:
        last = self._on_disk[-1]
        if self.keeping is Keeping.COUNTED_RESTARTS:
            self._write(RestartCount(last.restarts + 1, 0))
            return NodeClock(last.restarts + 1)
        clock = NodeClock(0)
        if self.keeping is Keeping.EVERY_EVENT:
            clock.value = last
        return clock

    def _write(self, count: RestartCount) -> None:
        self._on_disk.append(count)
        self.writes += 1

    @property
    def latest(self) -> RestartCount:
        """What it knows to be the count of its latest message."""
        return self._clock.value

    def count(self) -> RestartCount:
        """Count a message that is being written."""
        count = self._clock.tick()
        if self.keeping is Keeping.EVERY_EVENT:
            self._write(count)
        return count

    def restart(self, *, last_write_missing: bool = False) -> None:
        """Stop and start.

        Args:
            last_write_missing: what was written at the last event had not reached the disk. The
                count of restarts always has: the node waits for it before its first event.
        """
        if last_write_missing and self.keeping is Keeping.EVERY_EVENT and len(self._on_disk) > 1:
            del self._on_disk[-1]
        self._clock = self._start()

    def expire(self) -> None:
        """Drop the idle queue, to be made anew at the next message."""
        self.entries.clear()
        if self.keeping is Keeping.IN_QUEUE:
            self._clock = NodeClock(0)


def produce(data: str, quorum: Iterable[QueueNode]) -> Entry:
    """Write a message to these nodes."""
    nodes = list(quorum)
    entry = Entry(RestartClock(), data)
    for node in nodes:
        entry.clock.observe(node.name, node.count())
    for node in nodes:
        node.entries.append(entry)
    return entry


class Consumer:
    """Asks for what it has not seen.

    Attributes:
        seen: maximum of the clocks of all that it got.
    """

    def __init__(self) -> None:
        self.seen: RestartClock[str] = RestartClock()

    def consume(self, quorum: Sequence[QueueNode]) -> list[str]:
        """All messages at these nodes that its clock does not cover; each once."""
        found: list[Entry] = []
        for node in quorum:
            found += [
                entry
                for entry in node.entries
                if not self.seen.covers(entry.clock) and entry not in found
            ]
        for entry in found:  # not before: one of them may cover what another node has
            self.seen.merge(entry.clock)
        return [entry.data for entry in found]
