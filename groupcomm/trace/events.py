"""The trace of a run: one typed event per thing that happened, as JSON lines.

Two layers are recorded side by side: the acts of daemons, and the requests and events of clients.
The checkers judge these events and nothing else, so a trace can be judged where it was not made.
docs/trace.md describes the format for tools in other languages.

Processes are named by identity: a daemon ``name/start`` (its first start in the run is 1, whatever
its disk says), a client ``#user#daemon/connection``.
``t`` is the time of one clock for all, in whole microseconds. A stamp is (time, ring). A position
is (view, time, ring, bundle, message), the view as text.
"""

from typing import Final, TypeAlias

import msgspec

from groupcomm.clocks.stamp import parse_view
from groupcomm.trace.steps import AlgorithmStep

TracePosition: TypeAlias = tuple[str, int, int, int, int]


class _Event(msgspec.Struct, frozen=True, tag_field="e", gc=False):
    t: int


class _OfDaemon(_Event, frozen=True, gc=False):
    p: str


class _OfClient(_Event, frozen=True, gc=False):
    c: str


# ---- daemons ----


class Boot(_OfDaemon, frozen=True, tag="boot", gc=False):
    """Daemon `p` starts; `incarnation` is the one in its packets (restart count and random id)."""

    incarnation: str


class Fail(_OfDaemon, frozen=True, tag="fail", gc=False):
    """Daemon `p` was killed, and all its clients' connections with it; no event of it follows."""


class Left(_OfDaemon, frozen=True, tag="left", gc=False):
    """Daemon `p` has left in order and is over; no event of it follows."""


class Conf(_OfDaemon, frozen=True, tag="conf", gc=False):
    """Daemon `p` installed a view; `rings` lists the daemons of each ring, by identity.

    A transitional view stands between the regular views `old` and `view`; its one ring lists the
    daemons that come from `old` together. Regular views have no `old`.
    """

    kind: str  # "R" regular, "T" transitional
    view: str
    rings: tuple[tuple[str, ...], ...]
    old: str = ""


class Accept(_OfDaemon, frozen=True, tag="accept", gc=False):
    """Daemon `p` took messages `first` to `last` of client `c`: from here on they count as sent."""

    c: str
    first: int
    last: int


class Stamped(_OfDaemon, frozen=True, tag="stamp", gc=False):
    """Daemon `p` numbered a packet of its own in the stream of its ring."""

    view: str
    ring: int
    number: int
    time: int


class Hold(_OfDaemon, frozen=True, tag="hold", gc=False):
    """Daemon `p` received packet `number` of a ring's stream (its own count at once)."""

    ring: int
    number: int
    time: int


class Horizon(_OfDaemon, frozen=True, tag="horizon", gc=False):
    """Daemon `p` announced for its ring: after packet `upto`, nothing at or below `value`."""

    view: str
    ring: int
    value: int
    upto: int


class Count(_OfDaemon, frozen=True, tag="count", gc=False):
    """Daemon `p` counts the horizon (`value`, `upto`) of a ring from now on."""

    ring: int
    value: int
    upto: int


class Release(_OfDaemon, frozen=True, tag="release", gc=False):
    """Daemon `p` delivered one bundle to its local recipients, if any.

    `number` is 0 for UNRELIABLE, which has no place in a stream. `kind` is the bundle's: 0
    messages, 1 a fragment, 2 connect, 3 join, 4 leave, 5 disconnect, 14 line. `c` is the sender,
    `first` to `last` its messages in the bundle (a fragment, join, leave or line names its one in
    both; connect, disconnect, and a leave or line that the daemon itself has sent for the client
    have 0). A fragment is part `index` of `count`; otherwise these are 0 and 1. `group` is that of
    a leave which the daemon itself has sent.
    """

    ring: int
    number: int
    time: int
    bundle: int
    kind: int
    level: int
    c: str
    first: int
    last: int
    index: int
    count: int
    group: str = ""


class Table(_OfDaemon, frozen=True, tag="table", gc=False):
    """Daemon `p` changed its group table at a position; `digest` is that of the whole table.

    The position (view, 0, 0, 0, 0) is that of all announcements: the table of this view is whole.
    """

    pos: TracePosition
    digest: str


