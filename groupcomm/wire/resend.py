"""Resend requests between rings: what a whole ring lacks of another's stream.

::

    ring u16, asker u16
    ranges u16, each: first u64, last u64
"""

import struct
from typing import Final

from groupcomm.errors import BadDatagram
from groupcomm.wire.packet import PacketKind, Reader

MAX_RANGES: Final = 256

_HEAD = struct.Struct("!B16sHHH")
_RANGE = struct.Struct("!QQ")
_RESEND: Final = int(PacketKind.RESEND)


class ResendRequest:
    """Asks a ring for packets that were lost on the way.

    Attributes:
        ring: whose stream.
        asker: the daemon that lacks them, an index in the view.
        ranges: (first, last), at most MAX_RANGES are sent.
    """

    __slots__ = ("asker", "ranges", "ring")

    def __init__(self, *, ring: int, asker: int, ranges: list[tuple[int, int]]) -> None:
        self.ring = ring
        self.asker = asker
        self.ranges = ranges

    def encode(self, key: bytes) -> bytes:
        """The packet for the view with this key; ranges beyond MAX_RANGES are left for later."""
        ranges = self.ranges[:MAX_RANGES]
        head = _HEAD.pack(_RESEND, key, self.ring, self.asker, len(ranges))
        return head + b"".join(_RANGE.pack(first, last) for first, last in ranges)


def decode_resend_untrusted(packet: bytes) -> ResendRequest:
    """Decode a whole packet; raises only BadDatagram."""
    reader = Reader(packet, _RESEND)
    _, _, ring, asker, count = reader.take(_HEAD)
    ranges = [(first, last) for first, last in reader.take_many(count, MAX_RANGES, _RANGE)]
    reader.end()
    if not ranges or any(first > last for first, last in ranges):
        raise BadDatagram("range", "no range, or one that ends before it begins")
    return ResendRequest(ring=ring, asker=asker, ranges=ranges)
