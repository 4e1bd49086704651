"""The records of a trace so far: messages, clients, daemons, views and tables."""

from collections import deque
from collections.abc import Sequence
from typing import Final

import attrs

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
from groupcomm.trace.events import Release, view_order

Shown = tuple[tuple[str, ...], str, tuple[str, ...]]
"""Members, cause and changed of a group view."""

_READING: Final = "\0"


@attrs.define(eq=False, repr=False)
class Item:
    """A message, or a request to join, to leave, or for a line: all that takes a number of a
    session.

    Attributes:
        sender: the identity of the client that sent it.
        number: its number in the sender's session.
        level: its level as an int; AGREED for requests.
        to: its destinations; the group of a request, none of one for a line.
        digest: the digest of type and data.
        discard: whether SELF_DISCARD is set.
        ordered: whether the sender waits for its position.
        is_request: whether it is none of the messages.
        joins: whether it is a join, with views or without.
        reads: whether it is a join without views.
        needs_quorum: whether it is one so that its group pauses without a quorum.
        accepted: the number of times that its daemon has accepted it: once for each fragment.
        accepted_in: the view that was complete at its daemon when it did so last; None for none.
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
        ahead: whether a daemon has released it in a regular part before a bundle of a lower place.
        abroad: whether a client of another ring than its packet's has got it.
        known_at: the count of events when a client in a regular part got it first (X1); 0 before.
    """

    sender: "ClientRecord"
    number: int
    level: int
    to: tuple[str, ...]
    digest: int = 0
    discard: bool = False
    ordered: bool = False
    is_request: bool = False
    joins: bool = False
    reads: bool = False
    needs_quorum: bool = False
    accepted: int = 0
    accepted_in: "ViewRecord | None" = None
    count: int = 1
    rank: int = -1
    targets: "dict[str, ClientRecord | None] | None" = None
    sent_at: int = 0
    floor: Position = NOWHERE
    floor_view: "ViewRecord | None" = None
    floor_x1: Local = BEFORE
    floor_x2: Local = BEFORE
    seen: tuple[Position | None, ...] | None = None
    mark: int = attrs.field(factory=new_mark)
    begins: Place | None = None
    position: Position | None = None
    home_part: "ViewPart | None" = None
    home_table: "TableRecord | None" = None
    claims: list[Position] | None = None
    view: "ViewRecord | None" = None
    released: int = 0
    fragments: "dict[ProcessRecord, tuple[Stay, int, dict[ClientRecord, None]]] | None" = None
    waiting: int = 0
    got: "list[ClientRecord]" = attrs.field(factory=list)
    early: "set[ClientRecord] | None" = None
    copies: "dict[int, tuple[ViewRecord, set[ProcessRecord]]] | None" = None
    causes: "tuple[Item, ...]" = ()
    answered: bool = False
    at_home: bool = False
    bounced: list[str] | None = None
    ahead: bool = False
    abroad: bool = False
    known_at: int = 0

    def __str__(self) -> str:
        return f"message {self.number} of {self.sender}"


