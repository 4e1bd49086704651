"""The order of one sender: F1 and F2, and M1 for its joins and leaves."""

from groupcomm.sim.checkers.records import Client, Item
from groupcomm.sim.checkers.report import Report
from groupcomm.sim.checkers.views import Stay
from groupcomm.trace.events import Deliver, Release

_FIFO = 2


class SenderOrder:
    """Checks items at FIFO or above."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def accepted(self, item: Item) -> None:
        """Give an item its rank in its sender's sequence."""
        item.rank = item.sender.ranks
        item.sender.ranks += 1

    def released(self, stay: Stay, item: Item, event: Release) -> None:
        """One item was released; all before it in its sequence, but for earlier views, must be."""
        sender = item.sender
        rank = item.rank
        if rank < 0:
            return  # never accepted; its delivery is checked elsewhere
        expected = stay.next_rank.get(sender)
        if expected is None:
            expected = self._begin(stay, sender)
            if expected is None:
                return
        if rank != expected or sender in stay.missing:
            self._out_of_turn(stay, item, expected, event)
        if rank >= expected:
            stay.next_rank[sender] = rank + 1

    def _begin(self, stay: Stay, sender: Client) -> int | None:
        """The rank from which on a sender's items are of this view; None if it is not in it."""
        home = sender.home
        base = stay.view.base.get(home.identity) if home is not None else None
        if base is None:
            return None
        expected, missing = base.get(sender, (0, ()))
        if missing:
            stay.missing[sender] = list(missing)
        return expected

    def _out_of_turn(self, stay: Stay, item: Item, expected: int, event: Release) -> None:
        missing = stay.missing.setdefault(item.sender, [])
        if item.rank < expected:
            if item.rank in missing:
                missing.remove(item.rank)
        else:
            missing += range(expected, item.rank)
        lower = {rank for rank in missing if rank < item.rank}
        if lower:
            for earlier in item.sender.sent.values():
                if earlier.rank in lower:
                    text = f"{stay} releases {item} before {earlier}"
                    self._report.add(which_order(earlier, item), text, event)
        if not missing:
            del stay.missing[item.sender]

    def delivered(self, client: Client, item: Item, event: Deliver) -> None:
        """One message was delivered; none of its sender's later ones may have been."""
        if item.level < _FIFO:
            return
        highest = client.highest.get(item.sender)
        if highest is not None and item.number < highest.number:
            self._report.add(
                which_order(highest, item), f"{client} gets {item} after {highest.number}", event
            )
        else:
            client.highest[item.sender] = item


def which_order(one: Item, other: Item) -> str:
    """Return the property that orders two items of one sender."""
    if one.is_request or other.is_request:
        return "M1"
    return "F2" if set(one.to).isdisjoint(other.to) else "F1"
