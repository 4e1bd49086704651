"""The releases of daemons, for each checker: bundles of messages, fragments, requests, sessions."""

from collections.abc import Sequence

import attrs

from groupcomm.sim.checkers.agreed import FIRST, REPEATED, AgreedOrder, Positions, is_inner
from groupcomm.sim.checkers.delivery import Delivery
from groupcomm.sim.checkers.fifo_causal import SenderOrder
from groupcomm.sim.checkers.group_tables import Tables
from groupcomm.sim.checkers.records import (
    ClientRecord,
    Item,
    Stay,
)
from groupcomm.sim.checkers.report import Report
from groupcomm.sim.checkers.stamps import Stamps
from groupcomm.sim.checkers.state import ObservedState
from groupcomm.sim.checkers.view_agreement import Together
from groupcomm.trace.events import Release

_FIFO, _AGREED, _SAFE = 2, 4, 5
_MESSAGES, _FRAGMENT, _CONNECT = range(3)
_SESSION = (_CONNECT, 5)  # 5: disconnect
_LINE = 14


@attrs.define(eq=False, repr=False)
class Releases:
    """A distributor of releases to the checkers; it checks D1, G1, U and V4 for the bundle
    itself."""

    _report: Report
    _state: ObservedState
    _stamps: Stamps
    _positions: Positions
    _agreed: AgreedOrder
    _sender_order: SenderOrder
    _delivery: Delivery
    _tables: Tables
    _together: Together

    def released(self, event: Release, stay: Stay) -> None:
        """Check one bundle that a daemon releases."""
        ring = event.ring
        if not (0 <= ring < len(stay.blocks) or self._stamps.fits(event, stay)):
            return
        if not stay.complete:
            self._report.add("G1", f"{stay} releases before it knows the groups", event)
            return
        state = self._state
        client = state.client(event.c)
        if client.home is None and not state.plain:
            self._settle(client, stay)
        items: Sequence[Item] = ()
        if not _is_of_daemon(event):
            items = self._items(client, event, stay)
        if event.level == 0:
            self._release_unreliable(event, stay, items)
            return
        key = (ring, event.number, event.bundle)
        found = self._positions.place(event, key, stay)
        packet = stay.view.streams[ring].packets.get(event.number)
        self._stamps.released(event, packet, stay)
        early = False
        if event.level >= _AGREED and stay.part.regular:
            early = self._check_time(event, items, stay)
        if found != REPEATED:
            if event.level >= _AGREED:
                bundle = (event.time, event.ring, event.bundle, event.number)
                self._agreed.released(stay, bundle, event, items)
            author = packet[1] if packet is not None else None
            first = found == FIRST
            self._together.released(stay, key, author, event, first=first, early=early)
            self._release_new(event, stay, client, items)

    def _check_time(self, event: Release, items: Sequence[Item], stay: Stay) -> bool:
        """Check H5 and S1 for an agreed bundle in a regular part; return whether it is early."""
        if not is_inner(event, stay):
            self._stamps.agreed(event, event.time, stay)
        return event.level == _SAFE and self._stamps.safe_inside(event, items, stay)

    def _settle(self, client: ClientRecord, stay: Stay) -> None:
        """Set a client's home: the start of its daemon that was the first to release an item of
        it."""
        state = self._state
        identity = stay.view.by_name.get(client.daemon_name)
        home = state.processes.get(identity) if identity is not None else None
        state.settle(client, home)
        if client.crashed:
            state.end(client)
        if home is not None and home.ended:
            self._delivery.end(client)

    def _items(self, client: ClientRecord, event: Release, stay: Stay) -> list[Item]:
        """Return the sent items of a bundle; report D1 if some were not sent, or not accepted."""
        items = []
        for number in range(event.first, event.last + 1):
            item = client.sent.get(number)
            if item is not None:
                items.append(item)
                if item.accepted and item.level != event.level:
                    text = f"{event.p} releases {item}, of level {item.level}, at {event.level}"
                    self._report.add("D1", text, event)
            if (item is None or item.accepted <= event.index) and number > client.forgotten:
                if item is None:
                    self._positions.found_unsent(client, number, stay, event)
                text = f"{event.p} releases {number} of {client}, which it has not accepted"
                self._report.add("D1", text, event)
        return items

    def _release_new(
        self, event: Release, stay: Stay, client: ClientRecord, items: Sequence[Item]
    ) -> None:
        kind = event.kind
        if kind == _MESSAGES:
            for item in items:
                self._release_message(item, item.number - event.first, stay, event)
        elif kind == _FRAGMENT:
            for item in items:
                self._release_fragment(item, stay, event)
        elif kind in _SESSION:
            self._release_session(client, stay, event)
        elif event.group:
            self._tables.changed(stay, client, event.group, event)
        else:
            position = (stay.view.order, event.time, event.ring, event.bundle, 0)
            for item in items:
                self._positions.found_request(item, position, stay, event)
                item.released += 1
                item.at_home |= item.sender.home is stay.process
                self._sender_order.released(stay, item, event)
                if item.to and kind != _LINE:
                    self._tables.changed(stay, client, item.to[0], event, reads=item.reads)

    def _release_message(self, item: Item, index: int, stay: Stay, event: Release) -> None:
        position = (stay.view.order, event.time, event.ring, event.bundle, index)
        self._positions.found(item, position, stay, event)
        if item.sender.home is stay.process:
            item.at_home = True
            self._positions.found_at_home(item, stay, event)
        if item.level >= _FIFO:
            self._sender_order.released(stay, item, event)
        self._delivery.released(stay, item)

    def _release_fragment(self, item: Item, stay: Stay, event: Release) -> None:
        item.count = event.count
        at_home = item.sender.home is stay.process
        if event.index == event.count - 1:
            position = (stay.view.order, event.time, event.ring, event.bundle, 0)
            self._positions.found(item, position, stay, event)
        if self._delivery.fragment(stay, item, event):
            item.at_home |= at_home
            if at_home and item.position is not None:
                self._positions.found_at_home(item, stay, event)
            if item.level >= _FIFO:
                self._sender_order.released(stay, item, event)

    def _release_unreliable(self, event: Release, stay: Stay, items: Sequence[Item]) -> None:
        if event.number:
            self._report.add("U", f"{event.p} releases UNRELIABLE in a stream", event)
        if not stay.part.regular:
            self._report.add("V4", f"{event.p} releases UNRELIABLE when its view is over", event)
        process = stay.process
        for item in items:
            if item.copies is None:
                item.copies = {}
            view, processes = item.copies.setdefault(event.index, (stay.view, set()))
            if view is not stay.view:
                text = f"{stay} releases {item} in {stay.view.text}, others in {view.text}"
                self._report.add("V4", text, event)
            if process in processes:
                self._report.add("U", f"{stay} releases {item} twice", event)
                continue
            processes.add(process)
            if process in item.sender.disconnected_at:
                continue
            if event.kind == _FRAGMENT:
                item.count = event.count
                self._delivery.fragment(stay, item, event)
            else:
                self._delivery.released(stay, item)

    def _release_session(self, client: ClientRecord, stay: Stay, event: Release) -> None:
        order = stay.view.order
        if event.kind == _CONNECT:
            self._positions.found_session(client, event, order, ends=False)
            self._tables.connected(stay, client, event)
            return
        self._positions.found_session(client, event, order, ends=True)
        self._tables.changed(stay, client, None, event)
        self._tables.disconnected(stay, client, event)
        if client.home is stay.process:
            self._delivery.end(client)


def _is_of_daemon(event: Release) -> bool:
    """Return whether a daemon has made a bundle for its client, so that it has no number."""
    own_line = event.kind == _LINE and not event.first
    return event.kind in _SESSION or bool(event.group) or own_line
