"""Packets on a link between two sites: carried packets, acknowledgements, requests to resend.

A *link packet* has a number of the link's own::

    sender u16, number u64, then one of
        a packet without its view's key
        128 u8, whole u64, part u16, parts u16, content    a fragment of such a packet
        129 u8, zeros                                      a probe of the path MTU

An *acknowledgement* says which numbers have arrived over a link::

    sender u16, delay u32 (microseconds)
    ranges u8, each: first u64, last u64; rising

A *resend request* says which packets a whole ring lacks of the stream of another::

    ring u16, asker u16
    ranges u16, each: first u64, last u64
"""

import struct
from typing import Final, NamedTuple

import msgspec

from groupcomm.errors import BadDatagram
from groupcomm.wire.packet import HEAD_BYTES, PacketKind, Reader

LINK_BYTES: Final = 11
"""Bytes that a packet is longer on a link: a second kind, the sender, and the number."""

MAX_FRAGMENTS: Final = 256

_FRAGMENT: Final = 128
_PADDING: Final = 129
_LINK_HEAD = struct.Struct("!B16sHQ")
_FRAGMENT_HEAD = struct.Struct("!BQHH")
_LINK: Final = int(PacketKind.LINK)
_CARRIED: Final = frozenset((PacketKind.DATA, PacketKind.UNRELIABLE, PacketKind.HEADERS))

LINK_FRAGMENT_BYTES: Final = _LINK_HEAD.size + _FRAGMENT_HEAD.size
"""Bytes of a link packet besides the content of the fragment in it."""

PROBE_BYTES: Final = _LINK_HEAD.size + 1
"""Bytes of the smallest probe."""


class LinkFragment(NamedTuple):
    """A part of a packet that is too large for the link.

    Attributes:
        whole: the number of its packet; the sender counts packets for this link.
        part: the index of the fragment, from 0.
        parts: the number of fragments, 1 to MAX_FRAGMENTS.
        content: bytes of the packet, which goes without its view's key.
    """

    whole: int
    part: int
    parts: int
    content: bytes


class LinkPacket(msgspec.Struct, eq=False, kw_only=True):
    """A packet, a fragment of one, or a probe, on its way over one link.

    Attributes:
        sender: the daemon that sent it over this link, an index in the view.
        number: the number of this attempt, from 1 on; the sender counts attempts for this link.
        packet: the whole packet: data, headers, or one outside the streams; empty if there is none.
        fragment: otherwise a fragment of one.
        zeros: otherwise this number of bytes without a meaning.
    """

    sender: int
    number: int
    packet: bytes = b""
    fragment: LinkFragment | None = None
    zeros: int = 0

    def encode(self, key: bytes) -> bytes:
        """Return the packet for the view with this key, which the carried one names, too."""
        head = _LINK_HEAD.pack(_LINK, key, self.sender, self.number)
        if self.packet:
            return head + without_key(self.packet)
        if self.fragment is not None:
            *numbers, content = self.fragment
            return b"".join((head, _FRAGMENT_HEAD.pack(_FRAGMENT, *numbers), content))
        return b"".join((head, bytes((_PADDING,)), bytes(self.zeros)))


def without_key(packet: bytes) -> bytes:
    """Return a packet in the form in which it goes over a link."""
    return packet[:1] + packet[HEAD_BYTES:]


def with_key_untrusted(carried: bytes, key: bytes) -> bytes:
    """Return the whole packet of one that came over a link; raise only BadDatagram."""
    if not carried or carried[0] not in _CARRIED:
        raise BadDatagram("kind", f"{carried[:1]!r} is no packet that goes over links")
    return b"".join((carried[:1], key, carried[1:]))


def decode_link_untrusted(raw: bytes) -> LinkPacket:
    """Decode a whole packet, but not the packet in it; raise only BadDatagram."""
    at = _LINK_HEAD.size
    if len(raw) <= at:
        raise BadDatagram("short", f"a link packet of {len(raw)} bytes")
    kind, key, sender, number = _LINK_HEAD.unpack_from(raw)
    if kind != _LINK:
        raise BadDatagram("kind", f"a link packet of kind {kind}")
    if not number:
        raise BadDatagram("number", "link packets count from 1")
    if raw[at] == _FRAGMENT:
        return LinkPacket(sender=sender, number=number, fragment=_decode_fragment(raw, at))
    if raw[at] == _PADDING:
        zeros = len(raw) - at - 1
        if raw.count(0, at + 1) != zeros:
            raise BadDatagram("range", "a probe must consist of zeros")
        return LinkPacket(sender=sender, number=number, zeros=zeros)
    return LinkPacket(sender=sender, number=number, packet=with_key_untrusted(raw[at:], key))


