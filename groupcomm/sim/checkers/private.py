"""Private names: whom they mean (P4), and what comes back (P2)."""

from collections import deque
from typing import Final

from groupcomm.sim.checkers.records import Client, Item
from groupcomm.sim.checkers.report import Report
from groupcomm.sim.checkers.world import World
from groupcomm.trace.events import Ask, Bounce, Quiet

KEPT: Final = 50_000
"""So many messages with private names are remembered after they are done with."""

_RELIABLE = 1


class Private:
    """Checks undeliverable messages, and identities that connect."""

    def __init__(self, world: World, report: Report) -> None:
        self._world = world
        self._report = report
        self._connects: set[Client] = set()
        self._messages: deque[Item] = deque()  # with private names

    def connects(self, client: Client, event: Ask) -> None:
        """P4: an identity connects once."""
        if client in self._connects:
            self._report.add("P4", f"{client} connects twice", event)
        self._connects.add(client)

    def accepted(self, item: Item) -> None:
        """Find out whom the private names of a message mean, to the daemon of its sender."""
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
        final = set(self._world.final)
        for item in self._messages:
            if item.sender.home in final:
                for name in _missing(item):
                    self._report.add("P2", f"{item} never comes back from {name}", event)


def _missing(item: Item) -> list[str]:
    """The names from which a message should have come back, and has not."""
    if item.sender.ended:
        return []
    bounced = item.bounced or ()
    names = item.targets or ()
    return [name for name in names if name not in bounced and _comes_back(item, name)]


def _comes_back(item: Item, name: str) -> bool:
    """Whether nobody was there at the message's position."""
    if item.level < _RELIABLE or item.targets is None or name not in item.targets:
        return False
    table, position = item.home_table, item.position
    if not item.at_home or table is None or position is None:
        return False
    target = item.targets[name]
    if target is None or target not in table.known:
        return True
    gone = table.gone.get(target)
    return gone is not None and gone < position[1:4]
