"""The head of a datagram, in the clear and authenticated; what both suites have in common.

::

    version u8, suite u8, scope u8, key id u16, cluster u64, sender u64,
    restarts u64, random id u64, counter u64                       45 bytes

Scope 0 is for whoever hears it, scope 1 for one daemon, whose number is authenticated but not
sent: else a captured token could be given to a daemon that it was not meant for.
"""

import enum
import struct
from typing import Final

from groupcomm.config.view import Incarnation
from groupcomm.errors import BadDatagram
from groupcomm.wire.packet import PacketKind

VERSION: Final = 1
SUITE_NONE: Final = 0
SUITE_AES_GCM: Final = 1
SUITE_IDENTITIES: Final = 2
MAX_DATAGRAM_BYTES: Final = 65_507

HEAD_BYTES: Final = 45
SEAL_BYTES: Final = 21
"""What a seal adds to head and packet, at most."""

FOR_ALL: Final = 0
FOR_ONE: Final = 1
FIXED_BYTES: Final = 37
"""Of the head that are the same in all datagrams of a start: all but the counter."""

HEAD = struct.Struct("!BBBHQQQQQ")
COUNTER = struct.Struct("!Q")
PURPOSE: Final = b"groupcomm datagram v1"
_SCOPE_AT: Final = 2


def fixed_heads(
    suite: int, key_id: int, cluster: int, sender: int, incarnation: Incarnation
) -> tuple[bytes, bytes]:
    """The heads for all and for one daemon, but for the counter."""
    start = incarnation.restarts, incarnation.random_id
    head = HEAD.pack(VERSION, suite, FOR_ALL, key_id, cluster, sender, *start, 0)[:FIXED_BYTES]
    return head, b"%b%c%b" % (head[:_SCOPE_AT], FOR_ONE, head[_SCOPE_AT + 1 :])


def wrong_size(size: int) -> BadDatagram:
    """Return the error of a datagram that is too short or too long for any daemon to have sent."""
    return BadDatagram("short" if size < HEAD_BYTES else "long", f"{size} bytes")


class Opened:
    """What a datagram held.

    Attributes:
        sender: the 64 bits of its daemon's name.
        incarnation: which start of that daemon.
        counter: of the datagram.
        packet: its content, authentic.
        channel: for which it was sealed; 0 in suite 0.
        key_id: with which it was sealed; 0 in suite 0.
        proven: that this start sends now was proved; else it may be a copy of something old.
    """

    __slots__ = ("channel", "counter", "incarnation", "key_id", "packet", "proven", "sender")

    def __init__(
        self,
        sender: int,
        incarnation: Incarnation,
        counter: int,
        packet: bytes,
        channel: int = 0,
        key_id: int = 0,
        proven: bool = True,
    ) -> None:
        self.sender = sender
        self.incarnation = incarnation
        self.counter = counter
        self.packet = packet
        self.channel = channel
        self.key_id = key_id
        self.proven = proven


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


WINDOW: Final = 4096
"""Counters behind the highest that are still taken, each once."""

_WINDOW_MASK: Final = (1 << WINDOW) - 1


class ReplayWindow:
    """Which counters of one sender were taken. The first above `floor` may be anything.

    Args:
        floor: this counter and all below it are taken; -1: none is.

    Attributes:
        highest: the highest counter that was taken; the floor before the first. A counter above it
            is new, which most are, so callers look at this before they call `check`.
    """

    __slots__ = ("_seen", "highest")

    def __init__(self, floor: int = -1) -> None:
        self.highest = floor
        self._seen = 0 if floor < 0 else _WINDOW_MASK  # bit i: counter highest - i was taken

    def check(self, counter: int) -> bool:
        """Whether this counter is new; changes nothing."""
        behind = self.highest - counter
        if behind < 0:
            return True
        return behind < WINDOW and not self._seen >> behind & 1

    def accept(self, counter: int) -> None:
        """Note a counter that `check` called new, once its datagram is known to be authentic."""
        ahead = counter - self.highest
        if ahead <= 0:
            self._seen |= 1 << -ahead
        elif ahead >= WINDOW:
            self._seen = 1
            self.highest = counter
        else:
            self._seen = (self._seen << ahead | 1) & _WINDOW_MASK
            self.highest = counter
