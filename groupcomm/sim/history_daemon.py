"""An abstract daemon for generated histories: the rules of the order without any protocol.

There are no packets on a wire, no token and no bytes. A daemon looks at what all daemons hold
where a real one would wait for messages that tell it so. Every rule is written down once more
here, so that oracles and core are not tested against themselves.
"""

from collections import deque

import google_crc32c

from groupcomm.sim.trace import (
    Bounce,
    Count,
    Deliver,
    Hold,
    Member,
    Order,
    Release,
    Stamped,
    Table,
    TraceEvent,
    TracePosition,
)

RELIABLE, FIFO, CAUSAL, AGREED, SAFE = 1, 2, 3, 4, 5
MESSAGES, FRAGMENT, CONNECT, JOIN, LEAVE, DISCONNECT = range(6)

Place = tuple[int, int, int]
LATER = 0
"""The time in an event that waits for its client; it gets its own when it is received."""


class Log:
    """The trace as it grows, and its clock."""

    def __init__(self) -> None:
        self.events: list[TraceEvent] = []
        self._now = 0

    def tick(self) -> int:
        """The time of the next event; time passes with every event, at odd intervals."""
        self._now += 1 + len(self.events) % 7
        return self._now

    def add(self, event: TraceEvent) -> None:
        """Record an event."""
        self.events.append(event)


class Sent:
    """One message as its client sent it."""

    __slots__ = ("digest", "discard", "level", "number", "ordered", "parts", "to")

    def __init__(
        self,
        number: int,
        level: int,
        to: tuple[str, ...],
        digest: int,
        discard: bool,
        ordered: bool,
        parts: int,
    ) -> None:
        self.number = number
        self.level = level
        self.to = to
        self.digest = digest
        self.discard = discard
        self.ordered = ordered
        self.parts = parts  # fragments; 1 if it needs none


class Bundle:
    """What daemons order: messages, one fragment, or a request."""

    __slots__ = (
        "causes",
        "client",
        "first",
        "group",
        "index",
        "kind",
        "last",
        "level",
        "messages",
        "number",
        "place",
        "rank",
        "ring",
        "targets",
        "time",
    )

    def __init__(self, client: "Session", kind: int, level: int) -> None:
        self.client = client
        self.kind = kind
        self.level = level
        self.first = self.last = 0
        self.index = 0
        self.group = ""
        self.messages: list[Sent] = []
        self.targets: list[tuple[str, Session | None]] = []
        self.rank = 0  # among those of its sender at FIFO or above, from 1
        self.ring = self.number = self.time = self.place = 0
        self.causes: tuple[tuple[int, ...], Place] = ((), (0, 0, 0))

    @property
    def key(self) -> Place:
        """Its place in the agreed order."""
        return (self.time, self.ring, self.place)


class Session:
    """A client as its daemon sees it, and the way down to it."""

    def __init__(self, identity: str, daemon: "Daemon") -> None:
        self.identity = identity
        self.name = identity.rpartition("/")[0]
        self.daemon = daemon
        self.down: deque[TraceEvent | None] = deque()
        self.ended = False  # crashed, or its disconnect is released at its daemon
        self.gone_at: Place | None = None
        self.ranks = 0


