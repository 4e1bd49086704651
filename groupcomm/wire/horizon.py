"""Horizon notices: the promises of rings to all rings, with the numbers that they hold.

::

    notices u8 (1 to 64), by rising ring; each
        ring u16, horizon u64, upto u64, frontier u64, unsettled u8 (0 or 1)
        held u8, by rising ring: ring u8, number u64
"""

import struct
from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Final

import msgspec

from groupcomm.config.view import MAX_RINGS
from groupcomm.errors import BadDatagram
from groupcomm.wire.packet import PacketKind

_HEAD = struct.Struct("!B16sB")
_NOTICE = struct.Struct("!HQQQBB")
_HELD: Final = tuple(struct.Struct("!" + "BQ" * rings) for rings in range(MAX_RINGS + 1))
_HORIZON: Final = int(PacketKind.HORIZON)

HORIZON_HEAD_BYTES: Final = _HEAD.size


class HorizonNotice(msgspec.Struct, eq=False, kw_only=True):
    """The promise that after packet `upto` no packet of the ring is stamped up to `horizon`.

    Attributes:
        ring: index of the ring.
        horizon: the promised time, microseconds.
        upto: a packet number; the promise counts once every packet up to it is held.
        frontier: the ring's frontier: its daemons can deliver everything at or below this time.
        unsettled: whether some packet is not yet forgotten where the notice was issued. Rings that
            have forgotten all packets answer with a notice, as one of theirs may be missing there.
        held: (ring, number), by rising ring: all daemons of this ring hold the stream of that ring
            up to the number. A ring that is left out has nothing new.
    """

    ring: int
    horizon: int
    upto: int
    frontier: int
    unsettled: bool
    held: list[tuple[int, int]]

    def held_of(self, ring: int) -> int:
        """Return up to which number it says that a ring's stream is held; 0 if it does not."""
        return next((number for stream, number in self.held if stream == ring), 0)

    def encode(self) -> bytes:
        """Return its part of a packet."""
        count = len(self.held)
        promise = (self.ring, self.horizon, self.upto, self.frontier, self.unsettled)
        return _NOTICE.pack(*promise, count) + _HELD[count].pack(*chain.from_iterable(self.held))


class HorizonPacket(msgspec.Struct, eq=False, kw_only=True):
    """Notices of one or several rings, by rising ring."""

    notices: list[HorizonNotice]

    def encode(self, key: bytes) -> bytes:
        """Return the packet for the view with this key."""
        return horizon_packet(key, [notice.encode() for notice in self.notices])


def horizon_packet(key: bytes, encoded: Sequence[bytes]) -> bytes:
    """Return the packet of encoded notices, by rising ring, for the view with this key."""
    return _HEAD.pack(_HORIZON, key, len(encoded)) + b"".join(encoded)


def decode_horizon_untrusted(packet: bytes) -> HorizonPacket:
    """Decode a whole packet; raise only BadDatagram."""
    size = len(packet)
    if size < HORIZON_HEAD_BYTES:
        raise BadDatagram("short", f"horizon notices of {size} bytes")
    kind, _, count = _HEAD.unpack_from(packet)
    if kind != _HORIZON or not 1 <= count <= MAX_RINGS:
        raise BadDatagram("count", f"kind {kind}, {count} notices")
    notices: list[HorizonNotice] = []
    at, least = HORIZON_HEAD_BYTES, 0
    for _ in range(count):
        notice, at = _decode_notice(packet, at, size)
        if notice.ring < least:
            raise BadDatagram("range", f"a notice of ring {notice.ring}, and an earlier one of it")
        least = notice.ring + 1
        notices.append(notice)
    if at != size:
        raise BadDatagram("trailing", f"{size - at} bytes too many")
    return HorizonPacket(notices=notices)


def _decode_notice(packet: bytes, at: int, size: int) -> tuple[HorizonNotice, int]:
    """Return the notice that begins at `at`, and the offset of its end."""
    begin = at + _NOTICE.size
    if begin > size:
        raise BadDatagram("short", f"a notice of {size - at} bytes")
    ring, horizon, upto, frontier, unsettled, count = _NOTICE.unpack_from(packet, at)
    if unsettled > 1 or count > MAX_RINGS or begin + _HELD[count].size > size:
        raise BadDatagram("count", f"{count} rings in {size - begin} bytes")
    numbers = _HELD[count].unpack_from(packet, begin)
    held = list(zip(numbers[::2], numbers[1::2], strict=True))
    if any(one[0] >= other[0] for one, other in pairwise(held)):
        raise BadDatagram("range", f"rings {numbers[::2]} do not rise")
    notice = HorizonNotice(
        ring=ring,
        horizon=horizon,
        upto=upto,
        frontier=frontier,
        unsettled=unsettled == 1,
        held=held,
    )
    return notice, begin + _HELD[count].size
