"""Packets on a link between two sites, with numbers of the link's own.

::

    sender u16, number u64, then one of
        a packet but for its view's key
        128 u8, whole u64, part u16, parts u16, content    a piece of such a packet
        129 u8, zeros                                      a probe of how much passes
"""

import struct
from typing import Final, NamedTuple

from groupcomm.errors import BadDatagram
from groupcomm.wire.packet import HEAD_BYTES, PacketKind

LINK_BYTES: Final = 11
"""By which a packet is longer on a link: it has one byte of kind more, the sender, the number."""

MAX_PIECES: Final = 256

_PIECE: Final = 128
_PADDING: Final = 129
_HEAD = struct.Struct("!B16sHQ")
_PIECE_HEAD = struct.Struct("!BQHH")
_LINK: Final = int(PacketKind.LINK)
_CARRIED: Final = frozenset((PacketKind.DATA, PacketKind.UNRELIABLE, PacketKind.HEADERS))

PIECE_BYTES: Final = _HEAD.size + _PIECE_HEAD.size
"""Of a link packet besides the content of the piece in it."""

PROBE_BYTES: Final = _HEAD.size + 1
"""Of the smallest probe."""


class Piece(NamedTuple):
    """A part of a packet that is too large for the link.

    Attributes:
        whole: which packet; counted by the sender for this link.
        part: which part of it, from 0.
        parts: how many there are, 1 to MAX_PIECES.
        content: bytes of the packet, which goes without its view's key.
    """

    whole: int
    part: int
    parts: int
    content: bytes


class LinkPacket:
    """A packet, a piece of one, or a probe, on its way over one link.

    Attributes:
        sender: who sent it over this link, an index in the view.
        number: of this try, from 1 on; counted by the sender for this link.
        packet: of data, of headers, or one outside the streams, whole; empty if there is none.
        piece: or a piece of one.
        zeros: or so many bytes without a meaning.
    """

    __slots__ = ("number", "packet", "piece", "sender", "zeros")

    def __init__(
        self,
        *,
        sender: int,
        number: int,
        packet: bytes = b"",
        piece: Piece | None = None,
        zeros: int = 0,
    ) -> None:
        self.sender = sender
        self.number = number
        self.packet = packet
        self.piece = piece
        self.zeros = zeros

    def encode(self, key: bytes) -> bytes:
        """The packet for the view with this key, which the carried one names, too."""
        head = _HEAD.pack(_LINK, key, self.sender, self.number)
        if self.packet:
            return head + without_key(self.packet)
        if self.piece is not None:
            *numbers, content = self.piece
            return b"".join((head, _PIECE_HEAD.pack(_PIECE, *numbers), content))
        return b"".join((head, bytes((_PADDING,)), bytes(self.zeros)))


def without_key(packet: bytes) -> bytes:
    """A packet as it goes over a link."""
    return packet[:1] + packet[HEAD_BYTES:]


def with_key_untrusted(carried: bytes, key: bytes) -> bytes:
    """A packet as it came over a link, whole again; raises only BadDatagram."""
    if not carried or carried[0] not in _CARRIED:
        raise BadDatagram("kind", f"{carried[:1]!r} is no packet that goes over links")
    return b"".join((carried[:1], key, carried[1:]))


def decode_link_untrusted(raw: bytes) -> LinkPacket:
    """Decode a whole packet, but for what it carries; raises only BadDatagram."""
    at = _HEAD.size
    if len(raw) <= at:
        raise BadDatagram("short", f"a link packet of {len(raw)} bytes")
    kind, key, sender, number = _HEAD.unpack_from(raw)
    if kind != _LINK:
        raise BadDatagram("kind", f"a link packet of kind {kind}")
    if not number:
        raise BadDatagram("number", "link packets count from 1")
    if raw[at] == _PIECE:
        return LinkPacket(sender=sender, number=number, piece=_decode_piece(raw, at))
    if raw[at] == _PADDING:
        zeros = len(raw) - at - 1
        if raw.count(0, at + 1) != zeros:
            raise BadDatagram("range", "a probe is of zeros")
        return LinkPacket(sender=sender, number=number, zeros=zeros)
    return LinkPacket(sender=sender, number=number, packet=with_key_untrusted(raw[at:], key))


def _decode_piece(raw: bytes, at: int) -> Piece:
    if len(raw) <= at + _PIECE_HEAD.size:
        raise BadDatagram("short", f"a piece in {len(raw)} bytes")
    _, whole, part, parts = _PIECE_HEAD.unpack_from(raw, at)
    if not part < parts <= MAX_PIECES:
        raise BadDatagram("count", f"piece {part} of {parts}")
    return Piece(whole, part, parts, raw[at + _PIECE_HEAD.size :])
