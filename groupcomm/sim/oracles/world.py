"""What the oracles share: clients, daemons, rings and messages, as the trace has shown them so far.

Identities are looked up once per event; from there on records refer to each other. Several
oracles read the same record, each writes the fields that are its own.
"""

from collections import deque
from typing import Final

from groupcomm.sim.trace import Conf

Place = tuple[int, int, int]
"""(time, ring, bundle) of a Release."""

Bundle = tuple[int, int, int, int]
"""A place and the number of the packet, in case that two packets have one stamp."""

Position = tuple[int, int, int, int]
"""A place and the message's index in its bundle."""

KEPT: Final = 50_000
"""So many records of a kind are remembered after they are complete; for later ones see D2."""

KEPT_CLIENTS: Final = 1000
"""Of so many clients that have ended everything is remembered, of earlier ones little."""

NOWHERE: Final[Position] = (-1, -1, -1, -1)


class Item:
    """A message, or a request to join or leave: everything that takes a number of a session.

    Attributes:
        sender: who sent it.
        number: its number there.
        level: as an int; AGREED for requests.
        to: destinations; the group of a request.
        digest: of type and data.
        discard: SELF_DISCARD.
        ordered: the sender waits for its position.
        is_request: a join or leave.
        joins: a join.
        accepted: how often its daemon has taken it; once for each fragment.
        count: in how many fragments it comes, as the first of them that was released says.
        rank: among the accepted items of its sender at FIFO or above.
        targets: per private name the client that it means; None for nobody.
        sent_at: count of events when it was sent.
        floor: highest position that its sender had got by then (O2).
        floor_x1: highest position that anyone had got of an agreed message (X1).
        floor_x2: the same of group views (X2).
        position: where it was released, once known.
        at_home: it is released at its sender's daemon.
        claims: positions told before that.
        released: at how many daemons it is released.
        fragments: per daemon, of a message in fragments: how many were released, for whom.
        waiting: clients that are owed it, have not got it and not ended.
        got: who has got it.
        copies: of an UNRELIABLE one, (daemon, fragment) of its releases.
        causes: of a CAUSAL or higher one, those that were not complete everywhere.
        answered: its position was told.
        bounced: names for which it came back.
    """

    __slots__ = (
        "accepted",
        "answered",
        "at_home",
        "bounced",
        "causes",
        "claims",
        "copies",
        "count",
        "digest",
        "discard",
        "floor",
        "floor_x1",
        "floor_x2",
        "fragments",
        "got",
        "is_request",
        "joins",
        "level",
        "number",
        "ordered",
        "position",
        "rank",
        "released",
        "sender",
        "sent_at",
        "targets",
        "to",
        "waiting",
    )

    def __init__(self, sender: "Client", number: int, level: int, to: tuple[str, ...]) -> None:
        self.sender = sender
        self.number = number
        self.level = level
        self.to = to
        self.digest = 0
        self.discard = False
        self.ordered = False
        self.is_request = False
        self.joins = False
        self.accepted = 0
        self.count = 1
        self.rank = -1
        self.targets: dict[str, Client | None] | None = None
        self.sent_at = 0
        self.floor = self.floor_x1 = self.floor_x2 = NOWHERE
        self.position: Position | None = None
        self.claims: list[Position] | None = None
        self.released = 0
        self.fragments: dict[Daemon, tuple[int, dict[Client, None]]] | None = None
        self.copies: set[tuple[Daemon, int]] | None = None
        self.waiting = 0
        self.got: list[Client] = []
        self.causes: tuple[Item, ...] = ()
        self.answered = False
        self.at_home = False
        self.bounced: list[str] | None = None

    def __str__(self) -> str:
        return f"message {self.number} of {self.sender}"


class Client:
    """One session.

    Attributes:
        identity: ``#user#daemon/connection``.
        name: its private name.
        daemon: its daemon; None if that is not in the view.
        crashed: it died.
        ended: it crashed, or its disconnect was released at its daemon.
        disconnected_at: where its disconnect was released.
        disconnect: the place of its disconnect.
        sent: its items by number, but for those forgotten.
        forgotten: the highest number of an item that is forgotten.
        ranks: how many items at FIFO or above are accepted.
        positioned: numbers and positions of its latest messages that are released at its daemon,
            rising (O2).
        owed: what it is owed and has not got.
        views: views that it is owed and has not seen, by group and position.
        leaving: it said goodbye.
        groups: where its own views say that it is.
        joined: per group the count of events when it first saw itself join (X3).
        gone: senders whose disconnect it was told.
        high: the highest position it was given (O2).
        last_agreed: position of the last AGREED or SAFE message it was given (O1).
        last_view: position of its last group view (O1).
        highest: per sender the highest of its messages at FIFO or above (F).
        joining: per group its joins that no view has answered.
        knows: what a message that it sends now has as causes (CA).
        needs: causes of what it has got that it has not got itself (CA).
        tidy_at: how large `knows` may become before it is looked through.
        agreed: the AGREED and SAFE messages it was given, in order (O6, MG1).
    """

    __slots__ = (
        "agreed",
        "crashed",
        "daemon",
        "disconnect",
        "disconnected_at",
        "ended",
        "forgotten",
        "gone",
        "groups",
        "high",
        "highest",
        "identity",
        "joined",
        "joining",
        "knows",
        "last_agreed",
        "last_view",
        "leaving",
        "name",
        "needs",
        "owed",
        "positioned",
        "ranks",
        "sent",
        "tidy_at",
        "views",
    )

    def __init__(self, identity: str, name: str, daemon: "Daemon | None") -> None:
        self.identity = identity
        self.name = name
        self.daemon = daemon
        self.crashed = False
        self.ended = False
        self.disconnected_at: set[Daemon] = set()
        self.disconnect: Place | None = None
        self.sent: dict[int, Item] = {}
        self.forgotten = -1
        self.ranks = 0
        self.leaving = False
        self.positioned: list[tuple[int, Position]] = []
        self.owed: dict[Item, None] = {}
        self.views: dict[tuple[str, Position], tuple[tuple[str, ...], str, tuple[str, ...]]] = {}
        self.groups: set[str] = set()
        self.joined: dict[str, int] = {}
        self.joining: dict[str, deque[Item]] = {}
        self.gone: set[Client] = set()
        self.high = self.last_agreed = self.last_view = NOWHERE
        self.highest: dict[Client, Item] = {}
        self.knows: dict[Item, None] = {}
        self.needs: set[Item] = set()
        self.tidy_at = 0
        self.agreed: deque[Item] = deque(maxlen=KEPT)

    def __str__(self) -> str:
        return self.identity


