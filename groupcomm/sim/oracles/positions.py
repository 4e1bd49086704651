"""Positions: one key per message (O3), above its causes (O2) and side channels (X1, X2)."""

from bisect import bisect_left, insort
from collections import deque

from groupcomm.sim.oracles.report import Report
from groupcomm.sim.oracles.world import KEPT, NOWHERE, Client, Item, Position
from groupcomm.sim.trace import Bounce, Deliver, Order, Release, TraceEvent

_AGREED = 4

MANY = 500
"""A client's messages are compared with so many before them, at least."""

Content = tuple[int, int, int, str, int, int, int, int]


class Positions:
    """Judges where messages stand.

    Attributes:
        high_x1: the highest position of an AGREED or SAFE message that anyone has got or been told.
        high_x2: the same of group views.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._places: dict[tuple[int, int, int], tuple[Content, int]] = {}
        self._order: deque[tuple[int, int, int]] = deque()
        self.high_x1 = NOWHERE
        self.high_x2 = NOWHERE

    def place(self, event: Release, daemon_bit: int) -> bool:
        """O3 and D2 of a place: the same content everywhere, once per daemon; True if new here."""
        key = (event.ring, event.number, event.bundle)
        content = (
            event.time,
            event.kind,
            event.level,
            event.c,
            event.first,
            event.last,
            event.index,
            event.count,
        )
        known = self._places.get(key)
        if known is None:
            self._places[key] = (content, daemon_bit)
            self._order.append(key)
            if len(self._order) > 2 * KEPT:
                del self._places[self._order.popleft()]
            return True
        if known[0] != content:
            self._report.add("O3", f"place {key} has other content at {event.p}", event)
        if known[1] & daemon_bit:
            self._report.add("D2", f"{event.p} releases place {key} twice", event)
            return False
        self._places[key] = (known[0], known[1] | daemon_bit)
        return True

    def sent(self, client: Client, item: Item) -> None:
        """Remember what the position must be above."""
        item.floor = client.high
        item.floor_x1 = self.high_x1
        item.floor_x2 = self.high_x2

    def found(self, item: Item, position: Position, event: Release) -> None:
        """A message's position is known now: X1 and X2, and what was claimed before."""
        item.position = position
        if item.level >= _AGREED:
            if position <= item.floor_x1:
                self._report.add(
                    "X1", f"{item} is at {position}, sent after {item.floor_x1} was got", event
                )
            if position <= item.floor_x2:
                self._report.add(
                    "X2", f"{item} is at {position}, sent after the view {item.floor_x2}", event
                )
        for claim in item.claims or ():
            if claim != position:
                self._report.add("O3", f"{item} was told at {claim}, it is at {position}", event)

    def found_at_home(self, item: Item, event: Release) -> None:
        """A message is released at its sender's daemon: O2."""
        position = item.position
        assert position is not None
        if position <= item.floor:
            self._report.add(
                "O2", f"{item} is at {position}, its sender had got {item.floor}", event
            )
        item.at_home = True
        entries = item.sender.positioned
        entry = (item.number, position)
        insort(entries, entry)
        at = bisect_left(entries, entry)
        before = entries[at - 1][1] if at else NOWHERE
        if before >= position or (at + 1 < len(entries) and entries[at + 1][1] <= position):
            self._report.add("O2", f"{item} is at {position}, out of its order", event)
        if len(entries) > 2 * MANY:
            del entries[:MANY]

    def told(self, item: Item, position: Position, event: Deliver | Order | Bounce) -> None:
        """O3: everybody is told the position of the release."""
        if item.position is None:
            claims = item.claims
            item.claims = [position] if claims is None else [*claims, position]
        elif item.position != position:
            self._wrong(item, position, event)

    def _wrong(self, item: Item, position: Position, event: TraceEvent) -> None:
        self._report.add("O3", f"{item} is at {item.position}, told as {position}", event)
