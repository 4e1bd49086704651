"""Packets on a link between two sites, with numbers of the link's own.

::

    sender u16, number u64, then a packet but for its view's key
"""

import struct
from typing import Final

from groupcomm.errors import BadDatagram
from groupcomm.wire.packet import HEAD_BYTES, PacketKind

LINK_BYTES: Final = 11
"""By which a packet is longer on a link: it has one byte of kind more, the sender, the number."""


_HEAD = struct.Struct("!B16sHQ")
_LINK: Final = int(PacketKind.LINK)
_CARRIED: Final = frozenset((PacketKind.DATA, PacketKind.UNRELIABLE, PacketKind.HEADERS))


class LinkPacket:
    """A packet on its way over one link.

    Attributes:
        sender: who sent it over this link, an index in the view.
        number: of this try, from 1 on; counted by the sender for this link.
        packet: a data packet, headers of some, or one outside the streams; whole.
    """

    __slots__ = ("number", "packet", "sender")

    def __init__(self, *, sender: int, number: int, packet: bytes) -> None:
        self.sender = sender
        self.number = number
        self.packet = packet

    def encode(self, key: bytes) -> bytes:
        """The packet for the view with this key, which the carried one names, too."""
        packet = self.packet
        head = _HEAD.pack(_LINK, key, self.sender, self.number)
        return b"".join((head, packet[:1], packet[HEAD_BYTES:]))


def decode_link_untrusted(raw: bytes) -> LinkPacket:
    """Decode a whole packet, but for what it carries; raises only BadDatagram."""
    at = _HEAD.size
    if len(raw) <= at:
        raise BadDatagram("short", f"a link packet of {len(raw)} bytes")
    kind, key, sender, number = _HEAD.unpack_from(raw)
    if kind != _LINK or raw[at] not in _CARRIED:
        raise BadDatagram("kind", f"a link packet of kind {kind}, with one of kind {raw[at]}")
    if not number:
        raise BadDatagram("number", "link packets count from 1")
    packet = b"".join((raw[at : at + 1], key, raw[at + 1 :]))
    return LinkPacket(sender=sender, number=number, packet=packet)
