"""Leaving: the end of a daemon, in order or, if that takes too long, without order.

Pure. ``now`` is in seconds. A daemon has left in order once all its sessions have ended for all
daemons, everything that they sent has a number, and the whole view holds it. Then it tells the
others. That needs an operational view. Between two views, or with a member that does not answer, no
daemon can know how long it takes. So after ``leave_timeout_s`` the daemon tells the others that
still hear it, and has left. For them it is then as if it had been killed, except that they need not
wait for a timeout.
"""

from math import inf
from typing import Final

import attrs

from groupcomm.config.roster import Roster
from groupcomm.engine.output import CoreOver, EndReason
from groupcomm.membership.states import MembershipState

FOLLOW_S: Final = 2.0
"""A daemon that was removed leaves after this time even if others have not said that they know."""


@attrs.frozen(kw_only=True)
class LeaveProgress:
    """The duties that a daemon in a view still has before it may leave.

    Attributes:
        others_differ: whether all other members say that they use another roster.
        is_missed: whether its votes still count for some member, and need not; or its disk does
            not hold the roster that it uses.
        state: the state of membership.
        is_complete: whether the groups of the view are known.
        is_settled: whether everything has a number, and the whole view holds it.
        sessions: the number of sessions that other daemons know.
        bundles: the number of bundles without a number.
        packets: the number of own packets that some member may lack.
    """

    others_differ: bool
    is_missed: bool
    state: MembershipState
    is_complete: bool
    is_settled: bool
    sessions: int
    bundles: int
    packets: int

    @property
    def is_done(self) -> bool:
        """Return whether nothing of this daemon would be missing anywhere.

        Packets of other members do not count: while these send, the last packet is never held
        everywhere.
        """
        between = self.state is not MembershipState.OPERATIONAL
        if self.is_missed or self.sessions:
            return False
        return self.is_settled and (between or self.is_complete)

    @property
    def left(self) -> str:
        """Return the duties in words."""
        counts = {
            "sessions have not ended everywhere": self.sessions,
            "bundles of messages have no number": self.bundles,
            "packets are not held by the whole view": self.packets,
        }
        found = [f"{count} {what}" for what, count in counts.items() if count]
        if self.is_missed:
            found.append("its votes still count, or its disk lacks the roster")
        if self.state is not MembershipState.OPERATIONAL:
            found.append(f"the daemon was looking for a view ({self.state.name.lower()})")
        return ", ".join(found) or "the view was not complete"


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

    __slots__ = (
        "_has_ended",
        "_timeout_s",
        "begun",
        "due",
        "follow_until",
        "removed",
        "unfinished",
    )

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self.begun = False
        self.due = inf
        self.unfinished = ""
        self._has_ended = False
        self.removed, self.follow_until = False, -inf

    def pop_end(self, roster: Roster | None) -> CoreOver | None:
        """Return once the way in which it has ended, then None; `roster` is the agreed one."""
        if self._has_ended:
            return None
        self._has_ended = True
        if self.removed:
            return CoreOver(end=EndReason.REMOVED, unfinished=self.unfinished, roster=roster)
        how = EndReason.CUT_SHORT if self.unfinished else EndReason.LEFT
        return CoreOver(end=how, unfinished=self.unfinished)

    def remove(self, now: float) -> None:
        """Note that the roster does not have this daemon any more."""
        self.removed, self.follow_until = True, now + FOLLOW_S

    def others_follow(self, progress: LeaveProgress, now: float) -> bool:
        """Return whether all members use the roster without this daemon, or had time enough.

        A member that has not delivered the last step when this daemon leaves would freeze its view
        before that, and be left out of the next one until it has learned the roster.
        """
        return now >= self.follow_until or progress.others_differ

    def may_go(self, progress: LeaveProgress | None, now: float) -> bool:
        """Return whether the others can be told now; call it after each step once it has begun.

        Without a view, `progress` is None: nothing was ever accepted from a program.
        """
        if progress is not None and not self.others_follow(progress, now):
            return False
        if self.due == inf:
            self.due = now + self._timeout_s
        if progress is not None and not progress.is_done:
            if now < self.due:
                return False
            self.unfinished = progress.left
        self.due = inf
        return True
