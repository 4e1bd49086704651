"""Horizon notices: a ring's promise to all rings, with what it holds.

::

    ring u16, horizon u64, upto u64, frontier u64, unsettled u8 (0 or 1)
    held u8, each u64, one for each ring of the view
"""

import struct
from typing import Final

from groupcomm.config.view import MAX_RINGS
from groupcomm.errors import BadDatagram
from groupcomm.wire.packet import PacketKind

_HEAD = struct.Struct("!B16sHQQQBB")
_HELD: Final = tuple(struct.Struct(f"!{rings}Q") for rings in range(MAX_RINGS + 1))
_HORIZON: Final = int(PacketKind.HORIZON)


class HorizonNotice:
    """After packet `upto` of the ring's stream, nothing at or below `horizon`.

    Attributes:
        ring: index of the ring.
        horizon: the promised time, microseconds.
        upto: a packet number; the promise counts once every packet up to it is held.
        frontier: of the ring: its daemons can deliver everything at or below this time.
        unsettled: some packet is not yet forgotten where it was issued; rings that have forgotten
            all answer with a notice, as one of theirs may be what is missing.
        held: per ring of the view, up to where all daemons of this ring hold its stream.
    """

    __slots__ = ("frontier", "held", "horizon", "ring", "unsettled", "upto")

    def __init__(
        self,
        *,
        ring: int,
        horizon: int,
        upto: int,
        frontier: int,
        unsettled: bool,
        held: list[int],
    ) -> None:
        self.ring = ring
        self.horizon = horizon
        self.upto = upto
        self.frontier = frontier
        self.unsettled = unsettled
        self.held = held

    def encode(self, key: bytes) -> bytes:
        """The packet for the view with this key."""
        count = len(self.held)
        promise = (self.ring, self.horizon, self.upto, self.frontier, self.unsettled)
        return _HEAD.pack(_HORIZON, key, *promise, count) + _HELD[count].pack(*self.held)


def decode_horizon_untrusted(packet: bytes) -> HorizonNotice:
    """Decode a whole packet; raises only BadDatagram."""
    if len(packet) < _HEAD.size:
        raise BadDatagram("short", f"a horizon notice of {len(packet)} bytes")
    kind, _, ring, horizon, upto, frontier, unsettled, count = _HEAD.unpack_from(packet)
    if (
        kind != _HORIZON
        or unsettled > 1
        or count > MAX_RINGS
        or len(packet) != _HEAD.size + 8 * count
    ):
        raise BadDatagram("count", f"kind {kind}, {count} rings in {len(packet)} bytes")
    held = list(_HELD[count].unpack_from(packet, _HEAD.size))
    return HorizonNotice(
        ring=ring,
        horizon=horizon,
        upto=upto,
        frontier=frontier,
        unsettled=unsettled == 1,
        held=held,
    )
