"""Held notices: what one daemon of a ring holds, told to the others without the token.

::

    ring u16, daemon u16, held u64, frontier u64
"""

import struct
from typing import Final

from groupcomm.errors import BadDatagram
from groupcomm.wire.packet import PacketKind

_FIELDS = struct.Struct("!B16sHHQQ")
_HELD: Final = int(PacketKind.HELD)


class HeldNotice:
    """The answer to a packet that asks who holds it.

    Attributes:
        ring: index of the ring.
        daemon: that tells, an index in the view.
        held: it holds the ring's stream up to this number.
        frontier: it holds everything at or below this time, and nothing of it can still come.
    """

    __slots__ = ("daemon", "frontier", "held", "ring")

    def __init__(self, *, ring: int, daemon: int, held: int, frontier: int) -> None:
        self.ring = ring
        self.daemon = daemon
        self.held = held
        self.frontier = frontier

    def encode(self, key: bytes) -> bytes:
        """The packet for the view with this key."""
        return _FIELDS.pack(_HELD, key, self.ring, self.daemon, self.held, self.frontier)


def decode_held_untrusted(packet: bytes) -> HeldNotice:
    """Decode a whole packet; raises only BadDatagram."""
    if len(packet) != _FIELDS.size:
        raise BadDatagram("short", f"a held notice of {len(packet)} bytes")
    kind, _, ring, daemon, held, frontier = _FIELDS.unpack(packet)
    if kind != _HELD:
        raise BadDatagram("kind", f"not a packet of kind {_HELD}")
    return HeldNotice(ring=ring, daemon=daemon, held=held, frontier=frontier)
