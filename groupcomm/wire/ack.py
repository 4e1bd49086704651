"""Acknowledgements of what came over a link.

::

    sender u16, delay u32 (microseconds)
    ranges u8, each: first u64, last u64; rising
"""

import struct
from typing import Final

from groupcomm.errors import BadDatagram
from groupcomm.wire.packet import PacketKind, Reader

MAX_RANGES: Final = 32
MOST_DELAY_US: Final = 2**32 - 1

Range = tuple[int, int]

_HEAD = struct.Struct("!B16sHIB")
_RANGE = struct.Struct("!QQ")
_ACK: Final = int(PacketKind.ACK)


class Acknowledgement:
    """What has come over a link.

    Attributes:
        sender: who acknowledges, an index in the view.
        delay_us: for how long it has had the highest of them, microseconds, to 2**32 - 1.
        ranges: (first, last) of link numbers, rising; one at least. Of older ones nothing is said.
    """

    __slots__ = ("delay_us", "ranges", "sender")

    def __init__(self, *, sender: int, delay_us: int, ranges: list[Range]) -> None:
        self.sender = sender
        self.delay_us = delay_us
        self.ranges = ranges

    def encode(self, key: bytes) -> bytes:
        """The packet for the view with this key; ranges but the last MAX_RANGES are left out."""
        ranges = self.ranges[-MAX_RANGES:]
        head = _HEAD.pack(_ACK, key, self.sender, self.delay_us, len(ranges))
        return head + b"".join(_RANGE.pack(first, last) for first, last in ranges)


def decode_ack_untrusted(packet: bytes) -> Acknowledgement:
    """Decode a whole packet; raises only BadDatagram."""
    reader = Reader(packet, _ACK)
    _, _, sender, delay_us, count = reader.take(_HEAD)
    ranges = [(first, last) for first, last in reader.take_many(count, MAX_RANGES, _RANGE)]
    reader.end()
    if not ranges:
        raise BadDatagram("range", "nothing is acknowledged")
    before = 0
    for first, last in ranges:
        if not before < first <= last:
            raise BadDatagram("range", f"from {first} to {last}, after {before}")
        before = last
    return Acknowledgement(sender=sender, delay_us=delay_us, ranges=ranges)
