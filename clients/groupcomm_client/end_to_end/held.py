"""Messages whose key has not come yet, and what must not overtake them.

Who seals a message has been given its key, but the message may be here before: one below CAUSAL
may overtake what its sender was told. It waits, and so does what the same sender has sent after
it at FIFO or above, to whatever group.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final

import attrs

from groupcomm.events import MemberId, Message
from groupcomm.level import ServiceLevel

HELD_S: Final = 10.0
"""So long a message waits at most for its key."""

HELD_MESSAGES: Final = 65_536
HELD_BYTES: Final = 64 * 1024 * 1024
"""So much waits at most."""


@attrs.frozen
class Held:
    """A message that waits; `until` is when it has waited long enough."""

    message: Message
    until: float


class Holding:
    """What waits, in the order in which it came from each sender."""

    def __init__(self) -> None:
        self._queues: dict[tuple[MemberId, bool], deque[Held]] = {}
        self._count = self._bytes = 0

    def __bool__(self) -> bool:
        return self._count > 0

    @property
    def is_full(self) -> bool:
        """Whether nothing more may wait."""
        return self._count >= HELD_MESSAGES or self._bytes >= HELD_BYTES

    @property
    def deadline(self) -> float | None:
        """When the first has waited long enough, in seconds of the clock; None if none waits."""
        return min((queue[0].until for queue in self._queues.values()), default=None)

    def is_behind(self, message: Message) -> bool:
        """Return whether something waits that this message must not overtake."""
        return message.level >= ServiceLevel.FIFO and (message.sender, True) in self._queues

    def add(self, message: Message, now: float) -> None:
        """Have a message wait."""
        queue = self._queues.setdefault(_lane(message), deque())
        queue.append(Held(message, now + HELD_S))
        self._count += 1
        self._bytes += len(message.data)

    def heads(self) -> Iterator[Held]:
        """Give the first of each sender; they may be removed meanwhile."""
        for queue in list(self._queues.values()):
            while queue:
                head = queue[0]
                yield head
                if queue and queue[0] is head:
                    break  # it waits on

    def remove(self, held: Held) -> None:
        """Remove one of the heads, which waits no more."""
        lane = _lane(held.message)
        queue = self._queues[lane]
        taken = queue.popleft()
        assert taken is held
        self._count -= 1
        self._bytes -= len(held.message.data)
        if not queue:
            del self._queues[lane]


def _lane(message: Message) -> tuple[MemberId, bool]:
    """Return what keeps its order: messages below FIFO may as well keep one among themselves."""
    return message.sender, message.level >= ServiceLevel.FIFO
