"""Multicasts that are simpler than bus1's and fail: plain queues, and one step too early.

Source: none, as nobody claims that these are right. A plain queue is neither consistent nor causal;
    `HastyMulticast` is the known bug that only a side channel reveals.
"""

from collections.abc import Sequence

from groupcomm_lessons.algorithms.bus1.multicast import Blocking, Multicast, Step, What
from groupcomm_lessons.algorithms.bus1.queue import Item, Queue, Stamp


class FifoQueue(Queue[Item]):
    """A first-in, first-out queue: a stamp here is the place in the queue."""


class PlainMulticast(Multicast[Item]):
    """A multicast that queues its message at one destination after the other; for `FifoQueue`."""

    @property
    def ready(self) -> list[Step[Item]]:
        """See `Multicast.ready`."""
        return [Step(What.QUEUE, queue) for queue in self._without(self._queued)]

    def do(self, step: Step[Item]) -> None:
        """See `Multicast.do`."""
        assert isinstance(step.queue, FifoQueue)
        self.stamp = Stamp(step.queue.tick(), self.sender.id)
        super().do(step)


def plain(
    sender: Queue[Item], to: Sequence[Queue[Item]], item: Item, _: Blocking
) -> PlainMulticast[Item]:
    """Return a multicast to plain queues, which have no blocks."""
    return PlainMulticast(sender, to, item)


class HastyMulticast(Multicast[Item]):
    """A multicast with the known bug: a destination gets the message once it alone is
    synchronised."""

    def _after_tick(self) -> list[Step[Item]]:
        return [
            Step(What.QUEUE if queue in self._synchronised else What.SYNCHRONISE, queue)
            for queue in self._without(self._queued)
        ]
