"""Checks of group views at clients: G2, G3, G5, G6, V2, V3; private names and departures: P1 to
P4."""

from collections import deque
from typing import Final

from groupcomm.sim.checkers.places import Place, Position
from groupcomm.sim.checkers.records import ClientRecord, Item, Shown, TableRecord
from groupcomm.sim.checkers.report import Report
from groupcomm.sim.checkers.state import ObservedState
from groupcomm.trace.events import Ask, Bounce, Deliver, Member, Quiet

_RELIABLE, _CAUSAL, _AGREED = 1, 3, 4


KEPT: Final = 50_000
"""The number of views, pairs of views and messages with private names that are remembered."""

ViewKey = tuple[str, Position, str]
"""Group, position, and for a view shown in a transitional part the next view of daemons."""


class GroupViews:
    """A checker of Member events against the releases of daemons."""

    def __init__(self, state: ObservedState, report: Report) -> None:
        self._state = state
        self._report = report
        self._contents: dict[ViewKey, Shown] = {}
        self._order: deque[ViewKey] = deque()

    def viewed(self, client: ClientRecord, position: Position, event: Member) -> None:
        """Check a view of a group that a client is shown."""
        together = self._check_content(client, position, event)
        me = client.identity
        joined = event.cause == "join" and event.changed == (me,)
        if event.group not in client.groups and not (joined and me in event.members):
            self._report.add(
                "G5", f"{client} gets a view of {event.group}, which it has not joined", event
            )
        if me in event.members:
            client.groups.add(event.group)
        else:
            client.groups.discard(event.group)
            client.need_quorum.discard(event.group)
        if event.cause == "network":
            self._check_homes(client, event)
            if together is None:
                together = self._came_along(client, event)
        else:
            together = _together(me, event)
        if event.vs != together:
            self._report.add("V3", f"{client} is said to come with {event.vs}", event)
        if joined:
            client.joined.setdefault(event.group, self._state.events)
            joining = client.joining.get(event.group)
            if joining:
                item = joining.popleft()
                item.answered = True
                if item.needs_quorum:
                    client.need_quorum.add(event.group)
        elif event.cause == "disconnect":
            self._disconnected(client, position, event)

    def _check_content(
        self, client: ClientRecord, position: Position, event: Member
    ) -> tuple[str, ...] | None:
        """Check G2 and G3; return the members that came with the client, if its debts show them."""
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
            self._report.add("G3", f"{client} gets a view of a group that is not for it", event)
        if content != known or (owed is not None and content != owed[0]):
            self._report.add(
                "G2", f"{client} gets another view of {event.group} than is due", event
            )
        elif owed is not None and stage is not None and stage.stay.view.order == position[0]:
            return owed[1]
        return None

    def _check_homes(self, client: ClientRecord, event: Member) -> None:
        """Check G6: the daemon of each member is in the view."""
        if client.stage is None:
            return
        names = client.stage.stay.view.by_name
        for member in event.members:
            if member.rpartition("/")[0].rpartition("#")[2] not in names:
                self._report.add(
                    "G6", f"{client} gets a view with {member}, whose daemon is not there", event
                )
                return

    def _came_along(self, client: ClientRecord, event: Member) -> tuple[str, ...]:
        """Check V3 where the view is not the expected one."""
        stage, home = client.stage, client.home
        if stage is None or home is None or client.identity not in event.members:
            return ()
        clients = self._state.clients
        found = []
        for identity in event.members:
            member = clients.get(identity)
            other = member.home if member is not None else None
            if other is not None and stage.stay.view.together(home.identity, other.identity):
                found.append(identity)
        return tuple(found)

    def _disconnected(self, client: ClientRecord, position: Position, event: Member) -> None:
        for identity in event.changed:
            gone = self._state.client(identity)
            client.gone.add(gone)
            if gone.disconnect != position[:4]:
                text = f"{client} sees {gone} leave at {position}, not at {gone.disconnect}"
                self._report.add("P1", text, event)

    def delivered(self, client: ClientRecord, item: Item, event: Deliver) -> None:
        """Check P3."""
        if item.sender in client.gone:
            self._report.add("P3", f"{client} gets {item} after its disconnect", event)

    # ---- the end ----

    def quiet(self, event: Quiet) -> None:
        """Check G3 and G6: no view is missing, and no member is left over."""
        final = self._state.final
        for process in final:
            for client in process.clients:
                if client.views and not client.ended:
                    group, position = next(iter(client.views))
                    text = f"{client} never gets the view of {group} at {position}"
                    self._report.add("G3", text, event)
            for client in process.table.connected.values():
                if (client.crashed or client.leaving) and client.home in final:
                    self._report.add(
                        "G6", f"{client} has gone, and is still in the tables of {process}", event
                    )


def _together(me: str, event: Member) -> tuple[str, ...]:
    """Return the members that came with the receiver from the view before (V3)."""
    if me not in event.members:
        return ()
    if event.cause == "join" and me in event.changed:
        return (me,)
    return tuple(member for member in event.members if member not in event.changed)


