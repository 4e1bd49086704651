"""Clocks that survive the restarts of their nodes, without a write to disk per event.

A queue is replicated over nodes by quorums: each message is written to some of the nodes, and each
of these gives it a count. All counts of a message are its clock; a consumer keeps the maximum of
the clocks it has seen and asks for all messages after that. A node that forgot its count would give
old counts to new messages, and the consumer would never see them. So a count is (restarts, events
since the restart), and only the restarts are on disk, written once before the first event.

Vectors of such counts compare as those of `vector`; see there for the source.
"""

from typing import Generic, NamedTuple

from groupcomm.clocks.vector import LARGEST_COUNT, Member, Relation, relate
from groupcomm.errors import LocalProtocolError


class RestartCount(NamedTuple):
    """One node's count of an event; restarts decide first.

    Attributes:
        restarts: the number of the node's starts, at least 1 for a node that runs.
        events: its events since that start, from 1. Both are 0 to 2**64 - 1; above, `NodeClock`
            raises an error.
    """

    restarts: int
    events: int


NOTHING = RestartCount(0, 0)
"""Before every event of a node."""


class NodeClock:
    """The counter of one node, from one start to the next.

    Attributes:
        value: count of the latest event of this start.
    """

    __slots__ = ("value",)

    def __init__(self, restarts: int, events: int = 0) -> None:
        """Start.

        Args:
            restarts: one more than at the last start, and on disk already.
            events: the count to continue from, for a node that finds it again.

        Raises:
            LocalProtocolError: one of them is not 0 to 2**64 - 1.
        """
        for name, count in (("restarts", restarts), ("events", events)):
            if not 0 <= count <= LARGEST_COUNT:
                raise LocalProtocolError(
                    f"{name} is {count}, which is no count in 64 bits; pass 0 to {LARGEST_COUNT}"
                )
        self.value = RestartCount(restarts, events)

    def tick(self) -> RestartCount:
        """Count an event; after every one of this node in this and all earlier starts.

        Raises:
            LocalProtocolError: 2**64 - 1 events were counted; the count stays as it is.
        """
        restarts, events = self.value
        if events == LARGEST_COUNT:
            raise LocalProtocolError(
                f"the node has counted {events} events, and 64 bits hold no more; restart the node"
            )
        self.value = RestartCount(restarts, events + 1)
        return self.value


class RestartClock(Generic[Member]):
    """Counts of several nodes: the clock of a message, or the clocks that a consumer has seen."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[Member, RestartCount] = {}

    def __getitem__(self, node: Member) -> RestartCount:
        return self._counts.get(node, NOTHING)

    def observe(self, node: Member, count: RestartCount) -> None:
        """Raise a node's count to `count`; does nothing where it is as high already."""
        if count > self[node]:
            self._counts[node] = count

    def merge(self, other: "RestartClock[Member]") -> None:
        """Raise every node's count to that of `other`."""
        for node, count in other._counts.items():
            self.observe(node, count)

    def copy(self) -> "RestartClock[Member]":
        """Return a copy of the counts."""
        twin: RestartClock[Member] = RestartClock()
        twin._counts = self._counts.copy()
        return twin

    def compare(self, other: "RestartClock[Member]") -> Relation:
        """Compare this clock with `other`; nodes that one of them lacks count nothing there."""
        return relate(self._counts, other._counts, NOTHING)

    def covers(self, other: "RestartClock[Member]") -> bool:
        """Return whether a consumer with this clock has seen the message with the clock `other`.

        Holds if it asks all nodes of a quorum with one clock, and merges their answers after that:
        one node's answer may already cover what only the next one would have given.
        """
        return self.compare(other) in (Relation.EQUAL, Relation.AFTER)

    def __repr__(self) -> str:
        counts = ", ".join(
            f"{node}: {count.restarts}.{count.events}" for node, count in self._counts.items()
        )
        return f"<RestartClock {counts}>"
