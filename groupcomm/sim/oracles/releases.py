"""What a Release means for each oracle: bundles of messages, fragments, requests, sessions."""

from collections.abc import Sequence

from groupcomm.sim.oracles.agreed import AgreedOrder
from groupcomm.sim.oracles.delivery import Delivery
from groupcomm.sim.oracles.groups import GroupViews
from groupcomm.sim.oracles.positions import Positions
from groupcomm.sim.oracles.private import Private
from groupcomm.sim.oracles.report import Report
from groupcomm.sim.oracles.sender_order import SenderOrder
from groupcomm.sim.oracles.stamps import Stamps
from groupcomm.sim.oracles.world import Client, Daemon, Item, World
from groupcomm.sim.trace import Release

_FIFO, _AGREED, _SAFE = 2, 4, 5
_MESSAGES, _FRAGMENT, _CONNECT = range(3)
_SESSION = (_CONNECT, 5)  # 5: disconnect


class Releases:
    """Gives each Release to the oracles that it concerns; D1 and U for the bundle itself."""

    def __init__(
        self,
        report: Report,
        world: World,
        *,
        stamps: Stamps,
        positions: Positions,
        agreed: AgreedOrder,
        sender_order: SenderOrder,
        delivery: Delivery,
        views: GroupViews,
        private: Private,
    ) -> None:
        self._report = report
        self._world = world
        self._stamps = stamps
        self._positions = positions
        self._agreed = agreed
        self._sender_order = sender_order
        self._delivery = delivery
        self._views = views
        self._private = private

    def released(self, event: Release) -> None:
        """A daemon gives out one bundle."""
        daemon = self._world.daemons[event.p]
        client = self._world.client(event.c)
        items = self._items(client, event) if event.kind not in _SESSION else ()
        if event.level == 0:
            self._release_unreliable(event, daemon, items)
            return
        new = self._positions.place(event, 1 << daemon.index)
        self._stamps.released(event, daemon)
        if event.level >= _AGREED:
            self._stamps.agreed(event, event.time, daemon)
            if event.level == _SAFE:
                self._stamps.safe(event, event.time, daemon)
            if new:
                bundle = (event.time, event.ring, event.bundle, event.number)
                self._agreed.released(daemon, bundle, event)
        if new:
            self._release_new(event, daemon, client, items)

    def _items(self, client: Client, event: Release) -> list[Item]:
        """What a bundle holds, of all that was sent; D1 if some was not, or not accepted."""
        items = []
        for number in range(event.first, event.last + 1):
            item = client.sent.get(number)
            if item is not None:
                items.append(item)
                if item.accepted and item.level != event.level:
                    text = f"{event.p} releases {item}, of level {item.level}, at {event.level}"
                    self._report.add("D1", text, event)
            if (item is None or not item.accepted) and number > client.forgotten:
                text = f"{event.p} releases {number} of {client}, which it had not taken"
                self._report.add("D1", text, event)
        return items

    def _release_new(
        self, event: Release, daemon: Daemon, client: Client, items: Sequence[Item]
    ) -> None:
        kind = event.kind
        if kind == _MESSAGES:
            for item in items:
                self._release_message(item, item.number - event.first, daemon, event)
        elif kind == _FRAGMENT:
            for item in items:
                self._release_fragment(item, daemon, event)
        elif kind in _SESSION:
            self._release_session(kind, client, daemon, event)
        else:
            for item in items:
                item.released += 1
                self._sender_order.released(daemon, item, event)
                self._views.changed(daemon, client, item, event)

    def _release_message(self, item: Item, index: int, daemon: Daemon, event: Release) -> None:
        if item.position is None:
            position = (event.time, event.ring, event.bundle, index)
            self._positions.found(item, position, event)
        if item.sender.daemon is daemon:
            self._positions.found_at_home(item, event)
        if item.level >= _FIFO:
            self._sender_order.released(daemon, item, event)
        self._delivery.released(daemon, item)

    def _release_fragment(self, item: Item, daemon: Daemon, event: Release) -> None:
        item.count = event.count
        if event.index == event.count - 1:
            if item.position is None:
                position = (event.time, event.ring, event.bundle, 0)
                self._positions.found(item, position, event)
            if item.sender.daemon is daemon:
                self._positions.found_at_home(item, event)
        if self._delivery.fragment(daemon, item, event) and item.level >= _FIFO:
            self._sender_order.released(daemon, item, event)

    def _release_unreliable(self, event: Release, daemon: Daemon, items: Sequence[Item]) -> None:
        if event.number:
            self._report.add("U", f"{event.p} releases UNRELIABLE in a stream", event)
        for item in items:
            if item.copies is None:
                item.copies = set()
            if (daemon, event.index) in item.copies:
                self._report.add("U", f"{daemon} releases {item} twice", event)
                continue
            item.copies.add((daemon, event.index))
            if daemon in item.sender.disconnected_at:
                continue
            if event.kind == _FRAGMENT:
                self._delivery.fragment(daemon, item, event)
            else:
                self._delivery.released(daemon, item)

    def _release_session(self, kind: int, client: Client, daemon: Daemon, event: Release) -> None:
        if kind == _CONNECT:
            self._private.connected(daemon, client, event)
            return
        if client.disconnect is None:
            client.disconnect = (event.time, event.ring, event.bundle)
        self._views.changed(daemon, client, None, event)
        self._private.disconnected(daemon, client)
        if client.daemon is daemon:
            self._delivery.end(client)
