"""Who is owed what, and gets it: D1, D2, D6, R, G4, MG3, L5, X3."""

from groupcomm.sim.oracles.report import Report
from groupcomm.sim.oracles.world import Client, Daemon, Item, World
from groupcomm.sim.trace import Deliver, Quiet, Release

_RELIABLE, _FIFO, _AGREED = 1, 2, 4


class Delivery:
    """Judges deliveries against what daemons have released."""

    def __init__(self, report: Report, world: World) -> None:
        self._report = report
        self._world = world

    # ---- what is owed ----

    def recipients(self, daemon: Daemon, item: Item) -> dict[Client, None]:
        """To whom a message released now at a daemon goes there."""
        members = daemon.members
        found: dict[Client, None] = {}
        for group in item.to:
            if group[0] != "#":
                found.update(members.get(group, {}))
                continue
            target = item.targets.get(group) if item.targets is not None else None
            if target is None or target.daemon is not daemon:
                continue
            if daemon not in target.disconnected_at:
                found[target] = None
        if item.discard:
            found.pop(item.sender, None)
        return found

    def released(self, daemon: Daemon, item: Item) -> None:
        """A whole message was released at a daemon: it is owed from here on."""
        to = item.to
        if len(to) == 1 and to[0][0] != "#" and not item.discard:
            self.owe(item, daemon.members.get(to[0], {}))
        else:
            self.owe(item, self.recipients(daemon, item))

    def owe(self, item: Item, clients: dict[Client, None]) -> None:
        """A message is owed to these clients."""
        item.released += 1
        for client in clients:
            client.owed[item] = None
            if not client.ended:
                item.waiting += 1

    def fragment(self, daemon: Daemon, item: Item, event: Release) -> bool:
        """One fragment was released at a daemon; True if it was the last that was missing."""
        progress = item.fragments
        if progress is None:
            progress = item.fragments = {}
        now = self.recipients(daemon, item)
        seen, owed = progress.get(daemon, (0, now))
        both = {client: None for client in owed if client in now}
        seen += 1
        progress[daemon] = (seen, both)
        if seen < event.count:
            return False
        self.owe(item, both)
        return True

    def end(self, client: Client) -> None:
        """A client has crashed or disconnected: what it has not got nobody waits for."""
        if not client.ended:
            client.ended = True
            for item in client.owed:
                item.waiting -= 1
            self._world.end(client)

    # ---- what is got ----

    def delivered(self, client: Client, item: Item, event: Deliver) -> bool:
        """A client gets a message; True if it was owed."""
        if item in client.owed:
            del client.owed[item]
            item.got.append(client)
            if not client.ended:
                item.waiting -= 1
            return True
        item.got.append(client)
        which = "G4" if item.level >= _AGREED else "R"
        self._report.add(which, f"{client} gets {item}, which it is not owed", event)
        return False

    def in_no_group(self, client: Client, event: Deliver) -> None:
        """MG3: no destination is the client's."""
        groups = client.groups
        if not any(group in groups or group == client.name for group in event.to):
            self._report.add("MG3", f"{client} is in none of {', '.join(event.to)}", event)

    # ---- nothing may be missing ----

    def quiet(self, event: Quiet) -> None:
        """Completeness, after all faults have ended."""
        for client in self._world.clients.values():
            if not client.ended:
                for item in client.owed:
                    if item.level >= _RELIABLE:
                        self._missing(client, item, event)
            for item in client.sent.values():
                if item.accepted:
                    self._check_item(item, event)
                elif not client.ended:
                    self._report.add("L5", f"{item} was never taken", event)

    def _missing(self, client: Client, item: Item, event: Quiet) -> None:
        others = "G4" if item.level >= _AGREED else "R"
        which = "D6" if item.sender is client else others
        self._report.add(which, f"{client} never gets {item}", event)
        if any(client.joined.get(group, item.sent_at) < item.sent_at for group in item.to):
            self._report.add("X3", f"{client} never gets {item}, sent after its join", event)

    def _check_item(self, item: Item, event: Quiet) -> None:
        cut, daemons = item.accepted < item.count, len(self._world.daemons)
        if item.level >= _RELIABLE and item.released < daemons and not cut:
            self._report.add("R", f"{item} is released at {item.released} daemons only", event)
        if item.sender.ended:
            return
        if item.ordered and not item.answered:
            self._report.add("L5", f"{item} is never told its position", event)
        if item.joins and not item.answered:
            self._report.add("L5", f"{item.sender} is never told that it joined", event)
