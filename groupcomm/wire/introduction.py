"""Introduction: a hello that is signed, and gives its receiver what opens its sender's datagrams.

::

    a hello (hello.py), whose key is that of the sender's view, zero before its first
    pair u32, public 32 bytes       the sender's present pair of X25519, and its number, rising
    for 8 bytes                     the beginning of the receiver's public key that `wrap` is for
    wrap 88 bytes                   the sender's secrets, sealed (exchange.py); zero for nothing
    has u32                         the receiver's latest secret that the sender has; 0 for none
    known u32                       the sender's latest that it knows the receiver to have
    signature 64 bytes              of all before it and of its place, by Ed25519 (RFC 8032)

All have one length, as hellos have.
"""

import struct
from typing import Final

import attrs

from groupcomm.errors import BadDatagram
from groupcomm.wire.hello import HELLO_BYTES, Hello, decode_hello_untrusted
from groupcomm.wire.packet import HEAD_BYTES, KEY_BYTES

PUBLIC_BYTES: Final = 32
FOR_BYTES: Final = 8
WRAP_BYTES: Final = 88
SIGNATURE_BYTES: Final = 64
NO_WRAP: Final = bytes(WRAP_BYTES)

_LAYOUT = struct.Struct("!I32s8s88sII")
SIGNED_BYTES: Final = HELLO_BYTES + _LAYOUT.size
INTRODUCTION_BYTES: Final = SIGNED_BYTES + SIGNATURE_BYTES
"""Of every introduction, before sealing."""


@attrs.frozen(kw_only=True)
class Introduction:
    """What one start of a daemon tells another one, signed.

    Attributes:
        hello: a challenge, an answer, or neither.
        view: key of the view in which its pair was drawn, 16 bytes; zero before the first.
        pair: number of the pair, from 1, rising.
        public: its public key, 32 bytes.
        wrapped_for: the first 8 bytes of the receiver's public key that `wrap` is for.
        wrap: the secrets, 88 bytes; zero for nothing.
        has: number of the receiver's latest secret that its sender has, from 1; 0 for none.
        known: number of its sender's latest secret that the receiver is known to have; 0: none.
    """

    hello: Hello
    view: bytes
    pair: int
    public: bytes
    wrapped_for: bytes = bytes(FOR_BYTES)
    wrap: bytes = NO_WRAP
    has: int = 0
    known: int = 0

    def encode(self) -> bytes:
        """All but the signature, which follows it."""
        told = self.pair, self.public, self.wrapped_for, self.wrap, self.has, self.known
        return self.hello.encode(self.view) + _LAYOUT.pack(*told)


def decode_introduction_untrusted(packet: bytes) -> tuple[Introduction, bytes]:
    """Decode a whole packet; the signature comes with it and is still to be checked.

    Raises:
        BadDatagram: its length or its kind is wrong. No other exception, whatever the bytes.
    """
    if len(packet) != INTRODUCTION_BYTES:
        raise BadDatagram("short", f"{len(packet)} bytes are no introduction")
    hello = decode_hello_untrusted(packet[:HELLO_BYTES])
    pair, public, wrapped_for, wrap, has, known = _LAYOUT.unpack_from(packet, HELLO_BYTES)
    introduction = Introduction(
        hello=hello,
        view=packet[HEAD_BYTES - KEY_BYTES : HEAD_BYTES],
        pair=pair,
        public=public,
        wrapped_for=wrapped_for,
        wrap=wrap,
        has=has,
        known=known,
    )
    return introduction, packet[SIGNED_BYTES:]
