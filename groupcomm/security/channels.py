"""Channels: kinds of packets that share keys and counters, and nothing with other kinds.

What was sealed for one channel opens on no other, and each has a replay window of its own: a burst
within a ring does not push what is slow on its way over a link out of its window.
"""

import enum
from typing import Final

from groupcomm.wire.packet import PacketKind


class Channel(enum.IntEnum):
    """Where a packet belongs; part of what its key is derived from."""

    RING = 1  # streams and the token, within a site
    LINK = 2  # what links between sites carry
    CONTROL = 3  # what daemons say to agree on views
    HELLO = 4  # challenges and their answers, see hello.py


_KINDS: Final = {
    Channel.RING: (
        PacketKind.DATA,
        PacketKind.UNRELIABLE,
        PacketKind.TOKEN,
        PacketKind.REST,
        PacketKind.REQUEST,
        PacketKind.HORIZON,
        PacketKind.HEADERS,
        PacketKind.HELD,
    ),
    Channel.LINK: (PacketKind.RESEND, PacketKind.LINK, PacketKind.ACK),
    Channel.CONTROL: (PacketKind.CONTROL,),
    Channel.HELLO: (PacketKind.HELLO,),
}

CHANNEL_OF: Final[dict[int, Channel]] = {
    int(kind): channel for channel, kinds in _KINDS.items() for kind in kinds
}
"""By the first byte of a packet. A notice or data that goes over a link is inside a LINK packet."""
