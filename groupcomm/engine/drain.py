"""Drain: the last part of a daemon's life before it leaves, in which its programs move.

Pure. ``now`` is in seconds. The daemon is a lame duck: it serves the sessions that it has, admits
no others, and tells each session in a STOPPING frame by when it stops and where other daemons
listen. It leaves in order (leaving.py) once the last program has gone, or when the time is up,
whatever programs do. The session of the operator who watches does not hold it up.
"""

from math import inf
from typing import Final

import attrs

from groupcomm.engine.inputs import DrainRequested
from groupcomm.engine.news import DrainBegun, DrainOver
from groupcomm.engine.sessions import LocalSessions
from groupcomm.session.daemon_session import DaemonSession

STOPPED: Final = "the daemon is being stopped"
"""What sessions are told that end with their daemon."""

STOPPED_EMPTY: Final = f"{STOPPED}: no program is left"
"""What the operator's session is told if its daemon leaves as all others have gone."""


@attrs.frozen(kw_only=True)
class DrainStatus:
    """The drain of a daemon that is about to stop.

    Attributes:
        left_s: the seconds after which it leaves at the latest; 0 once it leaves.
        gone: the number of programs that have moved or ended since it began.
        staying: the users whose sessions are still here, sorted.
    """

    left_s: float
    gone: int
    staying: tuple[str, ...]


class Drain:
    """The drain of one start of a daemon.

    Args:
        sessions: the sessions of the daemon.

    Attributes:
        begun: whether it was asked for.
        due: the end of the time for the drain; inf before the drain, and once the daemon leaves.
    """

    __slots__ = ("_observer", "_programs", "_sessions", "begun", "due", "news")

    def __init__(self, sessions: LocalSessions) -> None:
        self._sessions = sessions
        self._observer = ""
        self._programs: set[int] = set()  # connections since the drain began
        self.begun = False
        self.due = inf
        self.news: list[DrainBegun | DrainOver] = []

    def begin(self, request: DrainRequested, now: float) -> None:
        """Tell all programs; a later request changes the time and the addresses."""
        self.begun = True
        self.due = now + request.within_s
        self._observer = request.observer or self._observer
        self._sessions.announce_stop(now, self.due, request.addresses)
        count = len(self._present())
        self.news.append(DrainBegun(within_s=request.within_s, programs=count))

    def is_over(self, now: float) -> bool:
        """Return whether the daemon is to leave now; call it in each step."""
        return self.due < inf and (now >= self.due or not self._present())

    def end(self) -> str:
        """Note that the daemon leaves, for whatever reason; return what to tell its sessions."""
        if self.due == inf:
            return STOPPED
        self.due = inf
        status = self.status(0.0)
        self.news.append(DrainOver(gone=status.gone, staying=status.staying))
        return STOPPED if status.staying else STOPPED_EMPTY

    def _present(self) -> list[DaemonSession]:
        """Return the sessions of programs that are still here."""
        found = [
            session
            for session in self._sessions.by_connection.values()
            if session.is_served and session.user != self._observer
        ]
        self._programs.update(session.connection for session in found)
        return found

    def status(self, now: float) -> DrainStatus:
        """Return the progress of the drain."""
        staying = self._present()
        return DrainStatus(
            left_s=max(0.0, self.due - now) if self.due < inf else 0.0,
            gone=len(self._programs) - len(staying),
            staying=tuple(sorted(session.user for session in staying)),
        )
