"""Owed deliveries, and whether they come: D1, D2, D3, D6, U, R, G4, V2, MG3, L5, X3.

`Holes` checks F1, F2, O4, G3 and P3 for clients that may end: the messages that a client gets are a
prefix of those that it is owed, as far as a property orders them. So each delivery shows which
messages have to come before it, however soon the client is cut off after it.
"""

from heapq import heappop, heappush
from itertools import count

from groupcomm.sim.checkers.fifo_causal import which_order
from groupcomm.sim.checkers.places import (
    Position,
)
from groupcomm.sim.checkers.records import (
    ClientRecord,
    Item,
    ProcessRecord,
    Stay,
    reading,
)
from groupcomm.sim.checkers.report import Report
from groupcomm.sim.checkers.state import ObservedState
from groupcomm.trace.events import Deliver, Member, Quiet, Release

_RELIABLE, _FIFO, _AGREED = 1, 2, 4


class Holes:
    """A checker of owed messages that a client lacks when it is notified of a later one.

    Heaps hold the messages that a client is owed; a delivered message stays until a later one
    passes it.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._turns = count()  # no two entries of a heap are compared beyond their positions

    # ---- debts ----

    def owe(self, client: ClientRecord, item: Item) -> None:
        """Note a message that a client is owed from here on."""
        if item.level < _FIFO:
            return
        heappush(client.due_from.setdefault(item.sender, []), item.number)
        if item.level >= _AGREED and item.position is not None:
            heappush(client.due, (item.position, next(self._turns), item))

    def owe_view(self, client: ClientRecord, group: str, position: Position) -> None:
        """Note a view of a group that a client is owed from here on."""
        heappush(client.due, (position, next(self._turns), group))

    # ---- notifications ----

    def delivered(self, client: ClientRecord, item: Item, event: Deliver) -> None:
        """Check a message that a client was owed, and has got now."""
        if item.level < _FIFO:
            return
        numbers = client.due_from.get(item.sender)
        if numbers:
            while numbers and numbers[0] < item.number:
                self._check_passed(client, item, heappop(numbers), event)
            if numbers and numbers[0] == item.number:
                heappop(numbers)
            if not numbers:
                del client.due_from[item.sender]
        if item.level >= _AGREED and item.position is not None:
            self._pass(client, item.position, event)

    def viewed(self, client: ClientRecord, position: Position, event: Member) -> None:
        """Check a view of a group that a client is shown."""
        self._pass(client, position, event)
        if event.cause == "disconnect":
            self._check_gone(client, event)

    def _check_passed(self, client: ClientRecord, item: Item, number: int, event: Deliver) -> None:
        """Check F1 and F2: report an earlier message of the same sender that has not come."""
        earlier = item.sender.sent.get(number)
        if earlier is not None and earlier in client.owed:
            text = f"{client} gets {item} before message {number}"
            self._report.add(which_order(earlier, item), text, event)

    def _pass(self, client: ClientRecord, position: Position, event: Deliver | Member) -> None:
        """Check O4 and G3: report owed messages below a delivered position that have not come."""
        due = client.due
        while due and due[0][0] < position:
            lower, _, what = heappop(due)
            if isinstance(what, str):
                if (what, lower) in client.views:
                    text = f"{client} is notified of {position} before {what} at {lower}"
                    self._report.add("G3", text, event)
            elif what in client.owed:
                text = f"{client} is notified of {position} before {what} at {lower} has come"
                self._report.add("O4", text, event)

    def _check_gone(self, client: ClientRecord, event: Member) -> None:
        """Check P3: report a message that has not come although its sender has gone."""
        for item in client.owed:
            if item.level >= _FIFO and item.sender.identity in event.changed:
                text = f"{client} sees {item.sender} leave before {item} has come"
                self._report.add("P3", text, event)


class Delivery:
    """A checker of deliveries against the releases of daemons."""

    def __init__(self, report: Report, state: ObservedState, holes: Holes) -> None:
        self._report = report
        self._state = state
        self._holes = holes

    # ---- debts ----

    def _recipients(self, process: ProcessRecord, item: Item) -> dict[ClientRecord, None]:
        """Return the local recipients of a message that a daemon releases now."""
        members = process.table.members
        found: dict[ClientRecord, None] = {}
        for group in item.to:
            if group[0] != "#":
                found.update(members.get(group, {}))
                found.update(members.get(reading(group), {}))
                continue
            target = None if item.targets is None else item.targets.get(group)
            if target is None and item.targets is not None:
                target = process.table.connected.get(group)
            if target is None or target.home is not process:
                continue
            if process not in target.disconnected_at:
                found[target] = None
        if item.discard:
            found.pop(item.sender, None)
        return found

    def released(self, stay: Stay, item: Item) -> None:
        """Note that a daemon has released a whole message: it is owed from here on."""
        to = item.to
        is_read = reading(to[0]) in stay.process.table.members
        if len(to) == 1 and to[0][0] != "#" and not item.discard and not is_read:
            self._owe(stay, item, stay.process.table.members.get(to[0], {}))
        else:
            self._owe(stay, item, self._recipients(stay.process, item))

    def _owe(self, stay: Stay, item: Item, clients: dict[ClientRecord, None]) -> None:
        """Note that a message is owed to these clients."""
        item.released += 1
        part = stay.part
        again = item.view is not None and item.view is not stay.view  # O3
        for client in clients:
            if item in client.owed or (again and _had(item, client)):
                continue
            if not client.ended:
                item.waiting += 1
            client.owed[item] = part
            self._holes.owe(client, item)

    def fragment(self, stay: Stay, item: Item, event: Release) -> bool:
        """Note a fragment that a daemon has released; return whether it was the last one
        missing."""
        progress = item.fragments
        if progress is None:
            progress = item.fragments = {}
        process = stay.process
        now = self._recipients(process, item)
        where, seen, owed = progress.get(process, (stay, 0, now))
        if where is not stay:
            seen, owed = 0, now  # another view: all fragments are delivered again
        if not seen and process is item.sender.home:
            item.begins = (event.time, event.ring, event.bundle)
        both = {client: None for client in owed if client in now}
        seen += 1
        progress[process] = (stay, seen, both)
        if seen != event.count:
            return False
        self._owe(stay, item, both)
        return True

    def end(self, client: ClientRecord) -> None:
        """End a client that crashed or disconnected: it is owed nothing any more."""
        if not client.ended:
            client.ended = True
            for item in client.owed:
                item.waiting -= 1
            self._state.end(client)

    # ---- deliveries ----

    def delivered(self, client: ClientRecord, item: Item, event: Deliver) -> bool:
        """Note that a client gets a message; return whether it was owed."""
        part = client.owed.pop(item, None)
        item.got.append(client)
        if part is None:
            which = "G4" if item.level >= _AGREED else "R"
            self._report.add(which, f"{client} gets {item}, which is not for it", event)
            item.early = (item.early or set()) | {client}
            return False
        if item.early is not None:
            item.early.discard(client)
        if not client.ended:
            item.waiting -= 1
        stage = client.stage
        if part is not stage:
            if stage is None or stage.stay.view is not part.stay.view:
                which = "D3" if item.level else "U"
                self._report.add(
                    which, f"{client} gets {item}, which was sent in another view", event
                )
            elif item.level and stage.regular != part.regular and stage is not client.began:
                which = "regular" if part.regular else "transitional"
                text = f"{client} gets {item} of the {which} part in the other part"
                self._report.add("V2", text, event)
        return True

    def in_no_group(self, client: ClientRecord, event: Deliver) -> None:
        """Check MG3: report a delivery to a client that no destination names."""
        groups = client.groups
        if not any(group in groups or group == client.name for group in event.to):
            self._report.add(
                "MG3", f"{client} is not a member of any of {', '.join(event.to)}", event
            )

    # ---- completeness ----

    def quiet(self, event: Quiet) -> None:
        """Check completeness, after all faults have ended."""
        final = set(self._state.final)
        for client in self._state.clients.values():
            self._check_taken(client, event)
            if client.home in final:
                self._check_client(client, event)
            elif client.home is None:
                self._check_homeless(client, final, event)
        for process in final:
            if process.booted and (process.stay is None or not process.stay.complete):
                self._report.add("L5", f"{process} never knows the groups of its view", event)

    def _check_client(self, client: ClientRecord, event: Quiet) -> None:
        if not client.ended:
            for item in client.owed:
                if item.level >= _RELIABLE:
                    self._missing(client, item, event)
        for item in client.sent.values():
            if item.accepted:
                self._check_item(item, event)
            elif not client.ended:
                self._report.add("L5", f"{item} was never accepted", event)

    def _check_taken(self, client: ClientRecord, event: Quiet) -> None:
        """Check L5 for any client: nothing is accepted after an item that was not."""
        last = max((item.number for item in client.sent.values() if item.accepted), default=0)
        for item in client.sent.values():
            if item.accepted < item.count and item.number < last:
                self._report.add("L5", f"{item} was not accepted completely, and {last} was", event)

    def _check_homeless(
        self, client: ClientRecord, final: set[ProcessRecord], event: Quiet
    ) -> None:
        """Check L5: report a connect that never comes through."""
        if client.crashed or client.leaving or not client.asked_at:
            return
        processes = self._state.processes.values()
        hosts = [p for p in processes if p.name == client.daemon_name and not p.ended]
        if len(hosts) != 1 or hosts[0] not in final or not hosts[0].booted:
            return
        asked_at = client.asked_at
        others = (p for p in hosts[0].clones if p.booted_at < asked_at < p.ended_at)
        if hosts[0].booted_at < asked_at and not any(others):  # else that one was its daemon
            self._report.add("L5", f"{client} is never connected", event)

    def _missing(self, client: ClientRecord, item: Item, event: Quiet) -> None:
        others = "G4" if item.level >= _AGREED else "R"
        which = "D6" if item.sender is client else others
        self._report.add(which, f"{client} never gets {item}", event)
        if any(client.joined.get(group, item.sent_at) < item.sent_at for group in item.to):
            self._report.add("X3", f"{client} never gets {item}, sent after its join", event)

    def _check_item(self, item: Item, event: Quiet) -> None:
        cut = item.accepted < item.count
        lacks = item.level >= _RELIABLE and not cut and not item.at_home
        if lacks and not _may_be_dropped(item):
            self._report.add("R", f"{item} is not released at its home", event)
        if item.sender.ended:
            return
        if item.ordered and not item.answered:
            self._report.add("L5", f"the sender of {item} never learns its position", event)
        if item.joins and not item.answered:
            self._report.add("L5", f"{item.sender} never learns that it has joined", event)


def _may_be_dropped(item: Item) -> bool:
    """Return whether its daemon may have dropped what it had accepted, as the line did not go on
    in the next view, once that was complete."""
    sender = item.sender
    home = sender.home
    if not (sender.has_line and sender.ended) or home is None or home.stay is None:
        return False
    return item.accepted_in is not home.stay.view


def _had(item: Item, client: ClientRecord) -> bool:
    """Return whether a client has got a message that it was owed."""
    return client in item.got and (item.early is None or client not in item.early)
