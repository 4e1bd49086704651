"""News: the events of a step that an operator should know, as values; the shell words them.

Pure. ``now`` is in seconds.
"""

from collections import Counter
from typing import TypeAlias

import attrs

from groupcomm.config.view import View
from groupcomm.membership.states import GatherReason
from groupcomm.ring.ring import Ring
from groupcomm.ring.ring import TokenState as RingState


@attrs.frozen(kw_only=True)
class ViewInstalled:
    """A view of the daemons has begun.

    Attributes:
        view: the view.
        came: names of daemons that were not in the view before, sorted.
        left: names of those that were, and are not any more, sorted.
        causes: the reasons to look for it that this daemon has seen.
        took_s: the time since the view before it had stopped, or since this daemon started.
        no_room: names of the daemons that are heard and left out, as a view has no more rings.
    """

    view: View
    came: tuple[str, ...]
    left: tuple[str, ...]
    causes: tuple[GatherReason, ...]
    took_s: float
    no_room: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class TokenLate:
    """Nothing was heard of the token for a while; without it the view ends.

    Attributes:
        silent_s: the seconds in which no datagram was heard.
        timeout_s: the time after which the view ends.
    """

    silent_s: float
    timeout_s: float


@attrs.frozen
class AccessNews:
    """The rules of this daemon forbid a member in a group; the text names both."""

    text: str


@attrs.frozen
class ProtocolNews:
    """Another daemon has broken the protocol; the text names it, the breach and the remedy."""

    text: str


@attrs.frozen
class MembershipNews:
    """Something about another daemon that an operator should know; the text names both."""

    text: str


@attrs.frozen(kw_only=True)
class DrainBegun:
    """This daemon is about to stop, and its programs are told so.

    Attributes:
        within_s: the seconds after which it leaves at the latest.
        programs: the number of its programs.
    """

    within_s: float
    programs: int


@attrs.frozen(kw_only=True)
class DrainOver:
    """The daemon leaves: all programs have gone, the time is up, or it was told to.

    Attributes:
        gone: the number of programs that have moved or ended.
        staying: the users whose sessions end now.
    """

    gone: int
    staying: tuple[str, ...]


@attrs.frozen(kw_only=True)
class ProgramSilent:
    """The session of a program was ended, as nothing has come from it.

    Attributes:
        user: the name of the session.
        principal: its owner.
        silent_s: the seconds in which nothing has come.
    """

    user: str
    principal: str
    silent_s: float


@attrs.frozen
class RosterNews:
    """The daemons that may be members have changed, or could not; the text says how."""

    text: str


News: TypeAlias = (
    ViewInstalled
    | TokenLate
    | AccessNews
    | ProtocolNews
    | MembershipNews
    | DrainBegun
    | DrainOver
    | ProgramSilent
    | RosterNews
)


class ViewHistory:
    """The previous view, and since when it is frozen.

    Attributes:
        installed: the view that was installed since the last report; None if none was.
    """

    __slots__ = ("_reasons", "_stopped_at", "_view", "installed")

    def __init__(self, now: float) -> None:
        self._view: View | None = None
        self._stopped_at = now
        self._reasons: Counter[GatherReason] = Counter()
        self.installed: View | None = None

    def stop(self, now: float) -> None:
        """Note that the view is frozen from now on."""
        self._stopped_at = now

    def report(
        self, reasons: Counter[GatherReason], no_room: tuple[str, ...], now: float
    ) -> ViewInstalled:
        """Return the news of the view that was installed.

        Args:
            reasons: the number of times that this daemon has looked for a view, by cause.
            no_room: the daemons for which the view has no room.
            now: seconds.
        """
        view, before = self.installed, self._view
        assert view is not None, "no view was installed"
        names = {daemon.name for daemon in view.daemons}
        known = set() if before is None else {daemon.name for daemon in before.daemons}
        causes = tuple(reasons - self._reasons)
        self._view, self._reasons, self.installed = view, reasons.copy(), None
        return ViewInstalled(
            view=view,
            came=tuple(sorted(names - known)),
            left=tuple(sorted(known - names)),
            causes=causes,
            took_s=now - self._stopped_at,
            no_room=no_room,
        )


class TokenWatch:
    """The watch that reports once that the token of an operational view is late.

    Attributes:
        is_late: whether the token was late at the last check.
    """

    __slots__ = ("_late_after_s", "is_late")

    def __init__(self, timeout_s: float) -> None:
        self._late_after_s = timeout_s / 2
        self.is_late = False

    def check(self, ring: Ring, now: float) -> list[TokenLate]:
        """Return the news: nothing, unless the token is late and was not at the last check."""
        silent_s = now - ring.monitor.heard_at
        was_late = self.is_late
        self.is_late = silent_s > self._late_after_s and ring.state is RingState.AWAY
        if was_late or not self.is_late:
            return []
        return [TokenLate(silent_s=silent_s, timeout_s=2 * self._late_after_s)]
