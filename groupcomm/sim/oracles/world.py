"""What the oracles share: clients, daemons, rings and messages, as the trace has shown them so far.

Identities are looked up once per event; from there on records refer to each other. Several
oracles read the same record, each writes the fields that are its own.
"""

from collections import deque
from typing import Final

from groupcomm.sim.trace import Conf

Place = tuple[int, int, int]
"""(time, ring, bundle) of a Release."""

Position = tuple[int, int, int, int]
"""A place and the message's index in its bundle."""

NOWHERE: Final[Position] = (-1, -1, -1, -1)


class Item:
    """A message, or a request to join or leave: everything that takes a number of a session.

    Attributes:
        sender: who sent it.
        number: its number there.
        level: as an int; AGREED for requests, -1 for a message that was never sent.
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
        claims: positions told before that.
        released: at how many daemons it is released.
        fragments: per daemon, of a message in fragments: how many were released, for whom.
        waiting: clients that are owed it, have not got it and not ended.
        got: who has got it.
        copies: of an UNRELIABLE one, (daemon, fragment) of its releases.
        causes: of a CAUSAL or higher one, those that were not delivered everywhere.
        answered: its position was told.
        bounced: names for which it came back.
    """

    __slots__ = (
        "accepted",
        "answered",
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
        sent: its items by number.
        sequence: accepted items at FIFO or above, in order.
        positioned: numbers of its messages whose positions are known, rising (O2).
        owed: what it is owed and has not got.
        groups: where its own views say that it is, with the count of events at that view.
        seen: groups of which it ever had a view.
        gone: senders whose disconnect it was told.
        high: the highest position it was given (O2).
        last_agreed: position of the last AGREED or SAFE message it was given (O1).
        last_view: position of its last group view (O1).
        highest: per sender the highest of its messages at FIFO or above (F).
        joining: per group its joins that no view has answered.
        knows: what a message that it sends now has as causes (CA).
        needs: causes of what it has got that it has not got itself (CA).
        agreed: the AGREED and SAFE messages it was given, in order (O6, MG1).
    """

    __slots__ = (
        "agreed",
        "crashed",
        "daemon",
        "disconnect",
        "disconnected_at",
        "ended",
        "gone",
        "groups",
        "high",
        "highest",
        "identity",
        "joining",
        "knows",
        "last_agreed",
        "last_view",
        "name",
        "needs",
        "owed",
        "positioned",
        "seen",
        "sent",
        "sequence",
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
        self.sequence: list[Item] = []
        self.positioned: list[int] = []
        self.owed: dict[Item, None] = {}
        self.groups: dict[str, int] = {}
        self.joining: dict[str, deque[Item]] = {}
        self.seen: set[str] = set()
        self.gone: set[Client] = set()
        self.high = self.last_agreed = self.last_view = NOWHERE
        self.highest: dict[Client, Item] = {}
        self.knows: dict[Item, None] = {}
        self.needs: set[Item] = set()
        self.agreed: list[Item] = []

    def __str__(self) -> str:
        return self.identity


class Daemon:
    """One daemon of the view.

    Attributes:
        identity: ``name/restarts``.
        view: the view it has installed, as text.
        index: from 0.
        members: per group its clients there, by what it has released.
        connected: its and other daemons' clients by name, by what it has released.
        next: per client the rank of the item at FIFO or above to be released next (F).
        missing: per client items that were passed over (F).
        agreed: how many agreed bundles it has released (O4).
        last: the place of the last of them (O1).
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
        "held",
        "identity",
        "index",
        "last",
        "members",
        "missing",
        "next",
        "prefix",
        "view",
    )

    def __init__(self, identity: str, index: int, view: str, rings: int) -> None:
        self.identity = identity
        self.index = index
        self.view = view
        self.members: dict[str, dict[Client, None]] = {}
        self.connected: dict[str, Client] = {}
        self.next: dict[Client, int] = {}
        self.missing: dict[Client, list[Item]] = {}
        self.agreed = 0
        self.last: Place = (-1, -1, -1)
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

    def install(self, conf: Conf) -> Daemon:
        """Enter a daemon with its view."""
        self.rings = max(self.rings, len(conf.rings))
        daemon = Daemon(conf.p, len(self.daemons), conf.view, len(conf.rings))
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
