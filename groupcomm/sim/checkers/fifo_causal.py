"""Checks of the order of one sender and of causes: F1, F2, M1, CA."""

from typing import Final

from groupcomm.sim.checkers.records import (
    ClientRecord,
    Item,
    Stay,
)
from groupcomm.sim.checkers.report import Report
from groupcomm.sim.checkers.state import ObservedState
from groupcomm.trace.events import Deliver, Release

_RELIABLE, _FIFO, _CAUSAL, _AGREED = 1, 2, 3, 4


class SenderOrder:
    """A checker of items at FIFO or above."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def accepted(self, item: Item) -> None:
        """Give an item its rank in its sender's sequence."""
        item.rank = item.sender.ranks
        item.sender.ranks += 1

    def released(self, stay: Stay, item: Item, event: Release) -> None:
        """Check the release of an item: all earlier items of its sequence must be released."""
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

    def _begin(self, stay: Stay, sender: ClientRecord) -> int | None:
        """Return the rank from which on a sender's items are of this view; None if it is not in
        it."""
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

    def delivered(self, client: ClientRecord, item: Item, event: Deliver) -> None:
        """Check a delivery: none of the sender's later messages may have been delivered."""
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


MANY: Final = 64
"""The size above which a set that has doubled is searched for items to forget."""


class Causes:
    """A checker of messages at CAUSAL or above; call `sent` and `delivered` for every message."""

    def __init__(self, report: Report, state: ObservedState) -> None:
        self._report = report
        self._state = state

    def sent(self, client: ClientRecord, item: Item) -> None:
        """Note the causes of a message, which is a cause of later ones."""
        if item.level >= _CAUSAL:
            item.causes = self._tidy(client)
        if item.level >= _FIFO:
            client.knows[item] = None

    def _tidy(self, client: ClientRecord) -> tuple[Item, ...]:
        """Forget messages that cannot be causes any more; return the rest."""
        is_open = self._state.is_open
        causes = tuple([item for item in client.knows if is_open(item)])
        client.knows = dict.fromkeys(causes)
        client.needs = {item for item in client.needs if is_open(item)}
        client.tidy_at = 2 * len(causes) + MANY
        return causes

    def delivered(self, client: ClientRecord, item: Item, event: Deliver) -> None:
        """Check the delivery of a message that was owed."""
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
            is_open = self._state.is_open
            for cause in item.causes:
                if cause in client.owed:
                    self._check_hole(client, item, cause, event)
                if is_open(cause):
                    knows[cause] = None
                    if client not in cause.got:
                        needs.add(cause)
        if len(knows) > client.tidy_at:
            self._tidy(client)

    def _check_hole(self, client: ClientRecord, item: Item, cause: Item, event: Deliver) -> None:
        """Note a cause that is owed already; the client may end before it gets the cause."""
        if not client.crashed:
            text = f"{client} gets {item}, and has not got its cause {cause}"
            self._report.add("CA", text, event)
