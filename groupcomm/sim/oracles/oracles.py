"""All oracles behind one method: feed it the events of a trace, in order.

docs/properties.md defines what they look for. Each event is looked up once, then given to those
whom it concerns; the cost per event does not grow with the length of the trace.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from groupcomm.sim.oracles.agreed import AgreedOrder
from groupcomm.sim.oracles.causes import Causes
from groupcomm.sim.oracles.delivery import Delivery
from groupcomm.sim.oracles.groups import GroupViews
from groupcomm.sim.oracles.positions import Positions
from groupcomm.sim.oracles.private import Private
from groupcomm.sim.oracles.report import Report, Violation
from groupcomm.sim.oracles.sender_order import SenderOrder
from groupcomm.sim.oracles.stamps import Stamps
from groupcomm.sim.oracles.world import Client, Daemon, Item, Position, World
from groupcomm.sim.trace import (
    Accept,
    Ask,
    Bounce,
    Conf,
    Count,
    Deliver,
    Hold,
    Horizon,
    Member,
    Order,
    Quiet,
    Rejects,
    Release,
    Send,
    Stamped,
    Table,
    TraceEvent,
    TracePosition,
)

_FIFO, _AGREED, _SAFE = 2, 4, 5
_MESSAGES, _FRAGMENT, _CONNECT, _JOIN, _LEAVE = range(5)


class Oracles:
    """Judge one trace.

    Attributes:
        violations: what was found so far.
    """

    def __init__(self) -> None:
        self._report = report = Report()
        self._world = world = World()
        self._stamps = Stamps(world, report)
        self._sender_order = SenderOrder(report)
        self._causes = Causes(report, world.daemons)
        self._agreed = AgreedOrder(report, world.clients)
        self._positions = Positions(report)
        self._delivery = Delivery(report)
        self._views = GroupViews(world, report)
        self._private = Private(report)
        self.violations = report.violations
        self._handlers: dict[type[TraceEvent], Callable[[Any], None]] = {
            Conf: self._on_conf,
            Accept: self._on_accept,
            Stamped: self._on_stamped,
            Hold: self._on_hold,
            Horizon: self._on_horizon,
            Count: self._on_count,
            Release: self._on_release,
            Table: self._on_table,
            Rejects: self._on_rejects,
            Send: self._on_send,
            Deliver: self._on_deliver,
            Ask: self._on_ask,
            Member: self._on_member,
            Order: self._on_order,
            Bounce: self._on_bounce,
            Quiet: self._on_quiet,
        }

    def feed(self, event: TraceEvent) -> None:
        """Take the next event; every identity must be of a daemon with a Conf, or a client."""
        self._world.events += 1
        self._handlers[type(event)](event)

    def finish(self) -> None:
        """The trace ends here."""
        self._agreed.finish()

    @property
    def ids(self) -> set[str]:
        """The ids of the properties that were violated."""
        return self._report.ids

    # ---- daemons ----

    def _on_conf(self, event: Conf) -> None:
        self._world.install(event)

    def _on_stamped(self, event: Stamped) -> None:
        self._stamps.stamped(event, self._world.daemons[event.p])

    def _on_hold(self, event: Hold) -> None:
        self._stamps.hold(event, self._world.daemons[event.p])

    def _on_horizon(self, event: Horizon) -> None:
        self._stamps.horizon(event, self._world.daemons[event.p])

    def _on_count(self, event: Count) -> None:
        self._stamps.count(event, self._world.daemons[event.p])

    def _on_table(self, event: Table) -> None:
        self._check_view(event.pos, self._world.daemons[event.p], event)
        self._views.table(event)

    def _on_rejects(self, event: Rejects) -> None:
        if event.bad != event.injected:
            self._report.add(
                "D8", f"{event.p} rejected {event.bad} of {event.injected} bad datagrams", event
            )

    def _on_accept(self, event: Accept) -> None:
        client = self._world.client(event.c)
        for number in range(event.first, event.last + 1):
            item = client.sent.get(number)
            if item is None:
                continue
            item.accepted += 1
            if item.accepted == 1:
                if item.level >= _FIFO:
                    self._sender_order.accepted(item)
                self._private.accepted(self._world.daemons[event.p], item)

    # ---- releases ----

    def _on_release(self, event: Release) -> None:
        daemon = self._world.daemons[event.p]
        client = self._world.client(event.c)
        if event.level == 0:
            self._release_unreliable(event, daemon, client)
            return
        new = self._positions.place(event, 1 << daemon.index)
        if event.level >= _AGREED:
            self._stamps.agreed(event, event.time, daemon)
            if event.level == _SAFE:
                self._stamps.safe(event, daemon)
            if new:
                place = (event.time, event.ring, event.bundle)
                self._agreed.released(daemon, place, event)
        if not new:
            return
        kind = event.kind
        if kind == _MESSAGES:
            for number in range(event.first, event.last + 1):
                item = client.sent.get(number)
                if item is not None:
                    self._release_message(item, number - event.first, daemon, event)
        elif kind == _FRAGMENT:
            self._release_fragment(client.sent.get(event.first), daemon, event)
        else:
            self._release_control(kind, client, daemon, event)

    def _release_message(self, item: Item, index: int, daemon: Daemon, event: Release) -> None:
        if item.position is None:
            position = (event.time, event.ring, event.bundle, index)
            self._positions.found(item, position, event)
        if item.sender.daemon is daemon:
            self._positions.found_at_home(item, event)
        if item.level >= _FIFO:
            self._sender_order.released(daemon, item, event)
        self._delivery.released(daemon, item)

    def _release_fragment(self, item: Item | None, daemon: Daemon, event: Release) -> None:
        if item is None:
            return
        item.count = event.count
        if event.index == event.count - 1:
            if item.position is None:
                position = (event.time, event.ring, event.bundle, 0)
                self._positions.found(item, position, event)
            if item.sender.daemon is daemon:
                self._positions.found_at_home(item, event)
        if self._delivery.fragment(daemon, item, event) and item.level >= _FIFO:
            self._sender_order.released(daemon, item, event)

    def _release_unreliable(self, event: Release, daemon: Daemon, client: Client) -> None:
        if event.number:
            self._report.add("U", f"{event.p} releases UNRELIABLE in a stream", event)
        for number in range(event.first, event.last + 1):
            item = client.sent.get(number)
            if item is None:
                continue
            if item.copies is None:
                item.copies = set()
            if (daemon, event.index) in item.copies:
                self._report.add("U", f"{daemon} releases {item} twice", event)
                continue
            item.copies.add((daemon, event.index))
            if daemon in client.disconnected_at:
                continue
            if event.kind == _FRAGMENT:
                self._delivery.fragment(daemon, item, event)
            else:
                self._delivery.released(daemon, item)

    def _release_control(self, kind: int, client: Client, daemon: Daemon, event: Release) -> None:
        if kind == _CONNECT:
            self._private.connected(daemon, client, event)
            return
        if kind in (_JOIN, _LEAVE):
            item = client.sent.get(event.first)
            if item is None:
                return
            item.released += 1
            self._sender_order.released(daemon, item, event)
            if client.daemon is daemon:
                members = daemon.members.setdefault(item.to[0], {})
                if kind == _JOIN:
                    members[client] = None
                else:
                    members.pop(client, None)
            return
        if client.disconnect is None:
            client.disconnect = (event.time, event.ring, event.bundle)
        self._private.disconnected(daemon, client)
        if client.daemon is daemon:
            for members in daemon.members.values():
                members.pop(client, None)
            self._delivery.end(client)

    # ---- clients ----

    def _on_send(self, event: Send) -> None:
        client = self._alive(event.c, event)
        known = client.sent.get(event.m)
        if known is not None and known.level >= 0:
            self._report.add("D4", f"{client} sends message {event.m} twice", event)
            return
        item = Item(client, event.m, event.level, event.to)
        item.digest = event.digest
        item.discard = event.discard
        item.ordered = event.ordered
        item.sent_at = self._world.events
        client.sent[event.m] = item
        self._positions.sent(client, item)
        self._causes.sent(client, item)

    def _on_deliver(self, event: Deliver) -> None:
        client = self._world.client(event.c)
        sender = self._world.client(event.s)
        item = sender.sent.get(event.m)
        if item is None:  # a message that nobody sent
            item = sender.sent[event.m] = Item(sender, event.m, -1, event.to)
        elif item not in client.owed and client in item.got:
            self._report.add("D2", f"{client} gets {item} twice", event)
            return
        self._check_content(client, item, event)
        groups = client.groups
        if event.to[0] not in groups:
            self._delivery.in_no_group(client, event)
        if client.gone:
            self._views.delivered(client, item, event)
        owed = self._delivery.delivered(client, item, event)
        if item.level < 0:
            return
        if event.pos is not None:
            self._on_position(client, item, event.pos, event)
        if owed:
            self._causes.delivered(client, item, event)
        self._sender_order.delivered(client, item, event)

    def _check_content(self, client: Client, item: Item, event: Deliver) -> None:
        if client.crashed:
            self._report.add("D5", f"{client} gets {item} after its crash", event)
        if item.sender.daemon is None:
            self._report.add("D7", f"{item} is of a daemon outside the view", event)
        if (event.level, event.to, event.digest) != (item.level, item.to, item.digest):
            self._report.add("D1", f"{client} gets {item}, which was not sent so", event)
        if (event.level == 0) != (event.pos is None):
            self._report.add("U", f"{item} has level {event.level}, position {event.pos}", event)

    def _on_position(self, client: Client, item: Item, pos: TracePosition, event: Deliver) -> None:
        self._check_view(pos, client.daemon, event)
        position = pos[1:]
        self._positions.told(item, position, event)
        if position > client.high:
            client.high = position
        if event.level >= _AGREED:
            self._agreed.delivered(client, item, position, event)
            if position > self._positions.high_x1:
                self._positions.high_x1 = position

    def _on_ask(self, event: Ask) -> None:
        client = self._alive(event.c, event)
        self._private.asked(client, event)
        if event.what in ("join", "leave"):
            item = Item(client, event.m, _AGREED, (event.group,))
            item.is_request = True
            item.joins = event.what == "join"
            client.sent[event.m] = item
            if item.joins:
                client.joining.setdefault(event.group, deque()).append(item)
        elif event.what == "crash":
            client.crashed = True
            self._delivery.end(client)

    def _on_member(self, event: Member) -> None:
        client = self._alive(event.c, event)
        self._check_view(event.pos, client.daemon, event)
        position = event.pos[1:]
        self._agreed.viewed(client, position, event)
        self._views.viewed(client, position, event)
        client.high = max(client.high, position)
        self._positions.high_x2 = max(self._positions.high_x2, position)

    def _on_order(self, event: Order) -> None:
        client = self._alive(event.c, event)
        self._check_view(event.pos, client.daemon, event)
        position = event.pos[1:]
        if client.daemon is not None:
            self._stamps.agreed(event, position[0], client.daemon)
        item = client.sent.get(event.m)
        if item is not None:
            item.answered = True
            self._positions.told(item, position, event)
        self._positions.high_x1 = max(self._positions.high_x1, position)

    def _on_bounce(self, event: Bounce) -> None:
        client = self._alive(event.c, event)
        self._check_view(event.pos, client.daemon, event)
        item = client.sent.get(event.m)
        if item is None:
            self._report.add("P2", f"{client} gets a message back that it never sent", event)
            return
        self._positions.told(item, event.pos[1:], event)
        self._private.bounced(client, item, event)

    def _alive(self, identity: str, event: TraceEvent) -> Client:
        """The client of an event, which must not have crashed (D5)."""
        client = self._world.client(identity)
        if client.crashed:
            self._report.add("D5", f"{client} acts after its crash", event)
        return client

    def _check_view(self, pos: TracePosition, daemon: Daemon | None, event: TraceEvent) -> None:
        if daemon is None or pos[0] != daemon.view:
            self._report.add("D3", f"a position of view {pos[0]}, which is not current", event)

    def _on_quiet(self, event: Quiet) -> None:
        self._delivery.quiet(self._world.clients, len(self._world.daemons), event)
        self._private.quiet(event)


__all__ = ["Oracles", "Position", "Violation"]
