"""Checks of the agreed order: O1 and O4 as it grows; O6 and MG1 at the end, where they can fail.

Positions: one key per message (O3), above its causes (O2) and side channels (X1, X2).
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import combinations, pairwise
from typing import Final

from groupcomm.sim.checkers.places import (
    NOWHERE,
    Bundle,
    Order,
    PacketBundle,
    PlaceRecord,
    Position,
)
from groupcomm.sim.checkers.records import (
    ClientRecord,
    Item,
    Stay,
    ViewRecord,
)
from groupcomm.sim.checkers.report import Report
from groupcomm.sim.checkers.state import ObservedState
from groupcomm.trace.events import Bounce, Deliver, Member, Release, TraceEvent
from groupcomm.trace.events import Order as OrderEvent

_AGREED = 4
_CONNECT, _LINE = 2, 14


KEPT: Final = 50_000
"""The bundles that are remembered after all daemons have released them; twice as many places."""


class AgreedOrder:
    """A checker of agreed bundles at daemons, AGREED and SAFE messages and views at clients."""

    def __init__(self, report: Report, state: ObservedState) -> None:
        self._report = report
        self._state = state

    def released(self, stay: Stay, bundle: Bundle, event: Release, items: Sequence[Item]) -> None:
        """Check O1 and O4 at a daemon: in the regular part all daemons release one sequence, but
        for inner bundles, which may be ahead of it."""
        if stay.ahead:
            self._check_ahead(stay, bundle, event, items)
        if not stay.part.regular:
            self._released_late(stay, bundle, event)
            return
        if not is_inner(event, stay):
            while stay.ahead and stay.ahead[0][0] <= bundle:
                inner = heappop(stay.ahead)
                self._enter(stay, inner[0], inner[1])
            self._enter(stay, bundle, event)
        elif bundle[:3] < stay.last[:3]:
            self._enter(stay, bundle, event)
        else:
            heappush(stay.ahead, (bundle, event, items))

    def _check_ahead(
        self, stay: Stay, bundle: Bundle, event: Release, items: Sequence[Item]
    ) -> None:
        """Check O1 and O4: inner bundles that are ahead of one are of nobody whom it concerns."""
        for inner, other, ahead in stay.ahead:
            if inner[:3] > bundle[:3]:
                for item in ahead:
                    item.ahead = True
                    self._check_abroad(item, event)
                if _concerns(event, items, other, ahead):
                    text = f"{stay} releases {bundle} after {inner}, which it concerns"
                    self._report.add("O1", text, event)

    def got(self, client: ClientRecord, item: Item, event: Deliver) -> bool:
        """Note that a client gets an AGREED or SAFE message; return whether it may be inner."""
        stay = client.home.stay if client.home is not None else None
        if stay is None or stay.view is not item.view or item.position is None:
            return False
        item.abroad |= item.position[2] != stay.ring
        self._check_abroad(item, event)
        return may_be_inner(item, item.position, stay)

    def _check_abroad(self, item: Item, event: TraceEvent) -> None:
        if item.ahead and item.abroad:
            self._report.add("O4", f"{item} is ahead of the order, and not of one ring", event)

    def _enter(self, stay: Stay, bundle: Bundle, event: Release) -> None:
        """Check the next bundle of the sequence of a daemon."""
        view = stay.view
        self._end_regular(stay, event)
        log, index = view.log, stay.agreed
        if bundle < stay.last and bundle[:3] < stay.last[:3]:
            self._report.add("O1", f"{stay} releases {bundle} after {stay.last}", event)
            self._report.add("O4", f"{stay} has released {stay.last} before {bundle}", event)
        else:
            stay.last = bundle
        if index == len(log):
            log.append(bundle)
            if view.beyond:
                self._pass(stay, bundle, event)
        elif log[index] != bundle:
            self._report.add(
                "O4", f"{stay} releases {bundle} where others released {log[index]}", event
            )
        stay.agreed = index + 1
        if len(log) > 2 * KEPT:
            _forget_log(view)

    def _pass(self, stay: Stay, bundle: Bundle, event: Release) -> None:
        """Report bundles below, released by others in transitional parts, that are missing here."""
        beyond = stay.view.beyond
        while beyond and beyond[0] <= bundle:
            other = heappop(beyond)
            if other[:3] < bundle[:3]:
                text = f"{stay} releases {bundle}, and others have released {other}"
                self._report.add("O4", text, event)

    def _released_late(self, stay: Stay, bundle: Bundle, event: Release) -> None:
        """Check a release in the transitional part, whose holes no daemon may have passed
        before."""
        view = stay.view
        log, index = view.log, stay.agreed
        if bundle < stay.last and bundle[:3] < stay.last[:3]:
            self._report.add("O1", f"{stay} releases {bundle} after {stay.last}", event)
        else:
            stay.last = bundle
        if index < len(log) and log[index] == bundle:
            stay.agreed = index + 1
        else:
            self._note_beyond(stay, bundle, event)

    def _end_regular(self, stay: Stay, *events: TraceEvent) -> None:
        """Note that a daemon's regular part is over, or the trace: what is ahead stays so."""
        if not stay.ahead_is_known:
            stay.ahead_is_known = True
            for inner, _, _ in stay.ahead:
                self._note_beyond(stay, inner, *events)

    def _note_beyond(self, stay: Stay, bundle: Bundle, *events: TraceEvent) -> None:
        """Note a bundle that is not of the sequence, whose holes no daemon may have passed."""
        view, log = stay.view, stay.view.log
        if not log or bundle[:3] > log[-1][:3]:
            if bundle not in view.known_beyond:
                view.known_beyond.add(bundle)
                heappush(view.beyond, bundle)
        else:
            at = bisect_left(log, bundle)
            if (at == len(log) or log[at] != bundle) and bundle[:3] < log[-1][:3]:
                text = f"{stay} releases {bundle}, which others have passed"
                self._report.add("O4", text, *events)

    def delivered(
        self, client: ClientRecord, item: Item, position: Position, event: Deliver
    ) -> None:
        """Check O1 at a client, for a message."""
        if position <= client.last_agreed or position <= client.last_view:
            self._report.add(
                "O1",
                f"{client} gets {item} at {position}, after"
                f" {max(client.last_agreed, client.last_view)}",
                event,
            )
        client.last_agreed = position
        client.agreed.append(item)

    def viewed(self, client: ClientRecord, position: Position, event: Member) -> None:
        """Check O1 at a client, for a group view; several groups may change at one position."""
        if position < client.last_agreed or position < client.last_view:
            self._report.add(
                "O1",
                f"{client} gets a view at {position}, after"
                f" {max(client.last_agreed, client.last_view)}",
                event,
            )
        client.last_view = position

    def finish(self) -> None:
        """Check for cycles: equal positions that rise everywhere leave none."""
        for process in self._state.processes.values():
            if process.stay is not None:
                self._end_regular(process.stay)
        if self._report.ids.isdisjoint(("O1", "O3")):
            return
        sequences = [
            list(dict.fromkeys(c.agreed)) for c in self._state.clients.values() if c.agreed
        ]
        for one, other in combinations(sequences, 2):
            if not _same_order(one, other):
                self._report.add(
                    "MG1", f"two clients get messages in opposite orders: {one[0]}, {other[0]} ..."
                )
                break
        if _has_cycle(sequences):
            self._report.add("O6", "the clients' orders of AGREED and SAFE messages form a cycle")