@attrs.define(eq=False, repr=False)
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
        has_line: whether it has asked to go on with a line.
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
        need_quorum: those of its groups that it has joined so that they pause (V5).
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
        caused: the last of the events at which AGREED and SAFE messages were sent that it has got
            in a regular part, and that view (X1).
    """

    identity: str
    agreed: deque[Item]
    name: str = attrs.field(init=False)
    home: "ProcessRecord | None" = None
    asked_at: int = 0
    crashed: bool = False
    ended: bool = False
    disconnected_at: "set[ProcessRecord]" = attrs.field(factory=set)
    connect: tuple[Order, int, int, int] | None = None
    disconnect: tuple[Order, int, int, int] | None = None
    stage: "ViewPart | None" = None
    began: "ViewPart | None" = None
    stages: "deque[tuple[bool, ViewPart]]" = attrs.field(factory=deque)
    sent: dict[int, Item] = attrs.field(factory=dict)
    unsent: dict[int, Position] = attrs.field(factory=dict)
    has_line: bool = False
    forgotten: int = -1
    ranks: int = 0
    positioned: list[tuple[int, Position]] = attrs.field(factory=list)
    owed: "dict[Item, ViewPart]" = attrs.field(factory=dict)
    due: list[tuple[Position, int, Item | str]] = attrs.field(factory=list)
    due_from: "dict[ClientRecord, list[int]]" = attrs.field(factory=dict)
    views: dict[tuple[str, Position], tuple[Shown, tuple[str, ...] | None]] = attrs.field(
        factory=dict
    )
    leaving: bool = False
    groups: set[str] = attrs.field(factory=set)
    group_at: dict[str, Position] = attrs.field(factory=dict)
    since: dict[str, int] = attrs.field(factory=dict)
    causal_since: dict[str, int] = attrs.field(factory=dict)
    joined: dict[str, int] = attrs.field(factory=dict)
    need_quorum: set[str] = attrs.field(factory=set)
    gone: "set[ClientRecord]" = attrs.field(factory=set)
    high: Position = NOWHERE
    last_agreed: Position = NOWHERE
    last_view: Position = NOWHERE
    highest: "dict[ClientRecord, Item]" = attrs.field(factory=dict)
    joining: dict[str, deque[Item]] = attrs.field(factory=dict)
    knows: dict[Item, None] = attrs.field(factory=dict)
    needs: set[Item] = attrs.field(factory=set)
    tidy_at: int = 0
    caused: "tuple[int, ViewRecord | None]" = (0, None)

    def __attrs_post_init__(self) -> None:
        self.name = self.identity.rpartition("/")[0]

    @property
    def daemon_name(self) -> str:
        """Return the name of its daemon."""
        return self.name.rpartition("#")[2]

    def __str__(self) -> str:
        return self.identity


@attrs.define(eq=False, repr=False)
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
        safe_counts: for each ring the number of SAFE bundles released in a regular part that its
            daemons have to release.
        safe_late: for each next view, the members that went there together and the SAFE bundles
            that they released on the way.
        ends: for each next view, the releases here of the first member that went there.
        inner_ends: for each next view, ring, and whether it is the own one, the agreed messages of
            the ring that the first such member has released.
    """

    text: str
    rings: tuple[tuple[str, ...], ...]
    order: Order = attrs.field(init=False)
    ways: dict[str, tuple[str, frozenset[str]]] = attrs.field(factory=dict)
    members: dict[str, int] = attrs.field(init=False)
    by_name: dict[str, str] = attrs.field(init=False)
    names: tuple[str, ...] = attrs.field(init=False)
    streams: list[StreamRecord] = attrs.field(init=False)
    stays: "dict[str, Stay]" = attrs.field(factory=dict)
    left: "list[Stay]" = attrs.field(factory=list)
    remaining: set[str] = attrs.field(init=False)
    over: bool = False
    brought: dict[str, tuple[list[ClientRecord], dict[str, list[ClientRecord]]]] = attrs.field(
        factory=dict
    )
    came: dict[str, tuple[str, frozenset[str]]] = attrs.field(factory=dict)
    base: dict[str, dict[ClientRecord, tuple[int, tuple[int, ...]]]] = attrs.field(factory=dict)
    majority: list[bool | None] = attrs.field(factory=list)
    high_x1: Local = BEFORE
    high_x2: Local = BEFORE
    log: list[Bundle] = attrs.field(factory=list)
    beyond: list[Bundle] = attrs.field(factory=list)
    known_beyond: set[Bundle] = attrs.field(factory=set)
    places: dict[PacketBundle, PlaceRecord] = attrs.field(factory=dict)
    place_order: deque[PacketBundle] = attrs.field(factory=deque)
    authored: dict[str, int] = attrs.field(factory=dict)
    unauthored: "dict[tuple[int, int], dict[PacketBundle, list[Stay]]]" = attrs.field(factory=dict)
    safes: dict[PacketBundle, SafeRecord] = attrs.field(factory=dict)
    safe_counts: list[int] = attrs.field(init=False)
    safe_late: dict[str, tuple[frozenset[str], dict[PacketBundle, None]]] = attrs.field(
        factory=dict
    )
    ends: dict[str, tuple[int, int, int, bool]] = attrs.field(factory=dict)
    inner_ends: dict[tuple[str, int, bool], int] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.order = view_order(self.text)
        identities = [identity for ring in self.rings for identity in ring]
        self.members = {identity: index for index, identity in enumerate(identities)}
        self.by_name = {name_of(identity): identity for identity in sorted(identities)}
        self.names = tuple(self.by_name)
        self.streams = [StreamRecord() for _ in self.rings]
        self.safe_counts = [0] * len(self.rings)
        self.remaining = set(identities)

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


