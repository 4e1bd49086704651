"""Memberships: the groups of one session, at its client.

Pure. The one place that knows them; all others ask. What of a group holds at one time:

    not asked, no view    the session is no member
    asked, no view        it waits to become one
    asked, a view         it is a member
    not asked, a view     it waits to be a member no longer

The events are methods: `join` and `leave` (the program asks), `refuse` (the daemon's rules do not
allow it, or no longer) and `show` (the program is told of a view). docs/session.md has the table.
"""

from groupcomm.errors import LocalProtocolError
from groupcomm.events import GroupView, MemberId


class Memberships:
    """The groups of one session.

    Attributes:
        asked: those it is a member of once all that it has asked for is answered.
        views: the latest views, as the program was told, of those it is a member of, by name.
    """

    __slots__ = ("asked", "views")

    def __init__(self) -> None:
        self.asked: set[str] = set()
        self.views: dict[str, GroupView] = {}

    def join(self, group: str) -> None:
        """Ask to become a member.

        Raises:
            LocalProtocolError: the session has joined the group already, or asked to.
        """
        if group in self.asked:
            raise LocalProtocolError(f"this session has joined {group!r} already; leave it first")
        self.asked.add(group)

    def leave(self, group: str) -> None:
        """Ask to be a member no longer.

        Raises:
            LocalProtocolError: the session has not joined the group.
        """
        if group not in self.asked:
            raise LocalProtocolError(f"this session has not joined {group!r}")
        self.asked.remove(group)

    def refuse(self, group: str) -> None:
        """Ask no more: the session may not join the group, or may not stay in it."""
        self.asked.discard(group)

    def show(self, view: GroupView, me: MemberId) -> bool:
        """Take a view of which the program is told; return whether the session is in it."""
        if me in view.members:
            self.views[view.group] = view
            return True
        self.views.pop(view.group, None)
        return False
