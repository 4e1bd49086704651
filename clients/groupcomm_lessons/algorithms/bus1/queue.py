"""bus1's queue: a clock that only rises, messages in the order of stamps, blocks between them.

Source: see the package. Every operation is atomic by itself, costs O(log n) in the queue's length
(`take`, over all calls), and touches no other queue. A stamp means something only beside
other stamps in the same queue.
"""

import heapq
from typing import Generic, NamedTuple, TypeVar

from groupcomm.clocks.vector import LARGEST_COUNT
from groupcomm.errors import LocalProtocolError

Item = TypeVar("Item")


class Stamp(NamedTuple):
    """The place of a message; equal values can only be those of unrelated messages.

    Attributes:
        value: the value of the sender's clock, from 1.
        queue: the unique id of the sending queue.
    """

    value: int
    queue: int


class Block(Generic[Item]):
    """A block, which holds a place for a message whose stamp will be above `at`.

    Attributes:
        at: no item with a stamp above this value can be popped.
        lifted: whether it holds nothing back any more.
    """

    def __init__(self, at: int) -> None:
        self.at = at
        self.lifted = False


class Queue(Generic[Item]):
    """One peer's queue.

    Attributes:
        id: unique among all queues; decides between equal values.
        clock: 0 to 2**64 - 1; never falls.
    """

    def __init__(self, queue_id: int, clock: int = 0) -> None:
        self.id = queue_id
        self.clock = clock
        # Keys are (value, kind, tie): blocks (kind 1) stand behind messages of their value, because
        # the stamps that they wait for are above it. No two keys are equal, so items are never
        # compared.
        self._heap: list[tuple[tuple[int, int, int], Stamp, Item | Block[Item]]] = []
        self._blocks = 0

    def __len__(self) -> int:
        """Return the number of messages and blocks, with lifted ones that are not at the front."""
        return len(self._heap)

    def tick(self) -> int:
        """Raise the clock by one; return its new value.

        Raises:
            LocalProtocolError: the clock has reached 2**64 - 1.
        """
        if self.clock == LARGEST_COUNT:
            raise LocalProtocolError(
                f"the clock of queue {self.id} is at {LARGEST_COUNT}, and 64 bits hold no more;"
                " replace the queue, and give the new one a new id"
            )
        self.clock += 1
        return self.clock

    def synchronise(self, value: int) -> int:
        """Raise the clock to a value, unless it is ahead; return its new value."""
        if value > self.clock:
            self.clock = value
        return self.clock

    def block(self, at: int = 0) -> Block[Item]:
        """Put a block, which holds back all items above the clock.

        Args:
            at: a higher value for the block, if it is above the clock; the stamp will be above it,
                too.
        """
        block: Block[Item] = Block(max(self.clock, at))
        self._blocks += 1
        key = block.at, 1, self._blocks
        heapq.heappush(self._heap, (key, Stamp(block.at, self.id), block))
        return block

    def lift(self, block: Block[Item]) -> None:
        """Lift a block without a message: its sender has given the message up."""
        block.lifted = True

    def put(self, stamp: Stamp, item: Item, block: Block[Item] | None = None) -> None:
        """Queue a message, and lift the block that held its place.

        Raises:
            LocalProtocolError: the queue was not synchronised to the stamp, or the stamp is not
                above the block.
        """
        if stamp.value > self.clock:
            raise LocalProtocolError(
                f"queue {self.id} is at {self.clock}; synchronise it to {stamp.value} first"
            )
        if block is not None:
            if stamp.value <= block.at:
                raise LocalProtocolError(f"stamp {stamp.value} is not above its block {block.at}")
            block.lifted = True
        heapq.heappush(self._heap, ((stamp.value, 0, stamp.queue), stamp, item))

    def pop(self) -> tuple[Stamp, Item] | None:
        """Pop the first message; None if there is none, or a block stands before it."""
        while self._heap:
            _, stamp, item = self._heap[0]
            if not isinstance(item, Block):
                heapq.heappop(self._heap)
                return stamp, item
            if not item.lifted:
                return None
            heapq.heappop(self._heap)
        return None
