"""What was received and is not on disk yet: a queue with a bound."""

import time
from collections import deque
from collections.abc import Sequence
from typing import Final

from groupcomm.events import Message
from groupcomm_client.conversation import Received
from groupcomm_tools.recording.columns import Taken
from groupcomm_tools.recording.gap import Gap

ROW_BYTES: Final = 150
"""What a message takes besides its data, about."""

BATCH_BYTES: Final = 16 * 1024 * 1024
"""So much is written at once, at most, unless one delivery is larger."""


class Waiting:
    """The queue. What does not fit is dropped, and a gap stands in its place.

    The alternative, to receive no more, would have the senders wait for this disk, or end the
    session of the recorder.

    Attributes:
        bytes: of what waits, about.
        dropped: messages that did not fit, since the begin.
    """

    def __init__(self, cap_bytes: int) -> None:
        self._cap_bytes = cap_bytes
        self._queue: deque[tuple[Taken, int]] = deque()
        self._missing = 0  # messages dropped behind the last one that waits
        self.bytes = 0
        self.dropped = 0

    def __bool__(self) -> bool:
        return bool(self._queue or self._missing)

    def put(self, events: Sequence[Received | Gap]) -> bool:
        """Have events written; False if they were dropped. Views are dropped with the messages."""
        messages = [event for event in events if type(event) is Message]
        size = sum([len(message.data) for message in messages]) + ROW_BYTES * len(events)
        if self.bytes and self.bytes + size > self._cap_bytes:
            self._missing += len(messages)
            self.dropped += len(messages)
            return False
        self._end_gap()
        self._queue.append((Taken(time.time_ns() // 1000, events), size))
        self.bytes += size
        return True

    def _end_gap(self) -> None:
        if self._missing:
            details = {"messages": self._missing, "why": "the disk did not keep up"}
            gap = Gap(cause="overrun", details=details)
            self._queue.append((Taken(time.time_ns() // 1000, [gap]), 0))
            self._missing = 0

    def take(self) -> list[Taken]:
        """What is to be written next; there must be something."""
        if not self._queue:
            self._end_gap()
        taken: list[Taken] = []
        size = 0
        while self._queue and (not taken or size + self._queue[0][1] <= BATCH_BYTES):
            events, bytes_ = self._queue.popleft()
            taken.append(events)
            size += bytes_
        self.bytes -= size
        return taken
