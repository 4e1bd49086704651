"""Hellos and introductions: how a daemon proves that it sends now, and gives its keys.

A *hello* asks another daemon for proof that it is sending now, gives such proof, or does both::

    restarts u64, random id u64     the start that it is meant for
    asks u64                        a number to be repeated; 0: nothing is asked
    answers u64                     the number that was asked; 0: nothing is answered
    ring, link, control u64         the last counters that its sender has used on these channels
    seals u16                       the key that its sender seals with

It belongs to no view, so its key is zero. All hellos have one length, so an answer is never longer
than its question.

An *introduction* is a signed hello with the secrets that open its sender's datagrams::

    a hello whose key is that of the sender's view, zero before its first view
    pair u32, public 32 bytes       the sender's present pair of X25519, and its number, rising
    for 8 bytes                     the beginning of the receiver's public key that `wrap` is for
    wrap 88 bytes                   the sender's secrets, sealed (exchange.py); zero for nothing
    has u32                         the receiver's latest secret that the sender has; 0 for none
    known u32                       the sender's latest that it knows the receiver to have
    signature 64 bytes              of all before it and of its place, by Ed25519 (RFC 8032)

All introductions have one length, too.
"""

import struct
from typing import Final

import attrs

from groupcomm.config.view import Incarnation, incarnation_of
from groupcomm.errors import BadDatagram
from groupcomm.wire.packet import HEAD_BYTES, KEY_BYTES, PacketKind

_HELLO = struct.Struct("!B16sQQQQQQQH")
_HELLO_KIND: Final = int(PacketKind.HELLO)

HELLO_BYTES: Final = _HELLO.size
"""Bytes of every hello, before sealing."""


@attrs.frozen(kw_only=True)
class Hello:
    """A challenge, an answer, or an answer that is a challenge too.

    Attributes:
        start: the start of its receiver that it is meant for.
        asks: the number of the challenge, from 1; 0: none.
        answers: number of the challenge that is answered; 0: none.
        counters: the last that its sender has used on the channels ring, link and control.
        seals: id of the key that its sender seals with, now or from now on.
    """

    start: Incarnation
    asks: int = 0
    answers: int = 0
    counters: tuple[int, int, int] = (0, 0, 0)
    seals: int = 0

    def encode(self, key: bytes = bytes(KEY_BYTES)) -> bytes:
        """Return the packet."""
        start = self.start.restarts, self.start.random_id
        return _HELLO.pack(
            _HELLO_KIND, key, *start, self.asks, self.answers, *self.counters, self.seals
        )


def decode_hello_untrusted(packet: bytes) -> Hello:
    """Decode a whole packet.

    Raises:
        BadDatagram: its length or its kind is wrong. No other exception, whatever the bytes.
    """
    if len(packet) != HELLO_BYTES or packet[0] != _HELLO_KIND:
        raise BadDatagram("short", f"{len(packet)} bytes are no hello")
    _, _, restarts, random_id, asks, answers, *counters, seals = _HELLO.unpack(packet)
    ring, link, control = counters
    return Hello(
        start=incarnation_of(restarts, random_id),
        asks=asks,
        answers=answers,
        counters=(ring, link, control),
        seals=seals,
    )


# ---- introductions ----

FOR_BYTES: Final = 8
WRAP_BYTES: Final = 88
SIGNATURE_BYTES: Final = 64
NO_WRAP: Final = bytes(WRAP_BYTES)

_INTRODUCTION = struct.Struct("!I32s8s88sII")
SIGNED_BYTES: Final = HELLO_BYTES + _INTRODUCTION.size
INTRODUCTION_BYTES: Final = SIGNED_BYTES + SIGNATURE_BYTES
"""Bytes of every introduction, before sealing."""


@attrs.frozen(kw_only=True)
class Introduction:
    """The signed message of one start of a daemon to another one.

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
        """Return all but the signature, which follows it."""
        told = self.pair, self.public, self.wrapped_for, self.wrap, self.has, self.known
        return self.hello.encode(self.view) + _INTRODUCTION.pack(*told)


def decode_introduction_untrusted(packet: bytes) -> tuple[Introduction, bytes]:
    """Decode a whole packet; return the signature with it, which must still be checked.

    Raises:
        BadDatagram: its length or its kind is wrong. No other exception, whatever the bytes.
    """
    if len(packet) != INTRODUCTION_BYTES:
        raise BadDatagram("short", f"{len(packet)} bytes are no introduction")
    hello = decode_hello_untrusted(packet[:HELLO_BYTES])
    pair, public, wrapped_for, wrap, has, known = _INTRODUCTION.unpack_from(packet, HELLO_BYTES)
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
