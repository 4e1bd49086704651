"""Clocks that survive restarts: where a server of a replicated queue keeps its counter."""

from collections import Counter
from collections.abc import Iterable, Sequence

from examples.ordering.story import Run, story
from groupcomm.trace.steps import AlgorithmStep, MessageId, StepTrace
from groupcomm_lessons.algorithms.process import Name
from groupcomm_lessons.algorithms.replicated_queue import (
    FOR_EVER,
    Asking,
    Consumer,
    Keeping,
    Server,
    produce,
)
from groupcomm_lessons.algorithms.restart_clock import RestartClock, RestartCount


class QueueStage:
    """Producer p, consumer c, and servers with queues.

    Args:
        servers: their names; one letter each.
        keeping: the place of their counters.
        asking: the messages that c asks for.

    Attributes:
        servers: the servers by name.
        now: steps so far; the time of the trace, and of the servers.
    """

    def __init__(self, servers: str, keeping: Keeping, asking: Asking = Asking.AFTER) -> None:
        self.servers = {name: Server(name, keeping) for name in servers}
        self.now = 0
        self._consumer = Consumer(asking)
        self._events: list[AlgorithmStep] = []
        self._sent: Counter[Name] = Counter()
        self._clocks: dict[str, str] = {}
        self._got: list[str] = []
        for name in self.servers:
            self._count_from_now(name)

    def _trace(self, name: Name) -> StepTrace:
        return StepTrace(self, self._events.append, name)

    def _carry(self, source: Name, to: Sequence[Name], stamp: str = "") -> MessageId:
        """Carry a message, which comes at once."""
        self._sent[source] += 1
        message = source, self._sent[source]
        self.now += 1
        self._trace(source).sent(message, to, stamp)
        for name in to:
            self.now += 1
            self._trace(name).received(message, source)
        return message

    def produce(self, servers: str, queue: str = "", time_to_live: float = FOR_EVER) -> str:
        """Have p write its next message to a queue at these servers; return its name."""
        written = f"p{self._sent['p'] + 1}"
        for server in self.servers.values():
            server.advance(self.now)
        some = [self.servers[name] for name in servers]
        entry = produce(written, some, queue, time_to_live)
        self._clocks[written] = _clock(servers, entry.clock)
        self._carry("p", servers, self._clocks[written])
        return written

    def consume(self, servers: str) -> None:
        """Have c ask these servers for later messages than it has."""
        self._carry("c", servers, _clock(self.servers, self._consumer.clock))
        found = self._consumer.consume([self.servers[name] for name in servers])
        for name in servers:
            self._carry(name, "c")
        for written in found:
            self._trace("c").delivered(("p", int(written[1:])))
        self._got += found

    def restart(self, name: Name, *, writes_missing: int = 0) -> None:
        """Have a server die and start; it continues to count from the counts that it knows then."""
        self.now += 1
        self.servers[name].restart(writes_missing=writes_missing)
        self._count_from_now(name)

    def wait(self, time: int) -> None:
        """Let time pass, in which messages expire and queues are collected."""
        self.now += time
        for name, server in self.servers.items():
            if server.advance(self.now):
                self._count_from_now(name)

    def _count_from_now(self, name: Name) -> None:
        """Record the server's counter; restarts stand with the name: a trace has integers."""
        restarts, events = self.servers[name].latest("")
        self._trace(name).created({f"{name}/{restarts}" if restarts else name: events})

    def end(self) -> Run:
        """Return the messages that the consumer got and missed, and the cost of the counts."""
        return Run(
            events=self._events,
            delivered={"c": self._got},
            seen={
                "clocks": self._clocks,
                "missed": [written for written in self._clocks if written not in self._got],
                "twice": sorted({each for each in self._got if self._got.count(each) > 1}),
                "writes": {name: server.writes for name, server in self.servers.items()},
            },
        )


def _clock(names: Iterable[Name], clock: RestartClock[Name]) -> str:
    return ", ".join(f"{name}:{_count(clock[name])}" for name in names)


def _count(count: RestartCount) -> str:
    return f"{count.restarts}/{count.events}" if count.restarts else str(count.events)