def is_inner(event: Release, stay: Stay) -> bool:
    """Return whether a release in the regular part is inner: AGREED or SAFE, of the own ring."""
    several = len(stay.blocks) > 1
    return several and event.level >= _AGREED and event.kind < _CONNECT and event.ring == stay.ring


def may_be_inner(item: Item, position: Position, stay: Stay) -> bool:
    """Return whether the releases of a message at a daemon are inner, if they are regular."""
    return item.level >= _AGREED and position[2] == stay.ring and len(stay.blocks) > 1


def _concerns(event: Release, items: Sequence[Item], inner: Release, ahead: Sequence[Item]) -> bool:
    """Return whether an agreed bundle concerns the sender or a destination of inner messages."""
    if event.c == inner.c:
        return True
    if event.kind < _CONNECT or event.kind == _LINE:
        return False
    names = {name for item in items for name in item.to} or {event.c.rpartition("/")[0]}
    return any(name in names for item in ahead for name in item.to)


def _forget_log(view: ViewRecord) -> None:
    """Drop the oldest bundles of the log that every daemon has released."""
    count = min(KEPT, *(stay.agreed for stay in view.stays.values()))
    del view.log[:count]
    for stay in view.stays.values():
        stay.agreed -= count


def _same_order(one: list[Item], other: list[Item]) -> bool:
    ranks = {item: rank for rank, item in enumerate(one)}
    common = [ranks[item] for item in other if item in ranks]
    return all(before < after for before, after in pairwise(common))


