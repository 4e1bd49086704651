"""G1 to G3, G5, V3: group tables and group views."""

from itertools import combinations

import attrs

from groupcomm.trace.events import Member, Table, TracePosition
from tests.verification.reference.companions import are_together, half_of
from tests.verification.reference.facts import Facts, Released
from tests.verification.reference.stages import Stages
from tests.verification.reference.tables import Tables
from tests.verification.reference.terms import DISCONNECT, JOIN, LEAVE, NO_VIEW


@attrs.frozen
class Owed:
    """A view that a client is owed from an index on."""

    index: int
    client: str
    group: str
    pos: TracePosition
    members: tuple[str, ...]
    cause: str
    changed: tuple[str, ...]


class Groups:
    """Checker of tables and views."""

    def __init__(self, facts: Facts, tables: Tables, stages: Stages) -> None:
        self.facts = facts
        self.views = facts.views
        self.tables = tables
        self.stages = stages
        self.found: set[str] = set()
        self.owed: list[tuple[Owed, int]] = []  # with the index at which it was seen, or the end

    def check(self) -> set[str]:
        """Return the ids of violated properties."""
        self._check_tables()
        self._check_contents()
        self._check_views()
        for client in sorted({event.c for _, event in self.facts.all(Member)}):
            self._check_own_views(client)
        return self.found

    # ---- tables ----

    def _check_tables(self) -> None:
        """Check G1."""
        digests: dict[object, str] = {}
        for index, event in self.facts.all(Table):
            regular = self.views.is_regular(event.p, index)
            key = (event.pos, half_of(self.views, event.p, event.pos[0], regular=regular))
            if digests.setdefault(key, event.digest) != event.digest:
                self.found.add("G1")
        for one, other in combinations(self.views.processes, 2):
            for _, view in self.views.installs(one):
                same = self._places(one, view) == self._places(other, view)
                if not same and self._share(one, other, view):
                    self.found.add("G1")

    def _share(self, one: str, other: str, view: str) -> bool:
        """Return whether two go from a view to the same next one, or are of the core in it at
        Quiet."""
        coming = self.views.next_view(one, view)
        if coming:
            return self.views.next_view(other, view) == coming
        last = {self.views.view(process, self.facts.end) for process in (one, other)}
        return last == {view} and {one, other} <= set(self.views.core)

    def _places(self, process: str, view: str) -> set[TracePosition]:
        return {e.pos for _, e in self.facts.all(Table) if (e.p, e.pos[0]) == (process, view)}

    # ---- views that are owed ----

    def _owed(self, process: str) -> list[Owed]:
        owed = []
        for released in self.facts.releases[process]:
            if released.event.kind in (JOIN, LEAVE, DISCONNECT):
                owed += self._changes(process, released)
        for _, view in self.views.installs(process):
            completed = self.views.completed_at(process, view)
            if process in self.views.booted and completed is not None:
                owed += self._network(process, view, completed)
        return sorted(owed, key=lambda entry: entry.index)

    def _changes(self, process: str, released: Released) -> list[Owed]:
        index, event = released.index, released.event
        before = self.tables.at(process, index).groups
        after = self.tables.at(process, index + 1).groups
        cause = {JOIN: "join", LEAVE: "leave", DISCONNECT: "disconnect"}[event.kind]
        pos = (released.view, *released.place, 0)
        owed = self._reads(process, released, cause)
        for group in sorted(after):
            members = after[group]
            if members == before.get(group, []):
                continue
            to = members if event.kind != LEAVE else [*members, event.c]
            owed += [
                Owed(index, client, group, pos, tuple(members), cause, (event.c,))
                for client in to
                if self.facts.home(client) == process
            ]
        return owed

    def _reads(self, process: str, released: Released, cause: str) -> list[Owed]:
        """Return the view of the own join or leave of a reader, in which it is alone."""
        index, event = released.index, released.event
        before = self.tables.at(process, index).readers
        after = self.tables.at(process, index + 1).readers
        pos, alone = (released.view, *released.place, 0), (event.c,)
        if event.kind == DISCONNECT or self.facts.home(event.c) != process:
            return []
        return [
            Owed(index, event.c, group, pos, alone if event.kind == JOIN else (), cause, alone)
            for group in sorted(after)
            if (event.c in after[group]) != (event.c in before.get(group, []))
        ]

    def _network(self, process: str, view: str, index: int) -> list[Owed]:
        pos = (view, 0, 0, 0, 0)
        groups = self.tables.at(process, index + 1).groups
        return [
            Owed(index, client, group, pos, tuple(members), "network", ())
            for group, members in sorted(groups.items())
            for client in members
            if self.facts.home(client) == process
        ]

    def _check_contents(self) -> None:
        """Check G2, between clients."""
        contents: dict[object, object] = {}
        for index, event in self.facts.all(Member):
            view, regular = self.stages.at(event.c, index)
            half = half_of(self.views, self.facts.home(event.c, index), view, regular=regular)
            content = (event.members, event.cause, event.changed)
            if contents.setdefault((event.group, event.pos, half), content) != content:
                self.found.add("G2")

    def _check_views(self) -> None:
        """Check G2 and G3, by the views that are owed."""
        owed = [entry for process in self.views.processes for entry in self._owed(process)]
        for index, event in self.facts.all(Member):
            matching = [
                entry
                for entry in owed
                if entry.index < index
                and (entry.client, entry.group, entry.pos) == (event.c, event.group, event.pos)
            ]
            if not matching:
                self.found.add("G3")
                continue
            entry = matching[0]
            owed = [other for other in owed if other is not entry]
            self.owed.append((entry, index))
            content = (event.members, event.cause, event.changed)
            if (entry.members, entry.cause, entry.changed) != content:
                self.found.add("G2")
        self.owed += [(entry, self.facts.end) for entry in owed]
        if any(self.facts.stays(entry.client) for entry in owed):
            self.found.add("G3")

    def _check_own_views(self, client: str) -> None:
        """Check G5 and V3."""
        inside: dict[str, bool] = {}
        for index, event in self.facts.all(Member):
            if event.c != client:
                continue
            joins = event.cause == "join" and event.changed == (client,)
            if not inside.get(event.group) and not (joins and client in event.members):
                self.found.add("G5")
            inside[event.group] = client in event.members
            if event.vs != self._vs_set(client, event, index):
                self.found.add("V3")

    def _vs_set(self, client: str, event: Member, index: int) -> tuple[str, ...]:
        if client not in event.members:
            return ()
        if event.cause == "join" and client in event.changed:
            return (client,)
        if event.cause != "network":
            return tuple(m for m in event.members if m not in event.changed)
        view, _ = self.stages.at(client, index)
        return tuple(m for m in event.members if self._comes_along(client, m, view, index))

    def _comes_along(self, client: str, other: str, view: str, index: int) -> bool:
        """Return whether the homes of two clients are together in a view."""
        home, theirs = self.facts.home(client, index), self.facts.home(other, index)
        if home is None or theirs is None or view == NO_VIEW:
            return False
        return are_together(self.views, home, theirs, view)
