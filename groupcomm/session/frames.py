"""Frames of a session: their kinds, their layout, and those from a client to its daemon.

Every frame is a length u32 (of what follows), a kind u8 and a body, in network byte order.
Encoders return whole frames, the length included; decoders take a frame as `FrameReader` yields it,
from its kind on, and raise only BadDatagram. docs/session.md has all frames in a table.
"""

import enum
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from groupcomm.errors import BadDatagram
from groupcomm.names import MAX_NAME_BYTES
from groupcomm.wire.bundle import BODY_HEAD_BYTES

PROTOCOL_VERSION: Final = 1
HELLO_FRAME_BYTES: Final = 4096
"""Length of a frame that a daemon takes before it has admitted the client."""

CLIENT_FRAME_BYTES: Final = 65 * 1024
"""Length of a frame that a daemon takes: a packet's worth."""

DAEMON_FRAME_BYTES: Final = 64 * 1024 * 1024
"""Length of a frame that a client takes: the view of a group of a million members."""

MIN_BUNDLE_LIMIT: Final = BODY_HEAD_BYTES + 1 + MAX_NAME_BYTES + 23
"""The least bundle limit, 300 bytes: one name of full length, private too, and some data."""


class FrameKind(enum.IntEnum):
    """What a frame is; from 16 on they go from the daemon to the client."""

    HELLO = 1
    BUNDLE = 2
    BYE = 3
    QUERY = 4
    WELCOME = 16
    VIEWID = 17
    DELIVER = 18
    VIEW = 19
    ORDERED = 20
    UNDELIVERABLE = 21
    ABORT = 22
    CLOSED = 23
    TRANSITION = 24
    ANSWER = 25
    CAUSES = 26
    REFUSED = 27
    PRINCIPAL = 28
    ORIGINS = 29


class Capability(enum.IntFlag):
    """What a client asks for in its HELLO; a daemon ignores what it does not know."""

    ORIGINS = 8  # be told which daemons came together into a view, by ORIGINS frames
    PRINCIPALS = 4  # be told whose sessions deliveries come from, by PRINCIPAL frames
    REFUSALS = 2  # be told by REFUSED frames what is not allowed; else that ends the session
    CAUSES = 1  # be told the causes of what is delivered, by CAUSES frames


LENGTH = struct.Struct("!I")
_HELLO = struct.Struct("!BBI")  # kind, version, capabilities
_BUNDLE = struct.Struct("!IBB")  # length, kind, ordered


# ---- layout ----


def whole_frame(frame: bytes) -> bytes:
    """Return a frame with its length before it."""
    return LENGTH.pack(len(frame)) + frame


def short_text(text: str) -> bytes:
    """Encode a text of up to 255 bytes: its length u8, and UTF-8."""
    raw = text.encode()
    return bytes((len(raw),)) + raw


def check_size(frame: bytes, size: int) -> None:
    """Raise BadDatagram if a frame is shorter than `size` bytes."""
    if len(frame) < size:
        raise BadDatagram("short", f"a frame of kind {frame[0]} with {len(frame)} bytes")


def last_text(frame: bytes, offset: int) -> str:
    """Decode the short text at `offset`, with which the frame must end."""
    if len(frame) <= offset or len(frame) != offset + 1 + frame[offset]:
        raise BadDatagram("short", f"the name at the end of a frame of kind {frame[0]}")
    return utf8(frame[offset + 1 :])


def utf8(raw: bytes) -> str:
    """Decode UTF-8; raise BadDatagram if the bytes are something else."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise BadDatagram("name", "not UTF-8") from None


class FrameReader:
    """Cuts a stream of bytes into frames, whatever pieces it comes in.

    Attributes:
        limit: greatest length of a frame; a longer one is refused before it is buffered.
    """

    __slots__ = ("_needed", "_rest", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._rest = bytearray()  # the begin of a frame, from its length on
        self._needed = 4  # bytes of it up to the end of its length, then of the whole frame

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take the next bytes; yield the frames that they complete, each from its kind on.

        Raises:
            BadDatagram: a length is 0 or above `limit`, told after the good frames before it; the
                stream cannot be followed from there.
        """
        start = 0
        size = len(data)
        rest = self._rest
        while rest:  # only the frame that begins there is put together, others are cut out of data
            taken = min(self._needed - len(rest), size - start)
            rest += data[start : start + taken]
            start += taken
            if len(rest) < self._needed:
                return
            if self._needed == 4:
                self._needed += self._length(rest, 0)
            else:
                frame = bytes(memoryview(rest)[4:])
                rest.clear()
                self._needed = 4
                yield frame
        while size - start >= 4:
            end = start + 4 + self._length(data, start)
            if end > size:
                self._needed = end - start
                break
            yield data[start + 4 : end]
            start = end
        self._rest += data[start:]

    def _length(self, data: bytes | bytearray, start: int) -> int:
        (length,) = LENGTH.unpack_from(data, start)
        if not 1 <= length <= self.limit:
            raise BadDatagram("long", f"a frame of {length} bytes; {self.limit} are allowed")
        return int(length)


# ---- client to daemon ----


class HelloFrame(NamedTuple):
    """What a HELLO says; a token proves over TLS who the client is, others send none."""

    version: int
    capabilities: int
    user: str
    token: str


def encode_hello(user: str, capabilities: int = 0, token: str = "") -> bytes:
    """The first frame of a client: version, `Capability` bits, its user's name, its token."""
    head = _HELLO.pack(FrameKind.HELLO, PROTOCOL_VERSION, capabilities)
    return whole_frame(head + short_text(user) + (short_text(token) if token else b""))


def decode_hello_untrusted(frame: bytes) -> HelloFrame:
    """What a client says first; of an unknown version nothing but that.

    Bits that no `Capability` has are those of a later client, which can do without them.
    """
    check_size(frame, _HELLO.size)
    _, version, capabilities = _HELLO.unpack_from(frame)
    if version != PROTOCOL_VERSION:
        return HelloFrame(version, 0, "", "")
    end = _HELLO.size + 1 + frame[_HELLO.size] if len(frame) > _HELLO.size else 0
    if not 0 < end < len(frame):
        return HelloFrame(version, capabilities, last_text(frame, _HELLO.size), "")
    token = last_text(frame, end)
    if not token:
        raise BadDatagram("token", "an empty one")
    return HelloFrame(version, capabilities, utf8(frame[_HELLO.size + 1 : end]), token)


def encode_bundle_head(size: int, ordered: bool) -> bytes:
    """What stands before a bundle's body of `size` bytes."""
    return _BUNDLE.pack(size + 2, FrameKind.BUNDLE, ordered)


BUNDLE_BODY_OFFSET: Final = 2
"""Where the body starts in a BUNDLE frame; before it the kind, and 0 or 1 for `ordered`."""


def encode_bye() -> bytes:
    """The last frame of a client."""
    return whole_frame(bytes((FrameKind.BYE,)))


def encode_query(text: str) -> bytes:
    """Ask the daemon about itself; the shell around its core answers."""
    return whole_frame(bytes((FrameKind.QUERY,)) + text.encode())


def decode_query_untrusted(frame: bytes) -> str:
    """What is asked."""
    return utf8(frame[1:])
