"""Frames between a client and its daemon, on a stream of bytes.

Every frame is a length u32 (of what follows), a kind u8 and a body, in network byte order.
Encoders give whole frames, the length included; decoders take a frame as `FrameReader` gives it,
from its kind on, and raise only BadDatagram. docs/session.md has all frames in a table.

Positions here lack their view: it is the one that the last VIEWID frame has announced.
"""

import enum
import struct
from typing import Final, NamedTuple

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.errors import BadDatagram
from groupcomm.events import Closed, Connected, DaemonView, MemberId, Ordered, Undeliverable
from groupcomm.names import MAX_NAME_BYTES
from groupcomm.wire.bundle import BODY_HEAD_BYTES
from groupcomm.wire.raw import Raw

PROTOCOL_VERSION: Final = 1
HELLO_FRAME_BYTES: Final = 4096
"""Length of a frame that a daemon takes before it has admitted the client."""

CLIENT_FRAME_BYTES: Final = 65 * 1024
"""Length of a frame that a daemon takes: a packet's worth."""

DAEMON_FRAME_BYTES: Final = 64 * 1024 * 1024
"""Length of a frame that a client takes: the view of a group of a million members."""

MIN_BUNDLE_LIMIT: Final = BODY_HEAD_BYTES + 1 + MAX_NAME_BYTES + 23
"""The least bundle limit, 300 bytes: one name of full length, private too, and some data."""


JOINED_BYTES: Final = 2048
"""A body below it is copied behind its head; a larger one is written from where it stands..."""

KEPT_PART: Final = 4
"""... unless that is a packet more than so many times its size: a slow client would hold it."""


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


class Capability(enum.IntFlag):
    """What a client asks for in its HELLO; a daemon ignores what it does not know."""

    PRINCIPALS = 4  # be told whose sessions deliveries come from, by PRINCIPAL frames
    REFUSALS = 2  # be told by REFUSED frames what is not allowed; else that ends the session
    CAUSES = 1  # be told the causes of what is delivered, by CAUSES frames


_LENGTH = struct.Struct("!I")
_HELLO = struct.Struct("!BBI")  # kind, version, capabilities
_BUNDLE = struct.Struct("!IBB")  # length, kind, ordered
_WELCOME = struct.Struct("!BBIQI")  # kind, version, capabilities, connection, bundle limit
_VIEWID = struct.Struct("!BQQBH")  # kind, counter, incarnation, majority, daemons
_DELIVER = struct.Struct("!BBQHHQB")  # kind, positioned, time, ring, bundle, connection, name
_ORDERED = struct.Struct("!BQQHHI")  # kind, number; time, ring, bundle, message
_ORDERED_FLAG = struct.Struct("!BQQHHIB")  # the same, and 1 if it is transitional
_ABORT = struct.Struct("!BQQ")  # kind, connection, number
_CLOSED = struct.Struct("!Bi")  # kind, code

_MAJORITY: Final = (None, False, True)
_SENDER_OFFSET: Final = _DELIVER.size - 9  # of the connection number, in a DELIVER frame
_CACHED_SENDERS: Final = 4096
_senders_cache: dict[bytes, MemberId] = {}

Parts = tuple[int, int, int]
"""A bundle's part of a position: time, ring, bundle."""


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
    return _frame(head + _text(user) + (_text(token) if token else b""))


def decode_hello_untrusted(frame: bytes) -> HelloFrame:
    """What a client says first; of an unknown version nothing but that.

    Bits that no `Capability` has are those of a later client, which can do without them.
    """
    _check(frame, _HELLO.size)
    _, version, capabilities = _HELLO.unpack_from(frame)
    if version != PROTOCOL_VERSION:
        return HelloFrame(version, 0, "", "")
    end = _HELLO.size + 1 + frame[_HELLO.size] if len(frame) > _HELLO.size else 0
    if not 0 < end < len(frame):
        return HelloFrame(version, capabilities, _last_text(frame, _HELLO.size), "")
    token = _last_text(frame, end)
    if not token:
        raise BadDatagram("token", "an empty one")
    return HelloFrame(version, capabilities, _utf8(frame[_HELLO.size + 1 : end]), token)


