"""Records of generated histories: messages, bundles, packets, clients, and the log."""

from collections import deque

from groupcomm.trace.events import TraceEvent

RELIABLE, FIFO, CAUSAL, AGREED, SAFE = 1, 2, 3, 4, 5
MESSAGES, FRAGMENT, CONNECT, JOIN, LEAVE, DISCONNECT = range(6)
LINE = 14

Place = tuple[int, int, int]
LATER = 0
"""The time in an event that waits for its client; it gets its own when it is received."""


class Log:
    """The trace as it grows, and its clock."""

    def __init__(self) -> None:
        self.events: list[TraceEvent] = []
        self._now = 0

    def tick(self) -> int:
        """Return the time of the next event; time passes with every event, at odd intervals."""
        self._now += 1 + len(self.events) % 7
        return self._now

    def add(self, event: TraceEvent) -> None:
        """Record an event."""
        self.events.append(event)


class Sent:
    """One message as its client sent it."""

    __slots__ = (
        "begins",
        "digest",
        "discard",
        "level",
        "number",
        "ordered",
        "parts",
        "targets",
        "to",
    )

    def __init__(
        self,
        number: int,
        level: int,
        to: tuple[str, ...],
        digest: int,
        discard: bool,
        ordered: bool,
        parts: int,
    ) -> None:
        self.number = number
        self.level = level
        self.to = to
        self.digest = digest
        self.discard = discard
        self.ordered = ordered
        self.parts = parts  # the number of fragments; 1 if it needs none
        self.targets: list[tuple[str, Session | None]] = []  # set when its daemon takes it
        self.begins: Place | None = None  # the key of its first fragment, released at its daemon


class Session:
    """A client as daemons see it, and the way down to it; `home` is its daemon's identity."""

    def __init__(self, identity: str, home: str) -> None:
        self.identity = identity
        self.name = identity.rpartition("/")[0]
        self.home = home
        self.down: deque[TraceEvent | None] = deque()
        self.ended = False  # it crashed, or its disconnect is released at its daemon
        self.ranks = 0


class Bundle:
    """The unit that daemons order: messages, one fragment, or a request."""

    __slots__ = (
        "causes",
        "client",
        "first",
        "group",
        "index",
        "kind",
        "last",
        "level",
        "messages",
        "number",
        "place",
        "rank",
        "ring",
        "targets",
        "time",
    )

    def __init__(self, client: Session, kind: int, level: int) -> None:
        self.client = client
        self.kind = kind
        self.level = level
        self.first = self.last = 0
        self.index = 0
        self.group = ""
        self.messages: list[Sent] = []
        self.targets: list[tuple[str, Session | None]] = []
        self.rank = 0  # its place among its sender's items at FIFO or above, from 1
        self.ring = self.number = self.time = self.place = 0
        self.causes: tuple[tuple[int, ...], Place] = ((), (0, 0, 0))

    def again(self) -> "Bundle":
        """Return the same without a number, for another view."""
        copy = Bundle(self.client, self.kind, self.level)
        copy.first, copy.last, copy.index = self.first, self.last, self.index
        copy.group, copy.messages, copy.targets = self.group, self.messages, self.targets
        return copy

    @property
    def key(self) -> Place:
        """Return its place in the agreed order."""
        return (self.time, self.ring, self.place)


Request = Sent | tuple[int, str, int]
"""A message, or (kind, group, number) of a join, leave or line, or (DISCONNECT, "", 0)."""


class Program:
    """A client with its queue towards its daemon."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.up: deque[Request] = deque()
        self.number = 0
        self.part = 0  # the number of accepted fragments of the first message in the queue
        self.open = False  # welcomed, and neither leaving nor crashed
        self.silent = False  # whether nothing more comes from it
        self.crashed = False
        self.asked: set[str] = set()  # groups it is in or wants to be in
        self.inside: set[str] = set()  # groups it has seen itself in


class Packet:
    """Bundles that share a stamp."""

    __slots__ = ("bundles", "number", "ring", "time")

    def __init__(self, ring: int, number: int, time: int, bundles: list[Bundle]) -> None:
        self.ring = ring
        self.number = number
        self.time = time
        self.bundles = bundles


class Notice:
    """A ring's promise: after packet `upto`, nothing at or below `value`."""

    __slots__ = ("ring", "upto", "value")

    def __init__(self, ring: int, value: int, upto: int) -> None:
        self.ring = ring
        self.value = value
        self.upto = upto
