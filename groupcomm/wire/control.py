"""Control packets: the place of what daemons say to agree on views.

::

    kind of control u8, payload (the rest)
"""

from typing import Final

from groupcomm.errors import BadDatagram
from groupcomm.wire.packet import HEAD_BYTES, PacketKind

_CONTROL: Final = int(PacketKind.CONTROL)


class ControlPacket:
    """One control message, its payload not yet looked at.

    Attributes:
        kind: which message, 0 to 255.
        payload: its body.
    """

    __slots__ = ("kind", "payload")

    def __init__(self, *, kind: int, payload: bytes) -> None:
        self.kind = kind
        self.payload = payload

    def encode(self, key: bytes) -> bytes:
        """The packet for the view with this key."""
        return b"%c%b%c%b" % (_CONTROL, key, self.kind, self.payload)


def decode_control_untrusted(packet: bytes) -> ControlPacket:
    """Decode a whole packet; raises only BadDatagram."""
    if len(packet) <= HEAD_BYTES or packet[0] != _CONTROL:
        raise BadDatagram("short", f"a control packet of {len(packet)} bytes")
    return ControlPacket(kind=packet[HEAD_BYTES], payload=packet[HEAD_BYTES + 1 :])
