"""bus1 with real threads: a queue whose operations are atomic under a lock of its own.

Source: see the package. Each operation takes the lock of its one queue, and gives it back before it
returns. So a thread holds one lock at most, for one operation, and never takes one lock while it
holds another. This is the only synchronisation: a `Multicast` belongs to its sender alone, and
senders with different destinations do not interact. All guarantees of `multicast` hold here.
"""

from contextlib import AbstractContextManager

from groupcomm_lessons.algorithms.bus1.queue import Block, Item, Queue, Stamp

Lock = AbstractContextManager[object]
"""A lock that a queue holds during an operation, such as ``threading.Lock()``."""


class LockedQueue(Queue[Item]):
    """A queue for threads; see `Queue` for the operations and their errors.

    Args:
        queue_id: unique among all queues.
        lock: a lock for this queue alone; the caller makes it, as this package knows no threads.
        clock: 0 to 2**64 - 1.
    """

    def __init__(self, queue_id: int, lock: Lock, clock: int = 0) -> None:
        super().__init__(queue_id, clock)
        self._lock = lock

    def tick(self) -> int:
        """See `Queue.tick`."""
        with self._lock:
            return super().tick()

    def synchronise(self, value: int) -> int:
        """See `Queue.synchronise`."""
        with self._lock:
            return super().synchronise(value)

    def block(self, at: int = 0) -> Block[Item]:
        """See `Queue.block`."""
        with self._lock:
            return super().block(at)

    def lift(self, block: Block[Item]) -> None:
        """See `Queue.lift`."""
        with self._lock:
            super().lift(block)

    def put(self, stamp: Stamp, item: Item, block: Block[Item] | None = None) -> None:
        """See `Queue.put`."""
        with self._lock:
            super().put(stamp, item, block)

    def pop(self) -> tuple[Stamp, Item] | None:
        """See `Queue.pop`."""
        with self._lock:
            return super().pop()
