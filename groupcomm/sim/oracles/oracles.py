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
from groupcomm.sim.oracles.releases import Releases
from groupcomm.sim.oracles.report import Report
from groupcomm.sim.oracles.sender_order import SenderOrder
from groupcomm.sim.oracles.stamps import Stamps
from groupcomm.sim.oracles.world import Client, Daemon, Item, World
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
        self._causes = Causes(report, world)
        self._agreed = AgreedOrder(report, world)
        self._positions = Positions(report)
        self._delivery = Delivery(report, world)
        self._views = GroupViews(world, report)
        self._private = Private(report)
        self._releases = Releases(
            report,
            world,
            stamps=self._stamps,
            positions=self._positions,
            agreed=self._agreed,
            sender_order=self._sender_order,
            delivery=self._delivery,
            views=self._views,
            private=self._private,
        )
        self._time = 0
        self._quiet: Quiet | None = None
        self.violations = report.violations
        self._handlers: dict[type[TraceEvent], Callable[[Any], None]] = {
            Conf: self._on_conf,
            Accept: self._on_accept,
            Stamped: self._on_stamped,
            Hold: self._on_hold,
            Horizon: self._on_horizon,
            Count: self._on_count,
            Release: self._releases.released,
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
        """Take the next event of a trace that makes sense, see check.py."""
        time = event.t
        if time < self._time or self._quiet is not None:
            self._report.add("D5", f"something happens at {time}, after {self._time}", event)
        self._time = time
        self._world.events += 1
        self._handlers[type(event)](event)

    def finish(self) -> None:
        """The trace ends here; if it ends with Quiet nothing may be missing."""
        self._agreed.finish()
        if self._quiet is not None:
            self._delivery.quiet(self._quiet)
            self._private.quiet(self._quiet)
            self._views.quiet(self._quiet)

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
        daemon = self._world.daemons[event.p]
        self._check_view(event.pos, daemon, event)
        self._views.table(event, daemon)

    def _on_rejects(self, event: Rejects) -> None:
        if event.bad != event.injected:
            self._report.add(
                "D8", f"{event.p} rejected {event.bad} of {event.injected} bad datagrams", event
            )

    def _on_accept(self, event: Accept) -> None:
        client = self._world.client(event.c)
        if client.daemon is None or event.p != client.daemon.identity:
            self._report.add("D1", f"{event.p} takes from {client}, which is not its own", event)
        for number in range(event.first, event.last + 1):
            item = client.sent.get(number)
            if item is None:
                if number > client.forgotten:
                    text = f"{event.p} takes {number} of {client}, which was not sent"
                    self._report.add("D1", text, event)
                continue
            item.accepted += 1
            if item.accepted == 1:
                if item.level >= _FIFO:
                    self._sender_order.accepted(item)
                self._private.accepted(item)

    # ---- clients ----

    def _on_send(self, event: Send) -> None:
        client = self._world.client(event.c)
        if self._is_new(client, event):
            item = Item(client, event.m, event.level, event.to)
            item.digest = event.digest
            item.discard = event.discard
            item.ordered = event.ordered
            item.sent_at = self._world.events
            self._world.remember(item)
            self._positions.sent(client, item)
            self._causes.sent(client, item)

    def _is_new(self, client: Client, event: Send | Ask) -> bool:
        """D4: whether a number is used for the first time; D5: nothing follows a goodbye."""
        if event.m in client.sent or event.m <= client.forgotten:
            self._report.add("D4", f"{client} uses number {event.m} twice", event)
            return False
        self._alive(event.c, event)
        if client.leaving:
            self._report.add("D5", f"{client} goes on after its goodbye", event)
        return True

    def _on_deliver(self, event: Deliver) -> None:
        client = self._world.client(event.c)
        sender = self._world.client(event.s)
        item = sender.sent.get(event.m)
        if sender.daemon is None:
            self._report.add("D7", f"{sender} is of a daemon outside the view", event)
        if item is None or item.is_request:
            self._on_phantom(client, sender, event)
            return
        if item not in client.owed and client in item.got:
            self._report.add("D2", f"{client} gets {item} twice", event)
            return
        self._check_content(client, item, event)
        groups = client.groups
        if event.to[0] not in groups:
            self._delivery.in_no_group(client, event)
        if client.gone:
            self._views.delivered(client, item, event)
        owed = self._delivery.delivered(client, item, event)
        if event.pos is not None:
            self._on_position(client, item, event.pos, event)
        if owed:
            self._causes.delivered(client, item, event)
        self._sender_order.delivered(client, item, event)

    def _on_phantom(self, client: Client, sender: Client, event: Deliver) -> None:
        """A message that is not there: never sent, or complete so long ago that it is forgotten."""
        which, what = ("D1", "which was not sent")
        if event.m <= sender.forgotten:
            which, what = ("D2", "long after everybody has got it")
        self._report.add(which, f"{client} gets {event.m} of {sender}, {what}", event)

    def _check_content(self, client: Client, item: Item, event: Deliver) -> None:
        if client.crashed:
            self._report.add("D5", f"{client} gets {item} after its crash", event)
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
        client = self._world.client(event.c)
        if event.what in ("join", "leave"):
            if self._is_new(client, event):
                self._request(client, event)
            return
        self._alive(event.c, event)
        if event.what == "crash":
            client.crashed = True
            self._delivery.end(client)
            return
        if client.leaving:
            self._report.add("D5", f"{client} goes on after its goodbye", event)
        if event.what == "disconnect":
            client.leaving = True
        else:
            self._private.connects(client, event)

    def _request(self, client: Client, event: Ask) -> None:
        item = Item(client, event.m, _AGREED, (event.group,))
        item.is_request = True
        item.joins = event.what == "join"
        self._world.remember(item)
        if item.joins:
            client.joining.setdefault(event.group, deque()).append(item)

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
            self._answer(item, event)
            self._positions.told(item, position, event)
            if item.level == _SAFE and client.daemon is not None:
                self._stamps.safe(event, position[0], client.daemon)
        elif event.m > client.forgotten:
            self._report.add(
                "D1", f"{client} learns where {event.m} is, which it did not send", event
            )
        self._positions.high_x1 = max(self._positions.high_x1, position)

    def _answer(self, item: Item, event: Order) -> None:
        if not item.ordered:
            self._report.add("D1", f"{item} has its position told without asking", event)
        elif item.answered:
            self._report.add("D2", f"{item} has its position told twice", event)
        else:
            item.answered = True

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
        self._quiet = event
