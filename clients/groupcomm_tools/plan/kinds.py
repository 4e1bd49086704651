"""The kinds of packets, as the network sees them where datagrams are not encrypted."""

from typing import Final

from groupcomm.security.layout import HEAD_BYTES
from groupcomm.wire.membership import ControlKind
from groupcomm.wire.packet import PacketKind

_CONTROL_KIND: Final = HEAD_BYTES + 49
"""The offset in a datagram with a control packet of the kind of message (wire/control.py)."""


def kind_of(datagram: bytes) -> str:
    """Return the kind of packet in an unencrypted datagram."""
    kind = datagram[HEAD_BYTES]
    if kind == PacketKind.CONTROL:
        return ControlKind(datagram[_CONTROL_KIND]).name.lower()
    return PacketKind(kind).name.lower()
