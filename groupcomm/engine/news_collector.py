"""The collector of news: what an operator should know after a step, from all parts of a core.

Pure. ``now`` is in seconds. In most steps there are none.
"""

from collections import Counter, deque
from collections.abc import Callable, Collection, MutableSequence
from math import inf
from typing import Any

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
from groupcomm.ring.states import TokenState as RingState

_OPERATIONAL = MembershipState.OPERATIONAL


class NewsCollector:
    """The collector of the news of one core.

    Attributes:
        views: the views that were installed.
        sources: the news of all parts; there are some if any of these is not empty.
        look_at: the time, in seconds, after which to look whether the token is late.
    """

    __slots__ = ("_lines", "_membership", "_others", "_token_watch", "look_at", "sources", "views")

    def __init__(
        self, parts: Parts, membership: Membership, drain: Drain, timeout_s: float, now: float
    ) -> None:
        sessions = parts.sessions
        self._membership = membership
        self._others: tuple[MutableSequence[Any], ...] = (drain.news, sessions.silent)
        self._lines: tuple[tuple[Callable[[str], News], deque[str]], ...] = (
            (AccessNews, sessions.access_control.news),
            (ProtocolNews, membership.trust.news),
            (MembershipNews, membership.news),
            (RosterNews, parts.roster_manager.news),
        )
        self.sources: tuple[Collection[News | str], ...] = (
            *self._others,
            *(lines for _, lines in self._lines),
        )
        self.views = ViewHistory(now)
        self.look_at = now
        self._token_watch = TokenWatch(timeout_s)

    def pop(self, view_state: ViewState | None, now: float) -> list[News]:
        """Return the news since the last call."""
        membership = self._membership
        news: list[News] = []
        if self.views.installed is not None:
            news.append(self.views.report(membership.reasons, membership.no_room, now))
        if view_state is not None and membership.state is _OPERATIONAL:
            ring, monitor = view_state.ring, view_state.ring.monitor
            silent = ring.state is RingState.AWAY and now > monitor.heard_at + monitor.silence_s
            if silent or self._token_watch.is_late:
                news += self._token_watch.check(ring, now)
            heard_at = monitor.heard_at if ring.state is RingState.AWAY else now
            self.look_at = -inf if self._token_watch.is_late else heard_at + monitor.silence_s
        for some in self._others:
            news += some
            some.clear()
        for kind, lines in self._lines:
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
