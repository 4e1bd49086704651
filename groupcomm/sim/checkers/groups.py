"""What clients see of groups: G2, G3, G5, G6, V3, and who has gone: P1, P3."""

from collections import deque
from typing import Final

from groupcomm.sim.checkers.records import Client, Item, Position, Shown
from groupcomm.sim.checkers.report import Report
from groupcomm.sim.checkers.world import World
from groupcomm.trace.events import Deliver, Member, Quiet

KEPT: Final = 50_000
"""So many views are remembered."""

Key = tuple[str, Position, str]
"""Group, position, and for what a transitional part shows the view behind it."""


class GroupViews:
    """Checks Member events by what daemons have released."""

    def __init__(self, world: World, report: Report) -> None:
        self._world = world
        self._report = report
        self._contents: dict[Key, Shown] = {}
        self._order: deque[Key] = deque()

    def viewed(self, client: Client, position: Position, event: Member) -> None:
        """A client is shown the members of a group."""
        together = self._check_content(client, position, event)
        me = client.identity
        joined = event.cause == "join" and event.changed == (me,)
        if event.group not in client.groups and not (joined and me in event.members):
            self._report.add("G5", f"{client} sees {event.group} without joining", event)
        if me in event.members:
            client.groups.add(event.group)
        else:
            client.groups.discard(event.group)
        if event.cause == "network":
            self._check_homes(client, event)
            if together is None:
                together = self._came_along(client, event)
        else:
            together = _together(me, event)
        if event.vs != together:
            self._report.add("V3", f"{client} is said to come with {event.vs}", event)
        if joined:
            client.joined.setdefault(event.group, self._world.events)
            joining = client.joining.get(event.group)
            if joining:
                joining.popleft().answered = True
        elif event.cause == "disconnect":
            self._disconnected(client, position, event)

    def _check_content(
        self, client: Client, position: Position, event: Member
    ) -> tuple[str, ...] | None:
        """G2 and G3; returns who came with the client, if that is known from what it is owed."""
        content = (event.members, event.cause, event.changed)
        stage = client.stage
        next_ = "" if stage is None or stage.regular else stage.stay.next
        key = (event.group, position, next_)
        known = self._contents.get(key)
        if known is None:
            self._contents[key] = known = content
            self._order.append(key)
            if len(self._order) > KEPT:
                del self._contents[self._order.popleft()]
        owed = client.views.pop((event.group, position), None)
        if owed is None:
            self._report.add("G3", f"{client} sees a view that it is not owed", event)
        if content != known or (owed is not None and content != owed[0]):
            self._report.add("G2", f"{client} has another view of {event.group}", event)
        elif owed is not None and stage is not None and stage.stay.view.order == position[0]:
            return owed[1]
        return None

    def _check_homes(self, client: Client, event: Member) -> None:
        """G6: nobody is a member whose daemon is not in the view."""
        if client.stage is None:
            return
        names = client.stage.stay.view.by_name
        for member in event.members:
            if member.rpartition("/")[0].rpartition("#")[2] not in names:
                self._report.add("G6", f"{client} sees {member}, whose daemon is not there", event)
                return

    def _came_along(self, client: Client, event: Member) -> tuple[str, ...]:
        """V3, where the view is not what it should be."""
        stage, home = client.stage, client.home
        if stage is None or home is None or client.identity not in event.members:
            return ()
        clients = self._world.clients
        found = []
        for identity in event.members:
            member = clients.get(identity)
            other = member.home if member is not None else None
            if other is not None and stage.stay.view.together(home.identity, other.identity):
                found.append(identity)
        return tuple(found)

    def _disconnected(self, client: Client, position: Position, event: Member) -> None:
        for identity in event.changed:
            gone = self._world.client(identity)
            client.gone.add(gone)
            if gone.disconnect != position[:4]:
                text = f"{client} sees {gone} go at {position}, not {gone.disconnect}"
                self._report.add("P1", text, event)

    def delivered(self, client: Client, item: Item, event: Deliver) -> None:
        """P3."""
        if item.sender in client.gone:
            self._report.add("P3", f"{client} gets {item} after its disconnect", event)

    # ---- in the end ----

    def quiet(self, event: Quiet) -> None:
        """G3 and G6: nothing is missing, nobody is left over."""
        final = self._world.final
        for process in final:
            for client in process.clients:
                if client.views and not client.ended:
                    group, position = next(iter(client.views))
                    text = f"{client} never sees the view of {group} at {position}"
                    self._report.add("G3", text, event)
            for client in process.table.connected.values():
                if (client.crashed or client.leaving) and client.home in final:
                    self._report.add("G6", f"{client} has gone, and {process} has it", event)


def _together(me: str, event: Member) -> tuple[str, ...]:
    """Who came with the receiver from the view before (V3), if the daemons' view is the same."""
    if me not in event.members:
        return ()
    if event.cause == "join" and me in event.changed:
        return (me,)
    return tuple(member for member in event.members if member not in event.changed)
