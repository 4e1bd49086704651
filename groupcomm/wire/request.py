"""Token requests: a daemon wants the token.

::

    ring u16, daemon u16, hop u64
"""

import struct
from typing import Final

from groupcomm.wire.packet import PacketKind, Reader

_HEAD = struct.Struct("!B16sHHQ")
_REQUEST: Final = int(PacketKind.REQUEST)


class TokenRequest:
    """Asks whoever has the token to pass it here.

    Attributes:
        ring: index of the ring.
        daemon: that wants it, an index in the view.
        hop: the highest that it knows of; proof to others that the token came so far.
    """

    __slots__ = ("daemon", "hop", "ring")

    def __init__(self, *, ring: int, daemon: int, hop: int) -> None:
        self.ring = ring
        self.daemon = daemon
        self.hop = hop

    def encode(self, key: bytes) -> bytes:
        """The packet for the view with this key."""
        return _HEAD.pack(_REQUEST, key, self.ring, self.daemon, self.hop)


def decode_request_untrusted(packet: bytes) -> TokenRequest:
    """Decode a whole packet; raises only BadDatagram."""
    reader = Reader(packet, _REQUEST)
    _, _, ring, daemon, hop = reader.take(_HEAD)
    reader.end()
    return TokenRequest(ring=ring, daemon=daemon, hop=hop)
