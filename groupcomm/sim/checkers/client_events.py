"""The events of clients: each is passed to the checkers that it concerns."""

from collections import deque
from collections.abc import Callable
from typing import Any

import attrs

from groupcomm.sim.checkers.agreed import AgreedOrder, Positions, may_be_inner
from groupcomm.sim.checkers.delivery import Delivery, Holes
from groupcomm.sim.checkers.fifo_causal import Causes, SenderOrder
from groupcomm.sim.checkers.groups import ClientViews, GroupViews, Private
from groupcomm.sim.checkers.membership import Stages
from groupcomm.sim.checkers.places import (
    Position,
)
from groupcomm.sim.checkers.records import (
    ClientRecord,
    Item,
    ViewPart,
)
from groupcomm.sim.checkers.report import Report
from groupcomm.sim.checkers.stamps import Stamps
from groupcomm.sim.checkers.state import ObservedState
from groupcomm.trace.events import (
    Ask,
    Bounce,
    Deliver,
    Dview,
    Member,
    Order,
    Send,
    TraceEvent,
    TracePosition,
    Trans,
)

_CAUSAL, _AGREED, _SAFE = 3, 4, 5


@attrs.define(eq=False, repr=False)
class ClientEvents:
    """A reader of the events of clients; it checks D1 to D5, D7 and U by itself.

    Attributes:
        handlers: the method that handles each kind of event.
    """

    _report: Report
    _state: ObservedState
    _stages: Stages
    _stamps: Stamps
    _positions: Positions
    _agreed: AgreedOrder
    _sender_order: SenderOrder
    _causes: Causes
    _holes: Holes
    _delivery: Delivery
    _views: GroupViews
    _client_views: ClientViews
    _private: Private
    handlers: dict[type[TraceEvent], Callable[[Any], None]] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.handlers = {
            Send: self._on_send,
            Deliver: self._on_deliver,
            Ask: self._on_ask,
            Member: self._on_member,
            Order: self._on_order,
            Bounce: self._on_bounce,
            Trans: self._on_stage,
            Dview: self._on_stage,
        }

    def _client(self, event: Any) -> ClientRecord | None:
        """Return the client of an event; None if its daemon has ended (D5)."""
        client = self._state.client(event.c)
        if client.home is not None and client.home.ended:
            self._report.add("D5", f"{client} goes on after the end of its daemon", event)
            return None
        return client

    # ---- acts of clients ----

    def _on_send(self, event: Send) -> None:
        client = self._client(event)
        if client is not None and self._is_new(client, event):
            item = Item(client, event.m, event.level, event.to)
            item.digest = event.digest
            item.discard = event.discard
            item.ordered = event.ordered
            item.sent_at = self._state.events
            self._state.remember(item)
            self._positions.sent(client, item)
            self._causes.sent(client, item)
            self._client_views.sent(client, item)

    def _is_new(self, client: ClientRecord, event: Send | Ask) -> bool:
        """Check D4: a number is used for the first time; D5: nothing follows a goodbye."""
        if event.m in client.sent or event.m <= client.forgotten:
            self._report.add("D4", f"{client} uses number {event.m} twice", event)
            return False
        self._check_alive(client, event)
        if client.leaving:
            self._report.add("D5", f"{client} goes on after its goodbye", event)
        return True

    def _on_ask(self, event: Ask) -> None:
        client = self._client(event)
        if client is None:
            return
        if event.what in ("join", "read", "leave", "line"):
            if self._is_new(client, event):
                self._request(client, event)
            return
        self._check_alive(client, event)
        if event.what == "crash":
            client.crashed = True
            self._delivery.end(client)
            return
        if client.leaving:
            self._report.add("D5", f"{client} goes on after its goodbye", event)
        if event.what == "refused":
            self._check_refused(client, event)
        if event.what in ("disconnect", "refused"):
            client.leaving = True
        else:
            client.asked_at = client.asked_at or self._state.events
            self._private.connects(client, event)

    def _check_refused(self, client: ClientRecord, event: Ask) -> None:
        """Check L5: only a client whose name another session has, or had, is refused for that."""
        others = (c for c in self._state.clients.values() if c.name == client.name)
        if not any(0 < other.asked_at < client.asked_at for other in others):
            self._report.add("L5", f"{client} is refused, and no session has its name", event)

    def _request(self, client: ClientRecord, event: Ask) -> None:
        item = Item(client, event.m, _AGREED, (event.group,) if event.group else ())
        item.is_request = True
        client.has_line |= event.what == "line"
        item.joins = event.what in ("join", "read")
        item.reads = event.what == "read"
        item.needs_quorum = event.needs_quorum
        self._state.remember(item)
        if item.joins:
            client.joining.setdefault(event.group, deque()).append(item)

    # ---- events for clients ----

    def _on_deliver(self, event: Deliver) -> None:
        client = self._client(event)
        if client is None:
            return
        sender = self._state.client(event.s)
        item = sender.sent.get(event.m)
        stage = client.stage
        if stage is None or sender.daemon_name not in stage.stay.view.by_name:
            self._report.add("D7", f"{sender} is of a daemon outside the view", event)
        if item is None or item.is_request:
            self._on_phantom(client, sender, event)
            return
        if item not in client.owed and client in item.got:
            self._report.add("D2", f"{client} gets {item} twice", event)
            return
        self._check_content(client, item, event)
        self._check_quorum(client, item, event)
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
            self._holes.delivered(client, item, event)
            if item.level >= _CAUSAL:
                self._client_views.delivered(client, item)
        self._sender_order.delivered(client, item, event)

    def _on_phantom(self, client: ClientRecord, sender: ClientRecord, event: Deliver) -> None:
        """Report a message that was never sent, or that was complete long ago and is forgotten."""
        which, what = ("D1", "which was not sent")
        if event.m <= sender.forgotten:
            which, what = ("D2", "long after all members have got it")
        self._report.add(which, f"{client} gets {event.m} of {sender}, {what}", event)

    def _check_content(self, client: ClientRecord, item: Item, event: Deliver) -> None:
        if client.crashed:
            self._report.add("D5", f"{client} gets {item} after its crash", event)
        if (event.level, event.to, event.digest) != (item.level, item.to, item.digest):
            self._report.add("D1", f"{client} gets {item}, which was not sent so", event)
        if (event.level == 0) != (event.pos is None):
            self._report.add("U", f"{item} has level {event.level}, position {event.pos}", event)

    def _check_quorum(self, client: ClientRecord, item: Item, event: Deliver) -> None:
        """Check V5: without a quorum no agreed message to a group of a member that needs one."""
        stage = client.stage
        if item.level < _AGREED or stage is None or stage.stay.view.majority[:1] != [False]:
            return
        for group in client.need_quorum.intersection(item.to):
            text = f"{client} gets {item} to {group!r} without a quorum"
            self._report.add("V5", text, event)

    def _on_position(
        self, client: ClientRecord, item: Item, pos: TracePosition, event: Deliver
    ) -> None:
        position = self._position(client, pos, event)
        self._positions.notified(item, position, event)
        if position > client.high:
            client.high = position
        if event.level >= _AGREED:
            self._agreed.delivered(client, item, position, event)
            if not self._agreed.got(client, item, event):
                self._note(client, position)
            self._positions.caused(client, item, position, self._state.events, event)

    def _position(self, client: ClientRecord, pos: TracePosition, event: TraceEvent) -> Position:
        """Check D3: the position is in the view that the client was notified of last."""
        stage = client.stage
        if stage is not None and stage.stay.view.text == pos[0]:
            return (stage.stay.view.order, *pos[1:])
        self._report.add(
            "D3", f"{client} gets a position in {pos[0]}, which is not its view", event
        )
        return (self._state.order_of(pos[0]), *pos[1:])

    def _note(self, client: ClientRecord, position: Position) -> None:
        """Note the position: later messages of the client have a higher one (X1)."""
        stage = client.stage
        if stage is not None and stage.regular:
            view = stage.stay.view
            if view.order == position[0] and position[1:] > view.high_x1:
                view.high_x1 = position[1:]

    def _on_member(self, event: Member) -> None:
        client = self._client(event)
        if client is None:
            return
        self._check_alive(client, event)
        position = self._position(client, event.pos, event)
        self._agreed.viewed(client, position, event)
        self._views.viewed(client, position, event)
        self._holes.viewed(client, position, event)
        self._client_views.viewed(client, position, event)
        client.high = max(client.high, position)
        stage = client.stage
        if stage is not None and stage.regular:
            view = stage.stay.view
            if view.order == position[0] and position[1:] > view.high_x2:
                view.high_x2 = position[1:]

    def _on_order(self, event: Order) -> None:
        client = self._client(event)
        if client is None:
            return
        self._check_alive(client, event)
        position = self._position(client, event.pos, event)
        stage = client.stage
        item = client.sent.get(event.m)
        inner = self._is_inner(item, position, stage)
        early = inner and stage is not None and position[1] > stage.stay.block
        if stage is not None and not event.trans and not early:
            self._stamps.agreed(event, position[1], stage.stay)
        if item is not None:
            self._answer(item, event)
            self._positions.notified(item, position, event)
            if item.level == _SAFE and stage is not None and not (event.trans or inner):
                self._stamps.safe(event, position[1], stage.stay)
        elif event.m > client.forgotten:
            self._report.add(
                "D1", f"{client} learns the position of {event.m}, which it did not send", event
            )
        self._check_part(client, item, event)
        if item is not None and early:
            item.known_at = item.known_at or self._state.events
        elif not event.trans:
            self._note(client, position)

    def _is_inner(self, item: Item | None, position: Position, stage: ViewPart | None) -> bool:
        """Return whether a position is that of an inner message of its home."""
        if item is None or stage is None or not stage.regular:
            return False
        return item.at_home and may_be_inner(item, position, stage.stay)

    def _check_part(self, client: ClientRecord, item: Item | None, event: Order) -> None:
        """Check V2: a position is marked as transitional if and only if it is."""
        if event.trans != (client.stage is not None and not client.stage.regular):
            self._report.add(
                "V2", f"{client} learns the position of {event.m} in the wrong part", event
            )
        elif event.trans and item is not None and item.home_part is not None:
            regular = item.home_part.regular
            if regular:
                self._report.add("V2", f"{item} is transitional for its sender only", event)

    def _answer(self, item: Item, event: Order) -> None:
        if not item.ordered:
            self._report.add("D1", f"the position of {item} was reported without a request", event)
        elif item.answered:
            self._report.add("D2", f"the position of {item} was reported twice", event)
        else:
            item.answered = True

    def _on_bounce(self, event: Bounce) -> None:
        client = self._client(event)
        if client is None:
            return
        self._check_alive(client, event)
        position = self._position(client, event.pos, event)
        item = client.sent.get(event.m)
        if item is None:
            self._report.add("P2", f"{client} gets a message back that it never sent", event)
            return
        self._positions.notified(item, position, event)
        self._private.bounced(client, item, event)

    def _on_stage(self, event: Dview | Trans) -> None:
        client = self._client(event)
        if client is not None:
            self._stages.notified(client, event)

    def _check_alive(self, client: ClientRecord, event: TraceEvent) -> None:
        """Check D5: the client has not crashed."""
        if client.crashed:
            self._report.add("D5", f"{client} acts after its crash", event)
