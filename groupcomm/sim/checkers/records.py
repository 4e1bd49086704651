"""The records of a trace so far: messages, clients, daemons, views and tables."""

from collections import deque
from typing import Final

from groupcomm.sim.checkers.places import (
    BEFORE,
    LOWEST,
    NOTHING,
    NOWHERE,
    Bundle,
    Local,
    Order,
    PacketBundle,
    Place,
    PlaceRecord,
    Position,
    SafeRecord,
    StreamRecord,
    new_mark,
)
from groupcomm.trace.events import view_order

Shown = tuple[tuple[str, ...], str, tuple[str, ...]]
"""Members, cause and changed of a group view."""

_READING: Final = "\0"


class Item:
    """A message, or a request to join or leave: everything that takes a number of a session.

    Attributes:
        sender: the identity of the client that sent it.
        number: its number in the sender's session.
        level: its level as an int; AGREED for requests.
        to: its destinations; the group of a request.
        digest: the digest of type and data.
        discard: whether SELF_DISCARD is set.
        ordered: whether the sender waits for its position.
        is_request: whether it is a join or leave.
        joins: whether it is a join, with views or without.
        reads: whether it is a join without views.
        accepted: the number of times that its daemon has accepted it: once for each fragment.
        count: the number of its fragments, as the first released one of them says.
        rank: its place among the accepted items of its sender at FIFO or above.
        targets: the client behind each private name; None for a name without a client.
        sent_at: the count of events when it was sent.
        floor: the highest position that its sender had got by then (O2).
        floor_view: the view that its daemon was in then.
        floor_x1: the highest position in that view of an agreed message that any client had got
            (X1).
        floor_x2: the same of group views (X2).
        seen: for a CAUSAL message, the view of each destination that its sender had seen (V2).
        mark: the number that stands for it in a hash over a set of messages (V2).
        begins: the place of the first fragment that its sender's daemon has released; None if it is
            whole.
        position: the position of its release; None before that.
        at_home: whether all of it is released at its sender's daemon.
        home_part: the part of a view in which it was released at its sender's daemon; None before.
        home_table: the table of its sender's daemon at that release.
        claims: positions that clients were told before the release.
        view: the view in which it was released.
        released: the number of daemons at which it is released in that view.
        fragments: for a message in fragments, by daemon: the view, the number of fragments released
            there, and the clients that they are for.
        waiting: clients that are owed it and have neither got it nor ended.
        got: the clients that have got it.
        early: the clients among these that were not owed it at that time; None for no client.
        copies: for an UNRELIABLE message, the view and the daemons of the releases of each
            fragment.
        causes: for a message at CAUSAL or above, the causes that were not complete everywhere.
        answered: whether its sender was told its position.
        bounced: the private names for which it came back.
    """

    __slots__ = (
        "accepted",
        "answered",
        "at_home",
        "begins",
        "bounced",
        "causes",
        "claims",
        "copies",
        "count",
        "digest",
        "discard",
        "early",
        "floor",
        "floor_view",
        "floor_x1",
        "floor_x2",
        "fragments",
        "got",
        "home_part",
        "home_table",
        "is_request",
        "joins",
        "level",
        "mark",
        "number",
        "ordered",
        "position",
        "rank",
        "reads",
        "released",
        "seen",
        "sender",
        "sent_at",
        "targets",
        "to",
        "view",
        "waiting",
    )

    def __init__(
        self, sender: "ClientRecord", number: int, level: int, to: tuple[str, ...]
    ) -> None:
        self.sender = sender
        self.number = number
        self.level = level
        self.to = to
        self.digest = 0
        self.discard = False
        self.ordered = False
        self.is_request = False
        self.joins = self.reads = False
        self.accepted = 0
        self.count = 1
        self.rank = -1
        self.targets: dict[str, ClientRecord | None] | None = None
        self.sent_at = 0
        self.floor = NOWHERE
        self.floor_view: ViewRecord | None = None
        self.floor_x1 = self.floor_x2 = BEFORE
        self.seen: tuple[Position | None, ...] | None = None
        self.mark = new_mark()
        self.begins: Place | None = None
        self.position: Position | None = None
        self.home_part: ViewPart | None = None
        self.home_table: TableRecord | None = None
        self.claims: list[Position] | None = None
        self.view: ViewRecord | None = None
        self.released = 0
        self.fragments: dict[ProcessRecord, tuple[Stay, int, dict[ClientRecord, None]]] | None = (
            None
        )
        self.waiting = 0
        self.got: list[ClientRecord] = []
        self.early: set[ClientRecord] | None = None
        self.copies: dict[int, tuple[ViewRecord, set[ProcessRecord]]] | None = None
        self.causes: tuple[Item, ...] = ()
        self.answered = self.at_home = False
        self.bounced: list[str] | None = None

    def __str__(self) -> str:
        return f"message {self.number} of {self.sender}"


