"""The order of one sender: F1 and F2, and M1 for its joins and leaves."""

from groupcomm.sim.oracles.report import Report
from groupcomm.sim.oracles.world import Client, Daemon, Item
from groupcomm.sim.trace import Deliver, Release

_FIFO = 2


class SenderOrder:
    """Judges items at FIFO or above."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def accepted(self, item: Item) -> None:
        """Give an item its rank in its sender's sequence."""
        item.rank = item.sender.ranks
        item.sender.ranks += 1

    def released(self, daemon: Daemon, item: Item, event: Release) -> None:
        """One item was released; all before it in its sequence must be."""
        sender = item.sender
        rank = item.rank
        if rank < 0:
            return  # never accepted; its delivery is judged elsewhere
        expected = daemon.next.get(sender, 0)
        if rank != expected or sender in daemon.missing:
            self._out_of_turn(daemon, item, expected, event)
        if rank >= expected:
            daemon.next[sender] = rank + 1

    def _out_of_turn(self, daemon: Daemon, item: Item, expected: int, event: Release) -> None:
        missing = daemon.missing.setdefault(item.sender, [])
        if item.rank < expected:
            if item in missing:
                missing.remove(item)
        else:
            between = range(expected, item.rank)
            missing += [other for other in item.sender.sent.values() if other.rank in between]
        for earlier in missing:
            if earlier.rank < item.rank:
                self._report.add(
                    _which(earlier, item), f"{daemon} releases {item} before {earlier}", event
                )
        if not missing:
            del daemon.missing[item.sender]

    def delivered(self, client: Client, item: Item, event: Deliver) -> None:
        """One message was delivered; none of its sender's later ones may have been."""
        if item.level < _FIFO:
            return
        highest = client.highest.get(item.sender)
        if highest is not None and item.number < highest.number:
            self._report.add(
                _which(highest, item), f"{client} gets {item} after {highest.number}", event
            )
        else:
            client.highest[item.sender] = item


def _which(one: Item, other: Item) -> str:
    if one.is_request or other.is_request:
        return "M1"
    return "F2" if set(one.to).isdisjoint(other.to) else "F1"
