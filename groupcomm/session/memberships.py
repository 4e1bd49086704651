"""The groups of one session, at its client. Pure; docs/session.md has the table of its states."""

from groupcomm.errors import LocalProtocolError
from groupcomm.events import GroupView, MemberId


class Memberships:
    """The groups of one session, at its client: the one place that knows them.

    For each group it knows whether the session has asked for it, and the latest view:

        not asked, no view    the session is no member
        asked, no view        it waits to become one
        asked, a view         it is a member
        not asked, a view     it waits to leave

    docs/session.md has the table of the events that change this.

    Attributes:
        asked: the groups that it is a member of once all its requests are answered.
        views: the latest views, as the program got them, of the groups that it is in, by name.
        reads: the groups that it has joined, or asked for, without views.
        need_quorum: those that it has joined, or asked for, so that they pause without a quorum.
    """

    __slots__ = ("asked", "need_quorum", "reads", "views")

    def __init__(self) -> None:
        self.asked: set[str] = set()
        self.views: dict[str, GroupView] = {}
        self.reads: set[str] = set()
        self.need_quorum: set[str] = set()

    def join(self, group: str, *, views: bool = True, needs_quorum: bool = False) -> None:
        """Note that the session asks to become a member, or without views to read the group.

        Raises:
            LocalProtocolError: the session has joined the group already, or asked to.
        """
        if group in self.asked:
            raise LocalProtocolError(f"this session has joined {group!r} already; leave it first")
        if group in self.views and views == (group in self.reads):
            raise LocalProtocolError(
                f"this session still leaves {group!r}: wait until it has left, as it now joins"
                f" {'with' if views else 'without'} views"
            )
        if group in self.views and needs_quorum != (group in self.need_quorum):
            raise LocalProtocolError(
                f"this session still leaves {group!r}: wait until it has left, as it now joins"
                " with another `minority`"
            )
        if not views:
            self.reads.add(group)
        if needs_quorum:
            self.need_quorum.add(group)
        self.asked.add(group)

    def leave(self, group: str) -> None:
        """Note that the session asks to leave.

        Raises:
            LocalProtocolError: the session has not joined the group.
        """
        if group not in self.asked:
            raise LocalProtocolError(f"this session has not joined {group!r}: join it first")
        self.asked.remove(group)

    def refuse(self, group: str) -> None:
        """Note that the session may not join a group, or may not stay in it."""
        self.asked.discard(group)
        if group not in self.views:
            self._forget(group)

    def update(self, view: GroupView, me: MemberId) -> bool:
        """Note a view that the program gets; return whether the session is in it."""
        if view.includes(me):
            self.views[view.group] = view
            return True
        self.views.pop(view.group, None)
        if view.group not in self.asked:
            self._forget(view.group)
        return False

    def _forget(self, group: str) -> None:
        """Forget how the session was in a group."""
        self.reads.discard(group)
        self.need_quorum.discard(group)