@story("clock-in-queue", "A counter kept in the queue, and a queue that expires")
def clock_in_queue() -> Run:
    """p writes "Hi" to A and B, and c gets it. The time to live of the message passes, and both
    queues are collected with their counters. "How are you?" gets the same clock as "Hi". c asks for
    messages after that clock, and gets nothing."""
    stage = QueueStage("AB", Keeping.IN_QUEUE)
    stage.produce("AB", time_to_live=10)
    stage.consume("AB")
    stage.wait(10)
    stage.produce("AB")
    stage.consume("AB")
    return stage.end()


def _crash_in_memory(asking: Asking) -> Run:
    """Play: A dies and forgets its counter after c has read two messages."""
    stage = QueueStage("AB", Keeping.IN_MEMORY, asking)
    stage.produce("AB")
    stage.produce("AB")
    stage.consume("AB")
    stage.restart("A")
    stage.produce("AB")
    stage.consume("AB")
    stage.consume("AB")
    return stage.end()


@story("clock-in-memory", "A counter kept by the server, and a server that dies")
def clock_in_memory() -> Run:
    """The counter belongs to the server, and continues when a queue expires. A dies and starts
    again with its counter reset. p3 has the clock (A:1, B:3), which does not follow (A:2, B:2), as
    A's count is lower. c asks for messages after (A:2, B:2), and gets nothing."""
    return _crash_in_memory(Asking.AFTER)


@story("not-covered", "The same crash, and a consumer that asks for messages that are not covered")
def not_covered() -> Run:
    """c asks for messages of which at least one count is higher. It gets p3 for B's count. Now its
    last clock is (A:1, B:3), which does not cover (A:2, B:2), so c gets p2 a second time."""
    return _crash_in_memory(Asking.NOT_COVERED)


@story("shared-counter", "Several queues at one server share its counter")
def shared_counter() -> Run:
    """p2 goes to another queue, and the servers count it with the same counter. So c, which reads
    only the first queue, sees a gap between p1 and p3. p3 follows p1 all the same."""
    stage = QueueStage("AB", Keeping.IN_MEMORY)
    stage.produce("AB")
    stage.produce("AB", "another queue")
    stage.consume("AB")
    stage.produce("AB")
    stage.consume("AB")
    return stage.end()


@story("clock-on-disk", "A counter written at every event, and the last writes missing")
def clock_on_disk() -> Run:
    """Every message costs a write at each server. A dies before its last two writes have reached
    the disk. So p3 has the clock (A:1, B:3) again, and c does not get it."""
    stage = QueueStage("AB", Keeping.EVERY_EVENT)
    stage.produce("AB")
    stage.produce("AB")
    stage.consume("AB")
    stage.restart("A", writes_missing=2)
    stage.produce("AB")
    stage.consume("AB")
    return stage.end()


@story("restarts-counted", "Restarts counted: one write a start, and nothing is missed")
def restarts_counted() -> Run:
    """A count is (restarts/events), and restarts are compared first. A dies, and its first count
    after that is above all earlier ones: p3 has the clock (A:2/1, B:1/3), which follows (A:1/2,
    B:1/2)."""
    stage = QueueStage("AB", Keeping.COUNTED_RESTARTS)
    stage.produce("AB")
    stage.produce("AB")
    stage.consume("AB")
    stage.restart("A", writes_missing=2)
    stage.produce("AB")
    stage.consume("AB")
    return stage.end()


def _quorums(asking: Asking) -> Run:
    stage = QueueStage("xyz", Keeping.COUNTED_RESTARTS, asking)
    stage.produce("xy")
    stage.consume("xz")
    stage.produce("yz")
    stage.restart("x")
    stage.produce("xz")
    stage.consume("yx")
    return stage.end()


@story("quorums-after", "Quorums: a consumer that asks for messages after its last one")
def quorums_after() -> Run:
    """p writes each message to only two of three servers. p2 has no count of x, and p3 has no count
    of y. So neither of them follows p1, which has both counts, and c gets neither."""
    return _quorums(Asking.AFTER)


@story("quorums", "Quorums: a consumer that asks for messages that its maximum does not cover")
def quorums() -> Run:
    """The run is the same, but c keeps the highest count that it got from each server. Any two
    quorums share a server, and that server's count of a new message is above the highest one of c.
    So c gets each message once."""
    return _quorums(Asking.NOT_COVERED_BY_MAXIMUM)
