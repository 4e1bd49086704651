"""Whom the groups speak to: the local sessions, as the daemon's core keeps them."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from groupcomm.clocks.stamp import Position
from groupcomm.events import GroupView, MemberId
from groupcomm.groups.table import Member
from groupcomm.wire.bundle import Bundle


class Audience(Protocol):
    """The sessions of this daemon, by connection number; unknown numbers are ignored."""

    def came_from(self, origins: Mapping[str, int]) -> None:
        """Tell, before the views of groups, which daemons came together: those of one number."""

    def deliver(self, connections: Iterable[int], bundle: Bundle, sender: MemberId) -> None:
        """Hand a bundle to sessions."""

    def show_view(self, connections: Iterable[int], view: GroupView) -> None:
        """Tell sessions of a group view."""

    def abort(self, connections: Iterable[int], sender: MemberId, message: int) -> None:
        """Tell sessions that no more fragments of a message will come."""

    def bounce(self, connection: int, message: int, target: str, position: Position) -> None:
        """Tell a sender that its private message came too late for the target."""

    def connected(self, connection: int, member: MemberId) -> None:
        """A local session is known everywhere from here on."""

    def disconnected(self, connection: int, member: MemberId) -> None:
        """A local session has ended for everybody."""

    def joined(self, group: str) -> None:
        """A local session's join is ordered, whatever came of it."""

    def entered(self, member: Member, group: str) -> None:
        """A session, local or not, has joined a group."""

    def left(self, group: str) -> None:
        """A local session has left a group."""

    def table_changed(self, position: Position, digest: int) -> None:
        """The group table is at a new state."""