def encode_bundle_head(size: int, ordered: bool) -> bytes:
    """What stands before a bundle's body of `size` bytes."""
    return _BUNDLE.pack(size + 2, FrameKind.BUNDLE, ordered)


BUNDLE_BODY_OFFSET: Final = 2
"""Where the body starts in a BUNDLE frame; before it the kind, and 0 or 1 for `ordered`."""


def encode_bye() -> bytes:
    """The last frame of a client."""
    return _frame(bytes((FrameKind.BYE,)))


def encode_query(text: str) -> bytes:
    """Ask the daemon about itself; the shell around its core answers."""
    return _frame(bytes((FrameKind.QUERY,)) + text.encode())


def decode_query_untrusted(frame: bytes) -> str:
    """What is asked."""
    return _utf8(frame[1:])


# ---- daemon to client ----


def encode_answer(data: bytes) -> bytes:
    """The answer to the oldest query that has none yet."""
    return _frame(bytes((FrameKind.ANSWER,)) + data)


def encode_welcome(member: MemberId, bundle_limit: int) -> bytes:
    """The client is admitted."""
    head = _WELCOME.pack(FrameKind.WELCOME, PROTOCOL_VERSION, 0, member.connection, bundle_limit)
    return _frame(head + _text(member.name))


def decode_welcome_untrusted(frame: bytes) -> Connected:
    """The client is admitted; the limit is at least MIN_BUNDLE_LIMIT."""
    _check(frame, _WELCOME.size)
    _, version, _, connection, limit = _WELCOME.unpack_from(frame)
    if version != PROTOCOL_VERSION or limit < MIN_BUNDLE_LIMIT:
        raise BadDatagram("welcome", f"version {version}, bundles of {limit} bytes")
    member = MemberId(_last_text(frame, _WELCOME.size), connection)
    return Connected(member=member, bundle_limit=limit)


def encode_view_id(view: DaemonView) -> bytes:
    """Positions that follow are of this view of the daemons; its first daemon gives it its name."""
    majority = _MAJORITY.index(view.majority)
    names = b"".join(map(_text, view.daemons))
    counter, _, incarnation = view.id
    head = _VIEWID.pack(FrameKind.VIEWID, counter, incarnation, majority, len(view.daemons))
    return _frame(head + names)


def decode_view_id_untrusted(frame: bytes) -> DaemonView:
    """The view of the positions that follow."""
    _check(frame, _VIEWID.size)
    _, counter, incarnation, majority, count = _VIEWID.unpack_from(frame)
    offset = _VIEWID.size
    names: list[str] = []
    for _ in range(count):
        end = offset + 1 + frame[offset] if offset < len(frame) else len(frame) + 1
        if end > len(frame):
            raise BadDatagram("short", "the daemons of a VIEWID frame")
        names.append(_utf8(frame[offset + 1 : end]))
        offset = end
    if offset != len(frame) or majority >= len(_MAJORITY) or not names:
        raise BadDatagram("view", f"{count} daemons, majority {majority} in {len(frame)} bytes")
    view = ViewId(counter, names[0], incarnation)
    return DaemonView(id=view, daemons=tuple(names), majority=_MAJORITY[majority])


def encode_transition() -> bytes:
    """The regular part of the view that was announced last is over."""
    return _frame(bytes((FrameKind.TRANSITION,)))


