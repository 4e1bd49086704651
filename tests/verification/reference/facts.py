"""The facts of a whole trace, gathered by simple loops: the terms of docs/properties.md.

An *index* is an event's place in the trace. Nothing here is fast, and nothing is shared with the
checkers.
"""

from collections.abc import Iterator
from typing import Any, TypeVar

import attrs

from groupcomm.trace.events import Accept, Ask, Release, Send, TraceEvent
from tests.verification.reference.terms import (
    AGREED,
    CONNECT,
    DISCONNECT,
    Name,
    Place,
    Position,
    daemon_of,
    has_numbers,
    name_of,
    order_of,
)
from tests.verification.reference.views import Views

E = TypeVar("E", bound=TraceEvent)
Bundle = tuple[str, int, int, int]
"""View, ring, number, bundle."""


@attrs.frozen
class Released:
    """One Release: its index, the view and part of it in which it happened, the event."""

    index: int
    view: str
    regular: bool
    event: Release

    @property
    def place(self) -> Place:
        """Time, ring and bundle."""
        return (self.event.time, self.event.ring, self.event.bundle)

    @property
    def bundle(self) -> Bundle:
        """Return which bundle it is."""
        return (self.view, self.event.ring, self.event.number, self.event.bundle)

    def position(self, message: int = 0) -> Position:
        """Return the position of one of its messages."""
        return (order_of(self.view), *self.place, message)


