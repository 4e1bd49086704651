"""Holes in what a client is told, also of one that ends: F1, F2, O4, G3 and P3.

What a client is told is a prefix of what it is owed, so far as a property orders it. So whatever is
told shows what has to be there before it, however soon the client is cut off after it.
"""

from heapq import heappop, heappush
from itertools import count
from typing import Final

from groupcomm.sim.checkers.records import Client, Item, Position
from groupcomm.sim.checkers.report import Report
from groupcomm.sim.checkers.sender_order import which_order
from groupcomm.trace.events import Deliver, Member

_FIFO: Final = 2
_AGREED: Final = 4


class Holes:
    """Checks what a client has not got yet when it is told something that comes behind it.

    Heaps hold what a client is owed, and what of it has come already until something passes it.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._turns = count()  # no two entries of a heap are compared beyond their positions

    # ---- what is owed ----

    def owe(self, client: Client, item: Item) -> None:
        """Note a message that a client is owed from here on."""
        if item.level < _FIFO:
            return
        heappush(client.due_from.setdefault(item.sender, []), item.number)
        if item.level >= _AGREED and item.position is not None:
            heappush(client.due, (item.position, next(self._turns), item))

    def owe_view(self, client: Client, group: str, position: Position) -> None:
        """Note a view of a group that a client is owed from here on."""
        heappush(client.due, (position, next(self._turns), group))

    # ---- what is told ----

    def delivered(self, client: Client, item: Item, event: Deliver) -> None:
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

    def viewed(self, client: Client, position: Position, event: Member) -> None:
        """Check a view of a group that a client is shown."""
        self._pass(client, position, event)
        if event.cause == "disconnect":
            self._check_gone(client, event)

    def _check_passed(self, client: Client, item: Item, number: int, event: Deliver) -> None:
        """F1 and F2: an earlier message of the same sender has not come."""
        earlier = item.sender.sent.get(number)
        if earlier is not None and earlier in client.owed:
            text = f"{client} gets {item}, and has not got {number}"
            self._report.add(which_order(earlier, item), text, event)

    def _pass(self, client: Client, position: Position, event: Deliver | Member) -> None:
        """O4 and G3: something at a position is told; all that is owed below it must have come."""
        due = client.due
        while due and due[0][0] < position:
            lower, _, what = heappop(due)
            if isinstance(what, str):
                if (what, lower) in client.views:
                    text = f"{client} is told of {position}, and has not seen {what} at {lower}"
                    self._report.add("G3", text, event)
            elif what in client.owed:
                text = f"{client} is told of {position}, and has not got {what} at {lower}"
                self._report.add("O4", text, event)

    def _check_gone(self, client: Client, event: Member) -> None:
        """P3: a sender has gone, and a message of it has not come."""
        for item in client.owed:
            if item.level >= _FIFO and item.sender.identity in event.changed:
                text = f"{client} sees {item.sender} go, and has not got {item}"
                self._report.add("P3", text, event)
