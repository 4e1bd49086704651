"""Causal order (CA), by the sets of causes themselves.

The causes of a message are all that its sender knew. A cause that everybody has got can be
forgotten, so the sets stay as small as what is on its way.
"""

from typing import Final

from groupcomm.sim.checkers.records import Client, Item
from groupcomm.sim.checkers.report import Report
from groupcomm.sim.checkers.world import World
from groupcomm.trace.events import Deliver

_RELIABLE, _FIFO, _CAUSAL = 1, 2, 3

MANY: Final = 64
"""A set that has doubled, and is larger than this, is looked through for what to forget."""


class Causes:
    """Checks messages at CAUSAL or above; call `sent` and `delivered` for every message."""

    def __init__(self, report: Report, world: World) -> None:
        self._report = report
        self._world = world

    def sent(self, client: Client, item: Item) -> None:
        """Note the causes of a message, which is a cause of later ones."""
        if item.level >= _CAUSAL:
            item.causes = self._tidy(client)
        if item.level >= _FIFO:
            client.knows[item] = None

    def _tidy(self, client: Client) -> tuple[Item, ...]:
        """Forget what can be no cause any more; returns the rest."""
        is_open = self._world.is_open
        causes = tuple([item for item in client.knows if is_open(item)])
        client.knows = dict.fromkeys(causes)
        client.needs = {item for item in client.needs if is_open(item)}
        client.tidy_at = 2 * len(causes) + MANY
        return causes

    def delivered(self, client: Client, item: Item, event: Deliver) -> None:
        """A message that was owed is delivered."""
        if item.level < _RELIABLE:
            return
        needs = client.needs
        if needs and item in needs:
            needs.remove(item)
            if not client.ended:
                text = f"{client} gets {item} after a message that it had caused"
                self._report.add("CA", text, event)
        knows = client.knows
        knows[item] = None
        if item.level >= _CAUSAL and item.causes:
            is_open = self._world.is_open
            for cause in item.causes:
                if cause in client.owed:
                    self._check_hole(client, item, cause, event)
                if is_open(cause):
                    knows[cause] = None
                    if client not in cause.got:
                        needs.add(cause)
        if len(knows) > client.tidy_at:
            self._tidy(client)

    def _check_hole(self, client: Client, item: Item, cause: Item, event: Deliver) -> None:
        """A cause is owed to the client already, which may end before it gets it."""
        if not client.crashed:
            text = f"{client} gets {item}, and has not got its cause {cause}"
            self._report.add("CA", text, event)
