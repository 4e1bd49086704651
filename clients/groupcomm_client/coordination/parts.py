"""Large messages of replicas in parts, of which a few are under way at a time.

Pure. A state of many megabytes in one message would keep the daemons of a busy computer from
everything else, and would have to be sent anew if a view ends meanwhile. The parts of a sender come
in their order, so a part whose place is not the next one is the rest of a message that ended.
"""

from collections import deque
from typing import Final

from groupcomm.events import MemberId
from groupcomm_client.coordination.replica_messages import (
    Part,
    ReplicaMessage,
    decode_untrusted,
    encode,
)

PART_BYTES: Final = 64 * 1024
"""The most bytes of one part."""

UNDER_WAY: Final = 2
"""The messages, and parts of them, that are sent before one of them has been delivered."""

MOST_PARTS: Final = 2048
"""The most parts of a message."""

MOST_STATE_BYTES: Final = MOST_PARTS * PART_BYTES - 1024 * 1024
"""The most bytes of a state, 127 MiB; the rest is for the names of the members beside it."""


class PartSender:
    """The messages that a replica has to send, apart from commands."""

    def __init__(self) -> None:
        self._waiting: deque[bytes] = deque()
        self._under_way = 0
        self._numbers = 0

    def post(self, message: ReplicaMessage) -> None:
        """Send a message behind those that wait."""
        data = encode(message)
        if len(data) <= PART_BYTES:
            self._waiting.append(data)
            return
        self._numbers += 1
        starts = range(0, len(data), PART_BYTES)
        for index, start in enumerate(starts):
            part = Part(self._numbers, index, len(starts), data[start : start + PART_BYTES])
            self._waiting.append(encode(part))

    def delivered(self) -> None:
        """Note that one of the messages or parts was delivered."""
        self._under_way = max(0, self._under_way - 1)

    def clear(self) -> None:
        """Send nothing of what still waits; nothing that was sent is waited for."""
        self._waiting.clear()
        self._under_way = 0

    def pop(self) -> list[bytes]:
        """Remove and return what is to be sent now."""
        found = []
        while self._waiting and self._under_way < UNDER_WAY:
            self._under_way += 1
            found.append(self._waiting.popleft())
        return found


class PartReceiver:
    """The parts that have come, by sender."""

    def __init__(self) -> None:
        self._parts: dict[MemberId, tuple[int, list[bytes]]] = {}

    def accept(self, sender: MemberId, part: Part) -> ReplicaMessage | None:
        """Accept a part; return the message if it is the last one of a whole message."""
        number, data = self._parts.pop(sender, (part.number, []))
        if part.index == 0:
            number, data = part.number, []
        if (number, len(data)) != (part.number, part.index) or part.count > MOST_PARTS:
            return None
        data.append(part.data)
        if len(data) < part.count:
            self._parts[sender] = number, data
            return None
        return decode_untrusted(b"".join(data))

    def clear(self) -> None:
        """Forget all parts: their rest may never come."""
        self._parts.clear()
