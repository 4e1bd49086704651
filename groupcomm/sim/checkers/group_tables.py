"""Checks of the group tables of daemons, and of the group views that follow: G1, C8, P4."""

from collections import deque
from typing import Final

from groupcomm.sim.checkers.delivery import Holes
from groupcomm.sim.checkers.membership import Stages
from groupcomm.sim.checkers.places import (
    Position,
    mark_of,
)
from groupcomm.sim.checkers.records import (
    ClientRecord,
    Shown,
    Stay,
    TableRecord,
    group_of,
    is_reading,
    reading,
)
from groupcomm.sim.checkers.report import Report
from groupcomm.sim.checkers.state import ObservedState
from groupcomm.trace.events import Release, TracePosition
from groupcomm.trace.events import Table as TableEvent

KEPT: Final = 50_000
"""The number of positions that are remembered."""

_JOIN, _LEAVE, _DISCONNECT = 3, 4, 5
_CAUSES = {_JOIN: "join", _LEAVE: "leave", _DISCONNECT: "disconnect"}

START = (0, 0, 0, 0)
"""The number in a position that stands for all announcements of its view."""


class Tables:
    """The tables of all daemons by their releases; checks Table events."""

    def __init__(self, state: ObservedState, report: Report, stages: Stages, holes: Holes) -> None:
        self._state = state
        self._report = report
        self._stages = stages
        self._holes = holes
        self._digests: dict[tuple[TracePosition, str], str] = {}
        self._order: deque[tuple[TracePosition, str]] = deque()

    # ---- Table events ----

    def table(self, event: TableEvent, stay: Stay) -> None:
        """Check a daemon's table that has changed, or is whole for the first time in a view."""
        if event.pos[0] != stay.view.text:
            self._report.add(
                "D3",
                f"{stay} has a group table of view {event.pos[0]}, which is not its view",
                event,
            )
            return
        if event.pos[1:] == START and not self._completes(stay, event):
            return
        _, time, ring, bundle, message = event.pos
        stay.tables ^= mark_of(time, ring, (bundle << 32) + message)
        key = (event.pos, stay.next)
        known = self._digests.get(key)
        if known is None:
            self._digests[key] = event.digest
            self._order.append(key)
            if len(self._order) > KEPT:
                del self._digests[self._order.popleft()]
        elif known != event.digest:
            self._report.add("G1", f"{event.p} has another table at {event.pos}", event)

    def _completes(self, stay: Stay, event: TableEvent) -> bool:
        view, process = stay.view, stay.process
        if stay.complete or not stay.part.regular or not process.booted:
            self._report.add("G1", f"{stay} completes view {view.text} once more, or late", event)
            return False
        if len(view.stays) < len(view.members):
            self._report.add("C8", f"{stay} completes {view.text} before all are in it", event)
            return False
        stay.complete = True
        process.table = table = TableRecord()
        for name in view.names:
            sessions, groups = view.brought[view.by_name[name]]
            for client in sessions:
                table.connected[client.name] = client
                table.known.add(client)
            for group, members in groups.items():
                table.groups.setdefault(group, {}).update(dict.fromkeys(members))
                if view.by_name[name] == process.identity:
                    table.members[group] = dict.fromkeys(members)
        self._stages.complete(process)
        self._owe_all(stay, table)
        return True

    def _owe_all(self, stay: Stay, table: TableRecord) -> None:
        """Note that each local member is owed a view of its group."""
        view, me = stay.view, stay.process.identity
        position: Position = (view.order, *START)
        for group, locals_ in table.members.items():
            if is_reading(group):
                continue
            members = table.groups[group]
            shown = (tuple(member.identity for member in members), "network", ())
            together = tuple(
                member.identity
                for member in members
                if member.home is not None and view.together(me, member.home.identity)
            )
            for client in locals_:
                client.views[group, position] = (shown, together)
                self._holes.owe_view(client, group, position)

    # ---- releases of daemons ----

    def changed(
        self,
        stay: Stay,
        client: ClientRecord,
        group: str | None,
        event: Release,
        *,
        reads: bool = False,
    ) -> None:
        """Note a released join, leave or disconnect (of no group): local members are owed views."""
        process = stay.process
        if process in client.disconnected_at:
            return
        table = process.table
        joins = event.kind == _JOIN
        for place in _places(table, client, group, reads=reads):
            members = table.groups.setdefault(place, {})
            if joins == (client in members):
                continue
            if joins:
                members[client] = None
            else:
                del members[client]
            if client.home is process:
                local = table.members.setdefault(place, {})
                if joins:
                    local[client] = None
                else:
                    local.pop(client, None)
            self._owe(stay, client, place, event)

    def _owe(self, stay: Stay, client: ClientRecord, group: str, event: Release) -> None:
        table = stay.process.table
        if is_reading(group):
            self._owe_reader(stay, client, group, event)
            return
        recipients = list(table.members.get(group, ()))
        if event.kind == _LEAVE and client.home is stay.process:
            recipients.append(client)
        if recipients:
            members = tuple(member.identity for member in table.groups[group])
            shown: Shown = (members, _CAUSES[event.kind], (client.identity,))
            position = (stay.view.order, event.time, event.ring, event.bundle, 0)
            for recipient in recipients:
                recipient.views[group, position] = (shown, None)
                self._holes.owe_view(recipient, group, position)

    def _owe_reader(self, stay: Stay, client: ClientRecord, group: str, event: Release) -> None:
        """Note that a reader is owed a view of its own join or leave, in which it is alone."""
        if client.home is stay.process and event.kind != _DISCONNECT:
            alone = (client.identity,)
            members = alone if event.kind == _JOIN else ()
            position = (stay.view.order, event.time, event.ring, event.bundle, 0)
            group = group_of(group)
            client.views[group, position] = ((members, _CAUSES[event.kind], alone), None)
            self._holes.owe_view(client, group, position)

    def connected(self, stay: Stay, client: ClientRecord, event: Release) -> None:
        """Note that a connect is released."""
        process = stay.process
        if process in client.disconnected_at:
            return
        table = process.table
        holder = table.connected.get(client.name)
        if client.home is process:
            if holder is not None:
                text = f"{client} connects while {holder} has the same name"
                self._report.add("P4", text, event)
            self._stages.connected(process, client)
        table.connected[client.name] = client
        table.known.add(client)
        table.came[client] = (event.time, event.ring, event.bundle)

    def disconnected(self, stay: Stay, client: ClientRecord, event: Release) -> None:
        """Note that a disconnect is released; call `changed` before."""
        process = stay.process
        client.disconnected_at.add(process)
        table = process.table
        place = (event.time, event.ring, event.bundle)
        table.gone[client] = min(place, table.gone.get(client, place))
        if table.connected.get(client.name) is client:
            del table.connected[client.name]


def _places(
    table: TableRecord, client: ClientRecord, group: str | None, *, reads: bool
) -> tuple[str, ...]:
    """Return the entries of a table that a request, or a disconnect of no group, may change."""
    if group is None:
        return tuple(table.groups)
    readers = reading(group)
    if client in table.groups.get(readers, {}):  # it is a reader, whatever it asks for
        return (readers,)
    is_member = client in table.groups.get(group, {})
    return (readers,) if reads and not is_member else (group,)
