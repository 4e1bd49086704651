"""The watches over all local sessions: when to look at which, and what to do about it.

Pure. ``now`` is in seconds. Each session whose client sends heartbeats stands once in a heap, by
the time of its next look, whatever its traffic: so messages cost nothing here, and an idle session
a few looks in the time for which its client waits. Times are rounded up, so that looks share steps.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from math import ceil, inf
from typing import Final

from groupcomm.session.daemon_session import DaemonSession, DaemonSessionState
from groupcomm.session.frames import FrameKind, encode_alive
from groupcomm.session.liveness import PeerWatch
from groupcomm.wire.packet import Raw

GRID_S: Final = 0.125
"""Times of looks are multiples of this one."""

MOST_LOOKS: Final = 64
"""The most looks of one step: a look that sends a heartbeat costs some 10 microseconds."""

_OPEN = DaemonSessionState.OPEN


class SessionWatches:
    """The watches over all local sessions of a daemon.

    Args:
        push: sends a frame to a session.
        end: ends a session whose client was silent; called with the seconds.

    Attributes:
        due: the time of the next look; inf without any.
        ended: the number of sessions that were ended because their clients were silent.
    """

    def __init__(
        self,
        push: Callable[[DaemonSession, tuple[Raw, ...]], None],
        end: Callable[[DaemonSession, float], None],
    ) -> None:
        self._push = push
        self._end = end
        self._looks: list[tuple[float, int]] = []  # a heap of times and connections
        self._planned: dict[int, float] = {}  # the time that counts, by connection
        self._frame: tuple[float, bytes] = (-1.0, b"")  # the last heartbeat, by its patience
        self.due = inf
        self.ended = 0

    def begin(self, session: DaemonSession, now: float, timeout_s: float) -> None:
        """Watch a session from its WELCOME on, and tell its client so."""
        session.watch = PeerWatch(timeout_s, now)
        session.watch.note_sent(now)
        self._send(session, timeout_s)
        self._add(session, session.watch.due)

    def change(self, session: DaemonSession, now: float, timeout_s: float) -> None:
        """Wait for a client for another time from now on, and tell it."""
        if session.watch is not None and session.state is _OPEN:
            session.watch.timeout_s, session.watch.heard_at = timeout_s, now
            session.watch.note_sent(now)
            self._send(session, timeout_s)
            self.hurry(session)

    def hurry(self, session: DaemonSession) -> None:
        """Look at a session earlier, if that has become necessary: its client waits for less."""
        assert session.watch is not None, "only sessions with heartbeats are watched"
        if session.watch.due < self._planned.get(session.connection, -inf):
            self._add(session, session.watch.due)

    def look(self, now: float, sessions: dict[int, DaemonSession]) -> None:
        """Look at the sessions whose times have come; bounded, the rest is due at once."""
        looks = self._looks
        for _ in range(min(MOST_LOOKS, len(looks))):
            due, connection = looks[0]
            if due > now:
                break
            heappop(looks)
            if due != self._planned.get(connection):
                continue  # it was looked at earlier
            del self._planned[connection]
            session = sessions.get(connection)
            if session is not None and session.watch is not None and session.state is _OPEN:
                self._look(session, session.watch, now)
        self.due = looks[0][0] if looks else inf

    def _look(self, session: DaemonSession, watch: PeerWatch, now: float) -> None:
        if watch.is_silent(now, reads=session.reading):
            self.ended += 1
            self._end(session, watch.timeout_s)
            return
        if watch.owes(now):
            if not session.output_bytes:  # what waits already shows that the daemon is there
                self._send(session, watch.timeout_s)
            watch.note_sent(now)
        self._add(session, watch.due)

    def _send(self, session: DaemonSession, timeout_s: float) -> None:
        if self._frame[0] != timeout_s:
            self._frame = (timeout_s, encode_alive(FrameKind.DAEMON_ALIVE, timeout_s))
        self._push(session, (self._frame[1],))

    def _add(self, session: DaemonSession, due: float) -> None:
        due = inf if due == inf else ceil(due / GRID_S) * GRID_S
        if due != self._planned.get(session.connection):
            self._planned[session.connection] = due
            if due < inf:
                heappush(self._looks, (due, session.connection))
                self.due = min(self.due, due)

    def forget(self, connection: int) -> None:
        """Forget a session whose client has gone."""
        self._planned.pop(connection, None)
