"""Local lines: which sessions of this daemon go on with lines, and when they are told so.

Pure. A session that asks to go on with a line is told the number of its last message once all
daemons of the view hold what that follows from: so no other daemon can come to know less. Its LINE
is ordered again before its messages: a message below AGREED could overtake the end of the session
before elsewhere, but waits for a LINE of its own session. A session that cannot go on, as the view
has no majority or others have gone on without it, is ended; its program then asks in another
session. docs/exactly-once.md has the table.
"""

import enum
from collections.abc import Callable

from groupcomm.errors import Code
from groupcomm.events import LineGranted
from groupcomm.groups.table import GroupTable
from groupcomm.session.daemon_frames import encode_line
from groupcomm.session.daemon_session import DaemonSession
from groupcomm.wire.bundle import Bundle, line_bundle

APART = (
    "other daemons may have gone on without this one, so that what is still to be delivered of the"
    " line is decided anew"
)
TAKEN = "another session of the same sender goes on with its line, or there are too many lines"


class Stage(enum.Enum):
    """How far a session has come with its line."""

    ASKED = enum.auto()  # its LINE has no place yet
    WAITS = enum.auto()  # its LINE has its place; an earlier session has not ended yet
    GRANTED = enum.auto()  # the line is its own, which others may not hold yet
    NOTIFIED = enum.auto()  # its client knows, and sends


class LocalLines:
    """The lines of local sessions.

    Args:
        tell: pushes a LINE frame to a session, and orders a bundle of it before its messages.
        end: ends a session, for a reason.

    Attributes:
        stages: how far each session has come that has asked for a line, by connection.
        granted: the sessions that are to be told, with the time of the event, in its order.
    """

    __slots__ = ("_end", "_table", "_tell", "granted", "stages")

    def __init__(
        self,
        tell: Callable[[int, bytes, Bundle | None], None],
        end: Callable[[int, int, str], None],
    ) -> None:
        self._tell, self._end = tell, end
        self._table: GroupTable | None = None
        self.stages: dict[int, Stage] = {}
        self.granted: list[tuple[int, int]] = []

    def allows(self, session: DaemonSession, *, gives_up: bool) -> bool:
        """Note that a session asks for a line, or gives it up; end it, and return False, if it may
        not: a view in which no line goes on may have daemons that cannot read a LINE."""
        assert self._table is not None, "a session submits before any view"
        why_not = self._table.lines.why_not
        if gives_up and session.connection not in self.stages:
            self._end(session.connection, Code.ILLEGAL_MESSAGE, "a session gives up no line")
        elif session.connection in self.stages and not gives_up:
            self._end(session.connection, Code.ILLEGAL_MESSAGE, "a session has one line")
        elif why_not:
            self._end(session.connection, Code.CONNECTION_CLOSED, f"no line may go on: {why_not}")
        else:
            self.stages.setdefault(session.connection, Stage.ASKED)
            return True
        return False

    def forget(self, connection: int) -> None:
        """Forget a session that has ended."""
        self.stages.pop(connection, None)
        self.granted = [each for each in self.granted if each[1] != connection]

    # ---- events of the order ----

    def claimed(self, connection: int) -> None:
        """See `Audience.line_claimed`."""
        if self.stages.get(connection) is Stage.ASKED:
            self.stages[connection] = Stage.WAITS

    def grant(self, connection: int, time: int) -> None:
        """See `Audience.line_granted`."""
        if self.stages.get(connection, Stage.NOTIFIED) is not Stage.NOTIFIED:
            self.stages[connection] = Stage.GRANTED
            self.granted.append((time, connection))

    def end_taken(self, connection: int) -> None:
        """See `Audience.line_taken`."""
        self._end(connection, Code.CONNECTION_CLOSED, TAKEN)

    def tell_held(self, least: int) -> None:
        """Tell sessions that go on: all daemons of the view hold everything up to this time."""
        while self.granted and self.granted[0][0] <= least:
            self._tell_one(self.granted.pop(0)[1], in_view=True)

    def _tell_one(self, connection: int, *, in_view: bool) -> None:
        assert self._table is not None
        lines = self._table.lines
        line = lines.held.get((self._table.me, connection))
        if line is not None:
            self.stages[connection] = Stage.NOTIFIED
            granted = LineGranted(last=line.last, table=lines.table, forgotten=lines.forgotten)
            bundle = line_bundle(line.id) if in_view else None
            self._tell(connection, encode_line(granted), bundle)

    # ---- the beginning of a view ----

    def begin(self, table: GroupTable) -> set[int]:
        """Begin a view with this table; end the sessions whose lines do not go on.

        Returns:
            Those sessions. Nothing of what they have submitted may be sent any more.
        """
        self._table, self.granted = table, []
        ended = {c for c, stage in self.stages.items() if not self._goes_on(c, stage)}
        why_not = table.lines.why_not
        for connection in ended:
            self._end(
                connection, Code.CONNECTION_CLOSED, f"its line cannot go on: {why_not or APART}"
            )
        for connection, stage in self.stages.items():
            if connection not in ended and stage is not Stage.NOTIFIED:
                self._tell_one(connection, in_view=False)  # all of the new view have had it
        return ended

    def _goes_on(self, connection: int, stage: Stage) -> bool:
        assert self._table is not None
        lines, key = self._table.lines, (self._table.me, connection)
        if lines.why_not:
            return False
        return key in lines.held or lines.waits(key) or stage is Stage.ASKED
