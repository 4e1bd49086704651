"""Packets with bundles: numbered ones, headers of these for other rings, and unnumbered ones.

A *data packet* is numbered and stamped; a stream consists of them::

    ring u16, number u64, time u64, daemon u16, previous u64, form u8
    form 1: count u16, V u64 each, A's time u64, A's ring u16      causes in full
    form 2: reference u64                                          as in that packet of the daemon
    form + 16: it is local-only; form + 32: the header of a local-only packet
    form + 64: its daemon keeps the token until another one asks for it, or for a while
    form + 128, with 64: its daemon holds all up to it, and asks the others whether they do
    bundles, or the headers of bundles: see bundle.py

A *packet of headers* carries several local-only packets of one stream to other rings
(docs/pruning.md)::

    count u16
    each: length u16, then a data packet that is a header, without its kind and its view's key

An *unreliable packet* stands outside the streams: without a number, a stamp or a repair::

    daemon u16, counter u64, bundles (see bundle.py)
"""

import struct
from collections.abc import Sequence
from typing import Final

import msgspec

from groupcomm.clocks.stamp import Stamp
from groupcomm.config.view import MAX_RINGS
from groupcomm.errors import BadDatagram
from groupcomm.level import ServiceLevel
from groupcomm.wire.bundle import Bundle, decode_bundles_untrusted, encode_bundles
from groupcomm.wire.packet import HEAD_BYTES, KEY_BYTES, PacketKind

_HEAD = struct.Struct("!B16sHQQHQB")
_REFERENCE = struct.Struct("!Q")
_COUNT = struct.Struct("!H")
_STAMP = struct.Struct("!QH")
_VECTORS: Final = tuple(struct.Struct(f"!{count}Q") for count in range(MAX_RINGS + 1))
_FORM_AT: Final = _HEAD.size - 1
_DATA: Final = int(PacketKind.DATA)

_LEVEL_UNRELIABLE: Final = int(ServiceLevel.UNRELIABLE)

_NO_CAUSES: Final = 0
_IN_FULL: Final = 1
_BY_REFERENCE: Final = 2
_LOCAL_ONLY: Final = 16
_HEADER: Final = 32
_LINGERS: Final = 64
_ASKS: Final = 128
_CAUSES: Final = 15  # the bits of the form for causes
_FLAGS: Final = frozenset(
    (0, _LOCAL_ONLY, _HEADER, _LINGERS, _LINGERS | _ASKS, _LOCAL_ONLY | _LINGERS | _ASKS)
)
"""Local-only packets exist in views of several rings only, where a packet that LINGERS asks."""


def data_overhead(rings: int) -> int:
    """Return the bytes of a packet before its records, with causes in full for `rings` rings."""
    return _HEAD.size + _COUNT.size + 8 * rings + _STAMP.size + _COUNT.size


