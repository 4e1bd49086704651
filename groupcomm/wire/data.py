"""Data packets: numbered, stamped, with bundles; the packets of a stream.

::

    ring u16, number u64, time u64, daemon u16, previous u64, form u8
    form 1: count u16, V u64 each, A's time u64, A's ring u16      causes in full
    form 2: reference u64                                          as in that packet of the daemon
    form + 16: it stays in its ring; form + 32: the header of one that does
    form + 64: who has numbered it keeps the token until somebody asks for it, or for a while
    form + 128, with 64: and holds all up to it; who else does is to tell the ring
    bundles, or the headers of bundles: see bundle.py
"""

import struct
from typing import Final

from groupcomm.clocks.stamp import Stamp
from groupcomm.config.view import MAX_RINGS
from groupcomm.errors import BadDatagram
from groupcomm.level import ServiceLevel
from groupcomm.wire.bundle import Bundle, decode_bundles_untrusted, encode_bundles
from groupcomm.wire.packet import PacketKind

_HEAD = struct.Struct("!B16sHQQHQB")
_REFERENCE = struct.Struct("!Q")
_COUNT = struct.Struct("!H")
_STAMP = struct.Struct("!QH")
_VECTORS: Final = tuple(struct.Struct(f"!{count}Q") for count in range(MAX_RINGS + 1))
_FORM_AT: Final = _HEAD.size - 1
_DATA: Final = int(PacketKind.DATA)

_UNRELIABLE: Final = int(ServiceLevel.UNRELIABLE)

_NO_CAUSES: Final = 0
_IN_FULL: Final = 1
_BY_REFERENCE: Final = 2
_STAYS: Final = 16
_HEADER: Final = 32
_KEEPS: Final = 64
_ASKS: Final = 128
_CAUSES: Final = 15  # of the form
_FLAGS: Final = frozenset((0, _STAYS, _HEADER, _KEEPS, _KEEPS | _ASKS))
"""A packet that stays leaves in a view of several rings; there the token is not kept."""


def data_overhead(rings: int) -> int:
    """Bytes of a packet before its records, with causes in full for so many rings."""
    return _HEAD.size + _COUNT.size + 8 * rings + _STAMP.size + _COUNT.size


class DataPacket:
    """One packet of a stream.

    Attributes:
        ring: whose stream, an index in the view.
        number: in the stream.
        time: of its stamp, microseconds.
        daemon: that numbered it, an index in the view.
        previous: that daemon's packet before it in the stream.
        vector: V, per ring the highest number its daemon had delivered from; None without causes.
        agreed: A, the last agreed stamp its daemon had delivered; None without causes.
        reference: the packet of the same daemon whose (V, A) holds here; 0 for none.
        bundles: at least one.
        raw: the whole packet, as encoded, for retransmission.
        local_only: nobody outside of the ring is a recipient of any of the bundles.
        pruned: this is only the header of a packet that stays in its ring.
        keeps: the token was with its daemon when it was sent, and was to stay there.
        asks: and that holds all up to here; who else does is to tell the ring.
        causal: it has a CAUSAL bundle. This and what follows is the order's own.
        in_agreed_order: it has an AGREED or SAFE bundle.
        safe: it has a SAFE bundle.
        ready: its causes are delivered.
        pending: its FIFO and CAUSAL bundles that are not delivered.
    """

    __slots__ = (
        "agreed",
        "asks",
        "bundles",
        "causal",
        "daemon",
        "in_agreed_order",
        "keeps",
        "local_only",
        "number",
        "pending",
        "previous",
        "pruned",
        "raw",
        "ready",
        "reference",
        "ring",
        "safe",
        "time",
        "vector",
    )

    def __init__(
        self,
        *,
        ring: int,
        number: int,
        time: int,
        daemon: int,
        previous: int,
        bundles: list[Bundle],
        vector: tuple[int, ...] | None = None,
        agreed: Stamp | None = None,
        reference: int = 0,
        raw: bytes = b"",
        local_only: bool = False,
        pruned: bool = False,
        keeps: bool = False,
        asks: bool = False,
    ) -> None:
        self.ring = ring
        self.number = number
        self.time = time
        self.daemon = daemon
        self.previous = previous
        self.vector = vector
        self.agreed = agreed
        self.reference = reference
        self.bundles = bundles
        self.raw = raw
        self.local_only = local_only
        self.pruned = pruned
        self.keeps = keeps
        self.asks = asks
        self.causal = False
        self.in_agreed_order = False
        self.safe = False
        self.ready = False
        self.pending = 0

    def encode(self, key: bytes) -> bytes:
        """The packet for the view with this key."""
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
        form |= _STAYS * self.local_only | _HEADER * self.pruned
        form |= _KEEPS * self.keeps | _ASKS * self.asks
        start = _HEAD.pack(_DATA, key, *head, form) + causes
        return encode_bundles(start, self.bundles, headers=self.pruned)

    def keep(self, *, asks: bool) -> None:
        """Say so, after it was encoded: the token stays with its daemon, which may ask."""
        raw, self.keeps, self.asks = self.raw, True, asks
        form = raw[_FORM_AT] | _KEEPS | _ASKS * asks
        self.raw = b"%b%c%b" % (raw[:_FORM_AT], form, raw[_FORM_AT + 1 :])

    def header(self) -> bytes:
        """The header of this packet, which stays in its ring: itself without any body.

        It is cut from the packet as it was sent; V and A may have been filled in since then.
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
    _check(kind, flags, number, previous, reference)
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
        local_only=flags & _STAYS != 0,
        pruned=flags & _HEADER != 0,
        keeps=flags & _KEEPS != 0,
        asks=flags & _ASKS != 0,
    )
    for place, bundle in enumerate(bundles):
        if bundle.level == _UNRELIABLE:
            raise BadDatagram("bundle", "an UNRELIABLE bundle with a number")
        bundle.packet = decoded
        bundle.place = place
    return decoded


def _check(kind: int, flags: int, number: int, previous: int, reference: int) -> None:
    form = flags & _CAUSES
    if kind != _DATA or form > _BY_REFERENCE or flags - form not in _FLAGS:
        raise BadDatagram("kind", f"a data packet of kind {kind}, form {flags}")
    if previous >= number or reference >= number or (form == _BY_REFERENCE and not reference):
        raise BadDatagram("number", f"packet {number} follows {previous}, refers to {reference}")