class ClientRecord:
    """One session.

    Attributes:
        identity: ``#user#daemon/connection``.
        name: its private name.
        home: its daemon's start; None while no event shows it.
        asked_at: the count of events when it asked to connect; 0 before.
        crashed: whether it crashed.
        ended: whether it crashed, or its disconnect was released at its home, or its home has
            ended.
        disconnected_at: the position of its disconnect.
        connect: the place of its connect in the order.
        disconnect: the place of its disconnect in the order.
        stage: the view and part that its daemon has told it last; None before.
        began: the stage in which it was connected, if that was a transitional part.
        stages: the stages that it is owed and was not told yet: whether each is a Dview, and the
            part.
        sent: its items by number, except forgotten ones.
        unsent: numbers released before they were used (D1), and the positions of these releases.
        forgotten: the highest number of a forgotten item.
        ranks: the number of accepted items at FIFO or above.
        positioned: numbers and positions of its latest messages that are released at its daemon,
            rising (O2).
        owed: the messages that it is owed and has not got, and the view and part of each.
        due: a heap by position of the AGREED and SAFE messages and the group views that it is owed;
            it has got some of them (O4, G3).
        due_from: for each sender a heap of the numbers of owed messages at FIFO or above (F).
        views: the group views that it is owed and has not seen, by group and position.
        leaving: whether it said goodbye.
        groups: its groups by its own views.
        group_at: for each group the position of its last view of it.
        since: for each group a hash over the AGREED and SAFE messages that it has got since that
            view (V2).
        causal_since: the same over CAUSAL messages whose senders had seen that view (V2).
        joined: for each group the count of events when it first saw itself join (X3).
        gone: the senders whose disconnects it was told.
        high: the highest position that it has got (O2).
        last_agreed: the position of the last AGREED or SAFE message that it has got (O1).
        last_view: the position of its last group view (O1).
        highest: for each sender the highest number of its messages at FIFO or above (F).
        joining: for each group its joins that no view has answered.
        knows: the causes of a message that it would send now (CA).
        needs: causes of messages that it has got in this view, but has not got itself (CA).
        tidy_at: the size of `knows` above which finished causes are removed.
        agreed: the AGREED and SAFE messages that it has got, in order (O6, MG1).
    """

    __slots__ = (
        "agreed",
        "asked_at",
        "began",
        "causal_since",
        "connect",
        "crashed",
        "disconnect",
        "disconnected_at",
        "due",
        "due_from",
        "ended",
        "forgotten",
        "gone",
        "group_at",
        "groups",
        "high",
        "highest",
        "home",
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
        "since",
        "stage",
        "stages",
        "tidy_at",
        "unsent",
        "views",
    )

    def __init__(self, identity: str, kept: int) -> None:
        self.identity = identity
        self.name = identity.rpartition("/")[0]
        self.home: ProcessRecord | None = None
        self.asked_at = 0
        self.crashed = False
        self.ended = False
        self.disconnected_at: set[ProcessRecord] = set()
        self.connect: tuple[Order, int, int, int] | None = None
        self.disconnect: tuple[Order, int, int, int] | None = None
        self.stage: ViewPart | None = None
        self.began: ViewPart | None = None
        self.stages: deque[tuple[bool, ViewPart]] = deque()
        self.sent: dict[int, Item] = {}
        self.unsent: dict[int, Position] = {}
        self.forgotten = -1
        self.ranks = 0
        self.positioned: list[tuple[int, Position]] = []
        self.owed: dict[Item, ViewPart] = {}
        self.due: list[tuple[Position, int, Item | str]] = []
        self.due_from: dict[ClientRecord, list[int]] = {}
        self.views: dict[tuple[str, Position], tuple[Shown, tuple[str, ...] | None]] = {}
        self.leaving = False
        self.groups: set[str] = set()
        self.group_at: dict[str, Position] = {}
        self.since: dict[str, int] = {}
        self.causal_since: dict[str, int] = {}
        self.joined: dict[str, int] = {}
        self.gone: set[ClientRecord] = set()
        self.high = self.last_agreed = self.last_view = NOWHERE
        self.highest: dict[ClientRecord, Item] = {}
        self.joining: dict[str, deque[Item]] = {}
        self.knows: dict[Item, None] = {}
        self.needs: set[Item] = set()
        self.tidy_at = 0
        self.agreed: deque[Item] = deque(maxlen=kept)

    @property
    def daemon_name(self) -> str:
        """Return the name of its daemon."""
        return self.name.rpartition("#")[2]

    def __str__(self) -> str:
        return self.identity


