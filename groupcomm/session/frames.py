"""Frames of a session: their kinds, their layout, and those from a client to its daemon.

Every frame is a length u32 (of what follows), a kind u8 and a body, in network byte order.
Encoders return whole frames, the length included; decoders take a frame as `FrameReader` yields it,
from its kind on, and raise only BadDatagram. docs/protocol/session.md has all frames in a table.
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
"""The longest frame that a daemon accepts before it has admitted the client."""

CLIENT_FRAME_BYTES: Final = 65 * 1024
"""The longest frame that a daemon accepts: a packet's worth."""

DAEMON_FRAME_BYTES: Final = 64 * 1024 * 1024
"""The longest frame that a client accepts: the whole list of a group of a million members."""

MIN_BUNDLE_LIMIT: Final = BODY_HEAD_BYTES + 1 + MAX_NAME_BYTES + 23
"""The least bundle limit, 300 bytes: one name of full length, private too, and some data."""

MANY_NAMES_BYTES: Final = 32 * 1024
"""The most bytes of a bundle that exceeds its limit for its names: 100 of full length fit."""


def bundle_bytes(limit: int, heads: int) -> int:
    """Return the most bytes of a bundle whose head and names need `heads` of them.

    They are the limit in the WELCOME, or twice as many as `heads` if that is more. So a message to
    many groups is in one bundle, and has one place in the order for all of them.
    """
    return max(limit, min(2 * heads, MANY_NAMES_BYTES))


class FrameKind(enum.IntEnum):
    """The kind of a frame; kinds from 16 on go from the daemon to the client."""

    HELLO = 1
    BUNDLE = 2
    BYE = 3
    QUERY = 4
    CLIENT_ALIVE = 5
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
    STOPPING = 30
    DAEMON_ALIVE = 31
    ACCEPTED = 32
    DIFFERENCE = 33
    CONTINUED = 34
    LINE = 35


class Capability(enum.IntFlag):
    """The wishes of a client in its HELLO; a daemon ignores bits that it does not know."""

    PAUSES = 32768  # said by the daemon in its WELCOME: its view knows joins that need a quorum
    LINES = 16384  # said by the daemon in its WELCOME: it knows lines
    UNBROKEN = 8192  # in VIEWID frames, that no other majority was since the last view
    VOTES = 4096  # in VIEWID frames, that a majority is one of votes
    CONTINUED = 2048  # CONTINUED frames: a new view of the daemons in which groups go on
    BOUNDS = 1024  # in REFUSED frames, the bound at which a join is refused
    READERS = 512  # said by the daemon in its WELCOME: it knows joins without views
    NO_VIEWS = 256  # of the views of groups only those of own joins and leaves, without others
    DIFFERENCES = 128  # DIFFERENCE frames: changes of groups without the whole lists
    ACCEPTED = 64  # ACCEPTED frames: the messages that a crash of the daemon cannot lose any more
    HEARTBEATS = 32  # both sides send DAEMON_ALIVE and CLIENT_ALIVE, and end a silent session
    STOPPING = 16  # STOPPING frames: the daemon is about to stop
    ORIGINS = 8  # ask for ORIGINS frames: the daemons that came together into a view
    PRINCIPALS = 4  # PRINCIPAL frames: the owners of the sessions that deliveries come from
    REFUSALS = 2  # REFUSED frames for requests that are not allowed; else these end the session
    CAUSES = 1  # CAUSES frames: the causes of deliveries


ALWAYS: Final = (
    Capability.REFUSALS
    | Capability.BOUNDS
    | Capability.STOPPING
    | Capability.VOTES
    | Capability.UNBROKEN
)
"""What clients of this library understand, whatever their programs ask for."""


