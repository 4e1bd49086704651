"""The collector of news: what an operator should know after a step, from all parts of a core.

Pure. ``now`` is in seconds. In most steps there are none.
"""

from collections import Counter

from groupcomm.config.view import View
from groupcomm.engine.drain import Drain
from groupcomm.engine.news import (
    AccessNews,
    MembershipNews,
    News,
    ProtocolNews,
    RosterNews,
    TokenLate,
    ViewInstalled,
)
from groupcomm.engine.parts import Parts
from groupcomm.engine.view import ViewState
from groupcomm.membership.membership import Membership
from groupcomm.membership.states import GatherReason, MembershipState
from groupcomm.ring.ring import Ring
from groupcomm.ring.ring import TokenState as RingState

_OPERATIONAL = MembershipState.OPERATIONAL


class NewsCollector:
    """The collector of the news of one core.

    Attributes:
        views: the views that were installed.
    """

    __slots__ = ("_drain", "_membership", "_parts", "_token_watch", "views")

    def __init__(
        self, parts: Parts, membership: Membership, drain: Drain, timeout_s: float, now: float
    ) -> None:
        self._parts, self._membership, self._drain = parts, membership, drain
        self.views = ViewHistory(now)
        self._token_watch = TokenWatch(timeout_s)

    def pop(self, view_state: ViewState | None, now: float) -> list[News]:
        """Return the news since the last call."""
        membership, sessions = self._membership, self._parts.sessions
        news: list[News] = []
        if self.views.installed is not None:
            news.append(self.views.report(membership.reasons, membership.no_room, now))
        if view_state is not None and membership.state is _OPERATIONAL:
            ring, monitor = view_state.ring, view_state.ring.monitor
            silent = ring.state is RingState.AWAY and now > monitor.heard_at + monitor.silence_s
            if silent or self._token_watch.is_late:
                news += self._token_watch.check(ring, now)
        for some in (self._drain.news, sessions.silent):
            if some:
                news += some
                some.clear()
        for kind, lines in (
            (AccessNews, sessions.access_control.news),
            (ProtocolNews, membership.trust.news),
            (MembershipNews, membership.news),
            (RosterNews, self._parts.roster_manager.news),
        ):
            while lines:
                news.append(kind(lines.popleft()))
        return news


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
