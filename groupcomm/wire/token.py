"""The token of a ring, and the packets about it: requests, rest notices, held notices.

The *token*, which one daemon of a ring passes to the next::

    ring u16, hop u64, last u64, last sender u16, clock u64, burst u64
    rings u16, rows u16, each: frontier u64, sent u64, held u64 per ring
    requests u16, each: ring u16, first u64, last u64
    wanted u16, each: daemon u16

A *token request* says that a daemon wants the token::

    ring u16, daemon u16, hop u64

A *rest notice* says that the token stays with its holder::

    ring u16, hop u64, holder u16, last u64, horizon u64
    frontiers u16, each u64, one for each daemon of the ring

A *held notice* tells the others of the ring, without the token, which packets a daemon holds::

    ring u16, daemon u16, held u64, frontier u64
"""

import struct
from typing import Final

from groupcomm.config.view import MAX_DAEMONS, MAX_RINGS
from groupcomm.errors import BadDatagram
from groupcomm.wire.packet import PacketKind, Reader

MAX_REQUESTS: Final = 512

_TOKEN_HEAD = struct.Struct("!B16sHQQHQQHH")
_COUNT = struct.Struct("!H")
_RANGE = struct.Struct("!HQQ")
_DAEMON = struct.Struct("!H")
_ROWS: Final = tuple(struct.Struct(f"!{2 + rings}Q") for rings in range(MAX_RINGS + 1))
_TOKEN: Final = int(PacketKind.TOKEN)