LENGTH = struct.Struct("!I")
_HELLO = struct.Struct("!BBI")  # kind, version, capabilities
_BUNDLE = struct.Struct("!IBB")  # length, kind, ordered
_ALIVE = struct.Struct("!BI")  # kind, milliseconds
ALIVE_BYTES: Final = LENGTH.size + _ALIVE.size
"""The bytes of a heartbeat, with its length."""


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
    """Splits a stream of bytes, in pieces of any size, into frames.

    Attributes:
        limit: the greatest length of a frame; a longer one is refused before it is buffered.
        is_empty: whether the bytes that were fed end with the frame that was yielded last.
    """

    __slots__ = ("_needed", "_rest", "is_empty", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._rest = bytearray()  # the beginning of a frame, its length included
        self._needed = 4  # bytes up to the end of the frame's length, then of the whole frame
        self.is_empty = False

    @property
    def is_between_frames(self) -> bool:
        """Return whether the next bytes begin a frame."""
        return not self._rest

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Add the next bytes; yield the frames that they complete, each from its kind on.

        Raises:
            BadDatagram: a length is 0 or above `limit`, raised after the valid frames before it;
                the rest of the stream cannot be read.
        """
        start = 0
        size = len(data)
        rest = self._rest
        while rest:  # only a frame that begins in the rest is joined; others are slices of data
            taken = min(self._needed - len(rest), size - start)
            rest += data[start : start + taken]
            start += taken
            if len(rest) < self._needed:
                return
            if self._needed == 4:
                (length,) = LENGTH.unpack_from(rest)
                if not 1 <= length <= self.limit:
                    raise self._refuse(length)
                self._needed += length
            else:
                frame = bytes(memoryview(rest)[4:])
                rest.clear()
                self._needed = 4
                self.is_empty = start == size
                yield frame
        while size - start >= 4:
            (length,) = LENGTH.unpack_from(data, start)
            if not 1 <= length <= self.limit:
                raise self._refuse(length)
            end = start + 4 + length
            if end > size:
                self._needed = end - start
                break
            self.is_empty = end == size
            yield data[start + 4 : end]
            start = end
        self._rest += data[start:]

    def _refuse(self, length: int) -> BadDatagram:
        return BadDatagram("long", f"a frame of {length} bytes; 1 to {self.limit} are allowed")


# ---- client to daemon ----


class HelloFrame(NamedTuple):
    """The contents of a HELLO; only a client that authenticates by it over TLS sends a token."""

    version: int
    capabilities: int
    user: str
    token: str


def encode_hello(user: str, capabilities: int = 0, token: str = "") -> bytes:
    """Encode the first frame of a client: version, `Capability` bits, user name and token."""
    head = _HELLO.pack(FrameKind.HELLO, PROTOCOL_VERSION, capabilities)
    return whole_frame(head + short_text(user) + (short_text(token) if token else b""))


def decode_hello_untrusted(frame: bytes) -> HelloFrame:
    """Decode the first frame of a client; of an unknown version nothing but the version.

    Bits that are no `Capability` come from a later client, which can do without them.
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
        raise BadDatagram("token", "the token is empty")
    return HelloFrame(version, capabilities, utf8(frame[_HELLO.size + 1 : end]), token)


def encode_bundle_head(size: int, ordered: bool) -> bytes:
    """Encode the head that stands before a bundle's body of `size` bytes."""
    return _BUNDLE.pack(size + 2, FrameKind.BUNDLE, ordered)


BUNDLE_BODY_OFFSET: Final = 2
"""The offset of the body in a BUNDLE frame, after the kind and 0 or 1 for `ordered`."""


def encode_bye() -> bytes:
    """Encode the last frame of a client."""
    return whole_frame(bytes((FrameKind.BYE,)))


def encode_query(text: str) -> bytes:
    """Encode a question about the daemon, which the shell around its core answers."""
    return whole_frame(bytes((FrameKind.QUERY,)) + text.encode())


def decode_query_untrusted(frame: bytes) -> str:
    """Decode a question."""
    return utf8(frame[1:])


# ---- both ways ----


def encode_alive(kind: FrameKind, wait_s: float) -> bytes:
    """Encode a heartbeat: CLIENT_ALIVE or DAEMON_ALIVE.

    Args:
        kind: the kind of the frame.
        wait_s: the seconds of silence after which its sender ends the session; 0 for never.
    """
    return whole_frame(_ALIVE.pack(kind, min(round(1000 * wait_s), 0xFFFFFFFF)))


def decode_alive_untrusted(frame: bytes) -> float:
    """Decode a heartbeat; return for how many seconds the other side waits, 0 for ever."""
    if len(frame) != _ALIVE.size:
        raise BadDatagram("short", f"a frame of kind {frame[0]} with {len(frame)} bytes")
    return int(_ALIVE.unpack(frame)[1]) / 1000
