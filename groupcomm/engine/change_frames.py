"""Change frames: the forms in which local sessions get a change of a group, each encoded once.

Pure. A session that takes differences gets one, which all members at this daemon share; a whole
list goes to a new member, to clients of older releases, and to sessions that held less before.
"""

from groupcomm.engine.access_control import AccessControl
from groupcomm.events import Cause, GroupView, MemberId
from groupcomm.groups.changes import GroupChange
from groupcomm.session.daemon_frames import encode_view
from groupcomm.session.daemon_session import DaemonSession
from groupcomm.session.differences import ChangeRun, Difference, encode_difference, place_of
from groupcomm.session.frames import Capability

_DIFFERENCES = int(Capability.DIFFERENCES)


class ChangeFrames:
    """The frames of one change.

    Attributes:
        names: the names that were encoded for it so far.
    """

    __slots__ = ("_difference", "_whole", "change", "names")

    def __init__(self, change: GroupChange) -> None:
        self.change = change
        self.names = 0
        self._difference: ChangeRun | None = None
        self._whole: bytes | None = None

    def difference(self) -> ChangeRun:
        """Return the difference from the view before, which members hold."""
        change = self.change
        if self._difference is None:
            assert change.before is not None, change
            found = Difference(
                group=change.group,
                id=change.id,
                before=place_of(change.before),
                cause=change.cause,
                size=len(change.members),
                went=change.went,
                members=change.came + change.left,
            )
            self._difference = encode_difference(found)
            self.names += len(found.members)
        return self._difference

    def whole(self, *, own: bool) -> bytes:
        """Return the whole view; `own`: for the session that has itself joined or left."""
        if own:
            self.names += len(self.change.members)
            return encode_view(self.change.view(own=True))
        if self._whole is None:
            self.names += len(self.change.members)
            self._whole = encode_view(self.change.view())
        return self._whole


class ListsShown:
    """Which sessions may see whose members, and hold what.

    Args:
        access_control: the rules.
    """

    __slots__ = ("_access_control",)

    def __init__(self, access_control: AccessControl) -> None:
        self._access_control = access_control

    def shares(self, session: DaemonSession, group: str) -> bool:
        """Return whether a member gets the same differences of a group as others that do."""
        return (
            bool(session.asked.wishes & _DIFFERENCES)
            and session.wants_views(group)
            and group not in session.hidden
            and self._access_control.may_see_members(session, group)
        )

    def frame_for(self, session: DaemonSession, frames: ChangeFrames, *, own: bool) -> bytes:
        """Return the frame with a change for a session; `own`: it has itself joined or left."""
        change = frames.change
        if not self._access_control.may_see_members(session, change.group):
            session.hidden.add(change.group)
            return encode_view(restrict_to_self(change, session.member, own=own))
        if not session.wants_views(change.group):
            return encode_view(restrict_to_self(change, session.member, own=own))
        held_less = change.group in session.hidden
        if held_less:
            session.hidden.remove(change.group)  # it gets the whole list now
        is_new = own and change.cause is Cause.JOIN
        if session.asked.wishes & _DIFFERENCES and change.before and not is_new and not held_less:
            return frames.difference()
        return frames.whole(own=own)


def restrict_to_self(change: GroupChange, me: MemberId | None, *, own: bool) -> GroupView:
    """Return the view of a change for a session that may not see the other members."""
    alone = () if me is None else (me,)
    has_left = own and change.cause is not Cause.JOIN
    return GroupView(
        group=change.group,
        id=change.id,
        members=() if has_left else alone,
        cause=change.cause,
        changed=alone if own else (),
        vs_set=() if has_left else alone,
        own=own,
    )
