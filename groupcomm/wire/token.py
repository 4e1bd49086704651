"""The token of a ring, and the packets about it: requests, rest notices, held notices.

The *token*, which one daemon of a ring passes to the next::

    ring u16, hop u64, last u64, last sender u16, clock u64, burst u64
    rings u16, plus 2**15 for columns; rows u16, each: frontier u64, sent u64, held u64 per ring
    requests u16, each: ring u16, first u64, last u64
    wanted u16, each: daemon u16

In views of several rings with the feature LOCAL_SAFE each row has a number more, up to where the
daemon can deliver its ring's stream, and `rings` counts it. With columns (wire/columns.py) this
takes the place of the rows::

    first u16, told u16, passes u16: which far columns are told
    columns: frontier, sent, held of the token's ring, the last of held if that is another one;
    then the far ones

A *token request* says that a daemon wants the token::

    ring u16, daemon u16, hop u64

A *rest notice* says that the token stays with its holder::

    ring u16, hop u64, holder u16, last u64, horizon u64
    frontiers u16, plus 2**15 if `deliverable` follows; each u64, one for each daemon of the ring
    deliverable u64, with LOCAL_SAFE: all daemons of the ring can deliver its stream up to here

A *held notice* tells the others of the ring, without the token, which packets a daemon holds::

    ring u16, daemon u16, held u64, frontier u64

In views of several rings it tells up to where the daemon can deliver the stream.
"""

import struct
from typing import Final

import msgspec

from groupcomm.config.view import MAX_DAEMONS, MAX_RINGS, MOST_OF_SITE
from groupcomm.errors import BadDatagram
from groupcomm.wire.columns import (
    MOST_NUMBER,
    MOST_TIME,
    Far,
    decode_column_untrusted,
    encode_column,
    far_columns,
)
from groupcomm.wire.packet import PacketKind, Reader

MAX_REQUESTS: Final = 512

MOST_WANTED: Final = 16
"""The daemons that a token with columns names as waiting for it; others ask again."""

_TOKEN_HEAD = struct.Struct("!B16sHQQHQQHH")
_COUNT = struct.Struct("!H")
_RANGE = struct.Struct("!HQQ")
_DAEMON = struct.Struct("!H")
_FAR = struct.Struct("!HHH")
_MAX_COLUMNS: Final = MAX_RINGS + 1
_ROWS: Final = tuple(struct.Struct(f"!{2 + count}Q") for count in range(_MAX_COLUMNS + 1))
_TOKEN: Final = int(PacketKind.TOKEN)
_COLUMNS: Final = 1 << 15  # of the number of rings
_TELLS: Final = 1 << 15  # of the number of frontiers
_EVER: Final = 2**64