def _has_cycle(sequences: list[list[Item]]) -> bool:
    """Kahn's algorithm over the edges "delivered immediately before"."""
    followers: dict[Item, set[Item]] = {}
    incoming: dict[Item, int] = {}
    for sequence in sequences:
        for item in sequence:
            followers.setdefault(item, set())
            incoming.setdefault(item, 0)
        for before, after in pairwise(sequence):
            if after not in followers[before]:
                followers[before].add(after)
                incoming[after] += 1
    free = deque(item for item, count in incoming.items() if count == 0)
    sorted_items = 0
    while free:
        sorted_items += 1
        for follower in followers[free.popleft()]:
            incoming[follower] -= 1
            if incoming[follower] == 0:
                free.append(follower)
    return sorted_items < len(incoming)


MANY: Final = 500
"""The least number of earlier messages that a client's messages are compared with."""

REPEATED, KNOWN, FIRST = range(3)
"""Earlier releases of a place: at this daemon, only at other daemons, or at none."""


class Positions:
    """A checker of the positions of messages."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def place(self, event: Release, key: PacketBundle, stay: Stay) -> int:
        """Check O3 and D2 of a place: the same content everywhere, once per daemon."""
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
            view.places[key] = PlaceRecord(content, stay.bit)
            view.place_order.append(key)
            if len(view.place_order) > 2 * KEPT:
                _forget_place(view)
            return FIRST
        if known.content != content:
            self._report.add("O3", f"place {key} has other content at {event.p}", event)
        if known.members & stay.bit:
            self._report.add("D2", f"{event.p} releases place {key} twice", event)
            return REPEATED
        known.members |= stay.bit
        return KNOWN

    def sent(self, client: ClientRecord, item: Item) -> None:
        """Remember the values that the position must be above."""
        item.floor = client.high
        home = client.home
        if home is not None and home.stay is not None:
            view = item.floor_view = home.stay.view
            item.floor_x1 = view.high_x1
            item.floor_x2 = view.high_x2

    def found(self, item: Item, position: Position, stay: Stay, event: Release) -> None:
        """Note the position of a released message, or check that it is the same (O3, X1, X2)."""
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

    def caused(
        self, client: ClientRecord, item: Item, position: Position, now: int, event: Deliver
    ) -> None:
        """Check X1 at a client: nothing that it got was sent after this message was known."""
        stage = client.stage
        if stage is None or not stage.regular or stage.stay.view.order != position[0]:
            return
        view = stage.stay.view
        sent, where = client.caused
        if where is view and 0 < item.known_at < sent:
            text = f"{client} gets {item}, which was known before it got what was sent later"
            self._report.add("X1", text, event)
        item.known_at = item.known_at or now
        if item.floor_view is view and (where is not view or item.sent_at > sent):
            client.caused = (item.sent_at, view)

    def _compare(self, item: Item, position: Position, event: Release) -> None:
        for claim in item.claims or ():
            if claim != position:
                self._wrong(item, claim, event)

    def found_unsent(self, client: ClientRecord, number: int, stay: Stay, event: Release) -> None:
        """Note the position of a message that is released before it was sent (O3)."""
        if event.level and event.index == event.count - 1:
            place = (event.time, event.ring, event.bundle, number - event.first)
            position = (stay.view.order, *place)
            known = client.unsent.setdefault(number, position)
            if known != position:
                text = f"number {number} of {client} is at {known}, and at {position}"
                self._report.add("O3", text, event)

    def found_request(self, item: Item, position: Position, stay: Stay, event: Release) -> None:
        """Check O3 for a join or leave."""
        if item.position is None:
            item.position = position
            item.view = stay.view
            self._compare(item, position, event)
        elif item.position != position:
            self._wrong(item, position, event)

    def found_session(
        self, client: ClientRecord, event: Release, order: Order, *, ends: bool
    ) -> None:
        """Check O3 for a connect or disconnect."""
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
        """Check O2 for a message that is released at its sender's daemon."""
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

    def notified(
        self, item: Item, position: Position, event: Deliver | OrderEvent | Bounce
    ) -> None:
        """Check O3: every program is told the position of the release."""
        if item.position is None:
            claims = item.claims
            item.claims = [position] if claims is None else [*claims, position]
        elif item.position != position:
            self._wrong(item, position, event)

    def _wrong(self, item: Item, position: Position, event: TraceEvent) -> None:
        self._report.add("O3", f"{item} is at {item.position}, and at {position}", event)


def _forget_place(view: ViewRecord) -> None:
    """Forget the oldest place, once all have released it."""
    key = view.place_order.popleft()
    if view.places[key].members == (1 << len(view.members)) - 1:
        del view.places[key]
    else:
        view.place_order.append(key)