class DataPacket(msgspec.Struct, eq=False, kw_only=True):
    """One packet of a stream.

    Attributes:
        ring: the ring whose stream it belongs to, an index in the view.
        number: its number in the stream.
        time: the time of its stamp, microseconds.
        daemon: the daemon that numbered it, an index in the view.
        previous: the packet before it of that daemon in the stream.
        vector: V, per ring the highest number its daemon had delivered from; None without causes.
        agreed: A, the last agreed stamp its daemon had delivered; None without causes.
        reference: the packet of the same daemon whose (V, A) holds here; 0 for none.
        bundles: its bundles, at least one.
        raw: the whole packet, as encoded, for retransmission.
        local_only: whether no bundle of it has a recipient outside the ring.
        pruned: whether this is only the header of a local-only packet.
        lingers: its daemon had the token when it was sent, and kept it.
        asks: its daemon holds all packets up to it, and asks the others of the ring if they do.
        causal: whether it has a CAUSAL bundle. This and the following attributes belong to the
            order.
        in_agreed_order: whether it has an AGREED or SAFE bundle.
        safe: whether it has a SAFE bundle.
        ready: whether its causes are delivered.
        pending: the number of its FIFO and CAUSAL bundles that are not delivered.
        wait: the stamp that it waits for if its ring orders it alone; None if not, or if that is
            not known yet.
        wait_number: the number up to which all daemons of its ring have to be able to deliver
            their stream, too; 0 for none.
        done: whether its ring orders it alone, and it is delivered.
    """

    ring: int
    number: int
    time: int
    daemon: int
    previous: int
    bundles: list[Bundle]
    vector: tuple[int, ...] | None = None
    agreed: Stamp | None = None
    reference: int = 0
    raw: bytes = b""
    local_only: bool = False
    pruned: bool = False
    lingers: bool = False
    asks: bool = False
    causal: bool = False
    in_agreed_order: bool = False
    safe: bool = False
    ready: bool = False
    pending: int = 0
    wait: Stamp | None = None
    wait_number: int = 0
    done: bool = False

    @property
    def stays(self) -> bool:
        """Return whether it has no recipient outside its ring."""
        return self.local_only or self.pruned

    def encode(self, key: bytes) -> bytes:
        """Return the packet for the view with this key."""
        head = (self.ring, self.number, self.time, self.daemon, self.previous)
        if self.vector is not None and self.agreed is not None:
            form = _IN_FULL
            causes = b"".join(
                (
                    _COUNT.pack(len(self.vector)),
                    _VECTORS[len(self.vector)].pack(*self.vector),
                    _STAMP.pack(*self.agreed),
                )
            )
        elif self.reference:
            form, causes = _BY_REFERENCE, _REFERENCE.pack(self.reference)
        else:
            form, causes = _NO_CAUSES, b""
        form |= _LOCAL_ONLY * self.local_only | _HEADER * self.pruned
        form |= _LINGERS * self.lingers | _ASKS * self.asks
        start = _HEAD.pack(_DATA, key, *head, form) + causes
        return encode_bundles(start, self.bundles, headers=self.pruned)

    def mark_lingering(self, *, asks: bool) -> None:
        """State in the encoded packet that the token stays with its daemon, which may ask."""
        raw, self.lingers, self.asks = self.raw, True, asks
        form = raw[_FORM_AT] | _LINGERS | _ASKS * asks
        self.raw = b"%b%c%b" % (raw[:_FORM_AT], form, raw[_FORM_AT + 1 :])

    def header(self) -> bytes:
        """Return the header of this local-only packet: the packet itself without any body.

        It is cut from the packet as it was sent; V and A may have been filled in since.
        """
        raw = self.raw
        form = raw[_FORM_AT] & _CAUSES
        end = _HEAD.size
        if form == _IN_FULL:
            end += _COUNT.size + 8 * _COUNT.unpack_from(raw, end)[0] + _STAMP.size
        elif form == _BY_REFERENCE:
            end += _REFERENCE.size
        parts = [raw[:_FORM_AT], bytes((form | _HEADER,)), raw[_HEAD.size : end]]
        parts.append(_COUNT.pack(len(self.bundles)))
        parts += [bundle.header() for bundle in self.bundles]
        return b"".join(parts)


def decode_data_untrusted(packet: bytes) -> DataPacket:
    """Decode a whole packet.

    Raises:
        BadDatagram: it breaks its layout. No other exception, whatever the bytes.
    """
    try:
        kind, _, ring, number, time, daemon, previous, flags = _HEAD.unpack_from(packet)
        form = flags & _CAUSES
        offset = _HEAD.size
        vector: tuple[int, ...] | None = None
        agreed: Stamp | None = None
        reference = 0
        if form == _IN_FULL:
            (count,) = _COUNT.unpack_from(packet, offset)
            if count > MAX_RINGS:
                raise BadDatagram("count", f"a vector of {count}")
            vector = _VECTORS[count].unpack_from(packet, offset + 2)
            offset += 2 + 8 * count
            agreed = Stamp._make(_STAMP.unpack_from(packet, offset))
            offset += _STAMP.size
        elif form == _BY_REFERENCE:
            (reference,) = _REFERENCE.unpack_from(packet, offset)
            offset += _REFERENCE.size
    except struct.error:
        raise BadDatagram("short", f"a data packet of {len(packet)} bytes") from None
    _check_data(kind, flags, number, previous, reference)
    bundles = decode_bundles_untrusted(packet, offset, headers=flags & _HEADER != 0)
    if not bundles:
        raise BadDatagram("count", "a data packet without bundles")
    decoded = DataPacket(
        ring=ring,
        number=number,
        time=time,
        daemon=daemon,
        previous=previous,
        vector=vector,
        agreed=agreed,
        reference=reference,
        bundles=bundles,
        raw=packet,
        local_only=flags & _LOCAL_ONLY != 0,
        pruned=flags & _HEADER != 0,
        lingers=flags & _LINGERS != 0,
        asks=flags & _ASKS != 0,
    )
    for place, bundle in enumerate(bundles):
        if bundle.level == _LEVEL_UNRELIABLE:
            raise BadDatagram("bundle", "an UNRELIABLE bundle with a number")
        bundle.packet = decoded
        bundle.place = place
    return decoded


def _check_data(kind: int, flags: int, number: int, previous: int, reference: int) -> None:
    form = flags & _CAUSES
    if kind != _DATA or form > _BY_REFERENCE or flags - form not in _FLAGS:
        raise BadDatagram("kind", f"a data packet of kind {kind}, form {flags}")
    if previous >= number or reference >= number or (form == _BY_REFERENCE and not reference):
        raise BadDatagram("number", f"packet {number} follows {previous}, refers to {reference}")


# ---- headers ----

_LENGTH = struct.Struct("!H")
_ALONE: Final = 1 << 15
"""A bit of the number of headers."""

