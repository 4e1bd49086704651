"""The connected clients and the members of groups, as a process knows them at a moment."""

from groupcomm.trace.events import Conf, Release
from groupcomm.trace.events import Table as TableEvent
from tests.verification.reference.facts import Facts
from tests.verification.reference.terms import CONNECT, DISCONNECT, JOIN, LEAVE, Name, private_name


class Table:
    """Clients and groups at one moment.

    Attributes:
        groups: per group its members, in order.
        readers: per group its readers.
        names: the connected clients by private name.
        gone: clients whose disconnect was released.
    """

    def __init__(self) -> None:
        self.groups: dict[str, list[str]] = {}
        self.readers: dict[str, list[str]] = {}
        self.names: dict[str, str] = {}
        self.gone: set[str] = set()

    def copy(self) -> "Table":
        """Return the same, to be changed."""
        table = Table()
        table.groups = {group: [*members] for group, members in self.groups.items()}
        table.readers = {group: [*readers] for group, readers in self.readers.items()}
        table.names = dict(self.names)
        table.gone = set(self.gone)
        return table

    def members(self, group: str) -> list[str]:
        """Return the members of a group, in order."""
        return self.groups.get(group, [])

    def apply(self, facts: Facts, index: int, event: Release) -> None:
        """Apply one Release."""
        client, name = event.c, private_name(event.c)
        if event.kind not in (CONNECT, JOIN, LEAVE, DISCONNECT) or client in self.gone:
            return
        if event.kind == CONNECT:
            self.names[name] = client
        elif event.kind == DISCONNECT:
            self.gone.add(client)
            if self.names.get(name) == client:
                del self.names[name]
            for members in (*self.groups.values(), *self.readers.values()):
                if client in members:
                    members.remove(client)
        elif event.group:
            self._change(event.group, client, LEAVE, reads=False)
        elif facts.sent.get((client, event.first), index) < index:
            item = (client, event.first)
            if not facts.to(item):
                return
            self._change(facts.to(item)[0], client, event.kind, reads=facts.reads(item))

    def _change(self, group: str, client: str, kind: int, *, reads: bool) -> None:
        members = self.groups.setdefault(group, [])
        readers = self.readers.setdefault(group, [])
        if kind == JOIN and client not in members and client not in readers:
            (readers if reads else members).append(client)
        elif kind == LEAVE:
            for clients in (members, readers):
                if client in clients:
                    clients.remove(client)


class Tables:
    """The tables of all processes over the whole trace."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._states: dict[str, list[tuple[int, Table]]] = {p: [] for p in facts.views.processes}
        self._brought: dict[tuple[str, str], Table] = {}
        repeated = {released.index for released in facts.repeated}
        for index, event in facts.live:
            if isinstance(event, Release) and index not in repeated:
                table = self.at(event.p, index).copy()
                table.apply(facts, index, event)
                self._states[event.p].append((index, table))
            elif isinstance(event, Conf) and event.kind == "R":
                self._brought[event.p, event.view] = self._own(event.p, index)
            elif isinstance(event, TableEvent) and not any(event.pos[1:]):
                self._states[event.p].append((index, self._united(event.p, index, event.pos[0])))

    def at(self, process: str | None, index: int) -> Table:
        """Return the table of a process before an index."""
        states = self._states.get(process or "", [])
        return next((table for i, table in reversed(states) if i < index), None) or Table()

    def _own(self, process: str, index: int) -> Table:
        """Return the part of a process's table about its own clients."""
        own, whole = Table(), self.at(process, index)
        for name, client in whole.names.items():
            if self.facts.home(client, index) == process:
                own.names[name] = client
        for group, members in whole.groups.items():
            own.groups[group] = [c for c in members if self.facts.home(c, index) == process]
        for group, readers in whole.readers.items():
            own.readers[group] = [c for c in readers if self.facts.home(c, index) == process]
        return own

    def _united(self, process: str, index: int, view: str) -> Table:
        """Return the parts that the members of a view have brought to it, in the order of their
        names."""
        table = Table()
        table.gone = set(self.at(process, index).gone)
        for member in self.facts.views.members(view):
            brought = self._brought.get((member, view), Table())
            table.names.update(brought.names)
            for group, members in brought.groups.items():
                table.groups.setdefault(group, []).extend(members)
            for group, readers in brought.readers.items():
                table.readers.setdefault(group, []).extend(readers)
        return table

    # ---- queries ----

    def local(self, process: str, group: str, index: int) -> list[str]:
        """Return the members and readers of a group at a process that are its own clients."""
        table = self.at(process, index)
        members = [*table.members(group), *table.readers.get(group, [])]
        return [client for client in members if self.facts.home(client) == process]

    def connected(self, process: str, index: int) -> list[str]:
        """Return the own clients of a process that are connected there."""
        names = self.at(process, index).names.values()
        return [client for client in names if self.facts.home(client) == process]

    def start(self, process: str, view: str) -> Table:
        """Return the table with which a process began a view."""
        completed = self.facts.views.completed_at(process, view)
        return Table() if completed is None else self.at(process, completed + 1)

    def target(self, name: Name, private: str) -> str | None:
        """Return the client behind a private name in a message, once it is accepted."""
        accepts = self.facts.accepted.get(name)
        if not accepts:
            return None
        home = self.facts.home(name[0], accepts[0])
        return self.at(home, accepts[0]).names.get(private)