class Facts:
    """One trace, and the facts that follow from it.

    Attributes:
        views: the processes in each view, and their times.
        found: the ids of violated properties.
        live: the events that are not void, with their indices.
        end: the number of events.
        sent: for each item the index of its Send or Ask.
        reused: indices of Sends and Asks with a number used before.
        accepted: per item the indices of its Accepts.
        releases: per process its Releases, each bundle once.
        repeated: the others.
    """

    def __init__(self, events: list[TraceEvent]) -> None:
        self.views = Views(events)
        self.found = set(self.views.found)
        self.end = len(events)
        self._events = events
        self._homes = self._find_homes()
        self._by_kind: dict[type, list[Any]] = {}
        self.live = [(i, e) for i, e in enumerate(events) if not self._is_void(i, e)]
        self.sent: dict[Name, int] = {}
        self._items: dict[Name, Send | Ask] = {}
        self.reused: list[int] = []
        self._find_items()
        self._messages = [name for name, item in self._items.items() if isinstance(item, Send)]
        self.accepted: dict[Name, list[int]] = {}
        self._find_accepted()
        self.releases: dict[str, list[Released]] = {p: [] for p in self.views.processes}
        self.repeated: list[Released] = []
        self._find_releases()
        self._parts: dict[tuple[Name, str], list[Released]] = {}
        self._ends: dict[str, int | None] = {}

    def _find_homes(self) -> dict[str, tuple[int, str]]:
        """Return per client its home, and from which index on it has it."""
        homes: dict[str, tuple[int, str]] = {}
        for index, event in enumerate(self._events):
            if isinstance(event, Release) and index not in self.views.void:
                for member in self.views.members(self.views.view(event.p, index)):
                    if name_of(member) == daemon_of(event.c):
                        homes.setdefault(event.c, (index, member))
        return homes

    def _is_void(self, index: int, event: TraceEvent) -> bool:
        """Return whether an event is ignored; D5 for clients whose home has ended."""
        if index in self.views.void:
            return True
        client = getattr(event, "c", None)
        if client is None or hasattr(event, "p"):
            return False
        home = self.home(client, index)
        if home is None or self.views.ends.get(home, index) >= index:
            return False
        self.found.add("D5")
        return True

    def all(self, kind: type[E]) -> list[tuple[int, E]]:
        """Return all events of a kind with their indices."""
        if kind not in self._by_kind:
            self._by_kind[kind] = [(i, e) for i, e in self.live if isinstance(e, kind)]
        return self._by_kind[kind]

    # ---- clients ----

    def home(self, client: str, index: int | None = None) -> str | None:
        """Return the process of a client, as far as known before an index (by default, at the
        end)."""
        processes = self.views.processes
        if processes and processes[0] not in self.views.booted:
            found = [p for p in processes if name_of(p) == daemon_of(client)]
            return found[0] if found else None
        since, home = self._homes.get(client, (-1, None))
        return None if index is not None and since >= index else home

    def ended_at(self, client: str) -> int | None:
        """Return the index at which a client crashed, or its home released its disconnect or
        ended."""
        if client not in self._ends:
            home = self.home(client)
            ends = [i for i, e in self.all(Ask) if e.what == "crash" and e.c == client]
            if home is not None:
                ends += [
                    r.index
                    for r in self.releases[home]
                    if r.event.kind == DISCONNECT and r.event.c == client
                ]
                ends += [self.views.ends[home]] if home in self.views.ends else []
            self._ends[client] = min(ends, default=None)
        return self._ends[client]

    def stays(self, client: str) -> bool:
        """Return whether nothing may be missing to a client at Quiet."""
        return self.home(client) in self.views.core and self.ended_at(client) is None

    # ---- items ----

    def _find_items(self) -> None:
        for index, event in self.live:
            if isinstance(event, Send) or (
                isinstance(event, Ask) and event.what in ("join", "read", "leave", "line")
            ):
                if (event.c, event.m) in self.sent:
                    self.reused.append(index)
                else:
                    self.sent[event.c, event.m] = index
                    self._items[event.c, event.m] = event

    def _find_accepted(self) -> None:
        for index, event in self.all(Accept):
            for number in range(event.first, event.last + 1):
                if self.sent.get((event.c, number), index) < index:
                    self.accepted.setdefault((event.c, number), []).append(index)

    def item(self, name: Name) -> Send | Ask:
        """Return the event that made an item."""
        return self._items[name]

    def level(self, name: Name) -> int:
        """Return an item's level; joins and leaves count as AGREED."""
        item = self.item(name)
        return item.level if isinstance(item, Send) else AGREED

    def to(self, name: Name) -> tuple[str, ...]:
        """Return an item's destinations."""
        item = self.item(name)
        return item.to if isinstance(item, Send) else (item.group,) if item.group else ()

    def reads(self, name: Name) -> bool:
        """Return whether an item is a join without views."""
        item = self.item(name)
        return isinstance(item, Ask) and item.what == "read"

    def messages(self) -> list[Name]:
        """Return all items that are messages."""
        return self._messages

    # ---- releases ----

    def _find_releases(self) -> None:
        seen: set[object] = set()
        for index, event in self.all(Release):
            view = self.views.view(event.p, index)
            regular = self.views.is_regular(event.p, index)
            released = Released(index, view, regular, event)
            key: object = (event.p, released.bundle)
            if event.level == 0:
                key = (event.p, event.c, event.first, event.index)
            if key in seen:
                self.repeated.append(released)
            else:
                seen.add(key)
                self.releases[event.p].append(released)

    def everywhere(self) -> list[Released]:
        """Return the Releases of all processes, in the order of the trace."""
        found = [released for releases in self.releases.values() for released in releases]
        return sorted(found, key=lambda released: released.index)

    def is_inner(self, released: Released) -> bool:
        """Return whether a Release is inner: of an agreed message of the own ring of several."""
        event, view = released.event, released.view
        message = event.level >= AGREED and event.kind < CONNECT
        several = len(self.views.rings.get(view, ())) > 1
        own = self.views.ring_of(event.p, view) == event.ring
        return released.regular and message and several and own

    def is_own_ring(self, client: str, pos: tuple[str, int, int, int, int] | None) -> bool:
        """Return whether a position is of the ring of a client's home, in a view of several."""
        home = self.home(client)
        if pos is None or home is None:
            return False
        several = len(self.views.rings.get(pos[0], ())) > 1
        return several and self.views.ring_of(home, pos[0]) == pos[2]

    def of(self, process: str, view: str) -> list[Released]:
        """Return the bundles above UNRELIABLE that a process released in a view."""
        return [r for r in self.releases[process] if r.view == view and r.event.level > 0]

    def _covers(self, released: Released, name: Name) -> bool:
        """Return whether a Release is of an item that was sent before."""
        event = released.event
        if event.c != name[0] or not event.first <= name[1] <= event.last:
            return False
        return self.sent[name] < released.index and has_numbers(event)

    def parts(self, name: Name, process: str) -> list[Released]:
        """Return the Releases of an item at a process, several if it is in fragments."""
        if (name, process) not in self._parts:
            found = [r for r in self.releases[process] if self._covers(r, name)]
            self._parts[name, process] = found
        return self._parts[name, process]

    def wholes(self, name: Name, process: str) -> Iterator[list[Released]]:
        """Yield the Releases that made an item whole at a process, in each view in which they
        did."""
        by_view: dict[str, list[Released]] = {}
        for released in self.parts(name, process):
            parts = by_view.setdefault(released.view, [])
            parts.append(released)
            if len(parts) == parts[0].event.count:
                yield [*parts]

    def whole(self, name: Name, process: str) -> list[Released] | None:
        """Return the first of these."""
        return next(self.wholes(name, process), None)

    def released(self, name: Name, process: str) -> int | None:
        """Return the index of the Release that made an item whole at a process."""
        found = self.whole(name, process)
        return None if found is None else found[-1].index

    def at_home(self, name: Name) -> tuple[Released, Position] | None:
        """Return the Release that made a message whole at its sender's home first, and its
        position."""
        home = self.home(name[0])
        whole = None if home is None else self.whole(name, home)
        if home is None or whole is None:
            return None
        for released, position in self.positions(name, [home]):
            if released in whole:
                return whole[-1], position
        return None

    def is_cut(self, name: Name) -> bool:
        """Return whether a message has fewer Accepts than fragments."""
        counts = [r.event.count for p in self.views.processes for r in self.parts(name, p)]
        return bool(counts) and len(self.accepted.get(name, [])) < counts[0]

    # ---- positions ----

    def positions(self, name: Name, processes: list[str]) -> list[tuple[Released, Position]]:
        """Return the Releases at these processes that give an item's position, the first one
        first."""
        found = [
            (released, released.position(name[1] - released.event.first))
            for process in processes
            for released in self.parts(name, process)
            if released.event.index == released.event.count - 1 and released.event.level > 0
        ]
        return sorted(found, key=lambda entry: entry[0].index)

    def position(self, name: Name) -> Position | None:
        """Return the place of the first release of an item."""
        found = self.positions(name, self.views.processes)
        return found[0][1] if found else None
