"""The head of all packets: a kind, and the key of the view that they belong to."""

import enum
import struct
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from groupcomm.errors import BadDatagram

Raw: TypeAlias = bytes | memoryview
"""Bytes that may be a part of others: cut out of a packet or a frame without being copied."""

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
    """Return the kind of a packet and the key of its view (16 bytes); decode nothing else."""
    if len(packet) < HEAD_BYTES:
        raise BadDatagram("short", f"a packet of {len(packet)} bytes has no head")
    return packet[0], packet[1:HEAD_BYTES]


class Reader:
    """A reader of fields from a packet in turn, head first; every shortage is a BadDatagram."""

    __slots__ = ("_offset", "_packet")

    def __init__(self, packet: bytes, kind: int) -> None:
        if not packet or packet[0] != kind:
            raise BadDatagram("kind", f"a packet is not of kind {kind}")
        self._packet = packet
        self._offset = 0

    def read(self, fields: struct.Struct) -> tuple[Any, ...]:
        """Return the next fields: numbers, or bytes where the struct says so."""
        try:
            values = fields.unpack_from(self._packet, self._offset)
        except struct.error:
            raise BadDatagram("short", f"a packet ends after {len(self._packet)} bytes") from None
        self._offset += fields.size
        return values

    def read_rows(self, count: int, cap: int, fields: struct.Struct) -> list[tuple[int, ...]]:
        """Return `count` rows, at most `cap`; allocate nothing for rows that are not there."""
        if count > cap:
            raise BadDatagram("count", f"{count} rows, and {cap} are allowed")
        end = self._offset + count * fields.size
        if end > len(self._packet):
            raise BadDatagram("short", f"{count} rows in {len(self._packet)} bytes")
        rows = list(fields.iter_unpack(self._packet[self._offset : end]))
        self._offset = end
        return rows

    def end(self) -> None:
        """Raise BadDatagram if anything follows."""
        if self._offset != len(self._packet):
            raise BadDatagram("trailing", f"{len(self._packet) - self._offset} bytes too many")


def parts_behind(parts: Sequence[Raw], size: int) -> Sequence[Raw]:
    """Return the rest of the parts after their first `size` bytes."""
    for index, part in enumerate(parts):
        if size < len(part):
            return [memoryview(part)[size:], *parts[index + 1 :]]
        size -= len(part)
    return ()  # one object for all connections: a list for each would be the collector's work