class ViewRecord:
    """One regular view.

    Attributes:
        text: its id.
        order: the key by which views are sorted.
        ways: for the daemons that leave it, the next view and the transitional members.
        rings: the daemons of each ring, by identity.
        members: the members' indices by identity.
        names: the names of its daemons, sorted.
        by_name: the members' identities by name.
        streams: the stream of each ring.
        stays: the time in it of each member that has installed it.
        left: the stays of members that have gone on to another view.
        remaining: the number of members that may still act in it.
        over: whether no member may act in it any more.
        brought: for each member, the groups and clients that it brings into the view (see
            Table.bring).
        came: for each member, the last view it had completed, and the daemons that came along
            since.
        base: for each member, the items of its clients that it had released before (F).
        majority: the `majority` that clients were told, in a list; empty before.
        high_x1: the highest position of AGREED and SAFE messages that clients know in its regular
            part.
        high_x2: the same of group views.
        log: agreed bundles released in regular parts, in the order of the first release (O4).
        beyond: a heap of other agreed bundles, released in transitional parts.
        known_beyond: all bundles that were ever in that heap.
        places: the latest bundles, by place (O3).
        place_order: their places, oldest first.
        authored: for each author the number of its bundles that any daemon has released.
        unauthored: for each packet without a known author, the daemons that have released its
            bundles.
        safes: SAFE bundles that some members have not released.
        safe_count: the number of SAFE bundles released in a regular part.
        safe_late: for each next view, the members that went there together and the SAFE bundles
            that they released on the way.
        ends: for each next view, the releases here of the first member that went there.
    """

    __slots__ = (
        "authored",
        "base",
        "beyond",
        "brought",
        "by_name",
        "came",
        "ends",
        "high_x1",
        "high_x2",
        "known_beyond",
        "left",
        "log",
        "majority",
        "members",
        "names",
        "order",
        "over",
        "place_order",
        "places",
        "remaining",
        "rings",
        "safe_count",
        "safe_late",
        "safes",
        "stays",
        "streams",
        "text",
        "unauthored",
        "ways",
    )

    def __init__(self, text: str, rings: tuple[tuple[str, ...], ...]) -> None:
        self.text = text
        self.order: Order = view_order(text)
        self.ways: dict[str, tuple[str, frozenset[str]]] = {}
        self.rings = rings
        identities = [identity for ring in rings for identity in ring]
        self.members = {identity: index for index, identity in enumerate(identities)}
        self.by_name = {name_of(identity): identity for identity in sorted(identities)}
        self.names = tuple(self.by_name)
        self.streams = [StreamRecord() for _ in rings]
        self.stays: dict[str, Stay] = {}
        self.left: list[Stay] = []
        self.remaining = set(identities)
        self.over = False
        self.brought: dict[str, tuple[list[ClientRecord], dict[str, list[ClientRecord]]]] = {}
        self.came: dict[str, tuple[str, frozenset[str]]] = {}
        self.base: dict[str, dict[ClientRecord, tuple[int, tuple[int, ...]]]] = {}
        self.majority: list[bool | None] = []
        self.high_x1: Local = BEFORE
        self.high_x2: Local = BEFORE
        self.log: list[Bundle] = []
        self.beyond: list[Bundle] = []
        self.known_beyond: set[Bundle] = set()
        self.places: dict[PacketBundle, PlaceRecord] = {}
        self.place_order: deque[PacketBundle] = deque()
        self.authored: dict[str, int] = {}
        self.unauthored: dict[tuple[int, int], dict[PacketBundle, list[Stay]]] = {}
        self.safes: dict[PacketBundle, SafeRecord] = {}
        self.safe_count = 0
        self.safe_late: dict[str, tuple[frozenset[str], dict[PacketBundle, None]]] = {}
        self.ends: dict[str, tuple[int, int, int, bool]] = {}

    def together(self, one: str, other: str) -> bool:
        """Return whether two of its daemons came along with each other (V3)."""
        if one == other:
            return True
        mine, theirs = self.came.get(one), self.came.get(other)
        if mine is None or theirs is None:
            return False
        return bool(mine[0]) and mine[0] == theirs[0] and other in mine[1] and one in theirs[1]

    def close(self) -> None:
        """Close the view: no daemon acts in it any more, but clients may still be told of it."""
        self.over = True
        self.places.clear()
        self.safes.clear()
        self.brought.clear()
        self.ways.clear()
        self.unauthored.clear()
        self.base.clear()
        self.known_beyond.clear()
        for kept in (self.place_order, self.log, self.beyond, self.left):
            kept.clear()


