"""Positions: one key per message (O3), above its causes (O2) and side channels (X1, X2)."""

from bisect import bisect_left
from typing import Final

from groupcomm.sim.checkers.records import NOWHERE, Client, Item, Order, Position
from groupcomm.sim.checkers.report import Report
from groupcomm.sim.checkers.views import PacketBundle, Placed, Stay, View
from groupcomm.trace.events import Bounce, Deliver, Release, TraceEvent
from groupcomm.trace.events import Order as OrderEvent

_AGREED = 4

KEPT: Final = 50_000
"""Of twice so many places of a view the content is remembered after all have released them."""

MANY: Final = 500
"""A client's messages are compared with so many before them, at least."""

REPEATED, KNOWN, FIRST = range(3)
"""Of a place: released here before, elsewhere before, nowhere before."""


class Positions:
    """Checks where messages stand."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def place(self, event: Release, key: PacketBundle, stay: Stay) -> int:
        """O3 and D2 of a place: the same content everywhere, once per daemon."""
        view = stay.view
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
        known = view.places.get(key)
        if known is None:
            view.places[key] = Placed(content, stay.bit)
            view.place_order.append(key)
            if len(view.place_order) > 2 * KEPT:
                _forget(view)
            return FIRST
        if known.content != content:
            self._report.add("O3", f"place {key} has other content at {event.p}", event)
        if known.members & stay.bit:
            self._report.add("D2", f"{event.p} releases place {key} twice", event)
            return REPEATED
        known.members |= stay.bit
        return KNOWN

    def sent(self, client: Client, item: Item) -> None:
        """Remember what the position must be above."""
        item.floor = client.high
        home = client.home
        if home is not None and home.stay is not None:
            view = item.floor_view = home.stay.view
            item.floor_x1 = view.high_x1
            item.floor_x2 = view.high_x2

    def found(self, item: Item, position: Position, stay: Stay, event: Release) -> None:
        """A message is released: its position is known now, or must be the same (O3, X1, X2)."""
        if item.position is not None:
            if item.position != position:
                self._wrong(item, position, event)
            return
        item.position = position
        item.view = stay.view
        if item.level >= _AGREED and item.floor_view is stay.view:
            local = position[1:]
            if local <= item.floor_x1:
                text = f"{item} is at {local}, sent after {item.floor_x1} was got"
                self._report.add("X1", text, event)
            if local <= item.floor_x2:
                text = f"{item} is at {local}, sent after the view {item.floor_x2}"
                self._report.add("X2", text, event)
        self._compare(item, position, event)

    def _compare(self, item: Item, position: Position, event: Release) -> None:
        for claim in item.claims or ():
            if claim != position:
                self._wrong(item, claim, event)

    def found_unsent(self, client: Client, number: int, stay: Stay, event: Release) -> None:
        """The same for what is released before it was sent: its position is one, too (O3)."""
        if event.level and event.index == event.count - 1:
            place = (event.time, event.ring, event.bundle, number - event.first)
            position = (stay.view.order, *place)
            known = client.unsent.setdefault(number, position)
            if known != position:
                text = f"number {number} of {client} is at {known}, and at {position}"
                self._report.add("O3", text, event)

    def found_request(self, item: Item, position: Position, stay: Stay, event: Release) -> None:
        """The same for a join or leave: O3."""
        if item.position is None:
            item.position = position
            item.view = stay.view
            self._compare(item, position, event)
        elif item.position != position:
            self._wrong(item, position, event)

    def found_session(self, client: Client, event: Release, order: Order, *, ends: bool) -> None:
        """The same for a connect or disconnect."""
        position = (order, event.time, event.ring, event.bundle)
        known = client.disconnect if ends else client.connect
        if known is None:
            if ends:
                client.disconnect = position
            else:
                client.connect = position
        elif known != position:
            self._report.add("O3", f"{client} comes or goes at {known}, and at {position}", event)

    def found_at_home(self, item: Item, stay: Stay, event: Release) -> None:
        """A message is released at its sender's daemon: O2."""
        position = item.position
        assert position is not None
        if position <= item.floor:
            self._report.add(
                "O2", f"{item} is at {position}, its sender had got {item.floor}", event
            )
        if item.home_part is None:
            item.home_part, item.home_table = stay.part, stay.process.table
        entries = item.sender.positioned
        entry = (item.number, position)
        at = bisect_left(entries, entry)
        if at < len(entries) and entries[at] == entry:
            return  # released in another view, too (O3)
        entries.insert(at, entry)
        before = entries[at - 1][1] if at else NOWHERE
        if before >= position or (at + 1 < len(entries) and entries[at + 1][1] <= position):
            self._report.add("O2", f"{item} is at {position}, out of its order", event)
        if len(entries) > 2 * MANY:
            del entries[:MANY]

    def told(self, item: Item, position: Position, event: Deliver | OrderEvent | Bounce) -> None:
        """O3: everybody is told the position of the release."""
        if item.position is None:
            claims = item.claims
            item.claims = [position] if claims is None else [*claims, position]
        elif item.position != position:
            self._wrong(item, position, event)

    def _wrong(self, item: Item, position: Position, event: TraceEvent) -> None:
        self._report.add("O3", f"{item} is at {item.position}, and at {position}", event)


def _forget(view: View) -> None:
    """Forget the oldest place, once all have released it."""
    key = view.place_order.popleft()
    if view.places[key].members == (1 << len(view.members)) - 1:
        del view.places[key]
    else:
        view.place_order.append(key)
