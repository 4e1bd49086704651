"""The layout of datagrams: their head, their channels, and windows against replays.

The head is in the clear and authenticated, and the same in all suites:

::

    version u8, suite u8, scope u8, key id u16, cluster u64, sender u64,
    restarts u64, random id u64, counter u64                       45 bytes

Scope 0 is for all receivers, scope 1 for one daemon, whose number is authenticated but not sent:
otherwise a captured token could be sent to a daemon that it was not meant for.
"""

import enum
import struct
from typing import Final

import msgspec

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
"""The most bytes that a seal adds to head and packet."""

FOR_ALL: Final = 0
FOR_ONE: Final = 1
FIXED_BYTES: Final = 37
"""The bytes of the head that are the same in all datagrams of a start: all but the counter."""

HEAD = struct.Struct("!BBBHQQQQQ")
COUNTER = struct.Struct("!Q")
PURPOSE: Final = b"groupcomm datagram v1"
_SCOPE_AT: Final = 2


def fixed_heads(
    suite: int, key_id: int, cluster: int, sender: int, incarnation: Incarnation
) -> tuple[bytes, bytes]:
    """Return the heads for all daemons and for one daemon, without the counter."""
    start = incarnation.restarts, incarnation.random_id
    head = HEAD.pack(VERSION, suite, FOR_ALL, key_id, cluster, sender, *start, 0)[:FIXED_BYTES]
    return head, b"%b%c%b" % (head[:_SCOPE_AT], FOR_ONE, head[_SCOPE_AT + 1 :])


def sender_of(datagram: bytes) -> int:
    """Return the number of the daemon whose datagram this is, as its head says.

    Args:
        datagram: of HEAD_BYTES at least.
    """
    return int(HEAD.unpack_from(datagram)[5])


def wrong_size(size: int) -> BadDatagram:
    """Return the error of a datagram that is too short or too long for any daemon to have sent."""
    return BadDatagram("short" if size < HEAD_BYTES else "long", f"a datagram of {size} bytes")


class Opened(msgspec.Struct, eq=False):
    """The contents of a datagram.

    Attributes:
        sender: the 64 bits that stand for the sender's name.
        incarnation: the start of the sender.
        counter: the counter of the datagram.
        packet: its authentic content.
        channel: the channel for which it was sealed; 0 in suite 0.
        key_id: the key with which it was sealed; 0 in suite 0.
        proven: whether this start has proved that it sends now; else the datagram may be an old
            copy.
    """

    sender: int
    incarnation: Incarnation
    counter: int
    packet: bytes
    channel: int = 0
    key_id: int = 0
    proven: bool = True


class Channel(enum.IntEnum):
    """A kind of packets with its own keys, counters and replay windows.

    A datagram that was sealed for one channel opens on no other, and a burst within a ring does not
    push packets that are slow on their way over a link out of their window.
    """

    RING = 1  # streams and the token, within a site
    LINK = 2  # packets of links between sites
    CONTROL = 3  # messages by which daemons agree on views
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
"""By a packet's first byte. A notice or data that goes over a link is inside a LINK packet."""


WINDOW: Final = 4096
"""The number of counters behind the highest one that are still accepted, each once."""

_WINDOW_MASK: Final = (1 << WINDOW) - 1


class ReplayWindow:
    """The counters of one sender that were accepted (RFC 4303, section 3.4.3, without its 32 bits).

    Args:
        floor: this counter and all below it count as accepted; -1: none does. The first counter
            above it may be anything.

    Attributes:
        highest: the highest accepted counter; before the first one the floor. A counter above it is
            new, as most are, so callers compare it before they call `check`.
    """

    __slots__ = ("_seen", "highest")

    def __init__(self, floor: int = -1) -> None:
        self.highest = floor
        self._seen = 0 if floor < 0 else _WINDOW_MASK  # bit i: counter highest - i was taken

    def check(self, counter: int) -> bool:
        """Return whether a counter is new; change nothing."""
        behind = self.highest - counter
        if behind < 0:
            return True
        return behind < WINDOW and not self._seen >> behind & 1

    def accept(self, counter: int) -> None:
        """Note a new counter, once its datagram was found authentic."""
        ahead = counter - self.highest
        if ahead <= 0:
            self._seen |= 1 << -ahead
        elif ahead >= WINDOW:
            self._seen = 1
            self.highest = counter
        else:
            self._seen = (self._seen << ahead | 1) & _WINDOW_MASK
            self.highest = counter
