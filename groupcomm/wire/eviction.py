"""Eviction notices: a daemon is told that its identity is evicted, by another one that signs that.

They are of the kind HELLO, and shorter than introductions. docs/security.md says when a notice
counts::

    restarts u64, random id u64     the receiver's start that it is meant for
    public 32 bytes                 the evicted public key
    roster u64                      the number of the sender's roster
    removed u8                      1: that roster does not have the receiver any more; else 0
    signature 64 bytes              of all before it and of its place, by Ed25519 (RFC 8032)
"""

import struct
from typing import Final

import attrs

from groupcomm.config.view import Incarnation, incarnation_of
from groupcomm.errors import BadDatagram
from groupcomm.wire.hello import SIGNATURE_BYTES
from groupcomm.wire.packet import KEY_BYTES, PacketKind

_NOTICE = struct.Struct("!B16sQQ32sQB")
_KIND: Final = int(PacketKind.HELLO)

EVICTION_BYTES: Final = _NOTICE.size + SIGNATURE_BYTES
"""The size of every notice, before sealing: less than that of an introduction."""


@attrs.frozen(kw_only=True)
class Eviction:
    """A notice that an identity is evicted.

    Attributes:
        start: the start of the receiver that it is meant for.
        public: the evicted public key, 32 bytes.
        roster: the number of the sender's roster.
        removed: whether that roster does not have the receiver any more.
    """

    start: Incarnation
    public: bytes
    roster: int
    removed: bool

    def encode(self) -> bytes:
        """Return all but the signature, which follows it."""
        start = self.start.restarts, self.start.random_id
        return _NOTICE.pack(_KIND, bytes(KEY_BYTES), *start, self.public, self.roster, self.removed)


def decode_eviction_untrusted(packet: bytes) -> tuple[Eviction, bytes]:
    """Decode a whole packet; return the signature with it, which must still be checked.

    Raises:
        BadDatagram: a field or the length is wrong. No other exception, whatever the bytes.
    """
    if len(packet) != EVICTION_BYTES:
        raise BadDatagram("short", f"{len(packet)} bytes are no eviction notice")
    kind, key, restarts, random_id, public, roster, removed = _NOTICE.unpack_from(packet)
    if kind != _KIND or any(key) or removed > 1:
        raise BadDatagram("kind", "an eviction notice with a wrong field")
    notice = Eviction(
        start=incarnation_of(restarts, random_id),
        public=public,
        roster=roster,
        removed=bool(removed),
    )
    return notice, packet[_NOTICE.size :]
