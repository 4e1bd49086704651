"""Place: where a session is between two views of its group.

Pure. A change of views comes as a `Transition`, a view of daemons, and a view of each group that
the session is a member of. A session that is not in the group yet gets no view of it, so the view
of daemons ends the change for it.
"""

from groupcomm.events import Cause, DaemonView, GroupView, MemberId, Transition
from groupcomm_client.events import Received


class Place:
    """The place of one session.

    Attributes:
        is_transitional: whether the next view is still to come, behind a transition.
        is_behind: whether a view of daemons has come, and that of the group has not.
    """

    def __init__(self, me: MemberId, group: str) -> None:
        """Begin before the first view of the group."""
        self._me = me
        self._group = group
        self._is_member = self.is_transitional = self.is_behind = False

    def note(self, event: Received) -> None:
        """Note an event."""
        match event:
            case Transition():
                self.is_transitional = True
            case DaemonView():
                self.is_behind = self._is_member
                self.is_transitional &= self._is_member
            case GroupView() if event.group == self._group:
                self._is_member = self._me in event.members
                if event.cause is Cause.NETWORK:
                    self.is_transitional = self.is_behind = False
            case _:
                pass
