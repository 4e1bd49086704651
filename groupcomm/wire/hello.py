"""Hello: a daemon asks another for proof that it is there now, or gives it, or both.

::

    restarts u64, random id u64     the start that it is meant for
    asks u64                        a number to be repeated; 0: nothing is asked
    answers u64                     the number that was asked; 0: nothing is answered
    ring, hop, control u64          the last counters that its sender has used there
    seals u16                       the key that its sender seals with

It belongs to no view, so its key is zero. All have one length: an answer is never longer than what
asked for it.
"""

import struct
from typing import Final

import attrs

from groupcomm.config.view import Incarnation, incarnation_of
from groupcomm.errors import BadDatagram
from groupcomm.wire.packet import KEY_BYTES, PacketKind

_LAYOUT = struct.Struct("!B16sQQQQQQQH")
_KIND: Final = int(PacketKind.HELLO)

HELLO_BYTES: Final = _LAYOUT.size
"""Of every hello, before sealing."""


@attrs.frozen(kw_only=True)
class Hello:
    """A challenge, an answer, or an answer that is a challenge too.

    Attributes:
        start: which start of its receiver it is meant for.
        asks: number of the challenge, from 1; 0: none.
        answers: number of the challenge that is answered; 0: none.
        counters: the last that its sender has used on the channels ring, hop and control.
        seals: id of the key that its sender seals with, now or from now on.
    """

    start: Incarnation
    asks: int = 0
    answers: int = 0
    counters: tuple[int, int, int] = (0, 0, 0)
    seals: int = 0

    def encode(self, key: bytes = bytes(KEY_BYTES)) -> bytes:
        """The packet."""
        start = self.start.restarts, self.start.random_id
        return _LAYOUT.pack(_KIND, key, *start, self.asks, self.answers, *self.counters, self.seals)


def decode_hello_untrusted(packet: bytes) -> Hello:
    """Decode a whole packet.

    Raises:
        BadDatagram: its length or its kind is wrong. No other exception, whatever the bytes.
    """
    if len(packet) != HELLO_BYTES or packet[0] != _KIND:
        raise BadDatagram("short", f"{len(packet)} bytes are no hello")
    _, _, restarts, random_id, asks, answers, *counters, seals = _LAYOUT.unpack(packet)
    ring, hop, control = counters
    return Hello(
        start=incarnation_of(restarts, random_id),
        asks=asks,
        answers=answers,
        counters=(ring, hop, control),
        seals=seals,
    )
