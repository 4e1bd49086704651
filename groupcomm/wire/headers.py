"""Headers: several packets of one stream that stay in their ring, for the other rings.

::

    count u16
    each: length u16, then a data packet that is a header, but for its kind and its view's key

See docs/pruning.md.
"""

import struct
from collections.abc import Sequence
from typing import Final

from groupcomm.errors import BadDatagram
from groupcomm.wire.data import DataPacket, decode_data_untrusted
from groupcomm.wire.packet import HEAD_BYTES, KEY_BYTES, PacketKind

_COUNT = struct.Struct("!H")
_LENGTH = struct.Struct("!H")
_KIND: Final = bytes((PacketKind.HEADERS,))
_DATA: Final = bytes((PacketKind.DATA,))

FRAME_BYTES: Final = HEAD_BYTES + _COUNT.size
"""Of the packet, besides the headers."""

EACH_BYTES: Final = _LENGTH.size - HEAD_BYTES
"""By which a header is longer, or here shorter, with others in a packet than as one of its own."""


class HeadersPacket:
    """Headers of packets.

    Attributes:
        packets: of one ring, by rising numbers, each a header; at least one.
    """

    __slots__ = ("packets",)

    def __init__(self, *, packets: list[DataPacket]) -> None:
        self.packets = packets

    def encode(self, key: bytes) -> bytes:
        """The packet for the view with this key."""
        return encode_headers(key, [packet.encode(key) for packet in self.packets])


def encode_headers(key: bytes, headers: Sequence[bytes]) -> bytes:
    """The packet with these headers, each a whole data packet of at most 65,535 bytes."""
    parts = [_KIND, key, _COUNT.pack(len(headers))]
    for header in headers:
        parts += (_LENGTH.pack(len(header) - HEAD_BYTES), header[HEAD_BYTES:])
    return b"".join(parts)


def decode_headers_untrusted(raw: bytes) -> HeadersPacket:
    """Decode a whole packet.

    Raises:
        BadDatagram: it breaks its layout. No other exception, whatever the bytes.
    """
    if len(raw) <= FRAME_BYTES or raw[:1] != _KIND:
        raise BadDatagram("short", f"{len(raw)} bytes are no packet of headers")
    key = raw[1 : 1 + KEY_BYTES]
    packets: list[DataPacket] = []
    (count,) = _COUNT.unpack_from(raw, HEAD_BYTES)
    offset = FRAME_BYTES
    while offset < len(raw):
        if offset + _LENGTH.size > len(raw):
            raise BadDatagram("short", "the length of a header")
        end = offset + _LENGTH.size + _LENGTH.unpack_from(raw, offset)[0]
        if end > len(raw):
            raise BadDatagram("short", "a header ends after its packet")
        packet = decode_data_untrusted(b"".join((_DATA, key, raw[offset + _LENGTH.size : end])))
        _check(packet, packets)
        packets.append(packet)
        offset = end
    if len(packets) != count:
        raise BadDatagram("count", f"{len(packets)} headers where {count} are named")
    return HeadersPacket(packets=packets)


def _check(packet: DataPacket, before: list[DataPacket]) -> None:
    if not packet.pruned:
        raise BadDatagram("kind", f"packet {packet.number} among headers is none")
    if before and (packet.ring != before[0].ring or packet.number <= before[-1].number):
        raise BadDatagram("number", f"header {packet.number} follows {before[-1].number}")
