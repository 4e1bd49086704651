"""Changes of groups: what differs from the view before, and the whole view for who has none.

Pure. A member gets the whole list of a group once, with its own join. After that a change costs
its daemon no more than what has changed, and a write for each local member.
"""

from collections.abc import Collection

import attrs

from groupcomm.clocks.stamp import Position
from groupcomm.events import Cause, GroupView, MemberId
from groupcomm.groups.table import Member


@attrs.frozen(kw_only=True)
class GroupChange:
    """One change of a group, for the local members.

    Attributes:
        group: its name.
        id: the position of the change.
        before: the id of the view that the members hold which were there before; None if the change
            cannot be told as a difference from that.
        cause: its cause.
        members: the members after the change, in order; valid until the table changes again.
        came: the members that were not in the view before.
        left: the member that has left, or whose session has ended.
        went: with NETWORK the daemons whose members of the view before did not come along.
    """

    group: str
    id: Position
    before: Position | None
    cause: Cause
    members: Collection[Member]
    came: tuple[MemberId, ...] = ()
    left: tuple[MemberId, ...] = ()
    went: tuple[str, ...] = ()

    def view(self, *, own: bool = False) -> GroupView:
        """Return the whole view; `own`: for the member that has itself joined or left."""
        members = tuple([member.id for member in self.members])
        came = frozenset(self.came)
        along = () if own else tuple([member for member in members if member not in came])
        return GroupView(
            group=self.group,
            id=self.id,
            members=members,
            cause=self.cause,
            changed=() if self.cause is Cause.NETWORK else self.came + self.left,
            vs_set=self.came if own else along,
            own=own,
        )
