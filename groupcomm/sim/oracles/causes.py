"""Causal order (CA), by the sets of causes themselves.

The causes of a message are all that its sender knew. A cause that everybody has got can be
forgotten, so the sets stay as small as what is on its way.
"""

from groupcomm.sim.oracles.report import Report
from groupcomm.sim.oracles.world import Client, Daemon, Item
from groupcomm.sim.trace import Deliver

_RELIABLE, _FIFO, _CAUSAL = 1, 2, 3


class Causes:
    """Judges messages at CAUSAL or above; call `sent` and `delivered` for every message."""

    def __init__(self, report: Report, daemons: dict[str, Daemon]) -> None:
        self._report = report
        self._daemons = daemons

    def _is_open(self, item: Item) -> bool:
        """Whether somebody may still get it."""
        return item.waiting > 0 or item.released < len(self._daemons)

    def sent(self, client: Client, item: Item) -> None:
        """Note the causes of a message, which is a cause of later ones."""
        if item.level >= _CAUSAL:
            open_items = [known for known in client.knows if self._is_open(known)]
            client.knows = dict.fromkeys(open_items)
            item.causes = tuple(open_items)
        if item.level >= _FIFO:
            client.knows[item] = None

    def delivered(self, client: Client, item: Item, event: Deliver) -> None:
        """A message that was owed is delivered."""
        if item.level < _RELIABLE:
            return
        needs = client.needs
        if needs and item in needs:
            needs.remove(item)
            self._report.add(
                "CA", f"{client} gets {item} after a message that it had caused", event
            )
        knows = client.knows
        knows[item] = None
        if item.level >= _CAUSAL and item.causes:
            for cause in item.causes:
                if self._is_open(cause):
                    knows[cause] = None
                    if client not in cause.got:
                        needs.add(cause)
            if len(needs) > 1000:
                client.needs = {need for need in needs if self._is_open(need)}