def encode_delivery(
    sender: str, connection: int, position: Parts | None, body: Raw
) -> tuple[Raw, ...]:
    """One bundle for all its local receivers, in parts: encode once, push to every session.

    Args:
        sender: its private name.
        connection: its number at its daemon.
        position: where it stands in the agreed order; None for UNRELIABLE.
        body: its body as it came.
    """
    name = sender.encode()
    length = _DELIVER.size + len(name) + len(body)
    time, ring, bundle = position or (0, 0, 0)
    head = _DELIVER.pack(
        FrameKind.DELIVER, position is not None, time, ring, bundle, connection, len(name)
    )
    if len(body) < max(JOINED_BYTES, _held_by(body) // KEPT_PART):
        return (_LENGTH.pack(length) + head + name + body,)
    return b"%b%b%b" % (_LENGTH.pack(length), head, name), body


def _held_by(body: Raw) -> int:
    """Bytes of what a body is a part of."""
    return memoryview(body.obj).nbytes if type(body) is memoryview else len(body)


def decode_delivery_untrusted(frame: bytes) -> tuple[MemberId, Parts | None, memoryview]:
    """Sender, position and body of a bundle; the body is a view of the frame."""
    _check(frame, _DELIVER.size)
    _, positioned, time, ring, bundle, _, name = _DELIVER.unpack_from(frame)
    end = _DELIVER.size + name
    if end > len(frame) or not name:
        raise BadDatagram("short", f"a sender's name of {name} bytes")
    key = frame[_SENDER_OFFSET:end]
    sender = _senders_cache.get(key)
    if sender is None:
        sender = _learn_sender(key)
    return sender, (time, ring, bundle) if positioned else None, memoryview(frame)[end:]


def encode_ordered(number: int, position: Position, transitional: bool = False) -> bytes:
    """A message of this client, sent with ``ordered=True``, has its place."""
    _, *place = position
    return _frame(_ORDERED_FLAG.pack(FrameKind.ORDERED, number, *place, transitional))


def decode_ordered_untrusted(frame: bytes, view: ViewId) -> Ordered:
    """The place of an own message."""
    if len(frame) != _ORDERED_FLAG.size or frame[-1] > 1:
        raise BadDatagram("short", f"an ORDERED frame of {len(frame)} bytes")
    _, number, *place, flag = _ORDERED_FLAG.unpack(frame)
    return Ordered(number=number, position=Position(view, *place), transitional=flag == 1)


def encode_undeliverable(number: int, target: str, position: Position) -> bytes:
    """A private message of this client has found nobody."""
    _, time, ring, bundle, message = position
    head = _ORDERED.pack(FrameKind.UNDELIVERABLE, number, time, ring, bundle, message)
    return _frame(head + _text(target))


def decode_undeliverable_untrusted(frame: bytes, view: ViewId) -> Undeliverable:
    """A private message that has found nobody."""
    _check(frame, _ORDERED.size)
    _, number, *place = _ORDERED.unpack_from(frame)
    target = _last_text(frame, _ORDERED.size)
    return Undeliverable(number=number, target=target, position=Position(view, *place))


def encode_abort(sender: MemberId, number: int) -> bytes:
    """The rest of a sender's message will not come; number 0: of all its messages."""
    head = _ABORT.pack(FrameKind.ABORT, sender.connection, number)
    return _frame(head + _text(sender.name))


def decode_abort_untrusted(frame: bytes) -> tuple[MemberId, int]:
    """Whose message will not be completed, and which; 0 for all."""
    _check(frame, _ABORT.size)
    _, connection, number = _ABORT.unpack_from(frame)
    return MemberId(_last_text(frame, _ABORT.size), connection), number


def encode_closed(code: int, reason: str) -> bytes:
    """The last frame of a daemon."""
    return _frame(_CLOSED.pack(FrameKind.CLOSED, code) + reason.encode(errors="replace"))


def decode_closed_untrusted(frame: bytes) -> Closed:
    """Why the daemon ended the session."""
    _check(frame, _CLOSED.size)
    _, code = _CLOSED.unpack_from(frame)
    return Closed(code=code, reason=_utf8(frame[_CLOSED.size :]))


# ---- parts ----


def _frame(frame: bytes) -> bytes:
    return _LENGTH.pack(len(frame)) + frame


def _text(text: str) -> bytes:
    raw = text.encode()
    return bytes((len(raw),)) + raw


def _check(frame: bytes, size: int) -> None:
    if len(frame) < size:
        raise BadDatagram("short", f"a frame of kind {frame[0]} with {len(frame)} bytes")


def _last_text(frame: bytes, offset: int) -> str:
    """The short text at `offset`, with which the frame must end."""
    if len(frame) <= offset or len(frame) != offset + 1 + frame[offset]:
        raise BadDatagram("short", f"the name at the end of a frame of kind {frame[0]}")
    return _utf8(frame[offset + 1 :])


def _utf8(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise BadDatagram("name", "not UTF-8") from None


def _learn_sender(key: bytes) -> MemberId:
    sender = MemberId(_utf8(key[9:]), int.from_bytes(key[:8], "big"))
    if len(_senders_cache) >= _CACHED_SENDERS:
        _senders_cache.clear()
    _senders_cache[key] = sender
    return sender