class Daemon:
    """One daemon of the view.

    Attributes:
        identity: ``name/restarts``.
        view: the view it has installed, as text.
        index: from 0.
        ring: the index of its ring.
        groups: the clients in each group, by what it has released, oldest first.
        members: those of them that are its own.
        connected: its and other daemons' clients by name, by what it has released.
        next: per client the rank of the item at FIFO or above to be released next (F).
        missing: per client items that were passed over (F).
        agreed: how many agreed bundles it has released (O4).
        last: the highest of them (O1).
        prefix: per ring the number up to which it holds everything.
        early: per ring what it holds beyond, with times.
        blocks: per ring its block.
        block: the least of them.
        held: the highest stamp it has got (H6).
    """

    __slots__ = (
        "agreed",
        "block",
        "blocks",
        "connected",
        "early",
        "groups",
        "held",
        "identity",
        "index",
        "last",
        "members",
        "missing",
        "next",
        "prefix",
        "ring",
        "view",
    )

    def __init__(self, identity: str, index: int, view: str, ring: int, rings: int) -> None:
        self.identity = identity
        self.index = index
        self.ring = ring
        self.view = view
        self.groups: dict[str, dict[Client, None]] = {}
        self.members: dict[str, dict[Client, None]] = {}
        self.connected: dict[str, Client] = {}
        self.next: dict[Client, int] = {}
        self.missing: dict[Client, list[Item]] = {}
        self.agreed = 0
        self.last: Bundle = (-1, -1, -1, -1)
        self.prefix: list[int] = [-1] * rings
        self.early: list[dict[int, int]] = [{} for _ in range(rings)]
        self.blocks: list[int] = [-1] * rings
        self.block = -1
        self.held = -1

    def __str__(self) -> str:
        return self.identity


class World:
    """All records.

    Attributes:
        daemons: by identity.
        clients: by identity.
        rings: how many rings the view has.
        events: how many events were fed.
    """

    def __init__(self) -> None:
        self.daemons: dict[str, Daemon] = {}
        self.clients: dict[str, Client] = {}
        self.rings = 0
        self.events = 0
        self._by_name: dict[str, Daemon] = {}
        self._items: deque[Item] = deque()
        self._ended: deque[Client] = deque()

    def install(self, conf: Conf) -> Daemon:
        """Enter a daemon with its view."""
        self.rings = max(self.rings, len(conf.rings))
        ring = next(index for index, ring in enumerate(conf.rings) if conf.p in ring)
        daemon = Daemon(conf.p, len(self.daemons), conf.view, ring, len(conf.rings))
        self.daemons[conf.p] = daemon
        self._by_name[conf.p.rpartition("/")[0]] = daemon
        return daemon

    def client(self, identity: str) -> Client:
        """The record of a client; made at its first mention."""
        client = self.clients.get(identity)
        if client is None:
            name = identity.rpartition("/")[0]
            daemon = self._by_name.get(name.rpartition("#")[2])
            client = self.clients[identity] = Client(identity, name, daemon)
        return client

    def remember(self, item: Item) -> None:
        """Enter an item; of those that are complete the oldest are forgotten."""
        item.sender.sent[item.number] = item
        items = self._items
        items.append(item)
        if len(items) > KEPT:
            oldest = items.popleft()
            if self._is_complete(oldest):
                self._forget(oldest)
            else:
                items.append(oldest)

    def _forget(self, item: Item) -> None:
        sender = item.sender
        sender.sent.pop(item.number, None)
        sender.forgotten = max(sender.forgotten, item.number)
        item.causes = ()
        if item.waiting:  # UNRELIABLE, and somebody was too slow for it
            for client in self.clients.values():
                client.owed.pop(item, None)

    def end(self, client: Client) -> None:
        """Remember that a client has ended; of those long gone only the name is kept."""
        self._ended.append(client)
        if len(self._ended) > KEPT_CLIENTS:
            oldest = self._ended.popleft()
            for table in (oldest.owed, oldest.views, oldest.knows, oldest.highest):
                table.clear()
            oldest.needs.clear()
            oldest.agreed.clear()

    def is_open(self, item: Item) -> bool:
        """Whether somebody may still get it."""
        return item.waiting > 0 or item.released < len(self.daemons)

    def _is_complete(self, item: Item) -> bool:
        """Whether nothing more is expected of an item."""
        if item.sender.ended and item.accepted < item.count:
            return True  # never accepted, or cut
        return item.level == 0 or not self.is_open(item)