_HEADERS_KIND: Final = bytes((PacketKind.HEADERS,))
_DATA_KIND: Final = bytes((PacketKind.DATA,))

HEADERS_FRAME_BYTES: Final = HEAD_BYTES + _COUNT.size
"""Bytes of a packet of headers besides the headers."""

HEADER_EXTRA_BYTES: Final = _LENGTH.size - HEAD_BYTES
"""The bytes of a header in a packet of headers minus those of the same header as a data packet of
its own; this is negative."""


class HeadersPacket(msgspec.Struct, eq=False, kw_only=True):
    """Headers of local-only packets.

    Attributes:
        packets: the headers, of one ring, by rising numbers; at least one.
        alone: whether their ring delivers all agreed ones alone: others need not hurry to promise.
    """

    packets: list[DataPacket]
    alone: bool = False

    def encode(self, key: bytes) -> bytes:
        """Return the packet for the view with this key."""
        headers = [packet.encode(key) for packet in self.packets]
        return encode_headers(key, headers, alone=self.alone)


def encode_headers(key: bytes, headers: Sequence[bytes], *, alone: bool) -> bytes:
    """Return the packet with these headers, each a whole data packet of at most 65,535 bytes."""
    parts = [_HEADERS_KIND, key, _COUNT.pack(len(headers) | alone * _ALONE)]
    for header in headers:
        parts += (_LENGTH.pack(len(header) - HEAD_BYTES), header[HEAD_BYTES:])
    return b"".join(parts)


def decode_headers_untrusted(raw: bytes) -> HeadersPacket:
    """Decode a whole packet.

    Raises:
        BadDatagram: it breaks its layout. No other exception, whatever the bytes.
    """
    if len(raw) <= HEADERS_FRAME_BYTES or raw[:1] != _HEADERS_KIND:
        raise BadDatagram("short", f"{len(raw)} bytes are no packet of headers")
    key = raw[1 : 1 + KEY_BYTES]
    packets: list[DataPacket] = []
    (count,) = _COUNT.unpack_from(raw, HEAD_BYTES)
    offset = HEADERS_FRAME_BYTES
    while offset < len(raw):
        if offset + _LENGTH.size > len(raw):
            raise BadDatagram("short", "the length of a header")
        end = offset + _LENGTH.size + _LENGTH.unpack_from(raw, offset)[0]
        if end > len(raw):
            raise BadDatagram("short", "a header ends after its packet")
        header = b"".join((_DATA_KIND, key, raw[offset + _LENGTH.size : end]))
        packet = decode_data_untrusted(header)
        _check_header(packet, packets)
        packets.append(packet)
        offset = end
    if len(packets) != count & ~_ALONE:
        raise BadDatagram("count", f"{len(packets)} headers where {count} are named")
    return HeadersPacket(packets=packets, alone=bool(count & _ALONE))


def _check_header(packet: DataPacket, before: list[DataPacket]) -> None:
    if not packet.pruned:
        raise BadDatagram("kind", f"packet {packet.number} among headers is none")
    if before and (packet.ring != before[0].ring or packet.number <= before[-1].number):
        raise BadDatagram("number", f"header {packet.number} follows {before[-1].number}")


# ---- outside the streams ----

_UNRELIABLE_HEAD = struct.Struct("!B16sHQ")
_UNRELIABLE: Final = int(PacketKind.UNRELIABLE)


class UnreliablePacket(msgspec.Struct, eq=False, kw_only=True):
    """Bundles of one daemon that may be lost.

    Attributes:
        daemon: the daemon that sent it, an index in the view.
        counter: the packet's number among that daemon's unreliable ones, so that none is accepted
            twice.
        bundles: its bundles, at least one.
    """

    daemon: int
    counter: int
    bundles: list[Bundle]

    def encode(self, key: bytes) -> bytes:
        """Return the packet for the view with this key."""
        head = _UNRELIABLE_HEAD.pack(_UNRELIABLE, key, self.daemon, self.counter)
        return encode_bundles(head, self.bundles)


def decode_unreliable_untrusted(packet: bytes) -> UnreliablePacket:
    """Decode a whole packet; raise only BadDatagram."""
    if len(packet) < _UNRELIABLE_HEAD.size:
        raise BadDatagram("short", f"an UNRELIABLE packet of {len(packet)} bytes")
    kind, _, daemon, counter = _UNRELIABLE_HEAD.unpack_from(packet)
    if kind != _UNRELIABLE:
        raise BadDatagram("kind", f"an UNRELIABLE packet of kind {kind}")
    bundles = decode_bundles_untrusted(packet, _UNRELIABLE_HEAD.size)
    if not bundles:
        raise BadDatagram("count", "an UNRELIABLE packet without bundles")
    if any(bundle.level != _LEVEL_UNRELIABLE for bundle in bundles):
        raise BadDatagram("bundle", "a bundle of another level without a number")
    return UnreliablePacket(daemon=daemon, counter=counter, bundles=bundles)