def _decode_fragment(raw: bytes, at: int) -> LinkFragment:
    if len(raw) <= at + _FRAGMENT_HEAD.size:
        raise BadDatagram("short", f"a fragment in {len(raw)} bytes")
    _, whole, part, parts = _FRAGMENT_HEAD.unpack_from(raw, at)
    if not part < parts <= MAX_FRAGMENTS:
        raise BadDatagram("count", f"fragment {part} of {parts}")
    return LinkFragment(whole, part, parts, raw[at + _FRAGMENT_HEAD.size :])


# ---- acknowledgements ----

MAX_ACK_RANGES: Final = 32
MOST_DELAY_US: Final = 2**32 - 1

_ACK_HEAD = struct.Struct("!B16sHIB")
_RANGE = struct.Struct("!QQ")
_ACK: Final = int(PacketKind.ACK)


class Acknowledgement(msgspec.Struct, eq=False, kw_only=True):
    """Which numbers have arrived over a link.

    Attributes:
        sender: the daemon that acknowledges, an index in the view.
        delay_us: the time since the highest of them arrived, microseconds, to 2**32 - 1.
        ranges: (first, last) of link numbers, rising; at least one. It says nothing of older ones.
    """

    sender: int
    delay_us: int
    ranges: list[tuple[int, int]]

    def encode(self, key: bytes) -> bytes:
        """Return the packet for the view with this key; it has the last MAX_ACK_RANGES ranges."""
        ranges = self.ranges[-MAX_ACK_RANGES:]
        head = _ACK_HEAD.pack(_ACK, key, self.sender, self.delay_us, len(ranges))
        return head + b"".join(_RANGE.pack(first, last) for first, last in ranges)


def decode_ack_untrusted(packet: bytes) -> Acknowledgement:
    """Decode a whole packet; raise only BadDatagram."""
    reader = Reader(packet, _ACK)
    _, _, sender, delay_us, count = reader.read(_ACK_HEAD)
    ranges = [(first, last) for first, last in reader.read_rows(count, MAX_ACK_RANGES, _RANGE)]
    reader.end()
    if not ranges:
        raise BadDatagram("range", "nothing is acknowledged")
    before = 0
    for first, last in ranges:
        if not before < first <= last:
            raise BadDatagram("range", f"from {first} to {last}, after {before}")
        before = last
    return Acknowledgement(sender=sender, delay_us=delay_us, ranges=ranges)


# ---- requests to resend ----

MAX_RESEND_RANGES: Final = 256

_RESEND_HEAD = struct.Struct("!B16sHHH")
_RESEND: Final = int(PacketKind.RESEND)


class ResendRequest(msgspec.Struct, eq=False, kw_only=True):
    """A request to another ring for packets that were lost on the way.

    Attributes:
        ring: the ring whose stream lacks packets.
        asker: the daemon that lacks them, an index in the view.
        ranges: (first, last); at most MAX_RESEND_RANGES are sent.
    """

    ring: int
    asker: int
    ranges: list[tuple[int, int]]

    def encode(self, key: bytes) -> bytes:
        """Return the packet for the view with this key, without ranges beyond the limit."""
        ranges = self.ranges[:MAX_RESEND_RANGES]
        head = _RESEND_HEAD.pack(_RESEND, key, self.ring, self.asker, len(ranges))
        return head + b"".join(_RANGE.pack(first, last) for first, last in ranges)


def decode_resend_untrusted(packet: bytes) -> ResendRequest:
    """Decode a whole packet; raise only BadDatagram."""
    reader = Reader(packet, _RESEND)
    _, _, ring, asker, count = reader.read(_RESEND_HEAD)
    ranges = [(first, last) for first, last in reader.read_rows(count, MAX_RESEND_RANGES, _RANGE)]
    reader.end()
    if not ranges or any(first > last for first, last in ranges):
        raise BadDatagram("range", "no range, or one that ends before it begins")
    return ResendRequest(ring=ring, asker=asker, ranges=ranges)
