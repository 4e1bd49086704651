"""The CAUSES frame: what the delivery behind it depends on, from the daemon to a client that asked.

::

    kind u8, packet u64, told u8, A's time u64, A's ring u16, count u16, V u64 each

It stands before each DELIVER frame with a position. Without (A, V), told is 0 and so is the rest.
"""

import struct
from typing import Final

from groupcomm.clocks.stamp import Stamp
from groupcomm.config.view import MAX_RINGS
from groupcomm.errors import BadDatagram
from groupcomm.events import CausalContext
from groupcomm.session.frames import FrameKind

_LENGTH = struct.Struct("!I")
_HEAD = struct.Struct("!BQBQHH")  # kind, packet, told, A's time and ring, count
_VECTORS: Final = tuple(struct.Struct(f"!{count}Q") for count in range(MAX_RINGS + 1))
_NOTHING: Final = Stamp(0, 0)


def encode_causes(context: CausalContext) -> bytes:
    """A whole frame."""
    agreed, heard = context.agreed, context.heard
    told = agreed is not None
    head = _HEAD.pack(FrameKind.CAUSES, context.packet, told, *(agreed or _NOTHING), len(heard))
    return _LENGTH.pack(len(head) + 8 * len(heard)) + head + _VECTORS[len(heard)].pack(*heard)


def decode_causes_untrusted(frame: bytes) -> CausalContext:
    """Decode a frame from its kind on.

    Raises:
        BadDatagram: it breaks its layout. No other exception, whatever the bytes.
    """
    try:
        _, packet, told, time, ring, count = _HEAD.unpack_from(frame)
    except struct.error:
        raise BadDatagram("short", f"a CAUSES frame of {len(frame)} bytes") from None
    if count > MAX_RINGS or len(frame) != _HEAD.size + 8 * count:
        raise BadDatagram("count", f"a CAUSES frame of {len(frame)} bytes with {count} rings")
    if told > 1 or (told == 0 and (time or ring or count)):
        raise BadDatagram("causes", f"told is {told}, A ({time}, {ring}), {count} rings")
    if not told:
        return CausalContext(packet, None, ())
    heard = _VECTORS[count].unpack_from(frame, _HEAD.size)
    return CausalContext(packet, Stamp(time, ring), heard)
