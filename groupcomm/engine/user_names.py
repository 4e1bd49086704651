"""The user names at one daemon: which session has each, and which sessions wait for it.

Pure. ``now`` is in seconds.
"""

from collections import deque
from math import inf
from typing import Final

NAME_WAIT_S: Final = 1.0
"""For how long a session waits for a name whose holder may have gone. The end of a stream is seen
only once all before it was read, so a program that has crashed looks alive while its daemon is
busy."""


class UserNames:
    """The user names at one daemon: the session that has each, and the sessions that wait for it.

    A name belongs to one session until the DISCONNECT of that session is ordered.

    Attributes:
        due: the time at which a session has waited for long enough; inf if none waits in doubt.
    """

    __slots__ = ("_doubtful", "_holders", "_queues", "due")

    def __init__(self) -> None:
        self._holders: dict[str, int] = {}  # the connection number that holds each name
        self._queues: dict[str, list[int]] = {}
        self._doubtful: deque[tuple[float, int]] = deque()
        self.due = inf

    def holder(self, user: str) -> int | None:
        """Return the connection that has a name; None if the name is free."""
        return self._holders.get(user)

    def assign(self, user: str, connection: int) -> None:
        """Give a free name to a session."""
        self._holders[user] = connection

    def queue(self, user: str, connection: int) -> None:
        """Make a session wait for a name whose holder is leaving."""
        self._queues.setdefault(user, []).append(connection)

    def queue_in_doubt(self, connection: int, now: float) -> None:
        """Limit the wait of a session for a name whose holder may have gone."""
        self._doubtful.append((now + NAME_WAIT_S, connection))
        self.due = self._doubtful[0][0]

    def pop_overdue(self, now: float) -> list[int]:
        """Return the connections that have waited for long enough, each once."""
        found = []
        while self._doubtful and self._doubtful[0][0] <= now:
            found.append(self._doubtful.popleft()[1])
        self.due = self._doubtful[0][0] if self._doubtful else inf
        return found

    def unqueue(self, user: str, connection: int) -> None:
        """Remove a session from the waiting ones, if it is among them."""
        queue = self._queues.get(user, [])
        if connection in queue:
            queue.remove(connection)

    def free(self, user: str) -> int | None:
        """Free a name; return the connection that has waited for it longest, or None."""
        del self._holders[user]
        queue = self._queues.get(user)
        if queue:
            return queue.pop(0)
        self._queues.pop(user, None)
        return None
