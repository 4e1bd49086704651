"""Datagrams outside the streams: bundles without a number, a stamp or a repair.

::

    daemon u16, counter u64, bundles (see bundle.py)
"""

import struct
from typing import Final

from groupcomm.errors import BadDatagram
from groupcomm.level import ServiceLevel
from groupcomm.wire.bundle import Bundle, decode_bundles_untrusted, encode_bundles
from groupcomm.wire.packet import PacketKind

_HEAD = struct.Struct("!B16sHQ")
_UNRELIABLE: Final = int(PacketKind.UNRELIABLE)
_LEVEL: Final = int(ServiceLevel.UNRELIABLE)


class UnreliablePacket:
    """Bundles of one daemon that may be lost.

    Attributes:
        daemon: that sent it, an index in the view.
        counter: of its datagrams, so that none is taken twice.
        bundles: at least one.
    """

    __slots__ = ("bundles", "counter", "daemon")

    def __init__(self, *, daemon: int, counter: int, bundles: list[Bundle]) -> None:
        self.daemon = daemon
        self.counter = counter
        self.bundles = bundles

    def encode(self, key: bytes) -> bytes:
        """The packet for the view with this key."""
        head = _HEAD.pack(_UNRELIABLE, key, self.daemon, self.counter)
        return encode_bundles(head, self.bundles)


def decode_unreliable_untrusted(packet: bytes) -> UnreliablePacket:
    """Decode a whole packet; raises only BadDatagram."""
    if len(packet) < _HEAD.size:
        raise BadDatagram("short", f"an UNRELIABLE packet of {len(packet)} bytes")
    kind, _, daemon, counter = _HEAD.unpack_from(packet)
    if kind != _UNRELIABLE:
        raise BadDatagram("kind", f"an UNRELIABLE packet of kind {kind}")
    bundles = decode_bundles_untrusted(packet, _HEAD.size)
    if not bundles:
        raise BadDatagram("count", "an UNRELIABLE packet without bundles")
    if any(bundle.level != _LEVEL for bundle in bundles):
        raise BadDatagram("bundle", "a bundle of another level without a number")
    return UnreliablePacket(daemon=daemon, counter=counter, bundles=bundles)
