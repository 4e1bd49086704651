"""Messages whose key has not come yet, and the messages that must not overtake them.

The sender of a sealed message has its key, but the message may arrive before the key: one below
CAUSAL may overtake earlier messages to its sender. It waits, and so do later messages of the same
sender at FIFO or above, to any group.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final

import attrs

from groupcomm.events import MemberId, Message
from groupcomm.level import ServiceLevel

HELD_S: Final = 10.0
"""The longest time that a message waits for its key."""

HELD_MESSAGES: Final = 65_536
HELD_BYTES: Final = 64 * 1024 * 1024
"""The most bytes that wait."""


@attrs.frozen
class Held:
    """A message that waits; `until` is the end of its wait."""

    message: Message
    until: float


class Holding:
    """The waiting messages, in the order in which they came from each sender."""

    def __init__(self) -> None:
        self._queues: dict[tuple[MemberId, bool], deque[Held]] = {}
        self._count = self._bytes = 0

    def __bool__(self) -> bool:
        return self._count > 0

    @property
    def is_full(self) -> bool:
        """Return whether no more messages may wait."""
        return self._count >= HELD_MESSAGES or self._bytes >= HELD_BYTES

    @property
    def deadline(self) -> float | None:
        """Return the end of the first wait, in seconds of the clock; None if no message waits."""
        return min((queue[0].until for queue in self._queues.values()), default=None)

    def is_behind(self, message: Message) -> bool:
        """Return whether a message waits that this one must not overtake."""
        return message.level >= ServiceLevel.FIFO and (message.sender, True) in self._queues

    def add(self, message: Message, now: float) -> None:
        """Put a message among those that wait."""
        queue = self._queues.setdefault(_lane(message), deque())
        queue.append(Held(message, now + HELD_S))
        self._count += 1
        self._bytes += len(message.data)

    def heads(self) -> Iterator[Held]:
        """Yield the first message of each sender; they may be removed meanwhile."""
        for queue in list(self._queues.values()):
            while queue:
                head = queue[0]
                yield head
                if queue and queue[0] is head:
                    break  # the message continues to wait

    def remove(self, held: Held) -> None:
        """Remove one of the heads, which no longer waits."""
        lane = _lane(held.message)
        queue = self._queues[lane]
        taken = queue.popleft()
        assert taken is held
        self._count -= 1
        self._bytes -= len(held.message.data)
        if not queue:
            del self._queues[lane]


def _lane(message: Message) -> tuple[MemberId, bool]:
    """Return the key of the messages that keep an order; those below FIFO may share one."""
    return message.sender, message.level >= ServiceLevel.FIFO
