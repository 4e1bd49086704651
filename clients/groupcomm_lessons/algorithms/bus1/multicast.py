"""The effect of a bus1 multicast on queues: a list of steps, each on one queue.

Source: see the package. (1) Put a block on every destination at its clock, and take the maximum of
these; (2) synchronise the sender to it; (3) tick the sender: that is the stamp; (4) synchronise
every destination to the stamp; (5) queue the message at each and lift its block. Costs two
operations a destination that are O(log n) in its queue, and some that are O(1).

Why it is right. A message can be taken somewhere only when all of its destinations are at its stamp
at least. So a multicast that starts after that, for whatever reason, has a higher stamp wherever
both go (causality). And a message with a higher stamp that is taken somewhere before the lower
one's block was put there would have pushed that block above itself (consistency).

The guarantees are one order of any two messages, and causes before effects, for all receivers of
both. There is no guarantee that one order of *all* messages agrees with the time at which they were
sent: m is sent, then n to another peer, and a third message that was in flight all the time may
come before m there and after n here.

The delay is bounded. A multicast to n queues takes at most 3n + 2 steps with blocks at clocks, and
4n + 3 with an estimate; none of them waits for another, and none is repeated. A message that is
queued waits for blocks below its stamp only, and those were put there before the queue was
synchronised to the stamp: so it waits for multicasts in flight at that time, and for none that
began later.

A sender that gives a multicast up must lift its blocks, or they hold back other messages for ever:
see `Multicast.abort`.
"""

import enum
from collections.abc import Sequence
from typing import Generic, NamedTuple, Self

from groupcomm.errors import LocalProtocolError
from groupcomm_lessons.algorithms.bus1.queue import Block, Item, Queue, Stamp


class Blocking(enum.Enum):
    """The value at which blocks are put."""

    AT_CLOCK = enum.auto()  # blocks at the clock of each destination
    AT_ESTIMATE = enum.auto()  # at the sender's clock, synchronised first: fewer messages wait
    NONE = enum.auto()  # a unicast: it has no other receivers, so it may come late


class What(enum.Enum):
    """The action of a step."""

    READ = enum.auto()  # read the clock of a destination
    BLOCK = enum.auto()
    SYNCHRONISE_SENDER = enum.auto()
    TICK = enum.auto()
    SYNCHRONISE = enum.auto()  # synchronise a destination
    QUEUE = enum.auto()


class State(enum.Enum):
    """The progress of a multicast."""

    UNDER_WAY = enum.auto()  # no process can have received the message: it may be aborted
    COMMITTED = enum.auto()  # the message is queued at some destination: it must be finished
    FINISHED = enum.auto()  # the message is queued at all destinations
    ABORTED = enum.auto()  # the message was aborted, and no process receives it


class Step(NamedTuple, Generic[Item]):
    """One operation on one queue.

    Attributes:
        what: the action.
        queue: the only queue that it touches.
    """

    what: What
    queue: Queue[Item]


