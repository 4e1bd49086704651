"""The audience of groups: what the local sessions are told.

Pure. The daemon's core implements it (engine/session_output.py, engine/sessions.py).
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol

from groupcomm.clocks.stamp import Position
from groupcomm.events import MemberId
from groupcomm.groups.changes import GroupChange
from groupcomm.groups.table import Member
from groupcomm.wire.bundle import Bundle


class Audience(Protocol):
    """The local sessions, as the daemon's core keeps them.

    They are named by connection number; unknown numbers are ignored.
    """

    def came_from(self, origins: Callable[[], Mapping[str, int]]) -> None:
        """Tell, before the views of groups, which daemons came together: those with one number.

        `origins` computes the numbers, for the sessions that want them.
        """

    def may_deliver(self) -> bool:
        """Return whether this step may deliver more."""

    def go_on(self) -> bool:
        """Send more of what has too many receivers for one step; return whether that is done.

        What comes next has to wait for it.
        """

    def deliver(self, connections: Iterable[int], bundle: Bundle, sender: MemberId) -> None:
        """Hand a bundle to sessions."""

    def show_change(
        self, connections: Collection[int], change: GroupChange, own: int | None = None
    ) -> None:
        """Tell sessions of a change of their group, and the one that has itself joined or left."""

    def continue_groups(self, connection: int, start: Position) -> bool:
        """Tell a session that all its groups that were not shown since `start` go on as they were.

        Return False if its client must be told of each group by itself.
        """

    def charge(self, units: int) -> None:
        """Count work of this step that no session is told of; one unit is that of a frame."""

    def abort(self, connections: Iterable[int], sender: MemberId, message: int) -> None:
        """Tell sessions that no more fragments of a message will come."""

    def bounce(self, connection: int, message: int, target: str, position: Position) -> None:
        """Tell a sender that its private message came too late for the target."""

    def connected(self, connection: int, member: MemberId) -> None:
        """Note that a local session is known everywhere from here on."""

    def disconnected(self, connection: int, member: MemberId) -> None:
        """Note that a local session has ended for all daemons."""

    def joined(self, group: str) -> None:
        """Note that the join of a local session is ordered, with or without effect."""

    def entered(self, member: Member, group: str) -> None:
        """Note that a session, local or not, has joined a group."""

    def line_claimed(self, connection: int) -> None:
        """Note that a local session's request to go on with a line has its place."""

    def line_granted(self, connection: int, time: int) -> None:
        """Note that a local session goes on with its line, by an event of this time."""

    def line_taken(self, connection: int) -> None:
        """End a local session, as another one is to go on with its line."""

    def left(self, group: str) -> None:
        """Note that a local session has left a group."""

    def table_changed(self, position: Position, digest: int) -> None:
        """Note that the group table has changed."""
