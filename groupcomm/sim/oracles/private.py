"""Private names: whom they mean (P4), and what comes back (P2)."""

from collections import deque

from groupcomm.sim.oracles.report import Report
from groupcomm.sim.oracles.world import KEPT, Client, Daemon, Item
from groupcomm.sim.trace import Ask, Bounce, Quiet, Release

_RELIABLE = 1


class Private:
    """Judges connects, disconnects and undeliverable messages."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._connects: set[Client] = set()
        self._messages: deque[Item] = deque()  # with private names

    def connects(self, client: Client, event: Ask) -> None:
        """P4: an identity connects once."""
        if client in self._connects:
            self._report.add("P4", f"{client} connects twice", event)
        self._connects.add(client)

    def connected(self, daemon: Daemon, client: Client, event: Release) -> None:
        """A connect was released at a daemon."""
        holder = daemon.connected.get(client.name)
        if holder is not None and client.daemon is daemon:
            self._report.add("P4", f"{client} connects while {holder} is connected", event)
        daemon.connected[client.name] = client

    def disconnected(self, daemon: Daemon, client: Client) -> None:
        """A disconnect was released at a daemon."""
        client.disconnected_at.add(daemon)
        if daemon.connected.get(client.name) is client:
            del daemon.connected[client.name]

    def accepted(self, item: Item) -> None:
        """Find out whom the private names of a message mean, to the daemon of its sender."""
        names = [name for name in item.to if name[0] == "#"]
        if names:
            home = item.sender.daemon
            item.targets = {name: home.connected.get(name) if home else None for name in names}
            if item.level >= _RELIABLE:
                self._messages.append(item)
                if len(self._messages) > KEPT:
                    oldest = self._messages.popleft()
                    if _missing(oldest):
                        self._messages.append(oldest)

    def bounced(self, client: Client, item: Item, event: Bounce) -> None:
        """P2: a message came back."""
        bounced = item.bounced
        if bounced is None:
            bounced = item.bounced = []
        if event.target in bounced or not _comes_back(item, event.target):
            self._report.add("P2", f"{item} should not come back from {event.target}", event)
        bounced.append(event.target)

    def quiet(self, event: Quiet) -> None:
        """P2: all that should have come back has."""
        for item in self._messages:
            for name in _missing(item):
                self._report.add("P2", f"{item} never comes back from {name}", event)


def _missing(item: Item) -> list[str]:
    """The names from which a message should have come back, and has not."""
    if item.sender.ended or not item.at_home:
        return []
    bounced = item.bounced or ()
    names = item.targets or ()
    return [name for name in names if name not in bounced and _comes_back(item, name)]


def _comes_back(item: Item, name: str) -> bool:
    """Whether nobody was there at the message's position."""
    if item.level < _RELIABLE or item.targets is None or name not in item.targets:
        return False
    target = item.targets[name]
    if target is None:
        return True
    if target.disconnect is None or item.position is None:
        return False
    return target.disconnect < item.position[:3]
