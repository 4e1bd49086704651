"""Leaving: the end of a daemon, in order or, if that takes too long, without order.

Pure. ``now`` is in seconds. A daemon has left in order once all its sessions have ended for all
daemons, everything that they sent has a number, and the whole view holds it. Then it tells the
others. That needs an operational view. Between two views, or with a member that does not answer, no
daemon can know how long it takes. So after ``leave_timeout_s`` the daemon tells the others that
still hear it, and has left. For them it is then as if it had been killed, except that they need not
wait for a timeout.
"""

from math import inf
from typing import Final, Protocol

from groupcomm.config.roster import Roster
from groupcomm.config.view import Start
from groupcomm.engine.output import CoreOver, EndReason
from groupcomm.engine.sessions import LocalSessions
from groupcomm.engine.view import ViewState
from groupcomm.membership.membership import Membership
from groupcomm.membership.states import MembershipState

FOLLOW_S: Final = 2.0
"""A daemon that was removed leaves after this time even if others have not said that they know."""


class LeavingContext(Protocol):
    """The daemon that leaves."""

    start: Start
    membership: Membership
    sessions: LocalSessions
    view_state: ViewState | None

    @property
    def state(self) -> MembershipState:
        """Return the state of membership."""


class Leaving:
    """The end of one start of a daemon.

    Attributes:
        begun: whether it was asked to leave.
        due: when it leaves in any case; inf before it was asked to leave, and once it has gone.
        unfinished: the duties that were not done in time; empty if it left in order.
        removed: whether it leaves as the roster does not have it any more.
        follow_until: the time at which a removed daemon waits for the others no longer; -inf for
            one that was not removed.
    """

    __slots__ = ("_core", "_timeout_s", "begun", "due", "follow_until", "removed", "unfinished")

    def __init__(self, core: LeavingContext, timeout_s: float) -> None:
        self._core = core
        self._timeout_s = timeout_s
        self.begun = False
        self.due = inf
        self.unfinished = ""
        self.removed, self.follow_until = False, -inf

    def end(self, roster: Roster | None) -> CoreOver:
        """Return the way in which it has ended; `roster` is the agreed one."""
        if self.removed:
            return CoreOver(end=EndReason.REMOVED, unfinished=self.unfinished, roster=roster)
        how = EndReason.CUT_SHORT if self.unfinished else EndReason.LEFT
        return CoreOver(end=how, unfinished=self.unfinished)

    def remove(self, now: float) -> None:
        """Note that the roster does not have this daemon any more."""
        self.removed, self.follow_until = True, now + FOLLOW_S

    def others_follow(self, now: float) -> bool:
        """Return whether all members use the roster without this daemon, or had time enough.

        A member that has not delivered the last step when this daemon leaves would freeze its view
        before that, and be left out of the next one until it has learned the roster.
        """
        if now >= self.follow_until or (view := self._core.membership.view) is None:
            return True
        members = view.numbers - {self._core.start.daemon.number}
        peers = self._core.membership.peers
        return all(number in peers and peers[number].differs for number in members)

    def may_go(self, now: float) -> bool:
        """Return whether the others can be told now; call it after each step once it has begun."""
        if not self.others_follow(now):
            return False
        if self.due == inf:
            self.due = now + self._timeout_s
        if not self._is_settled():
            if now < self.due:
                return False
            self.unfinished = self._what_is_left()
        self.due = inf
        return True

    def _is_settled(self) -> bool:
        """Return whether nothing of this daemon would be missing anywhere.

        Packets of other members do not count: while these send, the last packet is never held
        everywhere. Without a view nothing was ever accepted from a program, so nothing is left.
        """
        view_state = self._core.view_state
        if view_state is None:
            return True
        between = self._core.state is not MembershipState.OPERATIONAL
        return (
            self._core.sessions.is_empty
            and view_state.is_settled
            and (between or view_state.delivery.complete)
        )

    def _what_is_left(self) -> str:
        core, view_state = self._core, self._core.view_state
        assert view_state is not None
        counts = {
            "sessions have not ended everywhere": core.sessions.unfinished,
            "bundles of messages have no number": core.sessions.backlog.size,
            "packets are not held by the whole view": view_state.unsettled_packets,
        }
        found = [f"{count} {what}" for what, count in counts.items() if count]
        if core.state is not MembershipState.OPERATIONAL:
            found.append(f"the daemon was looking for a view ({core.state.name.lower()})")
        return ", ".join(found) or "the view was not complete"
