"""The records of a trace so far: clients, their messages, rings, and marks of sets."""

from collections import deque
from random import Random
from typing import TYPE_CHECKING, Final

_MASK: Final = 2**64 - 1
_DRAW: Final = Random("marks").getrandbits


def new_mark() -> int:
    """Return a new, unique mark."""
    return _DRAW(64)


def mark_of(one: int, two: int, three: int) -> int:
    """Return the mark of three numbers, the same for each call."""
    mixed = (
        one * 0x9E3779B97F4A7C15 + two * 0xC2B2AE3D27D4EB4F + three * 0x165667B19E3779F9
    ) & _MASK
    mixed = ((mixed ^ mixed >> 32) + 1) * 0xD6E8FEB86659FD93 & _MASK
    return mixed ^ mixed >> 32


NOTHING: Final = -1

KEPT: Final = 50_000
"""The number of horizons that are remembered."""


class StreamRecord:
    """The packets of one ring in one view.

    Attributes:
        numbers: the numbers of its packets, rising.
        times: their stamps, rising.
        packets: stamp and author by number.
        horizon: the highest announced horizon.
        announced: the latest KEPT announced pairs (value, upto).
    """

    __slots__ = ("_order", "announced", "horizon", "numbers", "packets", "times")

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.times: list[int] = []
        self.packets: dict[int, tuple[int, str]] = {}
        self.horizon = NOTHING
        self.announced: set[tuple[int, int]] = set()
        self._order: deque[tuple[int, int]] = deque()

    def number(self, number: int, time: int, author: str) -> None:
        """Note a packet; number and time are above those of the last one."""
        self.numbers.append(number)
        self.times.append(time)
        self.packets[number] = (time, author)

    def announce(self, value: int, upto: int) -> None:
        """Note a promise."""
        self.horizon = max(self.horizon, value)
        self.announced.add((value, upto))
        self._order.append((value, upto))
        if len(self._order) > KEPT:
            self.announced.discard(self._order.popleft())


if TYPE_CHECKING:
    from groupcomm.sim.checkers.views import ProcessRecord, Stay, TableRecord, ViewPart, ViewRecord

Order = tuple[int, str, int]
"""The key by which ids of views are sorted."""

Place = tuple[int, int, int]
"""A place: (time, ring, bundle) of a Release."""

Bundle = tuple[int, int, int, int]
"""A place and the number of the packet, in case that two packets have one stamp."""

Local = tuple[int, int, int, int]
"""Within a view: a place and the message's index in its bundle."""

Position = tuple[Order, int, int, int, int]
"""A view's order, and the place and the index there."""

BEFORE: Final[Local] = (-1, -1, -1, -1)

NOWHERE: Final[Position] = ((-1, "", 0), *BEFORE)


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


Shown = tuple[tuple[str, ...], str, tuple[str, ...]]
"""Members, cause and changed of a group view."""


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