class ViewPart:
    """The regular or the transitional part of a view at one daemon."""

    __slots__ = ("regular", "stay")

    def __init__(self, stay: "Stay", regular: bool) -> None:
        self.stay = stay
        self.regular = regular


class Stay:
    """The time of one daemon in one view.

    Attributes:
        process: the daemon.
        view: the view.
        bit: the daemon's bit among the members.
        ring: the index of its ring.
        regular: the regular part.
        part: the part that it is in now.
        complete: whether its group table of this view is complete.
        transitional_members: the members that come along to the next view; None in the regular
            part.
        next: the next view.
        next_rank: for each client the rank of the item at FIFO or above to be released next (F).
        missing: for each client the ranks that were passed over (F).
        agreed: the number of agreed bundles of the view's log that it has released (O4).
        last: the highest place that it has released (O1).
        prefix: for each ring the number up to which it holds everything.
        early: for each ring the packets that it holds above that number, with times.
        blocks: the block of each ring.
        block: the least of the blocks.
        held: the highest stamp that it holds (H6).
        released: a hash over the bundles that it has released (V1).
        released_agreed: the same over agreed bundles in the regular part.
        tables: a hash over the positions at which its group table has changed (G1).
        by_author: the number of released bundles of each author (D6, O5).
        safe_count: the number of the SAFE bundles that any member has released in a regular part it
            has released (S1).
    """

    __slots__ = (
        "agreed",
        "bit",
        "block",
        "blocks",
        "by_author",
        "complete",
        "early",
        "held",
        "last",
        "missing",
        "next",
        "next_rank",
        "part",
        "prefix",
        "process",
        "regular",
        "released",
        "released_agreed",
        "ring",
        "safe_count",
        "tables",
        "transitional_members",
        "view",
    )

    def __init__(self, process: "ProcessRecord", view: ViewRecord) -> None:
        identity = process.identity
        self.process = process
        self.view = view
        self.bit = 1 << view.members[identity]
        self.ring = next(index for index, ring in enumerate(view.rings) if identity in ring)
        self.regular = self.part = ViewPart(self, True)
        self.complete = False
        self.transitional_members: frozenset[str] | None = None
        self.next = ""
        self.next_rank: dict[ClientRecord, int] = {}
        self.missing: dict[ClientRecord, list[int]] = {}
        self.agreed = 0
        self.last: Bundle = (-1, -1, -1, -1)
        streams = view.streams
        self.prefix = [stream.numbers[0] - 1 if stream.numbers else NOTHING for stream in streams]
        self.early: list[dict[int, int]] = [{} for _ in streams]
        self.blocks = [NOTHING] * len(streams)
        self.block = NOTHING
        self.held = NOTHING
        self.released = self.released_agreed = self.tables = 0
        self.by_author: dict[str, int] = {}
        self.safe_count = 0

    def go_on(self, before: "Stay") -> dict[ClientRecord, tuple[int, tuple[int, ...]]]:
        """Take the ranks of the daemon's own clients over from the previous view (F)."""
        base: dict[ClientRecord, tuple[int, tuple[int, ...]]] = {}
        for client, rank in before.next_rank.items():
            if client.home is self.process:
                missing = before.missing.get(client, [])
                self.next_rank[client] = rank
                if missing:
                    self.missing[client] = list(missing)
                base[client] = (rank, tuple(missing))
        return base

    def __str__(self) -> str:
        return self.process.identity