class Private:
    """A checker of undeliverable messages, and of identities that connect."""

    def __init__(self, state: ObservedState, report: Report) -> None:
        self._state = state
        self._report = report
        self._connects: set[ClientRecord] = set()
        self._messages: deque[Item] = deque()  # messages with private names

    def connects(self, client: ClientRecord, event: Ask) -> None:
        """Check P4: an identity connects once."""
        if client in self._connects:
            self._report.add("P4", f"{client} connects twice", event)
        self._connects.add(client)

    def accepted(self, item: Item) -> None:
        """Find the clients that the private names of a message stand for at its sender's daemon."""
        names = [name for name in item.to if name[0] == "#"]
        if not names:
            return
        home = item.sender.home
        connected = home.table.connected if home else {}
        item.targets = {name: connected.get(name) for name in names}
        if item.level >= _RELIABLE:
            self._messages.append(item)
            if len(self._messages) > KEPT:
                oldest = self._messages.popleft()
                if _missing(oldest):
                    self._messages.append(oldest)

    def bounced(self, client: ClientRecord, item: Item, event: Bounce) -> None:
        """Check P2 for a message that came back."""
        bounced = item.bounced
        if bounced is None:
            bounced = item.bounced = []
        if event.target in bounced or not _comes_back(item, event.target):
            self._report.add("P2", f"{item} comes back from {event.target}, and should not", event)
        bounced.append(event.target)

    def quiet(self, event: Quiet) -> None:
        """Check P2: every message that should have come back has."""
        final = set(self._state.final)
        for item in self._messages:
            if item.sender.home in final:
                for name in _missing(item):
                    self._report.add("P2", f"{item} never comes back from {name}", event)


def _missing(item: Item) -> list[str]:
    """Return the names from which a message should have come back, and has not."""
    if item.sender.ended:
        return []
    bounced = item.bounced or ()
    names = item.targets or ()
    return [name for name in names if name not in bounced and _comes_back(item, name)]


def _comes_back(item: Item, name: str) -> bool:
    """Return whether the name had no owner at the message's position."""
    if item.level < _RELIABLE or item.targets is None or name not in item.targets:
        return False
    table, position = item.home_table, item.position
    if not item.at_home or table is None or position is None:
        return False
    place = position[1:4]
    begins, target = item.begins or place, item.targets[name]
    owners = [c for c in table.known if c.name == name] if target is None else [target]
    return not any(
        _is_there(table, owner, begins) and _is_there(table, owner, place) for owner in owners
    )


def _is_there(table: TableRecord, client: ClientRecord, place: Place) -> bool:
    """Return whether a client was connected at a place."""
    if client not in table.known or table.came.get(client, place) > place:
        return False
    return table.gone.get(client, place) >= place


PairKey = tuple[str, Position, Position, str]
"""Group, the positions of two views of it that follow each other somewhere, and the view of daemons
after the transitional part in which the second was shown; empty if it was shown in a regular
part."""

Entry = tuple[str, int, int]
"""A client, and hashes over the agreed and the CAUSAL messages that it got between the views."""


class ClientViews:
    """A checker of the messages between two group views, by hashes over sets."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._entries: dict[PairKey, dict[tuple[str, ...], tuple[frozenset[str], list[Entry]]]] = {}
        self._order: deque[PairKey] = deque()

    def sent(self, client: ClientRecord, item: Item) -> None:
        """Note the views that the sender of a CAUSAL message has seen."""
        if item.level == _CAUSAL:
            group_at = client.group_at
            item.seen = tuple([group_at.get(group) for group in item.to])

    def delivered(self, client: ClientRecord, item: Item) -> None:
        """Note that a client gets a message at CAUSAL or above that it is owed."""
        if item.discard or item.count > 1:
            return
        if item.level >= _AGREED:
            since = client.since
            for group in item.to:
                if group in since:
                    since[group] ^= item.mark
        elif item.seen is not None:
            group_at = client.group_at
            for group, seen in zip(item.to, item.seen, strict=True):
                if seen is not None and group_at.get(group) == seen:
                    client.causal_since[group] = client.causal_since.get(group, 0) ^ item.mark

    def viewed(self, client: ClientRecord, position: Position, event: Member) -> None:
        """Compare the messages of a client before this view with those of others."""
        group = event.group
        before = client.group_at.get(group)
        agreed = client.since.get(group, 0)
        causal = client.causal_since.pop(group, 0)
        client.group_at[group] = position
        client.since[group] = 0
        if before is None or client.identity not in event.vs:
            return
        if event.cause != "network":
            causal = 0
        stage = client.stage
        next_ = "" if stage is None or stage.regular else stage.stay.next
        key = (group, before, position, next_)
        classes = self._entries.get(key)
        if classes is None:
            classes = self._entries[key] = {}
            self._order.append(key)
            if len(self._order) > KEPT:
                del self._entries[self._order.popleft()]
        own = classes.get(event.vs)
        if own is None:
            own = classes[event.vs] = (frozenset(event.vs), [])
        entry = (client.identity, agreed, causal)
        self._compare(entry, own[0], classes, event)
        own[1].append(entry)

    def _compare(
        self,
        entry: Entry,
        vs: frozenset[str],
        classes: dict[tuple[str, ...], tuple[frozenset[str], list[Entry]]],
        event: Member,
    ) -> None:
        for theirs, entries in classes.values():
            if entry[0] not in theirs:
                continue
            others = entries[:1] if theirs is vs else entries
            for other in others:
                if other[0] in vs and other[1:] != entry[1:]:
                    text = f"{entry[0]} and {other[0]} got different messages before this view"
                    self._report.add("V2", text, event)
                    return
