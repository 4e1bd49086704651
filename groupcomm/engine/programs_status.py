"""The programs of a daemon, for status pages, logs and metrics: how many, and what waits for them.

Pure. There may be 10,000 programs, and a status each second: a look at each of them would be a step
of 13 ms. So a status looks at those sessions only for which something may wait.
"""

from collections.abc import Iterable, Mapping
from math import inf

import attrs

from groupcomm.metrics import metric
from groupcomm.session.daemon_session import DaemonSession, SessionStatus


@attrs.frozen(kw_only=True)
class ProgramsStatus:
    """The sessions whose programs are there.

    Attributes:
        sessions: those of them that were asked for; see `BusySessions.status`.
    """

    programs: int = metric("sessions", "Sessions of programs.")
    output_bytes: int = metric(
        "session_output_bytes", "Output that waits to be read by all programs together."
    )
    backlog_bytes: int = metric(
        "session_backlog_bytes", "Messages of all programs together that wait for a number."
    )
    backlog_work: int = metric(
        "session_backlog_work",
        "Units of work that these messages are about to cause (docs/security.md): the most of any"
        " program; a session's next requests wait at 1,024.",
    )
    sessions: tuple[SessionStatus, ...]


class BusySessions:
    """The local sessions for which output or messages may wait.

    Args:
        by_connection: all local sessions.

    Attributes:
        gone: the connections whose sessions have not ended, although their programs are gone.
        unread: the connections that may have output; the keys of this table.
        submitted: those that may have bundles that wait for a number.
    """

    __slots__ = ("_by_connection", "gone", "submitted", "unread")

    def __init__(self, by_connection: Mapping[int, DaemonSession]) -> None:
        self._by_connection = by_connection
        self.unread: dict[int, None] = {}
        self.submitted: dict[int, None] = {}
        self.gone: set[int] = set()

    def forget(self, connection: int) -> None:
        """Forget a session that has ended."""
        self.gone.discard(connection)
        self.unread.pop(connection, None)
        self.submitted.pop(connection, None)

    def status(self, least_output: float = inf) -> ProgramsStatus:
        """Return the facts about all programs, and those with so many bytes of output, 1 or more.

        It takes a time that grows with the sessions which had a message since the status before.
        """
        unread = self.with_programs(self.unread)
        waiting = [s for s in self.with_programs(self.submitted) if s.backlog_bytes]
        self.submitted = {session.connection: None for session in waiting}
        return ProgramsStatus(
            programs=len(self._by_connection) - len(self.gone),
            output_bytes=sum(session.output_bytes for session in unread),
            backlog_bytes=sum(session.backlog_bytes for session in waiting),
            backlog_work=max((session.backlog_work for session in waiting), default=0),
            sessions=tuple(s.status() for s in unread if s.output_bytes >= least_output),
        )

    def with_programs(self, connections: Iterable[int]) -> list[DaemonSession]:
        """Return those of these sessions whose programs are there."""
        found = map(self._by_connection.get, connections)
        return [session for session in found if session is not None and session.has_client]
