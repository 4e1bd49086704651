"""What a whole trace says, gathered by simple loops: the terms of docs/properties.md.

An *index* is an event's place in the trace. Nothing here is fast, and nothing is shared with the
oracles.
"""

from collections.abc import Iterator
from typing import Any, TypeVar

from groupcomm.sim.trace import (
    Accept,
    Ask,
    Conf,
    Deliver,
    Member,
    Quiet,
    Release,
    Send,
    TraceEvent,
)

RELIABLE, FIFO, CAUSAL, AGREED, SAFE = 1, 2, 3, 4, 5
MESSAGES, FRAGMENT, CONNECT, JOIN, LEAVE, DISCONNECT = range(6)

E = TypeVar("E", bound=TraceEvent)
Name = tuple[str, int]
"""Client and number: an item."""
Position = tuple[int, int, int, int]
Place = tuple[int, int, int]


class Facts:
    """One trace, and what follows from it.

    Attributes:
        events: the trace, without items whose number was used before (D4).
        sent: per item the index of its Send or Ask.
        accepted: per item the indices of its Accepts.
        releases: per daemon its Releases with their indices, each place once.
    """

    def __init__(self, events: list[TraceEvent]) -> None:
        self.events = events
        self._by_kind: dict[type, list[Any]] = {}
        self.daemons = [event.p for event in events if isinstance(event, Conf)]
        self.views = {event.p: event.view for event in events if isinstance(event, Conf)}
        self.ring_of = {
            event.p: index
            for event in events
            if isinstance(event, Conf)
            for index, ring in enumerate(event.rings)
            if event.p in ring
        }
        self.ring_count = max(len(e.rings) for e in events if isinstance(e, Conf))
        self.quiet = any(isinstance(event, Quiet) for event in events)
        self.sent: dict[Name, int] = {}
        self.reused: list[int] = []
        self._find_items()
        self.accepted: dict[Name, list[int]] = {}
        self._find_accepted()
        self.repeated: list[int] = []  # Releases of a place that the daemon had released
        self.releases = {p: list(self._find_releases(p)) for p in self.daemons}
        self._parts: dict[tuple[Name, str], list[tuple[int, Release]]] = {}

    def all(self, kind: type[E]) -> list[tuple[int, E]]:
        """All events of a kind with their indices."""
        if kind not in self._by_kind:
            found = [(i, e) for i, e in enumerate(self.events) if isinstance(e, kind)]
            self._by_kind[kind] = found
        return self._by_kind[kind]

    # ---- items ----

    def _find_items(self) -> None:
        for index, event in enumerate(self.events):
            if isinstance(event, Send) or (
                isinstance(event, Ask) and event.what in ("join", "leave")
            ):
                if (event.c, event.m) in self.sent:
                    self.reused.append(index)
                else:
                    self.sent[event.c, event.m] = index

    def _find_accepted(self) -> None:
        for index, event in self.all(Accept):
            for number in range(event.first, event.last + 1):
                if self.sent.get((event.c, number), index) < index:
                    self.accepted.setdefault((event.c, number), []).append(index)

    def item(self, name: Name) -> Send | Ask:
        """The event that made an item."""
        event = self.events[self.sent[name]]
        assert isinstance(event, Send | Ask)
        return event

    def level(self, name: Name) -> int:
        """An item's level; joins and leaves count as AGREED."""
        item = self.item(name)
        return item.level if isinstance(item, Send) else AGREED

    def to(self, name: Name) -> tuple[str, ...]:
        """An item's destinations."""
        item = self.item(name)
        return item.to if isinstance(item, Send) else (item.group,)

    def messages(self) -> list[Name]:
        """All items that are messages."""
        return [name for name in self.sent if isinstance(self.item(name), Send)]

    def home(self, client: str) -> str | None:
        """The daemon of a client; None if it is not in the view."""
        name = client.rpartition("/")[0].rpartition("#")[2]
        for daemon in self.daemons:
            if daemon.rpartition("/")[0] == name:
                return daemon
        return None

    # ---- releases ----

    def _find_releases(self, daemon: str) -> Iterator[tuple[int, Release]]:
        seen = set()
        for index, event in self.all(Release):
            if event.p == daemon:
                place: object = (event.ring, event.number, event.bundle)
                if event.level == 0:
                    place = (event.c, event.first, event.index)
                if place in seen:
                    self.repeated.append(index)
                else:
                    seen.add(place)
                    yield index, event

    def covers(self, index: int, event: Release, name: Name) -> bool:
        """Whether a Release is of an item that was sent before."""
        if event.c != name[0] or not event.first <= name[1] <= event.last:
            return False
        return self.sent[name] < index and event.kind not in (CONNECT, DISCONNECT)

    def parts(self, name: Name, daemon: str) -> list[tuple[int, Release]]:
        """The Releases of an item at a daemon, several if it is in fragments."""
        if (name, daemon) not in self._parts:
            found = [(i, e) for i, e in self.releases[daemon] if self.covers(i, e, name)]
            self._parts[name, daemon] = found
        return self._parts[name, daemon]

    def released(self, name: Name, daemon: str) -> int | None:
        """The index of the Release that made an item whole at a daemon."""
        parts = self.parts(name, daemon)
        if not parts or len(parts) < parts[0][1].count:
            return None
        return parts[parts[0][1].count - 1][0]

    def is_cut(self, name: Name) -> bool:
        """Whether a message has fewer Accepts than fragments."""
        counts = [e.count for p in self.daemons for _, e in self.parts(name, p)]
        return bool(counts) and len(self.accepted.get(name, [])) < counts[0]

    def position_known(self, name: Name, daemons: list[str]) -> tuple[int, Position] | None:
        """The first Release at one of these daemons that tells the position: index and position."""
        found = []
        for daemon in daemons:
            for index, event in self.parts(name, daemon):
                if event.index == event.count - 1 and event.level > 0:
                    number = name[1] - event.first
                    found.append((index, (event.time, event.ring, event.bundle, number)))
        return min(found, default=None)

    def position(self, name: Name) -> Position | None:
        """Where an item was released first."""
        known = self.position_known(name, self.daemons)
        return None if known is None else known[1]

    def disconnect(self, client: str, before: int | None = None) -> Place | None:
        """The place of a client's disconnect, by its first Release (before an index)."""
        for index, event in self.all(Release):
            in_time = before is None or index < before
            if event.kind == DISCONNECT and event.c == client and in_time:
                return (event.time, event.ring, event.bundle)
        return None

    def ended_at(self, client: str) -> int | None:
        """The index at which a client crashed or its daemon released its disconnect."""
        ends = [i for i, e in self.all(Ask) if e.what == "crash" and e.c == client]
        for index, event in self.all(Release):
            if event.kind == DISCONNECT and (event.c, event.p) == (client, self.home(client)):
                ends.append(index)
        return min(ends, default=None)

    # ---- who is where ----

    def connected(self, daemon: str, index: int) -> dict[str, str]:
        """The clients by name that are connected at a daemon before an index."""
        names: dict[str, str] = {}
        for at, event in self.releases[daemon]:
            if at < index and event.kind in (CONNECT, DISCONNECT):
                name = event.c.rpartition("/")[0]
                if event.kind == CONNECT:
                    names[name] = event.c
                elif names.get(name) == event.c:
                    del names[name]
        return names

    def is_gone(self, client: str, daemon: str, index: int) -> bool:
        """Whether a daemon has released a client's disconnect before an index."""
        return any(
            at < index and event.kind == DISCONNECT and event.c == client
            for at, event in self.releases[daemon]
        )

    def members(self, daemon: str, group: str, index: int) -> list[str]:
        """The members of a group by what a daemon has released before an index, oldest first."""
        members: list[str] = []
        for at, event in self.releases[daemon]:
            if at >= index:
                break
            client = event.c
            if event.kind == DISCONNECT and client in members:
                members.remove(client)
            elif event.kind in (JOIN, LEAVE) and self.sent.get((client, event.first), at) < at:
                there = client in members
                if self.to((client, event.first)) != (group,) or self.is_gone(client, daemon, at):
                    continue
                if event.kind == JOIN and not there:
                    members.append(client)
                elif event.kind == LEAVE and there:
                    members.remove(client)
        return members

    def target(self, name: Name, private: str) -> str | None:
        """Whom a private name means in a message, once it is accepted."""
        accepts = self.accepted.get(name)
        home = self.home(name[0])
        if not accepts or home is None:
            return None
        return self.connected(home, accepts[0]).get(private)


def gets(events: list[TraceEvent], client: str) -> Iterator[tuple[int, Deliver]]:
    """The Delivers at a client."""
    for index, event in enumerate(events):
        if isinstance(event, Deliver) and event.c == client:
            yield index, event


def own_views(events: list[TraceEvent], client: str) -> Iterator[tuple[int, Member]]:
    """The Member events at a client."""
    for index, event in enumerate(events):
        if isinstance(event, Member) and event.c == client:
            yield index, event
