"""Messages that the causal filter holds back, in the order of each sender.

Only the first message of each sender may be next, so FIFO order holds over all groups of a sender,
too.
"""

from collections.abc import Iterator

import attrs

from groupcomm.clocks.vector import VectorClock
from groupcomm.events import MemberId, Message
from groupcomm_client.filters.causal_order.group import CausalGroup


@attrs.define
class Held:
    """A message that waits.

    Attributes:
        message: the message to pass on.
        count: its sender's count of its group; 0 if it has no stamp, or its sender begins anew.
        group: the group that counts it; None if it waits only for the messages before it.
        counts: the counts of its stamp; None if they are not known.
    """

    message: Message
    count: int = 0
    group: CausalGroup | None = None
    counts: VectorClock[MemberId] | None = None

    @property
    def is_next(self) -> bool:
        """Return whether everything that it waits for has come, except the messages before it."""
        if self.group is None or self.counts is None:
            return True
        return self.group.is_next(self.message.sender, self.counts)

    @property
    def is_concurrent(self) -> bool:
        """Return whether it is known that a message delivered here has not caused it."""
        if self.group is None or self.counts is None:
            return False
        return self.group.is_concurrent(self.message.sender, self.counts)

    def deliver(self) -> None:
        """Count the message as delivered."""
        if self.group is not None and self.count:
            self.group.delivered(self.message.sender, self.count)


class Buffer:
    """All messages that are held back.

    Attributes:
        size: the number of messages.
    """

    def __init__(self) -> None:
        self._queues: dict[MemberId, list[Held]] = {}
        self.size = 0

    def has(self, sender: MemberId, group: CausalGroup | None = None) -> bool:
        """Return whether messages of a sender are here, in one group or in any."""
        queue = self._queues.get(sender, ())
        return any(one.group is group for one in queue) if group is not None else bool(queue)

    def add(self, held: Held) -> None:
        """Hold a message after earlier ones of its sender, unless it has overtaken them."""
        queue = self._queues.setdefault(held.message.sender, [])
        at = len(queue)
        while at and held.group is not None and queue[at - 1].group is held.group:
            if queue[at - 1].count < held.count:
                break
            at -= 1
        queue.insert(at, held)
        self.size += 1

    def pop_next(self) -> Iterator[Held]:
        """Pop the messages that are next, one after the other; each is counted before the next."""
        found = True
        while found:
            found = False
            for sender, queue in list(self._queues.items()):
                while queue and queue[0].is_next:
                    found = True
                    yield self._pop(sender, queue)

    def pop_all(self) -> Iterator[Held]:
        """Pop all messages, those of each sender in order."""
        for sender, queue in list(self._queues.items()):
            while queue:
                yield self._pop(sender, queue)

    def _pop(self, sender: MemberId, queue: list[Held]) -> Held:
        held = queue.pop(0)
        self.size -= 1
        if not queue:
            self._queues.pop(sender, None)
        held.deliver()
        return held

    def let_go(self, sender: MemberId, group: CausalGroup) -> None:
        """Have messages of a sender in a group wait only for earlier ones, and count no more."""
        for held in self._queues.get(sender, ()):
            if held.group is group and held.count:
                held.count = 0
                if held.counts is not None:
                    held.counts.drop(sender)

    def forget(self, group: CausalGroup) -> None:
        """Drop the messages that wait in a group."""
        for sender, queue in list(self._queues.items()):
            queue[:] = [held for held in queue if held.group is not group]
            if not queue:
                del self._queues[sender]
        self.size = sum(map(len, self._queues.values()))
