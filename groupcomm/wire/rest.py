"""Rest notices: the token stays with its holder.

::

    ring u16, hop u64, holder u16, last u64, horizon u64
    frontiers u16, each u64, one for each daemon of the ring
"""

import struct
from typing import Final

from groupcomm.config.view import MAX_DAEMONS
from groupcomm.errors import BadDatagram
from groupcomm.wire.packet import PacketKind, Reader

_HEAD = struct.Struct("!B16sHQHQQH")
_FRONTIER = struct.Struct("!Q")
_REST: Final = int(PacketKind.REST)


class RestNotice:
    """Heartbeat, stability and horizon of a ring whose token rests.

    Attributes:
        ring: index of the ring.
        hop: of the resting token.
        holder: the daemon with which it rests.
        last: the last packet number given; all daemons of the ring hold the stream up to it.
        horizon: after packet `last`, nothing at or below this time.
        frontiers: of the ring's daemons, in its order, as far as the token knows them.
    """

    __slots__ = ("frontiers", "holder", "hop", "horizon", "last", "ring")

    def __init__(
        self, *, ring: int, hop: int, holder: int, last: int, horizon: int, frontiers: list[int]
    ) -> None:
        self.ring = ring
        self.hop = hop
        self.holder = holder
        self.last = last
        self.horizon = horizon
        self.frontiers = frontiers

    def encode(self, key: bytes) -> bytes:
        """The packet for the view with this key."""
        count = len(self.frontiers)
        head = _HEAD.pack(
            _REST, key, self.ring, self.hop, self.holder, self.last, self.horizon, count
        )
        return head + struct.pack(f"!{count}Q", *self.frontiers)


def decode_rest_untrusted(packet: bytes) -> RestNotice:
    """Decode a whole packet; raises only BadDatagram."""
    reader = Reader(packet, _REST)
    _, _, ring, hop, holder, last, horizon, count = reader.take(_HEAD)
    frontiers = [frontier for (frontier,) in reader.take_many(count, MAX_DAEMONS, _FRONTIER)]
    reader.end()
    if not frontiers:
        raise BadDatagram("count", "a rest notice of no daemon")
    return RestNotice(
        ring=ring, hop=hop, holder=holder, last=last, horizon=horizon, frontiers=frontiers
    )
