"""Wrong ways to pass owed messages on to a client: it ends before anybody can miss anything."""

from groupcomm.engine.sessions import LocalSessions
from groupcomm.errors import Code
from groupcomm.session.daemon_session import DaemonSession, DaemonSessionState
from groupcomm.wire.packet import Raw
from tests.verification.mutants.mutant import Right, mutant

FRAMES_TO_GO = 100
"""The further frames that are queued for a session that is to be cut off."""


@mutant((LocalSessions, "_begin_end"))
def sessions_lose_the_queue_at_a_goodbye(right: Right) -> Right:
    """Frames queued for a client are lost when it says goodbye; later frames are not."""

    def begin_end(self: LocalSessions, session: DaemonSession) -> None:
        if session.state is DaemonSessionState.LEAVING:
            session.pop_output(session.output_bytes)
        right(self, session)

    return begin_end


@mutant((DaemonSession, "push"))
def session_drops_a_frame_before_a_cut_off(right: Right) -> Right:
    """A session drops the frame above its cap, and cuts its client off some frames later."""
    queued: dict[int, int] = {}  # counts by the id of the session

    def push(self: DaemonSession, *frame: Raw, droppable: bool = False) -> bool:
        if self.closed or droppable:
            return bool(right(self, *frame, droppable=droppable))
        size = sum(map(len, frame))
        if self.too_slow:
            self._outbox.add(frame, size)
            queued[id(self)] += 1
            if queued[id(self)] >= FRAMES_TO_GO:
                self.close(Code.CONNECTION_CLOSED, "too slow")
            return not self.closed
        self.too_slow = self.output_bytes + size > self._limits.output_cap_bytes
        if self.too_slow:
            queued[id(self)] = 0
        return self.too_slow or bool(right(self, *frame))

    return push


BUGS = (
    sessions_lose_the_queue_at_a_goodbye,
    session_drops_a_frame_before_a_cut_off,
)
