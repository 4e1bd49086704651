"""Programs for which all senders wait (`slow_receivers = "block"`): not for ever.

Pure. ``now`` is in seconds.
"""

from math import inf

from groupcomm.session.daemon_session import DaemonSession


class SlowReceivers:
    """The sessions of one daemon that let all senders wait, and since when.

    Attributes:
        due: when the first of them has let them wait for too long; inf if there is none.
    """

    __slots__ = ("_sessions", "_since", "due")

    def __init__(self) -> None:
        self._sessions: dict[int, DaemonSession] = {}  # perhaps not blocking any more
        self._since: dict[int, float] = {}
        self.due = inf

    def __bool__(self) -> bool:
        """Return whether any session blocks now."""
        if self._sessions:
            self._sessions = {n: s for n, s in self._sessions.items() if s.blocks}
            self._since = {n: self._since[n] for n in self._sessions}
        return bool(self._sessions)

    def add(self, session: DaemonSession, now: float, limit_s: float) -> None:
        """A session has come to block; `limit_s` is for how long it may."""
        self._sessions[session.connection] = session
        self._since.setdefault(session.connection, now)
        self.due = min(self.due, now + limit_s)

    def pop_overdue(self, now: float, limit_s: float) -> list[int]:
        """Return the connections of those that have blocked for longer than they may."""
        since = self._since if self else {}
        found = [number for number, begun in since.items() if now >= begun + limit_s]
        rest = [begun for number, begun in since.items() if number not in found]
        self.due = min(rest, default=inf) + limit_s
        return found
