"""The bytes of a channel: pieces of one stream, straight from an archive to its subscriber.

::

    subscriber: ff 47 48 01, id of the channel (16 bytes), proof (16 bytes)
    archive:    chunks: length u32 with its highest bit set if the piece goes on in the next chunk,
                then this number of bytes, sealed with AES-256-GCM

Pure. The key is made for one stream and one connection, and comes by the session. The nonce is the
direction (u32: 0 from the archive, 1 from the subscriber) and a counter (u64), so none repeats; a
chunk that was changed, repeated, moved or left out does not open. The length is authenticated.
"""

import struct
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from groupcomm.errors import RemoteProtocolError
from groupcomm_client.history.frames import CHANNEL_ID_BYTES, HEAD, MAX_PIECE_BYTES

HELLO_BYTES: Final = len(HEAD) + CHANNEL_ID_BYTES + 16

CHUNK_BYTES: Final = 1 << 20
"""The most bytes that are sealed together."""

_SEAL_BYTES: Final = 16
_MORE: Final = 1 << 31
_LENGTH: Final = struct.Struct("!I")
_NONCE: Final = struct.Struct("!IQ")
_FROM_ARCHIVE, _FROM_SUBSCRIBER = 0, 1


class BadChannel(RemoteProtocolError):
    """The other end of a channel is not the archive, or does not keep to the format."""


def hello(channel: bytes, key: bytes) -> bytes:
    """Return what a subscriber sends first: which channel it is, and that it knows the key."""
    proof = AESGCM(key).encrypt(_NONCE.pack(_FROM_SUBSCRIBER, 0), b"", HEAD + channel)
    return HEAD + channel + proof


def channel_of_untrusted(data: bytes) -> bytes:
    """Return the id of a channel from its first HELLO_BYTES bytes.

    Raises:
        BadChannel: they are something else.
    """
    if len(data) != HELLO_BYTES or not data.startswith(HEAD):
        raise BadChannel("this is not the beginning of a channel")
    return data[len(HEAD) : len(HEAD) + CHANNEL_ID_BYTES]


def is_proved(data: bytes, key: bytes) -> bool:
    """Return whether the sender of a hello knows the key."""
    head, proof = data[:-_SEAL_BYTES], data[-_SEAL_BYTES:]
    try:
        AESGCM(key).decrypt(_NONCE.pack(_FROM_SUBSCRIBER, 0), proof, head)
    except InvalidTag:
        return False
    return True


class PieceSealer:
    """The archive's side of one channel.

    Attributes:
        key: its key.
        count: the number of chunks that were sealed; another sealer may go on from it.
    """

    def __init__(self, key: bytes, count: int = 0) -> None:
        self.key = key
        self.count = count
        self._encrypt = AESGCM(key).encrypt

    def seal(self, piece: bytes) -> list[bytes]:
        """Return a piece, sealed; its parts are to be sent in this order."""
        parts: list[bytes] = []
        view = memoryview(piece)
        for start in range(0, len(piece), CHUNK_BYTES):
            chunk = view[start : start + CHUNK_BYTES]
            more = _MORE if start + CHUNK_BYTES < len(piece) else 0
            length = _LENGTH.pack(more | (len(chunk) + _SEAL_BYTES))
            nonce = _NONCE.pack(_FROM_ARCHIVE, self.count)
            self.count += 1
            parts += (length, self._encrypt(nonce, chunk, length))
        return parts


class PieceOpener:
    """The subscriber's side of one channel.

    Call `expect_untrusted` with LENGTH_BYTES bytes, then `open_untrusted` with as many as that has
    returned, again and again.
    """

    def __init__(self, key: bytes) -> None:
        self._decrypt = AESGCM(key).decrypt
        self._count = 0
        self._length = b""
        self._parts: list[bytes] = []

    def expect_untrusted(self, length: bytes | bytearray) -> int:
        """Return the number of bytes of the next chunk.

        Raises:
            BadChannel: no chunk has this length.
        """
        (number,) = _LENGTH.unpack(length)
        size: int = number & ~_MORE
        if not _SEAL_BYTES < size <= CHUNK_BYTES + _SEAL_BYTES:
            raise BadChannel(f"a chunk of {size} bytes")
        self._length = bytes(length)
        return size

    def open_untrusted(self, chunk: bytes | bytearray | memoryview) -> bytes | None:
        """Return a whole piece; None while it goes on in the next chunk.

        Raises:
            BadChannel: the chunk is not what the archive has sealed next.
        """
        try:
            data = self._decrypt(_NONCE.pack(_FROM_ARCHIVE, self._count), chunk, self._length)
        except InvalidTag:
            raise BadChannel("a chunk that the archive has not sealed") from None
        self._count += 1
        if not self._parts and not self._length[0] & 0x80:
            return data
        self._parts.append(data)
        if len(self._parts) * CHUNK_BYTES > MAX_PIECE_BYTES:
            raise BadChannel(f"a piece of more than {MAX_PIECE_BYTES} bytes")
        if self._length[0] & 0x80:
            return None
        whole, self._parts = b"".join(self._parts), []
        return whole
