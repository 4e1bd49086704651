"""An abstract daemon's clients and groups, over views."""

import google_crc32c

from groupcomm.trace.events import (
    Deliver,
    Dview,
    Member,
    Order,
    Table,
    TracePosition,
    Trans,
)
from tests.verification.generators.changing.records import Announcement, View
from tests.verification.generators.records import CONNECT, LATER, Bundle, Log, Sent, Session
from tests.verification.generators.sessions import NEVER, AbstractSessions


class ChangingSessions(AbstractSessions):
    """The clients of one daemon, and the groups as it knows them since the last completed view.

    Attributes:
        welcomed: its own sessions whose connect is released here.
    """

    def __init__(self, identity: str, log: Log) -> None:
        super().__init__(identity, "", log)
        self.welcomed: dict[Session, None] = {}
        self._daemons: tuple[str, ...] = ()
        self._majority: bool | None = None
        self._early: list[tuple[Session, Deliver]] = []  # deliveries for sessions without a welcome

    # ---- views ----

    def announce(self) -> tuple[tuple[Session, ...], dict[str, tuple[Session, ...]]]:
        """Return its own sessions, and per group its own members."""
        own = tuple(s for s in self.names.values() if s.home == self._identity)
        groups = {
            group: tuple(s for s in members if s.home == self._identity)
            for group, members in self._groups.items()
        }
        return own, {group: members for group, members in groups.items() if members}

    def begin(self, view: View, together: set[str]) -> None:
        """Begin with all announcements of a view; `together`: the daemons that came with this
        one."""
        self._view = view.text
        self._daemons = tuple(daemon.name for daemon in view.daemons)
        self._majority = view.majority
        self.names = {}
        self._groups = {}
        for daemon in view.daemons:
            brought: Announcement = view.announcements[daemon.identity]
            self.names.update({session.name: session for session in brought.sessions})
            for group, members in brought.groups.items():
                self._groups.setdefault(group, []).extend(members)
        self._stays = dict.fromkeys(self.names.values(), ((0, 0, 0), NEVER))
        position = (self._view, 0, 0, 0, 0)
        text = repr(sorted((g, [s.identity for s in m]) for g, m in self._groups.items()))
        digest = f"{google_crc32c.value(text.encode()):08x}"
        self._log.add(Table(self._log.tick(), self._identity, position, digest))
        for session in self.welcomed:
            if not session.ended:
                self._show_daemons(session)
        for group, joined in sorted(self._groups.items()):
            names = tuple(session.identity for session in joined)
            vs = tuple(session.identity for session in joined if session.home in together)
            for session in joined:
                if session.home == self._identity:
                    session.down.append(
                        Member(LATER, session.identity, group, position, names, "network", (), vs)
                    )

    def _show_daemons(self, session: Session) -> None:
        event = Dview(LATER, session.identity, self._view, self._daemons, self._majority)
        session.down.append(event)

    def end_regular(self) -> None:
        """Begin the transitional part."""
        for session in self.welcomed:
            if not session.ended:
                session.down.append(Trans(LATER, session.identity, self._view))

    def end(self) -> None:
        """End the view: give up messages that came in part only."""
        self._parts.clear()
        self._last_parts.clear()

    # ---- events of the order ----

    def control(self, bundle: Bundle) -> None:
        """Apply a connect, join, leave or disconnect."""
        session = bundle.client
        super().control(bundle)
        if bundle.kind == CONNECT and session.home == self._identity:
            self.welcomed[session] = None
            self._show_daemons(session)
            session.down.extend(event for other, event in self._early if other is session)

    def _deliver(
        self, session: Session, sender: Session, message: Sent, position: TracePosition | None
    ) -> None:
        super()._deliver(session, sender, message, position)
        if session not in self.welcomed:
            event = session.down.pop()
            assert isinstance(event, Deliver)
            self._early.append((session, event))

    def tell_place(self, bundle: Bundle, *, transitional: bool) -> None:
        """Answer ``ordered=True``."""
        session, position = bundle.client, self.position(bundle)
        if not session.ended:
            order = Order(LATER, session.identity, bundle.first, position, transitional)
            session.down.append(order)
