"""Changes of groups: what differs from the view before, and the whole view for who has none.

Pure. A member gets the whole list of a group once, with its own join. After that a change costs
its daemon no more than what has changed, and a write for each local member.
"""

from collections.abc import Collection, Sequence

import attrs

from groupcomm.clocks.stamp import Position
from groupcomm.events import Cause, GroupView, MemberId
from groupcomm.groups.table import GroupTable, Member


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


def change_of_daemons(
    group: str,
    start: Position,
    table: GroupTable,
    old: GroupTable,
    together: frozenset[int],
    names: Sequence[str],
) -> GroupChange:
    """Return the change of a group with local members by a new view of the daemons.

    Args:
        group: its name.
        start: the first position of the new view.
        table: the groups with which it begins.
        old: the groups with which the last complete view ended here.
        together: the daemons that have come along with this one, by index.
        names: the names of all daemons of the new view.
    """
    members = table.groups[group]
    came = tuple(member.id for member in members if member.daemon not in together)
    stayed = [member for member in members if member.daemon in together]
    known = {member.id for member in old.groups.get(group, ())}
    ids = {member.id for member in stayed}
    went = {member.daemon for member in known - ids}
    homes = {names[index] for index in {member.daemon for member in stayed}}
    # Daemons that come along bring the members that they had, unless one of them is at fault.
    fits = ids <= known and homes.isdisjoint(went)
    return GroupChange(
        group=group,
        id=start,
        before=old.shown.get(group) if fits else None,
        cause=Cause.NETWORK,
        members=members,
        came=came,
        went=tuple(sorted(went)),
    )