def request_room(daemons: int, rings: int, limit: int) -> int:
    """Return the number of requests that a token may carry in a packet of `limit` bytes.

    At least one, however large the ring: a token must be able to request something.
    """
    rows = daemons * (_ROWS[rings].size + _DAEMON.size)
    room = limit - _TOKEN_HEAD.size - rows - 2 * _COUNT.size
    return max(1, min(MAX_REQUESTS, room // _RANGE.size))


class Row(msgspec.Struct, eq=False, kw_only=True):
    """The row that one daemon wrote into the token when it last had it.

    Attributes:
        frontier: its frontier, microseconds.
        sent: bytes that it numbered.
        held: for each ring of the view, the number up to which it holds the stream; then, in a
            view with LOCAL_SAFE, that up to which it can deliver its own ring's.
    """

    frontier: int
    sent: int
    held: list[int]


class Token(msgspec.Struct, eq=False, kw_only=True):
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
        far: the far columns that it tells, if its rows travel by columns; None: all rows in full.
    """

    ring: int
    hop: int
    last: int
    last_sender: int
    clock: int
    burst: int
    rows: list[Row]
    requests: list[tuple[int, int, int]]
    wanted: list[int]
    far: Far | None = None

    def read_rows(self, own: Row, ring: int) -> tuple[int, int]:
        """Return what the ring's daemons have written, as the least of all rows.

        Args:
            own: the row of this daemon.
            ring: the ring whose stream is meant.

        Returns:
            The frontier of the token's ring, and the number up to which every daemon holds the
            stream.
        """
        frontier, held = own.frontier, own.held[ring]
        for row in self.rows:
            if row is not own:
                if row.frontier < frontier:
                    frontier = row.frontier
                if row.held[ring] < held:
                    held = row.held[ring]
        return frontier, held

    def held_by_all(self, ring: int) -> int:
        """Return the number up to which every daemon of its ring holds the stream of a ring."""
        held = _EVER
        for row in self.rows:
            held = min(held, row.held[ring])
        return held

    def keep(self, before: list[Row]) -> None:
        """Raise the rows to those of an earlier token, as columns may tell less or be left out."""
        for row, known in zip(self.rows, before, strict=True):
            row.frontier = max(row.frontier, known.frontier)
            row.held = list(map(max, row.held, known.held))

    def encode(self, key: bytes, limit: int = _EVER) -> bytes:
        """Return the packet for the view with this key.

        With columns it carries as many of its requests and of the far columns as fit `limit` bytes,
        and one of each at least, so that all have their turn. That has at most 159 bytes and 12 for
        each daemon, which SAFE_PACKET_BYTES are enough for with MOST_OF_SITE of them.
        """
        rings = len(self.rows[0].held) if self.rows else 0
        requests, wanted, row = self.requests, self.wanted, _ROWS[rings]
        rows: list[bytes] = []
        if self.far is not None:
            rows, requests, wanted = self._by_columns(self.far, limit)
            rings |= _COLUMNS
        else:
            for one in self.rows:
                rows.append(row.pack(one.frontier, one.sent, *one.held))
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
            ),
            *rows,
            _COUNT.pack(len(requests)),
        ]
        for request in requests:
            parts.append(_RANGE.pack(*request))
        parts.append(_COUNT.pack(len(wanted)))
        for daemon in wanted:
            parts.append(_DAEMON.pack(daemon))
        return b"".join(parts)

    def _by_columns(
        self, far: Far, limit: int
    ) -> tuple[list[bytes], list[tuple[int, int, int]], list[int]]:
        """Return the table, the requests and the daemons that a token of `limit` bytes tells."""
        near, places = self._near_columns(), far.places(self.ring, len(self.rows[0].held))
        told = [self._column(place) for place in places[:1]]
        wanted = self.wanted[:MOST_WANTED]
        used = _TOKEN_HEAD.size + _FAR.size + len(near) + sum(map(len, told)) + 2 * _COUNT.size
        room = limit - used - len(wanted) * _DAEMON.size
        requests = self.requests[: max(1, room // 2 // _RANGE.size)]
        room -= len(requests) * _RANGE.size
        for place in places[1:]:
            column = self._column(place)
            room -= len(column)
            if room < 0:
                break
            told.append(column)
        return [_FAR.pack(far.first, len(told), far.passes), near, *told], requests, wanted

    def _near_columns(self) -> bytes:
        """Return the columns that each token tells."""
        near = encode_column([row.frontier for row in self.rows], MOST_TIME)
        near += encode_column([row.sent for row in self.rows])
        for place in _near(self.ring, len(self.rows[0].held)):
            near += self._column(place)
        return near

    def _column(self, place: int) -> bytes:
        return encode_column([row.held[place] for row in self.rows], MOST_NUMBER)


def _near(ring: int, columns: int) -> list[int]:
    """Return the places in `held` that each token tells: that of its ring, and the last one."""
    return [ring] if ring == columns - 1 else [ring, columns - 1]


def _read_columns(packet: bytes, ring: int, columns: int, rows: int) -> tuple[list[Row], Far, int]:
    """Return the rows of a token with columns, its far columns, and the offset of what follows."""
    first, told, passes = _FAR.unpack_from(packet, _TOKEN_HEAD.size)
    count = len(far_columns(ring, columns))
    if ring >= columns or told > count or first >= max(1, count) or rows > MOST_OF_SITE:
        raise BadDatagram("count", f"{rows} rows, columns {first} of {columns} on, ring {ring}")
    far = Far(first, told, passes)
    at = _TOKEN_HEAD.size + _FAR.size
    frontiers, at = decode_column_untrusted(packet, at, rows, MOST_TIME)
    sent, at = decode_column_untrusted(packet, at, rows)
    table = [
        Row(frontier=frontier, sent=number, held=[0] * columns)
        for frontier, number in zip(frontiers, sent, strict=True)
    ]
    for place in _near(ring, columns) + far.places(ring, columns):
        numbers, at = decode_column_untrusted(packet, at, rows, MOST_NUMBER)
        for row, number in zip(table, numbers, strict=True):
            row.held[place] = number
    return table, far, at


def _read_full_rows(packet: bytes, columns: int, rows: int) -> tuple[list[Row], int]:
    """Return the rows of a token without columns, and the offset of what follows."""
    end = _TOKEN_HEAD.size + rows * _ROWS[columns].size
    if end > len(packet):
        raise BadDatagram("short", f"{rows} rows of {columns} numbers in {len(packet)} bytes")
    found = _ROWS[columns].iter_unpack(packet[_TOKEN_HEAD.size : end])
    return [Row(frontier=frontier, sent=sent, held=held) for frontier, sent, *held in found], end


def decode_token_untrusted(packet: bytes) -> Token:
    """Decode a whole packet; raise only BadDatagram."""
    try:
        kind, _, ring, hop, last, last_sender, clock, burst, rings, rows = _TOKEN_HEAD.unpack_from(
            packet
        )
        if kind != _TOKEN:
            raise BadDatagram("kind", f"a packet is not of kind {_TOKEN}")
        by_columns, rings = rings & _COLUMNS, rings & ~_COLUMNS
        if rings > _MAX_COLUMNS or not 0 < rows <= MAX_DAEMONS:
            raise BadDatagram("count", f"{rows} rows of {rings} rings")
        far: Far | None = None
        if by_columns:
            table, far, rows_end = _read_columns(packet, ring, rings, rows)
        else:
            table, rows_end = _read_full_rows(packet, rings, rows)
        (count,) = _COUNT.unpack_from(packet, rows_end)
        requests_end = rows_end + _COUNT.size + count * _RANGE.size
        (waiting,) = _COUNT.unpack_from(packet, requests_end)
    except struct.error:
        raise BadDatagram("short", f"a token of {len(packet)} bytes") from None
    if count > MAX_REQUESTS or waiting > MAX_DAEMONS:
        raise BadDatagram("count", f"{count} requests, and {waiting} daemons want the token")
    wanted_at = requests_end + _COUNT.size
    size = wanted_at + waiting * _DAEMON.size
    if len(packet) != size:
        reason = "short" if len(packet) < size else "trailing"
        raise BadDatagram(reason, f"a token of {len(packet)} bytes, where it has {size}")
    requests = list(_RANGE.iter_unpack(packet[rows_end + _COUNT.size : requests_end]))
    for _, first, end in requests:
        if first > end:
            raise BadDatagram("range", "a request that ends before it begins")
    wanted = list(struct.unpack_from(f"!{waiting}H", packet, wanted_at))
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
        far=far,
    )


# ---- requests ----

_REQUEST_FIELDS = struct.Struct("!B16sHHQ")
_REQUEST: Final = int(PacketKind.REQUEST)


class TokenRequest(msgspec.Struct, eq=False, kw_only=True):
    """A request to the holder of the token to pass it to a daemon.

    Attributes:
        ring: index of the ring.
        daemon: the daemon that wants it, an index in the view.
        hop: the highest hop that this daemon knows of; it proves that the token got there.
    """

    ring: int
    daemon: int
    hop: int

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
_REST: Final = int(PacketKind.REST)


class RestNotice(msgspec.Struct, eq=False, kw_only=True):
    """Heartbeat, stability and horizon of a ring whose token rests.

    Attributes:
        ring: index of the ring.
        hop: the hop of the resting token.
        holder: the daemon with which it rests.
        last: the last packet number given; all daemons of the ring hold the stream up to it.
        horizon: after packet `last`, nothing will be stamped at or below this time.
        frontiers: the frontiers of the ring's daemons, in its order, as in the token.
        deliverable: all daemons of the ring can deliver the stream up to this number; None in a
            view without LOCAL_SAFE.
    """

    ring: int
    hop: int
    holder: int
    last: int
    horizon: int
    frontiers: list[int]
    deliverable: int | None = None

    def encode(self, key: bytes) -> bytes:
        """Return the packet for the view with this key."""
        count, numbers = len(self.frontiers), self.frontiers
        if self.deliverable is not None:
            count, numbers = count | _TELLS, [*numbers, self.deliverable]
        head = _REST_HEAD.pack(
            _REST, key, self.ring, self.hop, self.holder, self.last, self.horizon, count
        )
        return head + struct.pack(f"!{len(numbers)}Q", *numbers)


def decode_rest_untrusted(packet: bytes) -> RestNotice:
    """Decode a whole packet; raise only BadDatagram."""
    if len(packet) < _REST_HEAD.size:
        raise BadDatagram("short", f"a rest notice of {len(packet)} bytes")
    kind, _, ring, hop, holder, last, horizon, count = _REST_HEAD.unpack_from(packet)
    if kind != _REST:
        raise BadDatagram("kind", f"a packet is not of kind {_REST}")
    tells, count = count & _TELLS != 0, count & ~_TELLS
    if not 0 < count <= MAX_DAEMONS:
        raise BadDatagram("count", f"a rest notice of {count} daemons")
    size = _REST_HEAD.size + 8 * (count + tells)
    if len(packet) != size:
        reason = "short" if len(packet) < size else "trailing"
        raise BadDatagram(reason, f"a rest notice of {len(packet)} bytes, where it has {size}")
    numbers = struct.unpack_from(f"!{count + tells}Q", packet, _REST_HEAD.size)
    return RestNotice(
        ring=ring,
        hop=hop,
        holder=holder,
        last=last,
        horizon=horizon,
        frontiers=list(numbers[:count]),
        deliverable=numbers[count] if tells else None,
    )


# ---- held notices ----

_HELD_FIELDS = struct.Struct("!B16sHHQQ")
_HELD: Final = int(PacketKind.HELD)


class HeldNotice(msgspec.Struct, eq=False, kw_only=True):
    """The answer to a packet that asks which daemons hold it.

    Attributes:
        ring: index of the ring.
        daemon: the daemon that answers, an index in the view.
        held: the number up to which the daemon holds the ring's stream; in a view of several rings
            that up to which it can deliver it.
        frontier: the time up to which it holds everything, and nothing can still arrive.
    """

    ring: int
    daemon: int
    held: int
    frontier: int

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
