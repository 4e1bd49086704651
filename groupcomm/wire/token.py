"""The token: what one daemon of a ring passes to the next.

::

    ring u16, hop u64, last u64, last sender u16, clock u64, burst u64
    rings u16, rows u16, each: frontier u64, sent u64, held u64 per ring
    requests u16, each: ring u16, first u64, last u64
    wanted u16, each: daemon u16
"""

import struct
from typing import Final

from groupcomm.config.view import MAX_DAEMONS, MAX_RINGS
from groupcomm.errors import BadDatagram
from groupcomm.wire.packet import PacketKind, Reader

MAX_REQUESTS: Final = 512

_HEAD = struct.Struct("!B16sHQQHQQHH")
_COUNT = struct.Struct("!H")
_REQUEST = struct.Struct("!HQQ")
_DAEMON = struct.Struct("!H")
_ROWS: Final = tuple(struct.Struct(f"!{2 + rings}Q") for rings in range(MAX_RINGS + 1))
_TOKEN: Final = int(PacketKind.TOKEN)


def request_room(daemons: int, rings: int, limit: int) -> int:
    """How many requests a token may carry in a packet of `limit` bytes, with all else it can hold.

    At least one, however large the ring: a token must be able to ask for something.
    """
    rows = daemons * (_ROWS[rings].size + _DAEMON.size)
    room = limit - _HEAD.size - rows - 2 * _COUNT.size
    return max(1, min(MAX_REQUESTS, room // _REQUEST.size))


class Row:
    """What one daemon has written into the token at its last visit.

    Attributes:
        frontier: its frontier, microseconds.
        sent: bytes it numbered.
        held: per ring of the view, up to where it holds the stream.
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
        hop: how often it was passed on; tells copies apart.
        last: the last packet number given.
        last_sender: the daemon that gave it.
        clock: the ring's clock, microseconds; no horizon or stamp of the ring is above it.
        burst: bytes numbered in the last rotation.
        rows: one for each daemon of the ring, in its order.
        requests: (ring, first, last) of packets that somebody lacks.
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
        """The packet for the view with this key."""
        rings = len(self.rows[0].held) if self.rows else 0
        row = _ROWS[rings]
        parts = [
            _HEAD.pack(
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
        parts += [_REQUEST.pack(*request) for request in self.requests]
        parts.append(_COUNT.pack(len(self.wanted)))
        parts += [_DAEMON.pack(daemon) for daemon in self.wanted]
        return b"".join(parts)


def decode_token_untrusted(packet: bytes) -> Token:
    """Decode a whole packet; raises only BadDatagram."""
    reader = Reader(packet, _TOKEN)
    _, _, ring, hop, last, last_sender, clock, burst, rings, rows = reader.take(_HEAD)
    if rings > MAX_RINGS or not rows:
        raise BadDatagram("count", f"{rows} rows of {rings} rings")
    table = [
        Row(frontier=frontier, sent=sent, held=held)
        for frontier, sent, *held in reader.take_many(rows, MAX_DAEMONS, _ROWS[rings])
    ]
    (count,) = reader.take(_COUNT)
    requests = [
        (stream, first, end)
        for stream, first, end in reader.take_many(count, MAX_REQUESTS, _REQUEST)
    ]
    if any(first > end for _, first, end in requests):
        raise BadDatagram("range", "a request that ends before it begins")
    (count,) = reader.take(_COUNT)
    wanted = [daemon for (daemon,) in reader.take_many(count, MAX_DAEMONS, _DAEMON)]
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
