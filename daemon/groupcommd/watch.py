"""What an operator reads in the log: views with their cause and duration, and what goes badly."""

import logging

from groupcomm.core import DaemonCore
from groupcomm.membership.states import State
from groupcomm.ring.ring import State as RingState
from groupcomm.wire.link import LINK_BYTES
from groupcommd.flood import MANY_PER_S

SLOW_BYTES = 1024 * 1024
"""A client with more output waiting is told of."""

JUNK_TOLD_S = 3600.0
"""Between two lines that tell of junk: whoever sends it shall not fill the log, too."""

_log = logging.getLogger("groupcommd")


class Watch:
    """Looks at a core after steps, and logs what has changed.

    Attributes:
        state: of the core, as of the last look.
        view: the same.
    """

    def __init__(self, core: DaemonCore) -> None:
        self._core = core
        self.state = core.state
        self.view = core.view
        self._since = 0.0  # when the last view stopped
        self._reasons = core.membership.reasons.copy()
        self._slow: set[int] = set()
        self._narrow: set[str] = set()  # ways that were told of
        self._late_after_s = core.config.timing.token_timeout_s / 2
        self._late = False
        self._junk = 0  # datagrams, as of the last look
        self._is_flooded = self._is_told = False
        self._junk_told_at = -JUNK_TOLD_S

    def look(self, now: float) -> None:
        """The state or the view has changed."""
        core = self._core
        if self.state is State.OPERATIONAL or self._since == 0.0:
            self._since = now
        self.state = core.state
        if core.view is self.view or core.view is None:
            return
        known = {d.name for d in self.view.daemons} if self.view is not None else set()
        names = [daemon.name for daemon in core.view.daemons]
        reasons = core.membership.reasons - self._reasons
        self._reasons = core.membership.reasons.copy()
        self.view = core.view
        _log.info(
            "view %s: %s",
            core.view.id,
            ", ".join(names),
            extra={
                "view": str(core.view.id),
                "daemons": names,
                "came": sorted(set(names) - known),
                "left": sorted(known - set(names)),
                "cause": [reason.name.lower() for reason in reasons],
                "took_ms": round((now - self._since) * 1000, 1),
            },
        )

    def look_at_token(self, now: float) -> None:
        """After each step: a token that is late, before it counts as lost."""
        operation = self._core.operation
        if operation is None or self._core.state is not State.OPERATIONAL:
            return
        silent_s = now - operation.ring.away.heard_at
        late = silent_s > self._late_after_s and operation.ring.state is RingState.AWAY
        if late and not self._late:
            _log.warning(
                "the token is late: nothing was heard of it for %.2f s; without it for %g s the"
                " view ends",
                silent_s,
                2 * self._late_after_s,
                extra={"silent_s": round(silent_s, 3)},
            )
        self._late = late

    def look_at_news(self) -> None:
        """Log who had to leave a group, whom other daemons let in, and who breaks the protocol."""
        news = self._core.desk.guard.news
        while news:
            _log.warning("access: %s", news.popleft())
        news = self._core.membership.trust.news
        while news:
            _log.error("protocol: %s", news.popleft())

    def look_at_load(self) -> None:
        """Now and then: clients that do not read."""
        for number, session in self._core.desk.sessions.items():
            slow = session.output_bytes > SLOW_BYTES
            if slow and number not in self._slow:
                self._slow.add(number)
                _log.warning(
                    "client %s does not keep up: %d bytes wait for it",
                    session.user,
                    session.output_bytes,
                    extra={"client": session.user, "waiting_bytes": session.output_bytes},
                )
            elif not slow:
                self._slow.discard(number)
        self._slow &= self._core.desk.sessions.keys()

    def look_at_junk(self, dropped: int, now: float) -> bool:
        """Once a second: whether there are more bad datagrams than a healthy cluster has.

        Args:
            dropped: by the system, so far.
            now: seconds.
        """
        rejected = self._core.counters.rejected
        junk = rejected.total() + dropped
        per_s, self._junk = junk - self._junk, junk
        begins = per_s > MANY_PER_S and not self._is_flooded
        if begins and now >= self._junk_told_at + JUNK_TOLD_S:
            self._is_told, self._junk_told_at = True, now
            _log.warning(
                "junk: %d datagrams of the last second were rejected, or dropped by the system;"
                " most of all for the reason %s; it is told once an hour at most",
                per_s,
                max(rejected, key=rejected.__getitem__, default="none"),
                extra={"junk_per_s": per_s, "rejected": dict(rejected), "dropped": dropped},
            )
        elif self._is_told and per_s <= MANY_PER_S:
            self._is_told = False
            _log.info("junk: no more of it than usual", extra={"junk_per_s": per_s})
        self._is_flooded = per_s > MANY_PER_S
        return self._is_flooded

    def look_at_ways(self) -> None:
        """Now and then: links on which large packets are lost."""
        operation = self._core.operation
        if operation is None:
            return
        for at, link in operation.links.items():
            name, path = operation.view.daemons[at].name, link.path
            if path.is_narrow and name not in self._narrow:
                self._narrow.add(name)
                passes, full = path.carries - LINK_BYTES, path.most - LINK_BYTES
                _log.warning(
                    "on the way to %s packets of more than %d bytes are lost: those of up to %d go"
                    " in pieces; mend the network, or set packet_bytes of the link to %d",
                    name,
                    passes,
                    full,
                    passes,
                    extra={"to": name, "packet_bytes": passes, "of_bytes": full},
                )
            elif path.carries == path.most and name in self._narrow:
                self._narrow.discard(name)
                _log.info("on the way to %s packets of all sizes pass", name, extra={"to": name})