class Rejects(_OfDaemon, frozen=True, tag="rejects", gc=False):
    """At the end: how many bad datagrams daemon `p` dropped, and how many were sent to it.

    `bad` and `injected` count datagrams without a valid seal; a replay of a valid datagram is
    neither.
    """

    bad: int
    injected: int


# ---- clients ----


class Send(_OfClient, frozen=True, tag="send", gc=False):
    """Client `c` called multicast; `m` is its message's number, `digest` covers type and data."""

    m: int
    level: int
    to: tuple[str, ...]
    digest: int
    discard: bool  # the flag SELF_DISCARD
    ordered: bool  # the sender waits for its position


class Deliver(_OfClient, frozen=True, tag="dlv", gc=False):
    """Client `c` received message `m` of client `s`; `pos` is None for UNRELIABLE."""

    s: str
    m: int
    level: int
    to: tuple[str, ...]
    digest: int
    pos: TracePosition | None


REQUESTS: Final = frozenset(
    ("connect", "refused", "join", "read", "leave", "line", "disconnect", "crash")
)
"""What an Ask may say."""


class Ask(_OfClient, frozen=True, tag="ask", gc=False):
    """Client `c` asked to ``connect``, ``join``, ``leave`` or ``disconnect``, or ``crash``-ed.

    It was ``refused`` if its daemon has told it that another session has its name. ``read`` is a
    join without views; ``line`` asks to go on with a line, or gives it up. `m` is the message
    number of a join, leave or line, on the same count as the client's messages; 0 for the others.
    `Accept` says which messages reached the daemon. `needs_quorum`: the join was one with
    ``minority="pause"`` or ``"leave"``.
    """

    what: str
    group: str
    m: int
    needs_quorum: bool = False


class Member(_OfClient, frozen=True, tag="gview", gc=False):
    """Client `c` received a view of a group; `pos` is the view's id."""

    group: str
    pos: TracePosition
    members: tuple[str, ...]
    cause: str
    changed: tuple[str, ...]
    vs: tuple[str, ...]


class Order(_OfClient, frozen=True, tag="ordered", gc=False):
    """Client `c` got the position of its message `m`, sent with ``ordered=True``.

    `trans`: the view ended first, and it was delivered in the transitional one.
    """

    m: int
    pos: TracePosition
    trans: bool = False


class Bounce(_OfClient, frozen=True, tag="bounce", gc=False):
    """Client `c` was told that its private message `m` to `target` could not be delivered."""

    m: int
    target: str
    pos: TracePosition


class Trans(_OfClient, frozen=True, tag="trans", gc=False):
    """Client `c` was told that the regular part of a view is over; the transitional one begins."""

    view: str


class Dview(_OfClient, frozen=True, tag="dview", gc=False):
    """Client `c` was told the daemons (by name) of the view that begins."""

    view: str
    daemons: tuple[str, ...]
    majority: bool | None


# ---- harness ----


class Heal(_Event, frozen=True, tag="heal", gc=False):
    """The harness ended all faults: from now on the daemons of `core`, all alive, hear each other.

    So do the daemons of `aside`, but the disks of these are still unwell. All others are dead or
    cut off from them for good.
    """

    core: tuple[str, ...]
    aside: tuple[str, ...] = ()


class Quiet(_Event, frozen=True, tag="quiet", gc=False):
    """The harness ended all faults, let everything settle, and stops: nothing may be missing."""


TraceEvent: TypeAlias = (
    Boot
    | Fail
    | Left
    | Conf
    | Accept
    | Stamped
    | Hold
    | Horizon
    | Count
    | Release
    | Table
    | Rejects
    | Send
    | Deliver
    | Ask
    | Member
    | Order
    | Bounce
    | Trans
    | Dview
    | Heal
    | Quiet
    | AlgorithmStep
)


view_order = parse_view
"""Returns the sort key of a view's id: counter, daemon, incarnation."""

encode_event = msgspec.json.Encoder().encode
"""One event as JSON bytes, without the newline; the same event always gives the same bytes."""

decode_event_untrusted = msgspec.json.Decoder(TraceEvent).decode
"""One line back as an event; raises msgspec.MsgspecError with the error and its place."""
