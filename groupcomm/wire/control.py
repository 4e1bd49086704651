"""Control packets: the messages by which daemons agree on views, whole or in parts.

::

    origin u64, restarts u64, random id u64     the daemon that wrote it; others forward it
    sequence u64                                rises with every message of that start
    kind of message u8, part u16, parts u16, payload (the rest)

Control packets belong to no view, so their key is zero. A message too large for one packet is cut
into parts; all carry the same sequence.
"""

import struct
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
