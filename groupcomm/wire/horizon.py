"""Horizon notices: the promises of rings to all rings, with the numbers that they hold.

::

    notices u8 (1 to 128), by rising ring, one of the shared tree after others; each
        ring u16, horizon u64, upto u64, frontier u64, flags u8, held u8
        with the flag ADDRESSED: bytes u8, then that many, the first not 0: bits of rings
        held times, by rising ring: ring u8, number u64
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

MOST_NOTICES: Final = 128
"""The most notices of one packet, which has room for less than a third of them."""

MOST_HELD: Final = 56
"""The most streams in one notice of this release: with these it fits the smallest packet."""

_UNSETTLED, _ADDRESSED, _SHARED = 1, 2, 4  # the flags of a notice; no notice has both last ones
_FLAGS_AT: Final = _NOTICE.size - 2


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
        targets: the rings that it is for, as bits; 0: it is for all.
        shared: whether it goes along the tree that all rings share, and meets others on its way.
    """

    ring: int
    horizon: int
    upto: int
    frontier: int
    unsettled: bool
    held: list[tuple[int, int]]
    targets: int = 0
    shared: bool = False

    def held_of(self, ring: int) -> int:
        """Return up to which number it says that a ring's stream is held; 0 if it does not."""
        return next((number for stream, number in self.held if stream == ring), 0)

    def encode(self) -> bytes:
        """Return its part of a packet."""
        count, flags = len(self.held), self.unsettled * _UNSETTLED + self.shared * _SHARED
        if self.targets:
            flags |= _ADDRESSED
        head = _NOTICE.pack(self.ring, self.horizon, self.upto, self.frontier, flags, count)
        held = _HELD[count].pack(*chain.from_iterable(self.held))
        return head + _encode_targets(self.targets) + held


def _encode_targets(targets: int) -> bytes:
    size = (targets.bit_length() + 7) // 8
    return bytes([size]) + targets.to_bytes(size, "big") if size else b""


def add_targets(encoded: bytes, other: bytes) -> bytes:
    """Return an encoded notice to some rings; it goes to those of another one as well.

    If that one is for all rings, so is the result.
    """
    targets, end = _decode_targets(encoded, _NOTICE.size)
    if not other[_FLAGS_AT] & _ADDRESSED:
        flags = encoded[_FLAGS_AT] & ~_ADDRESSED
        return encoded[:_FLAGS_AT] + bytes([flags, encoded[_FLAGS_AT + 1]]) + encoded[end:]
    targets |= _decode_targets(other, _NOTICE.size)[0]
    return encoded[: _NOTICE.size] + _encode_targets(targets) + encoded[end:]


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
    if kind != _HORIZON or not 1 <= count <= MOST_NOTICES:
        raise BadDatagram("count", f"kind {kind}, {count} notices")
    notices: list[HorizonNotice] = []
    at, least = HORIZON_HEAD_BYTES, 0
    for _ in range(count):
        notice, at = _decode_notice(packet, at, size)
        place = 2 * notice.ring + notice.shared
        if place < least:
            raise BadDatagram("range", f"a notice of ring {notice.ring}, and an earlier one of it")
        least = place + 1
        notices.append(notice)
    if at != size:
        raise BadDatagram("trailing", f"{size - at} bytes too many")
    return HorizonPacket(notices=notices)


def _decode_notice(packet: bytes, at: int, size: int) -> tuple[HorizonNotice, int]:
    """Return the notice that begins at `at`, and the offset of its end."""
    begin = at + _NOTICE.size
    if begin > size:
        raise BadDatagram("short", f"a notice of {size - at} bytes")
    ring, horizon, upto, frontier, flags, count = _NOTICE.unpack_from(packet, at)
    if flags & ~_UNSETTLED not in (0, _ADDRESSED, _SHARED):
        raise BadDatagram("flags", f"flags {flags:#x} of a notice")
    targets = 0
    if flags & _ADDRESSED:
        targets, begin = _decode_targets(packet, begin)
    if count > MAX_RINGS or begin + _HELD[count].size > size:
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
        unsettled=bool(flags & _UNSETTLED),
        held=held,
        targets=targets,
        shared=bool(flags & _SHARED),
    )
    return notice, begin + _HELD[count].size


def _decode_targets(packet: bytes, at: int) -> tuple[int, int]:
    """Return the rings, as bits, whose bytes begin at `at` with their number; and their end."""
    begin = at + 1
    end = begin + packet[at] if at < len(packet) else begin
    targets = packet[begin:end]
    if not targets or len(targets) != end - begin or not targets[0]:
        raise BadDatagram("targets", f"the rings of a notice in {len(packet) - at} bytes")
    return int.from_bytes(targets, "big"), end