def request_room(daemons: int, rings: int, limit: int) -> int:
    """Return the number of requests that a token may carry in a packet of `limit` bytes.

    At least one, however large the ring: a token must be able to request something.
    """
    rows = daemons * (_ROWS[rings].size + _DAEMON.size)
    room = limit - _TOKEN_HEAD.size - rows - 2 * _COUNT.size
    return max(1, min(MAX_REQUESTS, room // _RANGE.size))


class Row:
    """The row that one daemon wrote into the token when it last had it.

    Attributes:
        frontier: its frontier, microseconds.
        sent: bytes that it numbered.
        held: for each ring of the view, the number up to which it holds the stream.
    """

    __slots__ = ("frontier", "held", "sent")

    def __init__(self, *, frontier: int, sent: int, held: list[int]) -> None:
        self.frontier = frontier
        self.sent = sent
        self.held = held


class Token:
    """The token of one ring.

    Attributes:
        ring: index of the ring.
        hop: the number of times that it was passed on; this tells copies apart.
        last: the last packet number given.
        last_sender: the daemon that gave it.
        clock: the ring's clock, microseconds; no horizon or stamp of the ring is above it.
        burst: bytes numbered in the last round.
        rows: one for each daemon of the ring, in its order.
        requests: (ring, first, last) of packets that some daemon lacks.
        wanted: daemons that asked for the token, next first.
    """

    __slots__ = (
        "burst",
        "clock",
        "hop",
        "last",
        "last_sender",
        "requests",
        "ring",
        "rows",
        "wanted",
    )

    def __init__(
        self,
        *,
        ring: int,
        hop: int,
        last: int,
        last_sender: int,
        clock: int,
        burst: int,
        rows: list[Row],
        requests: list[tuple[int, int, int]],
        wanted: list[int],
    ) -> None:
        self.ring = ring
        self.hop = hop
        self.last = last
        self.last_sender = last_sender
        self.clock = clock
        self.burst = burst
        self.rows = rows
        self.requests = requests
        self.wanted = wanted

    def encode(self, key: bytes) -> bytes:
        """Return the packet for the view with this key."""
        rings = len(self.rows[0].held) if self.rows else 0
        row = _ROWS[rings]
        parts = [
            _TOKEN_HEAD.pack(
                _TOKEN,
                key,
                self.ring,
                self.hop,
                self.last,
                self.last_sender,
                self.clock,
                self.burst,
                rings,
                len(self.rows),
            )
        ]
        parts += [row.pack(one.frontier, one.sent, *one.held) for one in self.rows]
        parts.append(_COUNT.pack(len(self.requests)))
        parts += [_RANGE.pack(*request) for request in self.requests]
        parts.append(_COUNT.pack(len(self.wanted)))
        parts += [_DAEMON.pack(daemon) for daemon in self.wanted]
        return b"".join(parts)


def decode_token_untrusted(packet: bytes) -> Token:
    """Decode a whole packet; raise only BadDatagram."""
    reader = Reader(packet, _TOKEN)
    _, _, ring, hop, last, last_sender, clock, burst, rings, rows = reader.read(_TOKEN_HEAD)
    if rings > MAX_RINGS or not rows:
        raise BadDatagram("count", f"{rows} rows of {rings} rings")
    table = [
        Row(frontier=frontier, sent=sent, held=held)
        for frontier, sent, *held in reader.read_rows(rows, MAX_DAEMONS, _ROWS[rings])
    ]
    (count,) = reader.read(_COUNT)
    requests = [
        (stream, first, end) for stream, first, end in reader.read_rows(count, MAX_REQUESTS, _RANGE)
    ]
    if any(first > end for _, first, end in requests):
        raise BadDatagram("range", "a request that ends before it begins")
    (count,) = reader.read(_COUNT)
    wanted = [daemon for (daemon,) in reader.read_rows(count, MAX_DAEMONS, _DAEMON)]
    reader.end()
    return Token(
        ring=ring,
        hop=hop,
        last=last,
        last_sender=last_sender,
        clock=clock,
        burst=burst,
        rows=table,
        requests=requests,
        wanted=wanted,
    )


# ---- requests ----

_REQUEST_FIELDS = struct.Struct("!B16sHHQ")
_REQUEST: Final = int(PacketKind.REQUEST)


class TokenRequest:
    """A request to the holder of the token to pass it to a daemon.

    Attributes:
        ring: index of the ring.
        daemon: the daemon that wants it, an index in the view.
        hop: the highest hop that this daemon knows of; it proves that the token got there.
    """

    __slots__ = ("daemon", "hop", "ring")

    def __init__(self, *, ring: int, daemon: int, hop: int) -> None:
        self.ring = ring
        self.daemon = daemon
        self.hop = hop

    def encode(self, key: bytes) -> bytes:
        """Return the packet for the view with this key."""
        return _REQUEST_FIELDS.pack(_REQUEST, key, self.ring, self.daemon, self.hop)


def decode_request_untrusted(packet: bytes) -> TokenRequest:
    """Decode a whole packet; raise only BadDatagram."""
    reader = Reader(packet, _REQUEST)
    _, _, ring, daemon, hop = reader.read(_REQUEST_FIELDS)
    reader.end()
    return TokenRequest(ring=ring, daemon=daemon, hop=hop)


# ---- rest notices ----

_REST_HEAD = struct.Struct("!B16sHQHQQH")
_FRONTIER = struct.Struct("!Q")
_REST: Final = int(PacketKind.REST)


class RestNotice:
    """Heartbeat, stability and horizon of a ring whose token rests.

    Attributes:
        ring: index of the ring.
        hop: the hop of the resting token.
        holder: the daemon with which it rests.
        last: the last packet number given; all daemons of the ring hold the stream up to it.
        horizon: after packet `last`, nothing will be stamped at or below this time.
        frontiers: the frontiers of the ring's daemons, in its order, as in the token.
    """

    __slots__ = ("frontiers", "holder", "hop", "horizon", "last", "ring")

    def __init__(
        self, *, ring: int, hop: int, holder: int, last: int, horizon: int, frontiers: list[int]
    ) -> None:
        self.ring = ring
        self.hop = hop
        self.holder = holder
        self.last = last
        self.horizon = horizon
        self.frontiers = frontiers

    def encode(self, key: bytes) -> bytes:
        """Return the packet for the view with this key."""
        count = len(self.frontiers)
        head = _REST_HEAD.pack(
            _REST, key, self.ring, self.hop, self.holder, self.last, self.horizon, count
        )
        return head + struct.pack(f"!{count}Q", *self.frontiers)


def decode_rest_untrusted(packet: bytes) -> RestNotice:
    """Decode a whole packet; raise only BadDatagram."""
    reader = Reader(packet, _REST)
    _, _, ring, hop, holder, last, horizon, count = reader.read(_REST_HEAD)
    frontiers = [frontier for (frontier,) in reader.read_rows(count, MAX_DAEMONS, _FRONTIER)]
    reader.end()
    if not frontiers:
        raise BadDatagram("count", "a rest notice of no daemon")
    return RestNotice(
        ring=ring, hop=hop, holder=holder, last=last, horizon=horizon, frontiers=frontiers
    )


# ---- held notices ----

_HELD_FIELDS = struct.Struct("!B16sHHQQ")
_HELD: Final = int(PacketKind.HELD)


class HeldNotice:
    """The answer to a packet that asks which daemons hold it.

    Attributes:
        ring: index of the ring.
        daemon: the daemon that answers, an index in the view.
        held: the number up to which the daemon holds the ring's stream.
        frontier: the time up to which it holds everything, and nothing can still arrive.
    """

    __slots__ = ("daemon", "frontier", "held", "ring")

    def __init__(self, *, ring: int, daemon: int, held: int, frontier: int) -> None:
        self.ring = ring
        self.daemon = daemon
        self.held = held
        self.frontier = frontier

    def encode(self, key: bytes) -> bytes:
        """Return the packet for the view with this key."""
        return _HELD_FIELDS.pack(_HELD, key, self.ring, self.daemon, self.held, self.frontier)


def decode_held_untrusted(packet: bytes) -> HeldNotice:
    """Decode a whole packet; raise only BadDatagram."""
    if len(packet) != _HELD_FIELDS.size:
        raise BadDatagram("short", f"a held notice of {len(packet)} bytes")
    kind, _, ring, daemon, held, frontier = _HELD_FIELDS.unpack(packet)
    if kind != _HELD:
        raise BadDatagram("kind", f"not a packet of kind {_HELD}")
    return HeldNotice(ring=ring, daemon=daemon, held=held, frontier=frontier)
