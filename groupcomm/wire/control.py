"""Control packets: the messages by which daemons agree on views, whole or in parts.

::

    origin u64, restarts u64, random id u64     the daemon that wrote it; others forward it
    sequence u64                                rises with every message of that start
    kind of message u8, part u16, parts u16, payload (the rest)

Control packets belong to no view, so their key is zero. A message too large for one packet is cut
into parts; all carry the same sequence.
"""

import struct
import zlib
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import msgspec

from groupcomm.config.view import Incarnation, incarnation_of
from groupcomm.errors import BadDatagram
from groupcomm.wire.packet import KEY_BYTES, PacketKind

NO_VIEW: Final = bytes(KEY_BYTES)
MAX_PARTS: Final = 1024

_HEAD = struct.Struct("!B16sQQQQBHH")
_CONTROL: Final = int(PacketKind.CONTROL)


class ControlPacket(msgspec.Struct, eq=False, kw_only=True):
    """One part of a control message, its payload not yet looked at.

    Attributes:
        origin: the number of the daemon that wrote the message.
        incarnation: the start of that daemon.
        sequence: the message's sequence number, 0 to 2**64 - 1.
        kind: the message's kind, 0 to 255.
        part: the index of this part, from 0.
        parts: the number of parts, at most MAX_PARTS.
        payload: this part of the message's body.
        raw: the whole packet, to be forwarded.
    """

    origin: int
    incarnation: Incarnation
    sequence: int
    kind: int
    part: int
    parts: int
    payload: bytes
    raw: bytes = b""

    def encode(self, key: bytes = NO_VIEW) -> bytes:
        """Return the packet."""
        head = _HEAD.pack(
            _CONTROL,
            key,
            self.origin,
            self.incarnation.restarts,
            self.incarnation.random_id,
            self.sequence,
            self.kind,
            self.part,
            self.parts,
        )
        return head + self.payload


def decode_control_untrusted(packet: bytes) -> ControlPacket:
    """Decode a whole packet; raise only BadDatagram."""
    if len(packet) < _HEAD.size or packet[0] != _CONTROL:
        raise BadDatagram("short", f"a control packet of {len(packet)} bytes")
    _, _, origin, restarts, random_id, sequence, kind, part, parts = _HEAD.unpack_from(packet)
    if not part < parts <= MAX_PARTS:
        raise BadDatagram("count", f"part {part} of {parts}")
    return ControlPacket(
        origin=origin,
        incarnation=incarnation_of(restarts, random_id),
        sequence=sequence,
        kind=kind,
        part=part,
        parts=parts,
        payload=packet[_HEAD.size :],
        raw=packet,
    )


def cut_message(
    origin: int, incarnation: Incarnation, sequence: int, kind: int, body: bytes, limit: int
) -> list[bytes]:
    """Return the packets of one message, each of at most `limit` bytes.

    Raises:
        AssertionError: the body needs more than MAX_PARTS.
    """
    room = limit - _HEAD.size
    if len(body) <= room:  # the usual case
        start = incarnation.restarts, incarnation.random_id
        return [_HEAD.pack(_CONTROL, NO_VIEW, origin, *start, sequence, kind, 0, 1) + body]
    pieces = [body[start : start + room] for start in range(0, len(body), room)]
    assert len(pieces) <= MAX_PARTS, f"a control message of {len(body)} bytes"
    return [
        ControlPacket(
            origin=origin,
            incarnation=incarnation,
            sequence=sequence,
            kind=kind,
            part=part,
            parts=len(pieces),
            payload=piece,
        ).encode()
        for part, piece in enumerate(pieces)
    ]


MOST_RELAYED: Final = 2**18
"""The most bytes of the packets that travel together, before they are deflated."""

_LENGTH = struct.Struct("!H")


def deflate_packets(packets: Iterable[bytes]) -> bytes:
    """Return control packets together, as raw DEFLATE (RFC 1951); the lengths are u16.

    They have at most MOST_RELAYED bytes with their lengths.
    """
    whole = b"".join(_LENGTH.pack(len(packet)) + packet for packet in packets)
    assert len(whole) <= MOST_RELAYED, f"{len(whole)} bytes of packets"
    deflater = zlib.compressobj(level=1, wbits=-zlib.MAX_WBITS)
    return deflater.compress(whole) + deflater.flush()


@lru_cache(maxsize=16)  # all daemons of a process, in simulations, get the same ones
def inflate_packets_untrusted(deflated: bytes) -> tuple[ControlPacket, ...]:
    """Return the control packets that came together; raise only BadDatagram."""
    inflater = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
    try:
        whole = inflater.decompress(deflated, MOST_RELAYED)
    except zlib.error as error:
        raise BadDatagram("deflated", str(error)) from None
    if not inflater.eof or inflater.unused_data:
        raise BadDatagram("deflated", "packets end early or late, or are too large together")
    packets, at = list[ControlPacket](), 0
    while at < len(whole):
        if at + _LENGTH.size > len(whole):
            raise BadDatagram("short", "packets that end within a length")
        end = at + _LENGTH.size + _LENGTH.unpack_from(whole, at)[0]
        if end > len(whole):
            raise BadDatagram("short", "packets that end within a packet")
        packets.append(decode_control_untrusted(whole[at + _LENGTH.size : end]))
        at = end
    return tuple(packets)
