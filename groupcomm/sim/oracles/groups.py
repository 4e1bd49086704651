"""Groups and their views: G1, G2, G5, V3, and who has gone: P1, P3."""

from groupcomm.sim.oracles.report import Report
from groupcomm.sim.oracles.world import Client, Item, Position, World
from groupcomm.sim.trace import Deliver, Member, Table

Content = tuple[tuple[str, ...], str, tuple[str, ...]]


class GroupViews:
    """Judges Member and Table events."""

    def __init__(self, world: World, report: Report) -> None:
        self._world = world
        self._report = report
        self._digests: dict[tuple[object, ...], str] = {}
        self._views: dict[tuple[str, Position], Content] = {}

    def table(self, event: Table) -> None:
        """G1."""
        if self._digests.setdefault(event.pos, event.digest) != event.digest:
            self._report.add("G1", f"{event.p} has another table at {event.pos}", event)

    def viewed(self, client: Client, position: Position, event: Member) -> None:
        """A client is shown the members of a group."""
        content = (event.members, event.cause, event.changed)
        if self._views.setdefault((event.group, position), content) != content:
            self._report.add("G2", f"{client} has another view of {event.group}", event)
        me = client.identity
        joined = event.cause == "join" and event.changed == (me,)
        if event.group not in client.groups and not (joined and me in event.members):
            self._report.add("G5", f"{client} sees {event.group} without joining", event)
        if me in event.members:
            client.groups.setdefault(event.group, self._world.events)
        else:
            client.groups.pop(event.group, None)
        if event.vs != _together(me, event):
            self._report.add("V3", f"{client} is said to come with {event.vs}", event)
        if joined:
            self._answer_join(client, event)
        elif event.cause == "disconnect":
            self._disconnected(client, position, event)

    def _answer_join(self, client: Client, event: Member) -> None:
        joining = client.joining.get(event.group)
        if joining:
            joining.popleft().answered = True

    def _disconnected(self, client: Client, position: Position, event: Member) -> None:
        for identity in event.changed:
            gone = self._world.client(identity)
            client.gone.add(gone)
            if gone.disconnect != position[:3]:
                self._report.add(
                    "P1", f"{client} sees {gone} go at {position}, not {gone.disconnect}", event
                )

    def delivered(self, client: Client, item: Item, event: Deliver) -> None:
        """P3."""
        if item.sender in client.gone:
            self._report.add("P3", f"{client} gets {item} after its disconnect", event)


def _together(me: str, event: Member) -> tuple[str, ...]:
    """Who came with the receiver from the view before (V3)."""
    if me not in event.members:
        return ()
    if event.cause == "join" and me in event.changed:
        return (me,)
    return tuple(member for member in event.members if member not in event.changed)
