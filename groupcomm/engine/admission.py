"""Admission: which session gets the name of its user, and which sessions wait for theirs.

Pure. ``now`` is in seconds.
"""

from collections import deque
from collections.abc import Mapping
from math import inf
from typing import Final

from groupcomm.engine.access_control import AccessControl
from groupcomm.errors import Code, LocalProtocolError, SessionError
from groupcomm.names import private_name
from groupcomm.session.daemon_session import DaemonSession, DaemonSessionState

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


class Admission:
    """The admission of sessions, each by the name of its user.

    Args:
        daemon: the name of this daemon.
        sessions: all sessions, by connection.
        access_control: says who may have which name.

    Attributes:
        names: the names of users.
        closing: the reason for which no session is admitted any more; "" while some are.
    """

    def __init__(
        self, daemon: str, sessions: Mapping[int, DaemonSession], access_control: AccessControl
    ) -> None:
        self._daemon = daemon
        self._sessions = sessions
        self._access_control = access_control
        self.names = UserNames()
        self.closing = ""

    def admits(self, session: DaemonSession, user: str, now: float) -> bool:
        """Return whether a session may have its name now; if not it waits for the name.

        Raises:
            SessionError: it cannot have it.
        """
        try:
            private_name(user, self._daemon)
        except LocalProtocolError as error:  # each name may be short enough, but not both together
            raise SessionError(Code.REJECT_NAME, str(error)) from None
        if self.closing:
            raise SessionError(Code.REJECT_STOPPING, self.closing)
        if why_not := self._access_control.why_name_refused(session.principal, user):
            raise SessionError(Code.REJECT_NAME, why_not)
        holder = self.names.holder(user)
        if holder is None:
            return True
        if why_not := self.why_name_taken(user):
            raise SessionError(Code.REJECT_NOT_UNIQUE, why_not)
        if self._is_kept(holder):
            self.names.queue_in_doubt(session.connection, now)
        self.names.queue(user, session.connection)
        return False

    def why_name_taken(self, user: str) -> str:
        """Say why a name cannot be had now: its session lasts; "" if it can, or may be soon."""
        holder = self.names.holder(user)
        if holder is None or not self._is_kept(holder) or not self._sessions[holder].reading:
            return ""
        return self._name_in_use(user)

    def _is_kept(self, holder: int) -> bool:
        """Return whether the holder of a name is not known to be giving it up."""
        return self._sessions[holder].state <= DaemonSessionState.OPEN

    def _name_in_use(self, user: str) -> str:
        return (
            f"daemon {self._daemon} has a session of user {user!r} already:"
            " choose another name, or end that session first"
        )

    def pop_overdue(self, now: float) -> list[tuple[DaemonSession, str]]:
        """Return the sessions that waited for names whose holders are still there, and why not."""
        found = []
        for connection in self.names.pop_overdue(now):
            session = self._sessions.get(connection)
            if session is None or session.state is not DaemonSessionState.GREETED:
                continue
            holder = self.names.holder(session.user)
            if holder is not None and self._is_kept(holder):
                found.append((session, self._name_in_use(session.user)))
        return found
