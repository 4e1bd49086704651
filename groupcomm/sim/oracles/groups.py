"""Groups and their views: G1, G2, G3, G5, G6, V3, and who has gone: P1, P3."""

from collections import deque

from groupcomm.sim.oracles.report import Report
from groupcomm.sim.oracles.world import KEPT, Client, Daemon, Item, Place, Position, World
from groupcomm.sim.trace import Deliver, Member, Quiet, Release, Table, TracePosition

Content = tuple[tuple[str, ...], str, tuple[str, ...]]
"""Members, cause and changed."""

_JOIN, _LEAVE, _DISCONNECT = 3, 4, 5
_CAUSES = {_JOIN: "join", _LEAVE: "leave", _DISCONNECT: "disconnect"}


class GroupViews:
    """Judges Member and Table events by what daemons have released."""

    def __init__(self, world: World, report: Report) -> None:
        self._world = world
        self._report = report
        self._tables: dict[TracePosition, tuple[str, int]] = {}  # digest, daemons that had it
        self._table_order: deque[TracePosition] = deque()
        self._contents: dict[tuple[str, Position], Content] = {}
        self._content_order: deque[tuple[str, Position]] = deque()

    # ---- what daemons release ----

    def table(self, event: Table, daemon: Daemon) -> None:
        """G1."""
        bit = 1 << daemon.index
        known = self._tables.get(event.pos)
        if known is None:
            self._tables[event.pos] = (event.digest, bit)
            self._table_order.append(event.pos)
            if len(self._table_order) > KEPT:
                self._forget_table()
            return
        if known[0] != event.digest:
            self._report.add("G1", f"{event.p} has another table at {event.pos}", event)
        self._tables[event.pos] = (known[0], known[1] | bit)

    def _forget_table(self) -> None:
        position = self._table_order.popleft()
        if self._tables[position][1] == self._everybody():
            del self._tables[position]
        else:
            self._table_order.append(position)

    def _everybody(self) -> int:
        return (1 << len(self._world.daemons)) - 1

    def changed(self, daemon: Daemon, client: Client, item: Item | None, event: Release) -> None:
        """A join, leave or disconnect is released: local members are owed views."""
        if daemon in client.disconnected_at:
            return
        groups = item.to if item is not None else tuple(daemon.groups)
        for group in groups:
            members = daemon.groups.setdefault(group, {})
            joins = event.kind == _JOIN
            if joins == (client in members):
                continue
            if joins:
                members[client] = None
            else:
                del members[client]
            self._change_local(daemon, client, group, joins)
            self._owe(daemon, client, group, event)

    def _change_local(self, daemon: Daemon, client: Client, group: str, joins: bool) -> None:
        if client.daemon is daemon:
            local = daemon.members.setdefault(group, {})
            if joins:
                local[client] = None
            else:
                del local[client]

    def _owe(self, daemon: Daemon, client: Client, group: str, event: Release) -> None:
        recipients = list(daemon.members.get(group, ()))
        if event.kind == _LEAVE and client.daemon is daemon:
            recipients.append(client)
        if recipients:
            members = tuple(member.identity for member in daemon.groups[group])
            content = (members, _CAUSES[event.kind], (client.identity,))
            key = (group, (event.time, event.ring, event.bundle, 0))
            for recipient in recipients:
                recipient.views[key] = content

    # ---- what clients see ----

    def viewed(self, client: Client, position: Position, event: Member) -> None:
        """A client is shown the members of a group."""
        self._check_content(client, (event.group, position), event)
        me = client.identity
        joined = event.cause == "join" and event.changed == (me,)
        if event.group not in client.groups and not (joined and me in event.members):
            self._report.add("G5", f"{client} sees {event.group} without joining", event)
        if me in event.members:
            client.groups.add(event.group)
        else:
            client.groups.discard(event.group)
        if event.vs != _together(me, event):
            self._report.add("V3", f"{client} is said to come with {event.vs}", event)
        if joined:
            client.joined.setdefault(event.group, self._world.events)
            joining = client.joining.get(event.group)
            if joining:
                joining.popleft().answered = True
        elif event.cause == "disconnect":
            self._disconnected(client, position[:3], event)

    def _check_content(self, client: Client, key: tuple[str, Position], event: Member) -> None:
        """G2 and G3."""
        content = (event.members, event.cause, event.changed)
        known = self._contents.get(key)
        if known is None:
            self._contents[key] = known = content
            self._content_order.append(key)
            if len(self._content_order) > KEPT:
                del self._contents[self._content_order.popleft()]
        owed = client.views.pop(key, None)
        if owed is None:
            self._report.add("G3", f"{client} sees a view that it is not owed", event)
        if content != known or (owed is not None and content != owed):
            self._report.add("G2", f"{client} has another view of {event.group}", event)

    def _disconnected(self, client: Client, place: Place, event: Member) -> None:
        for identity in event.changed:
            gone = self._world.client(identity)
            client.gone.add(gone)
            if gone.disconnect != place:
                self._report.add(
                    "P1", f"{client} sees {gone} go at {place}, not {gone.disconnect}", event
                )

    def delivered(self, client: Client, item: Item, event: Deliver) -> None:
        """P3."""
        if item.sender in client.gone:
            self._report.add("P3", f"{client} gets {item} after its disconnect", event)

    # ---- in the end ----

    def quiet(self, event: Quiet) -> None:
        """G1, G3 and G6: nothing is missing, nobody is left over."""
        if any(daemons != self._everybody() for _, daemons in self._tables.values()):
            self._report.add("G1", "daemons have changed their tables at different places", event)
        for client in self._world.clients.values():
            if client.views and not client.ended:
                group, position = next(iter(client.views))
                text = f"{client} never sees the view of {group} at {position}"
                self._report.add("G3", text, event)
        for daemon in self._world.daemons.values():
            for client in daemon.connected.values():
                if client.crashed or client.leaving:
                    self._report.add("G6", f"{client} has gone, and {daemon} has it", event)


def _together(me: str, event: Member) -> tuple[str, ...]:
    """Who came with the receiver from the view before (V3)."""
    if me not in event.members:
        return ()
    if event.cause == "join" and me in event.changed:
        return (me,)
    return tuple(member for member in event.members if member not in event.changed)
