"""An abstract daemon's clients and groups: the recipients of releases."""

import google_crc32c

from groupcomm.trace.events import Bounce, Deliver, Member, Order, Table, TracePosition
from tests.verification.generators.records import (
    CONNECT,
    DISCONNECT,
    FRAGMENT,
    JOIN,
    LATER,
    LINE,
    Bundle,
    Log,
    Place,
    Sent,
    Session,
)

NEVER: Place = (2**64, 0, 0)


class AbstractSessions:
    """The clients of one daemon, and the groups as it knows them.

    Attributes:
        sessions: all clients that ever connected here.
        left: the clients among these whose end is known here; the disconnect may still wait.
        gone: the clients of any daemon whose disconnect is released here.
        names: the connected clients of any daemon, by the releases here.
    """

    def __init__(self, identity: str, view: str, log: Log) -> None:
        self._identity = identity
        self._view = view
        self._log = log
        self.sessions: set[Session] = set()
        self.left: set[Session] = set()
        self.gone: set[Session] = set()
        self.names: dict[str, Session] = {}
        self._stays: dict[Session, tuple[Place, Place]] = {}  # the keys of connect and disconnect
        self._groups: dict[str, list[Session]] = {}
        self._parts: dict[tuple[Session, int], tuple[int, list[Session]]] = {}
        self._last_parts: dict[tuple[Session, int], Bundle] = {}  # their last fragments

    # ---- messages ----

    def send_out(self, bundle: Bundle) -> None:
        """Hand a bundle to its local recipients, a message in fragments with its last one."""
        recipients = self._recipients(bundle)
        if bundle.kind == FRAGMENT:
            key = (bundle.client, bundle.first)
            seen, before = self._parts.get(key, (0, recipients))
            if not seen and bundle.client.home == self._identity:
                bundle.messages[0].begins = bundle.key
            recipients = [session for session in before if session in recipients]
            self._parts[key] = (seen + 1, recipients)
            if bundle.index == bundle.messages[0].parts - 1:
                self._last_parts[key] = bundle
            if seen + 1 < bundle.messages[0].parts:
                return
            bundle = self._last_parts.pop(key)
            del self._parts[key]
        for index, message in enumerate(bundle.messages):
            position = self.position(bundle, index) if bundle.number else None
            for session in recipients:
                self._deliver(session, bundle.client, message, position)

    def _recipients(self, bundle: Bundle) -> list[Session]:
        found: dict[Session, None] = {}
        for group in bundle.messages[0].to:
            members = self._groups.get(group, ())
            found.update(dict.fromkeys(m for m in members if m.home == self._identity))
        for name, known in bundle.targets:
            target = known or self.names.get(name)
            if target is not None and target.home == self._identity and target not in self.gone:
                found[target] = None
        if bundle.messages[0].discard:
            found.pop(bundle.client, None)
        return list(found)

    def _deliver(
        self, session: Session, sender: Session, message: Sent, position: TracePosition | None
    ) -> None:
        session.down.append(
            Deliver(
                LATER,
                session.identity,
                sender.identity,
                message.number,
                message.level,
                message.to,
                message.digest,
                position,
            )
        )

    # ---- joins, leaves, connects, disconnects ----

    def position(self, bundle: Bundle, index: int = 0) -> TracePosition:
        """Return the position of a bundle or of one of its messages."""
        return (self._view, bundle.time, bundle.ring, bundle.place, index)

    def control(self, bundle: Bundle) -> None:
        """Apply a connect, join, leave or disconnect."""
        session = bundle.client
        if bundle.kind == CONNECT:
            self.names[session.name] = session
            self._stays[session] = (bundle.key, NEVER)
            if session.home == self._identity:
                session.down.append(None)  # the welcome, which leaves no trace
        elif session in self.gone or bundle.kind == LINE:
            return
        elif bundle.kind == DISCONNECT:
            self._disconnect(bundle)
        else:
            self._join_or_leave(bundle)
        state = {group: [s.identity for s in members] for group, members in self._groups.items()}
        text = repr((sorted(state.items()), sorted(s.identity for s in self.names.values())))
        digest = f"{google_crc32c.value(text.encode()):08x}"
        position = self.position(bundle)
        self._log.add(Table(self._log.tick(), self._identity, position, digest))

    def _join_or_leave(self, bundle: Bundle) -> None:
        session, group = bundle.client, bundle.group
        members = self._groups.setdefault(group, [])
        together = tuple(s.identity for s in members if s is not session)
        joins = bundle.kind == JOIN
        if joins:
            members.append(session)
        else:
            members.remove(session)
        for other in members:
            if other is not session:
                self._show(other, bundle, group, "join" if joins else "leave", together)
        alone = (session.identity,) if joins else ()
        self._show(session, bundle, group, "join" if joins else "leave", alone)

    def _disconnect(self, bundle: Bundle) -> None:
        session = bundle.client
        self.gone.add(session)
        self._stays[session] = (self._stays[session][0], bundle.key)
        if self.names.get(session.name) is session:
            del self.names[session.name]
        if session.home == self._identity:
            session.ended = True
        for group, members in self._groups.items():
            if session in members:
                members.remove(session)
                together = tuple(s.identity for s in members)
                for other in members:
                    self._show(other, bundle, group, "disconnect", together)

    def _show(
        self, session: Session, bundle: Bundle, group: str, cause: str, together: tuple[str, ...]
    ) -> None:
        if session.home != self._identity:
            return
        members = tuple(s.identity for s in self._groups[group])
        position, changed = self.position(bundle), (bundle.client.identity,)
        session.down.append(
            Member(LATER, session.identity, group, position, members, cause, changed, together)
        )

    # ---- notices to senders ----

    def tell_position(self, bundle: Bundle) -> None:
        """Answer ``ordered=True``."""
        session, position = bundle.client, self.position(bundle)
        if not session.ended:
            number = bundle.first
            session.down.append(Order(LATER, session.identity, number, position))

    def bounce(self, bundle: Bundle) -> None:
        """Send back messages whose receiver, at their place, is not connected."""
        session = bundle.client
        if session.ended:
            return
        for index, message in enumerate(bundle.messages):
            number, position = message.number, self.position(bundle, index)
            for name, target in bundle.targets:
                keys = [message.begins or bundle.key, bundle.key]
                owners = [s for s in self._stays if s is target or (not target and s.name == name)]
                stays = [self._stays[owner] for owner in owners]
                if not any(all(came < key < gone for key in keys) for came, gone in stays):
                    session.down.append(Bounce(LATER, session.identity, number, name, position))
