"""What all packets share: a kind and the key of the view they belong to."""

import enum
import struct
from typing import Any, Final

from groupcomm.errors import BadDatagram

KEY_BYTES: Final = 16
HEAD_BYTES: Final = 1 + KEY_BYTES


class PacketKind(enum.IntEnum):
    """The first byte of a packet."""

    DATA = 1
    UNRELIABLE = 2
    TOKEN = 3
    REST = 4
    REQUEST = 5
    HORIZON = 6
    RESEND = 7
    CONTROL = 8
    LINK = 9
    ACK = 10
    HEADERS = 11
    HELLO = 12
    HELD = 13


def peek_untrusted(packet: bytes) -> tuple[int, bytes]:
    """A packet's kind and its view's key (16 bytes), before anything else is looked at."""
    if len(packet) < HEAD_BYTES:
        raise BadDatagram("short", f"a packet of {len(packet)} bytes")
    return packet[0], packet[1:HEAD_BYTES]


class Reader:
    """Takes fields from a packet in turn, its head first; every shortage is a BadDatagram."""

    __slots__ = ("_offset", "_packet")

    def __init__(self, packet: bytes, kind: int) -> None:
        if not packet or packet[0] != kind:
            raise BadDatagram("kind", f"not a packet of kind {kind}")
        self._packet = packet
        self._offset = 0

    def take(self, fields: struct.Struct) -> tuple[Any, ...]:
        """The next fields: numbers, and bytes where the struct says so."""
        try:
            values = fields.unpack_from(self._packet, self._offset)
        except struct.error:
            raise BadDatagram("short", f"{len(self._packet)} bytes") from None
        self._offset += fields.size
        return values

    def take_many(self, count: int, cap: int, fields: struct.Struct) -> list[tuple[int, ...]]:
        """`count` rows, at most `cap`; nothing is allocated for rows that are not there."""
        if count > cap:
            raise BadDatagram("count", f"{count} where {cap} are allowed")
        end = self._offset + count * fields.size
        if end > len(self._packet):
            raise BadDatagram("short", f"{count} rows in {len(self._packet)} bytes")
        rows = list(fields.iter_unpack(self._packet[self._offset : end]))
        self._offset = end
        return rows

    def end(self) -> None:
        """Nothing may follow."""
        if self._offset != len(self._packet):
            raise BadDatagram("trailing", f"{len(self._packet) - self._offset} bytes too many")