class Daemon:
    """One daemon: what it holds, what it may release, whom it tells.

    Attributes:
        blocks: per ring, nothing at or below can still come.
        prefix: per ring, everything up to this number is held.
        waiting: bundles without a number.
        inbox: what is on its way here.
        sessions: all clients that ever connected here.
        left: those of them whose end is known here, its disconnect may still wait.
        gone: clients of any daemon whose disconnect is released here.
    """

    def __init__(self, identity: str, ring: int, view: str, log: Log) -> None:
        self.identity = identity
        self.name = identity.rpartition("/")[0]
        self.ring = ring
        self.view = view
        self._log = log
        self.sessions: set[Session] = set()
        self.left: set[Session] = set()
        self.waiting: deque[Bundle] = deque()
        self.inbox: list[Packet | Notice | Bundle] = []
        self.held = 0
        self.notices: list[Notice] = []
        self.low: list[Bundle] = []  # held and not released, below AGREED
        self.agreed: list[Bundle] = []  # the same from AGREED on, sorted by place
        self.done: Place = (0, 0, 0)
        self.ranks: dict[Session, int] = {}  # of a client the last released at FIFO or above
        self.names: dict[str, Session] = {}
        self.groups: dict[str, list[Session]] = {}
        self.gone: set[Session] = set()
        self.parts: dict[tuple[Session, int], tuple[int, list[Session]]] = {}
        self.ends: dict[tuple[Session, int], Bundle] = {}  # the last fragments of such messages
        self.answers: list[Bundle] = []  # ordered, not yet told
        self.checks: list[Bundle] = []  # with private names, not yet known to have arrived

    def join_view(self, daemons: list["Daemon"], rings: int, start: int) -> None:
        """Begin with the daemons of the view; packets are numbered from ``start + 1`` on."""
        self.daemons = daemons
        self.blocks = [0] * rings
        self.prefix = [start] * rings
        self.highest = [start] * rings
        self.times: list[dict[int, int]] = [{} for _ in range(rings)]

    @property
    def least(self) -> int:
        """Everything at or below is held here, and nothing of it can still come."""
        return min(self.blocks)

    # ---- what comes in ----

    def hold(self, packet: "Packet") -> None:
        """Take a packet."""
        ring, number, time = packet.ring, packet.number, packet.time
        self._log.add(Hold(self._log.tick(), self.identity, ring, number, time))
        self.held = max(self.held, time)
        times = self.times[ring]
        times[number] = time
        while self.prefix[ring] + 1 in times:
            self.prefix[ring] += 1
            self.blocks[ring] = max(self.blocks[ring], times.pop(self.prefix[ring]))
        for bundle in packet.bundles:
            if bundle.level >= AGREED:
                self.agreed.append(bundle)
            else:
                self.low.append(bundle)
        self.agreed.sort(key=lambda bundle: bundle.key)

    def hear(self, notice: "Notice") -> None:
        """Take a horizon; it counts once everything up to its packet is held."""
        self.notices.append(notice)

    def count(self) -> None:
        """Count the horizons that can be counted."""
        for notice in list(self.notices):
            ring, value, upto = notice.ring, notice.value, notice.upto
            if self.prefix[ring] >= upto:
                self.notices.remove(notice)
                if value > self.blocks[ring]:
                    self.blocks[ring] = value
                    self._log.add(Count(self._log.tick(), self.identity, ring, value, upto))

    def take_unreliable(self, bundle: Bundle) -> None:
        """Release what has no place in the order."""
        self.emit_release(bundle)
        if bundle.client not in self.gone:
            self.send_out(bundle)

    # ---- what may go out ----

    def release_all(self) -> None:
        """Release what may be, lower levels before the next agreed bundle."""
        self.count()
        while bundle := self._next_low() or self._next_agreed():
            self._release(bundle)
        self._answer()

    def _next_low(self) -> Bundle | None:
        for bundle in self.low:
            if self._is_next(bundle) and (bundle.level != CAUSAL or self._has_causes(bundle)):
                self.low.remove(bundle)
                return bundle
        return None

    def _next_agreed(self) -> Bundle | None:
        if not self.agreed:
            return None
        bundle = self.agreed[0]
        everywhere = self.daemons if bundle.level == SAFE else [self]
        if any(daemon.least < bundle.time for daemon in everywhere) or not self._is_next(bundle):
            return None
        return self.agreed.pop(0)

    def _is_next(self, bundle: Bundle) -> bool:
        """RELIABLE waits for nothing, others for those of their client before."""
        return bundle.level < FIFO or self.ranks.get(bundle.client, 0) + 1 == bundle.rank

    def _has_causes(self, bundle: Bundle) -> bool:
        vector, agreed = bundle.causes
        return (
            self.done >= agreed
            and all(self.prefix[ring] >= number for ring, number in enumerate(vector))
            and not any(low.number <= vector[low.ring] for low in self.low if low is not bundle)
        )

    def number(self, packet: "Packet") -> None:
        """Give a packet to its bundles, with what was released here as causes."""
        causes = (tuple(self.highest), self.done)
        ring, number, time = packet.ring, packet.number, packet.time
        self._log.add(Stamped(self._log.tick(), self.identity, self.view, ring, number, time))
        for place, bundle in enumerate(packet.bundles):
            bundle.ring, bundle.number, bundle.time = ring, number, time
            bundle.place = place
            bundle.causes = causes
            if any(message.ordered for message in bundle.messages):
                self.answers.append(bundle)

    # ---- releases ----

    def _release(self, bundle: Bundle) -> None:
        self.emit_release(bundle)
        ring = bundle.ring
        self.highest[ring] = max(self.highest[ring], bundle.number)
        if bundle.level >= FIFO:
            self.ranks[bundle.client] = bundle.rank
        if bundle.level >= AGREED:
            self.done = bundle.key
        if bundle.kind <= FRAGMENT:
            self.send_out(bundle)
            if bundle.targets and bundle.client.daemon is self:
                self.checks.append(bundle)
        else:
            self._control(bundle)

    def emit_release(self, bundle: Bundle) -> None:
        """Record that a bundle is released here."""
        count = bundle.messages[0].parts if bundle.kind == FRAGMENT else 1
        self._log.add(
            Release(
                self._log.tick(),
                self.identity,
                bundle.ring,
                bundle.number,
                bundle.time,
                bundle.place,
                bundle.kind,
                bundle.level,
                bundle.client.identity,
                bundle.first,
                bundle.last,
                bundle.index,
                count,
            )
        )

    def send_out(self, bundle: Bundle) -> None:
        """Hand a bundle to its local recipients, a message in fragments with its last one."""
        recipients = self._recipients(bundle)
        if bundle.kind == FRAGMENT:
            key = (bundle.client, bundle.first)
            seen, before = self.parts.get(key, (0, recipients))
            recipients = [session for session in before if session in recipients]
            self.parts[key] = (seen + 1, recipients)
            if bundle.index == bundle.messages[0].parts - 1:
                self.ends[key] = bundle
            if seen + 1 < bundle.messages[0].parts:
                return
            bundle = self.ends.pop(key)
            del self.parts[key]
        for index, message in enumerate(bundle.messages):
            position = self.position(bundle, index) if bundle.number else None
            for session in recipients:
                self._deliver(session, bundle.client, message, position)

    def _recipients(self, bundle: Bundle) -> list[Session]:
        found: dict[Session, None] = {}
        for group in bundle.messages[0].to:
            members = self.groups.get(group, ())
            found.update(dict.fromkeys(m for m in members if m.daemon is self))
        for _, target in bundle.targets:
            if target is not None and target.daemon is self and target not in self.gone:
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

    def position(self, bundle: Bundle, index: int = 0) -> TracePosition:
        """Where a bundle or one of its messages stands."""
        return (self.view, bundle.time, bundle.ring, bundle.place, index)

    # ---- joins, leaves, connects, disconnects ----

    def _control(self, bundle: Bundle) -> None:
        session = bundle.client
        if bundle.kind == CONNECT:
            self.names[session.name] = session
            if session.daemon is self:
                session.down.append(None)  # the welcome, which leaves no trace
        elif session in self.gone:
            return
        elif bundle.kind == DISCONNECT:
            self._disconnect(bundle)
        else:
            self._join_or_leave(bundle)
        state = {group: [s.identity for s in members] for group, members in self.groups.items()}
        text = repr((sorted(state.items()), sorted(s.identity for s in self.names.values())))
        digest = f"{google_crc32c.value(text.encode()):08x}"
        position = self.position(bundle)
        self._log.add(Table(self._log.tick(), self.identity, position, digest))

    def _join_or_leave(self, bundle: Bundle) -> None:
        session, group = bundle.client, bundle.group
        members = self.groups.setdefault(group, [])
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
        session.gone_at = session.gone_at or bundle.key
        self.gone.add(session)
        if self.names.get(session.name) is session:
            del self.names[session.name]
        if session.daemon is self:
            session.ended = True
        for group, members in self.groups.items():
            if session in members:
                members.remove(session)
                together = tuple(s.identity for s in members)
                for other in members:
                    self._show(other, bundle, group, "disconnect", together)

    def _show(
        self, session: Session, bundle: Bundle, group: str, cause: str, together: tuple[str, ...]
    ) -> None:
        if session.daemon is not self:
            return
        members = tuple(s.identity for s in self.groups[group])
        position, changed = self.position(bundle), (bundle.client.identity,)
        session.down.append(
            Member(LATER, session.identity, group, position, members, cause, changed, together)
        )

    # ---- what senders are told ----

    def _answer(self) -> None:
        for bundle in list(self.answers):
            everywhere = self.daemons if bundle.level == SAFE else [self]
            if all(daemon.least >= bundle.time for daemon in everywhere):
                self.answers.remove(bundle)
                if bundle.index == bundle.messages[0].parts - 1:
                    self._tell_position(bundle)
        passed = min(self.least, self.agreed[0].time - 1) if self.agreed else self.least
        for bundle in list(self.checks):
            if bundle.time <= passed:
                self.checks.remove(bundle)
                if bundle.index == bundle.messages[0].parts - 1:
                    self._bounce(bundle)

    def _tell_position(self, bundle: Bundle) -> None:
        session, position = bundle.client, self.position(bundle)
        if not session.ended:
            number = bundle.first
            session.down.append(Order(LATER, session.identity, number, position))

    def _bounce(self, bundle: Bundle) -> None:
        session = bundle.client
        if session.ended:
            return
        for index, message in enumerate(bundle.messages):
            number, position = message.number, self.position(bundle, index)
            for name, target in bundle.targets:
                if target is None or (target.gone_at is not None and target.gone_at < bundle.key):
                    session.down.append(Bounce(LATER, session.identity, number, name, position))


class Packet:
    """Bundles that share a stamp."""

    __slots__ = ("bundles", "number", "ring", "time")

    def __init__(self, ring: int, number: int, time: int, bundles: list[Bundle]) -> None:
        self.ring = ring
        self.number = number
        self.time = time
        self.bundles = bundles


class Notice:
    """A ring's promise: after packet `upto`, nothing at or below `value`."""

    __slots__ = ("ring", "upto", "value")

    def __init__(self, ring: int, value: int, upto: int) -> None:
        self.ring = ring
        self.value = value
        self.upto = upto