@attrs.define(eq=False, repr=False)
class ViewPart:
    """The regular or the transitional part of a view at one daemon."""

    stay: "Stay"
    regular: bool


@attrs.define(eq=False, repr=False)
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
        last: the highest place that it has released (O1), but for those ahead.
        ahead: a heap of inner bundles that may be ahead of the agreed order, each with its release
            and its messages (O1, O4).
        ahead_is_known: whether the regular part is over, and these are known to the view.
        prefix: for each ring the number up to which it holds everything.
        early: for each ring the packets that it holds above that number, with times.
        blocks: the block of each ring.
        block: the least of the blocks.
        held: the highest stamp that it holds (H6).
        released: a hash over the bundles that it has released (V1).
        released_agreed: the same over agreed bundles in the regular part, but for messages of the
            rings of a view of several.
        released_inner: the same over these, by ring.
        tables: a hash over the positions at which its group table has changed (G1).
        by_author: the number of released bundles of each author (D6, O5).
        safe_count: the number of the SAFE bundles that it has to release, as some member has in a
            regular part, and that it has released (S1).
    """

    process: "ProcessRecord"
    view: ViewRecord
    bit: int = attrs.field(init=False)
    ring: int = attrs.field(init=False)
    regular: ViewPart = attrs.field(init=False)
    part: ViewPart = attrs.field(init=False)
    complete: bool = False
    transitional_members: frozenset[str] | None = None
    next: str = ""
    next_rank: dict[ClientRecord, int] = attrs.field(factory=dict)
    missing: dict[ClientRecord, list[int]] = attrs.field(factory=dict)
    agreed: int = 0
    last: Bundle = (-1, -1, -1, -1)
    ahead: list[tuple[Bundle, Release, Sequence[Item]]] = attrs.field(factory=list)
    ahead_is_known: bool = False
    prefix: list[int] = attrs.field(init=False)
    early: list[dict[int, int]] = attrs.field(init=False)
    blocks: list[int] = attrs.field(init=False)
    block: int = NOTHING
    held: int = NOTHING
    released: int = 0
    released_agreed: int = 0
    released_inner: dict[int, int] = attrs.field(factory=dict)
    tables: int = 0
    by_author: dict[str, int] = attrs.field(factory=dict)
    safe_count: int = 0

    def __attrs_post_init__(self) -> None:
        identity, view = self.process.identity, self.view
        self.bit = 1 << view.members[identity]
        self.ring = next(index for index, ring in enumerate(view.rings) if identity in ring)
        self.regular = self.part = ViewPart(self, True)
        streams = view.streams
        self.prefix = [stream.numbers[0] - 1 if stream.numbers else NOTHING for stream in streams]
        self.early = [{} for _ in streams]
        self.blocks = [NOTHING] * len(streams)

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


@attrs.define(eq=False, repr=False)
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

    groups: dict[str, dict[ClientRecord, None]] = attrs.field(factory=dict)
    members: dict[str, dict[ClientRecord, None]] = attrs.field(factory=dict)
    connected: dict[str, ClientRecord] = attrs.field(factory=dict)
    came: dict[ClientRecord, Place] = attrs.field(factory=dict)
    known: set[ClientRecord] = attrs.field(factory=set)
    gone: dict[ClientRecord, Place] = attrs.field(factory=dict)

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


@attrs.define(eq=False, repr=False)
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

    identity: str
    booted: bool
    booted_at: int
    floor: Order
    generation: int
    name: str = attrs.field(init=False)
    ended: bool = False
    ended_at: int = 0
    latest: Order = LOWEST
    clones: "list[ProcessRecord]" = attrs.field(factory=list)
    stay: Stay | None = None
    table: TableRecord = attrs.field(factory=TableRecord)
    completed: str = ""
    together: frozenset[str] = attrs.field(factory=frozenset)
    clients: dict[ClientRecord, None] = attrs.field(factory=dict)
    views: list[ViewRecord] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.name = name_of(self.identity)

    def __str__(self) -> str:
        return self.identity


def name_of(identity: str) -> str:
    """Return a daemon's name without its start."""
    return identity.rpartition("/")[0]