class Multicast(Generic[Item]):
    """A multicast in progress; `do` each step that is `ready`, in any order, until there is none.

    As a context manager it leaves no block behind: at the end of the ``with`` statement, with or
    without an exception, it is aborted if nobody can have received it, and otherwise finished.

    Attributes:
        sender: the queue whose clock gives the stamp.
        destinations: the queues that get the message; the sender may be among them.
        item: the message.
        blocking: see `Blocking`.
        stamp: the message's stamp; None before the tick.
        aborted: whether it was given up.
    """

    def __init__(
        self,
        sender: Queue[Item],
        destinations: Sequence[Queue[Item]],
        item: Item,
        blocking: Blocking = Blocking.AT_CLOCK,
    ) -> None:
        """Prepare the multicast; touch no queue.

        Raises:
            LocalProtocolError: there is no destination, or more than one and no block.
        """
        if not destinations or (blocking is Blocking.NONE and len(destinations) > 1):
            raise LocalProtocolError(
                f"a message to {len(destinations)} queues with {blocking.name}:"
                " send to one at least, and without blocks to one only"
            )
        self.sender = sender
        self.destinations = list(dict.fromkeys(destinations))
        self.item = item
        self.blocking = blocking
        self.stamp: Stamp | None = None
        self.aborted = False
        self._read: set[Queue[Item]] = set()
        self._blocks: dict[Queue[Item], Block[Item]] = {}
        self._highest = self._sender_at = -1  # destinations; synchronised sender
        self._synchronised: set[Queue[Item]] = set()
        self._queued: set[Queue[Item]] = set()

    @property
    def ready(self) -> list[Step[Item]]:
        """Return the steps that may be done now; none of them waits for another one."""
        if self.aborted:
            return []
        if self.stamp is not None:
            return self._after_tick()
        if self.blocking is not Blocking.AT_CLOCK and (unread := self._without(self._read)):
            return [Step(What.READ, queue) for queue in unread]
        unblocked = [] if self.blocking is Blocking.NONE else self._without(self._blocks)
        if self._sender_at < self._highest and not (self._blocks and unblocked):
            return [Step(What.SYNCHRONISE_SENDER, self.sender)]
        if unblocked:
            return [Step(What.BLOCK, queue) for queue in unblocked]
        return [Step(What.TICK, self.sender)]

    def _after_tick(self) -> list[Step[Item]]:
        # No message is queued before all queues are synchronised: the next message of a receiver
        # could get a lower stamp at a destination that is behind.
        if late := self._without(self._synchronised):
            return [Step(What.SYNCHRONISE, queue) for queue in late]
        return [Step(What.QUEUE, queue) for queue in self._without(self._queued)]

    def _without(
        self, done: set[Queue[Item]] | dict[Queue[Item], Block[Item]]
    ) -> list[Queue[Item]]:
        return [queue for queue in self.destinations if queue not in done]

    def do(self, step: Step[Item]) -> None:
        """Do one step.

        Raises:
            LocalProtocolError: the step is not ready.
        """
        if step not in self.ready:
            raise LocalProtocolError(f"{step.what.name} at queue {step.queue.id} is not its turn")
        queue = step.queue
        match step.what:
            case What.READ:
                self._highest = max(self._highest, queue.clock)
                self._read.add(queue)
            case What.BLOCK:
                block = self._blocks[queue] = queue.block(max(self._sender_at, 0))
                self._highest = max(self._highest, block.at)
            case What.SYNCHRONISE_SENDER:
                self._sender_at = queue.synchronise(self._highest)
            case What.TICK:
                self._tick()
            case What.SYNCHRONISE:
                assert self.stamp is not None
                queue.synchronise(self.stamp.value)
                self._synchronised.add(queue)
            case What.QUEUE:
                assert self.stamp is not None
                queue.put(self.stamp, self.item, self._blocks.get(queue))
                self._queued.add(queue)

    def _tick(self) -> None:
        self.stamp = Stamp(self.sender.tick(), self.sender.id)

    def finish(self) -> None:
        """Do all remaining steps, as a sender does that nobody interrupts."""
        while ready := self.ready:
            self.do(ready[0])

    def abort(self) -> None:
        """Lift the blocks, so that nobody receives the message. A second call does nothing.

        Raises:
            LocalProtocolError: the message is queued at a destination already, so all must get it.
        """
        if self._queued:
            raise LocalProtocolError(
                f"the message is queued at {len(self._queued)} of {len(self.destinations)} queues,"
                " and may have been received there; finish it"
            )
        self.aborted = True
        for queue, block in self._blocks.items():
            queue.lift(block)
        self._blocks.clear()

    @property
    def state(self) -> State:
        """Return the progress of the multicast."""
        if self.aborted:
            return State.ABORTED
        if not self._queued:
            return State.UNDER_WAY
        return State.COMMITTED if self.ready else State.FINISHED

    @property
    def finished(self) -> bool:
        """Return whether there are no steps left."""
        return not self.ready

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.state is State.UNDER_WAY:
            self.abort()
        else:
            self.finish()
