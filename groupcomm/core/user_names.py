"""User names at one daemon: each belongs to one session, until its DISCONNECT is ordered."""


class UserNames:
    """Who has which name, and who waits for one."""

    __slots__ = ("_holders", "_queues")

    def __init__(self) -> None:
        self._holders: dict[str, int] = {}  # connection numbers
        self._queues: dict[str, list[int]] = {}

    def holder(self, user: str) -> int | None:
        """The session that has a name; None if it is free."""
        return self._holders.get(user)

    def take(self, user: str, connection: int) -> None:
        """Give a free name to a session."""
        self._holders[user] = connection

    def queue(self, user: str, connection: int) -> None:
        """Have a session wait for a name whose holder is leaving."""
        self._queues.setdefault(user, []).append(connection)

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
