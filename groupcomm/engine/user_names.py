"""User names at one daemon: each belongs to one session, until its DISCONNECT is ordered.

Pure. ``now`` is in seconds.
"""

from collections import deque
from math import inf
from typing import Final

PATIENCE_S: Final = 1.0
"""A session waits so long for a name whose holder may have gone. The end of a stream is seen only
once all before it was read, so a program that has crashed looks alive while its daemon is busy."""


class UserNames:
    """Who has which name, and who waits for one.

    Attributes:
        due: when a session has waited for long enough; inf if none waits in doubt.
    """

    __slots__ = ("_doubtful", "_holders", "_queues", "due")

    def __init__(self) -> None:
        self._holders: dict[str, int] = {}  # connection numbers
        self._queues: dict[str, list[int]] = {}
        self._doubtful: deque[tuple[float, int]] = deque()
        self.due = inf

    def holder(self, user: str) -> int | None:
        """The session that has a name; None if it is free."""
        return self._holders.get(user)

    def assign(self, user: str, connection: int) -> None:
        """Give a free name to a session."""
        self._holders[user] = connection

    def queue(self, user: str, connection: int) -> None:
        """Have a session wait for a name whose holder is leaving."""
        self._queues.setdefault(user, []).append(connection)

    def queue_in_doubt(self, connection: int, now: float) -> None:
        """A session waits for a name, and its holder may have gone."""
        self._doubtful.append((now + PATIENCE_S, connection))
        self.due = self._doubtful[0][0]

    def pop_overdue(self, now: float) -> list[int]:
        """The sessions that have waited for long enough, each once."""
        found = []
        while self._doubtful and self._doubtful[0][0] <= now:
            found.append(self._doubtful.popleft()[1])
        self.due = self._doubtful[0][0] if self._doubtful else inf
        return found

    def unqueue(self, user: str, connection: int) -> None:
        """A session does not wait any more, if it did."""
        queue = self._queues.get(user, [])
        if connection in queue:
            queue.remove(connection)

    def free(self, user: str) -> int | None:
        """A name is free; the session that has waited for it longest, or None."""
        del self._holders[user]
        queue = self._queues.get(user)
        if queue:
            return queue.pop(0)
        self._queues.pop(user, None)
        return None
