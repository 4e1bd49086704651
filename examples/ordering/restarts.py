"""Clocks that survive restarts: where a node of a replicated queue keeps its count."""

from collections import Counter
from collections.abc import Sequence

from examples.ordering.story import Run, story
from groupcomm.algorithms.process import Name
from groupcomm.algorithms.replicated_queue import Consumer, Keeping, QueueNode, produce
from groupcomm.clocks.restart import RestartCount
from groupcomm.trace.steps import AlgorithmStep, MessageId, StepTrace


class QueueStage:
    """Producer p, consumer c, and the nodes of a queue.

    Args:
        nodes: their names; one letter each.
        keeping: where they have their counts.

    Attributes:
        nodes: by name.
        now: steps so far; the time of the trace.
    """

    def __init__(self, nodes: str, keeping: Keeping) -> None:
        self.nodes = {name: QueueNode(name, keeping) for name in nodes}
        self.now = 0
        self._consumer = Consumer()
        self._events: list[AlgorithmStep] = []
        self._sent: Counter[Name] = Counter()
        self._clocks: dict[str, str] = {}
        self._got: list[str] = []
        for name in self.nodes:
            self._count_from_now(name)

    def _trace(self, name: Name) -> StepTrace:
        return StepTrace(self, self._events.append, name)

    def _carry(self, source: Name, to: Sequence[Name], stamp: str = "") -> MessageId:
        """A message between two of these comes at once."""
        self._sent[source] += 1
        message = source, self._sent[source]
        self.now += 1
        self._trace(source).sent(message, to, stamp)
        for name in to:
            self.now += 1
            self._trace(name).received(message, source)
        return message

    def produce(self, quorum: str) -> str:
        """p writes its next message to these nodes; its name."""
        written = f"p{self._sent['p'] + 1}"
        entry = produce(written, [self.nodes[name] for name in quorum])
        counts = (f"{name} {_told(entry.clock[name])}" for name in quorum)
        self._clocks[written] = ", ".join(counts)
        self._carry("p", quorum, self._clocks[written])
        return written

    def consume(self, quorum: str) -> None:
        """c asks these nodes for what its clock does not cover, and merges their answers."""
        seen = self._consumer.seen
        self._carry("c", quorum, ", ".join(f"{name} {_told(seen[name])}" for name in self.nodes))
        found = self._consumer.consume([self.nodes[name] for name in quorum])
        for name in quorum:
            self._carry(name, "c")
        for written in found:
            self._trace("c").delivered(("p", int(written[1:])))
        self._got += found

    def restart(self, name: Name, *, last_write_missing: bool = False) -> None:
        """A node stops and starts; it goes on counting from what it knows then."""
        self.now += 1
        self.nodes[name].restart(last_write_missing=last_write_missing)
        self._count_from_now(name)

    def expire(self) -> None:
        """The idle queue goes at all nodes."""
        self.now += 1
        for name, node in self.nodes.items():
            node.expire()
            self._count_from_now(name)

    def _count_from_now(self, name: Name) -> None:
        """A trace has whole numbers; restarts stand with the name."""
        restarts, events = self.nodes[name].latest
        self._trace(name).created({f"{name}/{restarts}" if restarts else name: events})

    def end(self) -> Run:
        """What the consumer got and missed, and what it cost to keep the counts."""
        return Run(
            events=self._events,
            delivered={"c": self._got},
            seen={
                "clocks": self._clocks,
                "missed": [written for written in self._clocks if written not in self._got],
                "writes": {name: node.writes for name, node in self.nodes.items()},
            },
        )


def _told(count: RestartCount) -> str:
    return f"{count.restarts}.{count.events}" if count.restarts else str(count.events)


@story("clock-in-queue", "A clock kept in the queue, and a queue that expires")
def clock_in_queue() -> Run:
    """c has read p1 and its queue expires. p2 gets the clock that p1 had: c asks for what comes
    after that, and is given nothing."""
    stage = QueueStage("x", Keeping.IN_QUEUE)
    stage.produce("x")
    stage.consume("x")
    stage.expire()
    stage.produce("x")
    stage.consume("x")
    return stage.end()


@story("clock-in-memory", "A clock kept by the node, and a node that restarts")
def clock_in_memory() -> Run:
    """The node counts on when its queue expires, and c gets p3. Then the node restarts and counts
    from 0: p4 is below what c has seen, and nobody will ever give it to c."""
    stage = QueueStage("x", Keeping.IN_MEMORY)
    for _ in range(2):
        stage.produce("x")
    stage.consume("x")
    stage.expire()
    stage.produce("x")
    stage.consume("x")
    stage.restart("x")
    stage.produce("x")
    stage.consume("x")
    return stage.end()


@story("clock-on-disk", "A clock written at every event, and the last write missing")
def clock_on_disk() -> Run:
    """Every message costs a write, and a restart finds the count again. But the last write had
    not reached the disk: p3 gets the clock that p2 had, and c does not get it."""
    stage = QueueStage("x", Keeping.EVERY_EVENT)
    for _ in range(2):
        stage.produce("x")
    stage.consume("x")
    stage.restart("x", last_write_missing=True)
    stage.produce("x")
    stage.consume("x")
    return stage.end()


@story("restarts-counted", "Restarts counted: one write a start, and nothing is missed")
def restarts_counted() -> Run:
    """The same as before and an expiry, but a count is (restarts, events): whatever a node forgets,
    its first count after a restart is above all earlier ones."""
    stage = QueueStage("x", Keeping.COUNTED_RESTARTS)
    for _ in range(2):
        stage.produce("x")
    stage.consume("x")
    stage.restart("x", last_write_missing=True)
    stage.produce("x")
    stage.consume("x")
    stage.expire()
    stage.produce("x")
    stage.consume("x")
    return stage.end()


@story("quorums", "Quorums: a vector of such counts, one for each node")
def quorums() -> Run:
    """p writes to two of three nodes, never the same two; x restarts. c asks two nodes and gets
    all: two quorums share a node, and its count tells of the message."""
    stage = QueueStage("xyz", Keeping.COUNTED_RESTARTS)
    stage.produce("xy")
    stage.consume("xz")
    stage.produce("yz")
    stage.restart("x", last_write_missing=True)
    stage.produce("xz")
    stage.consume("yx")
    return stage.end()