class TableRecord:
    """The connected clients and the members of groups, by the releases of one daemon.

    Attributes:
        groups: the clients in each group, in order; its readers under `reading` of its name.
        members: the daemon's own clients in each group, readers as before.
        connected: all connected clients by name.
        came: the clients whose connects were released since the table began, and their places.
        known: clients that were connected since the table began.
        gone: the clients among these whose disconnects were released since, and the places of
            these.
    """

    __slots__ = ("came", "connected", "gone", "groups", "known", "members")

    def __init__(self) -> None:
        self.groups: dict[str, dict[ClientRecord, None]] = {}
        self.members: dict[str, dict[ClientRecord, None]] = {}
        self.connected: dict[str, ClientRecord] = {}
        self.came: dict[ClientRecord, Place] = {}
        self.known: set[ClientRecord] = set()
        self.gone: dict[ClientRecord, Place] = {}

    def go_on(self) -> "TableRecord":
        """Return a copy, with which a view begins."""
        table = TableRecord()
        table.groups = {group: dict(members) for group, members in self.groups.items()}
        table.members = {group: dict(members) for group, members in self.members.items()}
        table.connected = dict(self.connected)
        table.known = set(self.connected.values())
        return table

    def bring(
        self, process: "ProcessRecord"
    ) -> tuple[list[ClientRecord], dict[str, list[ClientRecord]]]:
        """Return the part that its daemon announces in a new view: its clients, and their
        groups."""
        own = [client for client in self.connected.values() if client.home is process]
        return own, {group: list(members) for group, members in self.members.items() if members}


def reading(group: str) -> str:
    """Return the name under which tables have the readers of a group; no group has such a one."""
    return f"{_READING}{group}"


def is_reading(name: str) -> bool:
    """Return whether a name in a table stands for the readers of a group."""
    return name.startswith(_READING)


def group_of(name: str) -> str:
    """Return the group of a name in a table."""
    return name.removeprefix(_READING)


class ProcessRecord:
    """One start of a daemon.

    Attributes:
        identity: ``name/start``.
        name: the daemon's name.
        booted: whether the trace has its start.
        booted_at: the count of events at that start.
        ended: whether it was killed or has left.
        ended_at: the count of events at that end; 0 before.
        generation: the number of times that its daemon's disk was lost before.
        floor: the view above which its next view must be (C4).
        latest: the last view that it has installed itself; LOWEST before the first.
        clones: the other starts of its name that ran at the same time.
        stay: its time in the present view; None before the first view.
        table: its table of groups.
        completed: the last view that it has left with a complete group table; empty before.
        together: the daemons that came along with it since.
        clients: its own clients that have not ended.
        views: the view that it is in, and those that it may still install.
    """

    __slots__ = (
        "booted",
        "booted_at",
        "clients",
        "clones",
        "completed",
        "ended",
        "ended_at",
        "floor",
        "generation",
        "identity",
        "latest",
        "name",
        "stay",
        "table",
        "together",
        "views",
    )

    def __init__(
        self, identity: str, booted: bool, now: int, floor: Order, generation: int
    ) -> None:
        self.identity = identity
        self.name = name_of(identity)
        self.booted = booted
        self.booted_at = now
        self.ended = False
        self.ended_at = 0
        self.floor = floor
        self.latest = LOWEST
        self.clones: list[ProcessRecord] = []
        self.generation = generation
        self.stay: Stay | None = None
        self.table = TableRecord()
        self.completed = ""
        self.together: frozenset[str] = frozenset()
        self.clients: dict[ClientRecord, None] = {}
        self.views: list[ViewRecord] = []

    def __str__(self) -> str:
        return self.identity


def name_of(identity: str) -> str:
    """Return a daemon's name without its start."""
    return identity.rpartition("/")[0]
