"""Frames from a daemon to its client.

Positions in them lack their view: it is the view that the last VIEWID frame has announced.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Final

from groupcomm.clocks.stamp import Position, Stamp, ViewId
from groupcomm.config.view import MAX_RINGS
from groupcomm.errors import BadDatagram
from groupcomm.events import (
    Answer,
    CausalContext,
    Cause,
    Closed,
    Connected,
    DaemonStopping,
    DaemonView,
    Event,
    GroupView,
    LineGranted,
    MemberId,
    Ordered,
    Refused,
    Undeliverable,
)
from groupcomm.level import LEVELS
from groupcomm.security.access import VERBS, Verb
from groupcomm.security.quotas import BOUND_KEYS, Bound
from groupcomm.session.frames import (
    ALWAYS,
    LENGTH,
    MIN_BUNDLE_LIMIT,
    PROTOCOL_VERSION,
    Capability,
    FrameKind,
    check_size,
    last_text,
    short_text,
    utf8,
    whole_frame,
)
from groupcomm.session.member_frames import decode_members, encode_members
from groupcomm.wire.packet import Raw

JOINED_BYTES: Final = 2048
"""A shorter body is copied after its head; a longer one is written from its own place..."""

KEPT_PART: Final = 4
"""... unless it is part of a packet this many times its size, which a slow client would hold."""
_WELCOME = struct.Struct("!BBIQI")  # kind, version, capabilities, connection, bundle limit
_VIEWID = struct.Struct("!BQQBH")  # kind, counter, incarnation, majority, daemons
_DELIVER = struct.Struct("!BBQHHQB")  # kind, positioned, time, ring, bundle, connection, name
_ORDERED = struct.Struct("!BQQHHI")  # kind, number; time, ring, bundle, message
_ORDERED_FLAG = struct.Struct("!BQQHHIB")  # the same, and 1 if it is transitional
_ORIGINS = struct.Struct("!BH")  # kind, daemons
_ORIGIN = struct.Struct("!H")  # number
_STOPPING = struct.Struct("!BIH")  # kind, milliseconds, addresses
_ABORT = struct.Struct("!BQQ")  # kind, connection, number
_CLOSED = struct.Struct("!Bi")  # kind, code
_ACCEPTED = struct.Struct("!BQ")  # kind, number
_LINE = struct.Struct("!BQ16sQ")  # kind, number, table, forgotten
_MAJORITY: Final = (None, False, True, True, True)
_YES: Final = 2
_BY_VOTES: Final = 3
_UNBROKEN: Final = 4
_SENDER_OFFSET: Final = _DELIVER.size - 9  # the offset of the connection number in a DELIVER frame
_CACHED_SENDERS: Final = 4096
_senders_cache: dict[bytes, MemberId] = {}
Parts = tuple[int, int, int]
"""The part of a position that names a bundle: time, ring, bundle."""


def encode_answer(data: bytes) -> bytes:
    """Encode the answer to the oldest query without one."""
    return whole_frame(bytes((FrameKind.ANSWER,)) + data)


def encode_welcome(
    member: MemberId,
    bundle_limit: int,
    *,
    readers: bool = True,
    lines: bool = True,
    pauses: bool = True,
) -> bytes:
    """Encode the admission of a client; without `readers` or `lines` as earlier releases do, and
    without `pauses` if some daemon of the view does not know joins that need a quorum."""
    knows = (Capability.READERS if readers else 0) | (Capability.LINES if lines else 0)
    knows |= Capability.PAUSES if pauses else 0
    connection = member.connection
    head = _WELCOME.pack(FrameKind.WELCOME, PROTOCOL_VERSION, knows, connection, bundle_limit)
    return whole_frame(head + short_text(member.name))


def decode_welcome_untrusted(frame: bytes) -> Connected:
    """Decode the admission of a client; the limit is at least MIN_BUNDLE_LIMIT."""
    check_size(frame, _WELCOME.size)
    _, version, knows, connection, limit = _WELCOME.unpack_from(frame)
    if version != PROTOCOL_VERSION or limit < MIN_BUNDLE_LIMIT:
        raise BadDatagram("welcome", f"version {version}, bundles of {limit} bytes")
    member = MemberId(last_text(frame, _WELCOME.size), connection)
    readers, lines = bool(knows & Capability.READERS), bool(knows & Capability.LINES)
    pauses = bool(knows & Capability.PAUSES)
    return Connected(member=member, bundle_limit=limit, readers=readers, lines=lines, pauses=pauses)


def encode_line(granted: LineGranted) -> bytes:
    """Encode that a session goes on with its line."""
    return whole_frame(_LINE.pack(FrameKind.LINE, granted.last, granted.table, granted.forgotten))


def decode_line_untrusted(frame: bytes) -> LineGranted:
    """Decode that the session goes on with its line."""
    if len(frame) != _LINE.size:
        raise BadDatagram("line", f"a LINE frame of {len(frame)} bytes")
    _, last, table, forgotten = _LINE.unpack(frame)
    return LineGranted(last=last, table=table, forgotten=forgotten)


def encode_view_id(view: DaemonView, wishes: int = ALWAYS) -> bytes:
    """Encode the view of the positions that follow; its id names the first of its daemons.

    Args:
        view: the view.
        wishes: the capabilities of the client; others are not used.
    """
    majority = _MAJORITY.index(view.majority)
    if majority == _YES and view.by_votes and wishes & Capability.VOTES:
        majority = _BY_VOTES
    elif majority == _YES and view.unbroken and wishes & Capability.UNBROKEN:
        majority = _UNBROKEN
    names = b"".join(map(short_text, view.daemons))
    counter, _, incarnation = view.id
    head = _VIEWID.pack(FrameKind.VIEWID, counter, incarnation, majority, len(view.daemons))
    return whole_frame(head + names)


def decode_view_id_untrusted(frame: bytes) -> DaemonView:
    """Decode the view of the positions that follow."""
    check_size(frame, _VIEWID.size)
    _, counter, incarnation, majority, count = _VIEWID.unpack_from(frame)
    names, offset = _short_texts(frame, _VIEWID.size, count)
    if offset != len(frame) or majority >= len(_MAJORITY) or not names:
        raise BadDatagram("view", f"{count} daemons, majority {majority} in {len(frame)} bytes")
    view = ViewId(counter, names[0], incarnation)
    return DaemonView(
        id=view,
        daemons=names,
        majority=_MAJORITY[majority],
        by_votes=majority == _BY_VOTES,
        unbroken=majority == _UNBROKEN,
    )


def _short_texts(frame: bytes, offset: int, count: int) -> tuple[tuple[str, ...], int]:
    """Decode several short texts from `offset` on; return them, and the offset behind them."""
    found: list[str] = []
    for _ in range(count):
        end = offset + 1 + frame[offset] if offset < len(frame) else len(frame) + 1
        if end > len(frame):
            raise BadDatagram("short", f"{count} names in a frame of kind {frame[0]}")
        found.append(utf8(frame[offset + 1 : end]))
        offset = end
    return tuple(found), offset


def encode_stopping(notice: DaemonStopping) -> bytes:
    """Encode the notice that the daemon is about to stop; each address has up to 255 bytes."""
    within_ms = min(round(1000 * notice.within_s), 0xFFFFFFFF)
    head = _STOPPING.pack(FrameKind.STOPPING, within_ms, len(notice.addresses))
    return whole_frame(head + b"".join(map(short_text, notice.addresses)))


def decode_stopping_untrusted(frame: bytes) -> DaemonStopping:
    """Decode the notice that the daemon is about to stop."""
    check_size(frame, _STOPPING.size)
    _, within_ms, count = _STOPPING.unpack_from(frame)
    addresses, end = _short_texts(frame, _STOPPING.size, count)
    if end != len(frame):
        raise BadDatagram("short", f"{count} addresses in {len(frame)} bytes")
    return DaemonStopping(within_s=within_ms / 1000, addresses=addresses)


def encode_transition() -> bytes:
    """Encode the end of the regular part of the view that was announced last."""
    return whole_frame(bytes((FrameKind.TRANSITION,)))


def encode_continued() -> bytes:
    """Encode that all groups without a view since the last VIEWID go on as they were."""
    return whole_frame(bytes((FrameKind.CONTINUED,)))


def encode_delivery(
    sender: str, connection: int, position: Parts | None, body: Raw
) -> tuple[Raw, ...]:
    """Encode a bundle for all its local receivers, in parts; push them to every session.

    Args:
        sender: the private name of the sender.
        connection: the sender's connection number at its daemon.
        position: the bundle's place in the agreed order; None for UNRELIABLE.
        body: the body as it came from its sender.
    """
    name = sender.encode()
    length = _DELIVER.size + len(name) + len(body)
    time, ring, bundle = position or (0, 0, 0)
    head = _DELIVER.pack(
        FrameKind.DELIVER, position is not None, time, ring, bundle, connection, len(name)
    )
    if len(body) < JOINED_BYTES or len(body) < _held_by(body) // KEPT_PART:
        return (LENGTH.pack(length) + head + name + body,)
    return b"%b%b%b" % (LENGTH.pack(length), head, name), body


def _held_by(body: Raw) -> int:
    """Return the size of the object that a body is a part of."""
    return memoryview(body.obj).nbytes if type(body) is memoryview else len(body)


def decode_delivery_untrusted(frame: bytes) -> tuple[MemberId, Parts | None, memoryview]:
    """Decode sender, position and body of a bundle; the body is a memoryview of the frame."""
    if len(frame) < _DELIVER.size:
        check_size(frame, _DELIVER.size)
    _, positioned, time, ring, bundle, _, name = _DELIVER.unpack_from(frame)
    end = _DELIVER.size + name
    if end > len(frame) or not name:
        raise BadDatagram("short", f"a sender's name of {name} bytes")
    if positioned != 1 and (positioned or time or ring or bundle):
        raise BadDatagram("position", f"its flag is {positioned}, and it is {time, ring, bundle}")
    key = frame[_SENDER_OFFSET:end]
    sender = _senders_cache.get(key)
    if sender is None:
        sender = _learn_sender(key)
    return sender, (time, ring, bundle) if positioned else None, memoryview(frame)[end:]


def encode_ordered(number: int, position: Position, transitional: bool = False) -> bytes:
    """Encode the position of a message that the client has sent with ``ordered=True``."""
    _, *place = position
    return whole_frame(_ORDERED_FLAG.pack(FrameKind.ORDERED, number, *place, transitional))


def decode_ordered_untrusted(frame: bytes, view: ViewId) -> Ordered:
    """Decode the position of an own message."""
    if len(frame) != _ORDERED_FLAG.size or frame[-1] > 1:
        raise BadDatagram("short", f"an ORDERED frame of {len(frame)} bytes")
    _, number, *place, flag = _ORDERED_FLAG.unpack(frame)
    return Ordered(number=number, position=Position(view, *place), transitional=flag == 1)


def encode_undeliverable(number: int, target: str, position: Position) -> bytes:
    """Encode that a private message of the client has found no receiver."""
    _, time, ring, bundle, message = position
    head = _ORDERED.pack(FrameKind.UNDELIVERABLE, number, time, ring, bundle, message)
    return whole_frame(head + short_text(target))


def decode_undeliverable_untrusted(frame: bytes, view: ViewId) -> Undeliverable:
    """Decode that a private message has found no receiver."""
    check_size(frame, _ORDERED.size)
    _, number, *place = _ORDERED.unpack_from(frame)
    target = last_text(frame, _ORDERED.size)
    return Undeliverable(number=number, target=target, position=Position(view, *place))


def encode_accepted(number: int) -> bytes:
    """Encode that a crash of the daemon cannot lose the client's messages up to this number."""
    return whole_frame(_ACCEPTED.pack(FrameKind.ACCEPTED, number))


def decode_accepted_untrusted(frame: bytes) -> int:
    """Decode the number up to which the daemon has accepted the client's messages."""
    if len(frame) != _ACCEPTED.size:
        raise BadDatagram("short", f"an ACCEPTED frame of {len(frame)} bytes")
    return int(_ACCEPTED.unpack(frame)[1])


def encode_abort(sender: MemberId, number: int) -> bytes:
    """Encode that the rest of a sender's message will not come; number 0: of all its messages."""
    head = _ABORT.pack(FrameKind.ABORT, sender.connection, number)
    return whole_frame(head + short_text(sender.name))


def decode_abort_untrusted(frame: bytes) -> tuple[MemberId, int]:
    """Decode sender and number of a message that will not be completed; number 0: all of them."""
    check_size(frame, _ABORT.size)
    _, connection, number = _ABORT.unpack_from(frame)
    return MemberId(last_text(frame, _ABORT.size), connection), number


def encode_closed(code: int, reason: str) -> bytes:
    """Encode the last frame of a daemon."""
    return whole_frame(_CLOSED.pack(FrameKind.CLOSED, code) + reason.encode(errors="replace"))


def decode_closed_untrusted(frame: bytes) -> Closed:
    """Decode why the daemon has ended the session."""
    check_size(frame, _CLOSED.size)
    _, code = _CLOSED.unpack_from(frame)
    return Closed(code=code, reason=utf8(frame[_CLOSED.size :]))


def _learn_sender(key: bytes) -> MemberId:
    sender = MemberId(utf8(key[9:]), int.from_bytes(key[:8], "big"))
    if len(_senders_cache) >= _CACHED_SENDERS:
        _senders_cache.clear()
    _senders_cache[key] = sender
    return sender


_CAUSES = struct.Struct("!BQBQHH")  # kind, packet, told, A's time and ring, count
_VECTORS: Final = tuple(struct.Struct(f"!{count}Q") for count in range(MAX_RINGS + 1))
_NOTHING: Final = Stamp(0, 0)


def encode_causes(context: CausalContext) -> bytes:
    """Return the CAUSES frame of a bundle."""
    agreed, heard = context.agreed, context.heard
    told = agreed is not None
    head = _CAUSES.pack(FrameKind.CAUSES, context.packet, told, *(agreed or _NOTHING), len(heard))
    return LENGTH.pack(len(head) + 8 * len(heard)) + head + _VECTORS[len(heard)].pack(*heard)


def decode_causes_untrusted(frame: bytes) -> CausalContext:
    """Decode a frame from its kind on.

    Raises:
        BadDatagram: it breaks its layout. No other exception, whatever the bytes.
    """
    try:
        _, packet, told, time, ring, count = _CAUSES.unpack_from(frame)
    except struct.error:
        raise BadDatagram("short", f"a CAUSES frame of {len(frame)} bytes") from None
    if count > MAX_RINGS or len(frame) != _CAUSES.size + 8 * count:
        raise BadDatagram("count", f"a CAUSES frame of {len(frame)} bytes with {count} rings")
    if told > 1 or (told == 0 and (time or ring or count)):
        raise BadDatagram("causes", f"told is {told}, A ({time}, {ring}), {count} rings")
    if not told:
        return CausalContext(packet, None, ())
    heard = _VECTORS[count].unpack_from(frame, _CAUSES.size)
    return CausalContext(packet, Stamp(time, ring), heard)


def encode_principal(principal: str) -> bytes:
    """Return a whole frame for a principal of at most 255 bytes."""
    name = principal.encode()
    body = b"%b%c%b" % (bytes((FrameKind.PRINCIPAL,)), len(name), name)
    return LENGTH.pack(len(body)) + body


def decode_principal_untrusted(frame: bytes) -> str:
    """Return the principal in a frame, from its kind on.

    Raises:
        BadDatagram: it breaks its layout. No other exception, whatever the bytes.
    """
    if len(frame) < 2 or len(frame) != 2 + frame[1]:
        raise BadDatagram("short", f"a PRINCIPAL frame of {len(frame)} bytes")
    try:
        return bytes(frame[2:]).decode()
    except UnicodeDecodeError:
        raise BadDatagram("name", "not UTF-8") from None


_REFUSED = struct.Struct("!BQIBBB")
_VERBS: Final = tuple(Verb)


def encode_refused(event: Refused, *, bounds: bool = True) -> bytes:
    """Return the REFUSED frame of a refusal.

    Args:
        event: the refusal.
        bounds: whether the client understands other bounds than GROUPS, which else stands for all.
    """
    verb, bound = VERBS[event.verb], BOUND_KEYS.index(event.bound)
    bound = bound if bounds else min(bound, Bound.GROUPS)
    head = _REFUSED.pack(FrameKind.REFUSED, event.number, event.count, verb, event.level, bound)
    names = [name.encode() for name in (event.group, event.principal)]
    body = head + b"".join(bytes((len(name),)) + name for name in names)
    return LENGTH.pack(len(body)) + body


def decode_refused_untrusted(frame: bytes) -> Refused:
    """Decode a frame from its kind on.

    Raises:
        BadDatagram: it breaks its layout. No other exception, whatever the bytes.
    """
    try:
        _, number, count, verb, level, bound = _REFUSED.unpack_from(frame)
        middle = _REFUSED.size + 1 + frame[_REFUSED.size]
        end = middle + 1 + frame[middle]
        group = frame[_REFUSED.size + 1 : middle].decode()
        principal = frame[middle + 1 : end].decode()
    except (struct.error, IndexError):
        raise BadDatagram("short", f"a REFUSED frame of {len(frame)} bytes") from None
    except UnicodeDecodeError:
        raise BadDatagram("name", "not UTF-8") from None
    known = verb < len(_VERBS) and level < len(LEVELS) and bound < len(BOUND_KEYS)
    if len(frame) != end or not known or not count:
        raise BadDatagram("refused", f"verb {verb}, level {level}, bound {bound}, count {count}")
    return Refused(
        number=number,
        count=count,
        verb=_VERBS[verb].word,
        group=group,
        principal=principal,
        level=LEVELS[level],
        bound=BOUND_KEYS[bound],
    )


_VIEW = struct.Struct("!BQHHIBBB")  # kind, position, cause, own, bytes of the name
_VIEW_CAUSES: Final = tuple(Cause)


def encode_view(view: GroupView) -> bytes:
    """Encode a view of a group; the frame is the same for all local members with the same `own`."""
    _, time, ring, bundle, message = view.id
    group = view.group.encode()
    lists = map(encode_members, (view.members, view.changed, view.vs_set))
    rest = b"".join((group, *lists))
    head = _VIEW.pack(
        FrameKind.VIEW,
        time,
        ring,
        bundle,
        message,
        view.cause.value,
        view.own,
        len(group),
    )
    return b"%b%b%b" % (LENGTH.pack(len(head) + len(rest)), head, rest)


def decode_view_untrusted(frame: bytes, view: ViewId) -> GroupView:
    """Decode a frame from its kind on; `view` is the daemons' view of its position.

    Raises:
        BadDatagram: it breaks its layout. No other exception, whatever the bytes.
    """
    try:
        return _decode_view(frame, view)
    except (struct.error, IndexError) as error:
        raise BadDatagram("short", f"a VIEW frame of {len(frame)} bytes: {error}") from None
    except UnicodeDecodeError:
        raise BadDatagram("name", "not UTF-8") from None


def _decode_view(frame: bytes, view: ViewId) -> GroupView:
    _, time, ring, bundle, message, cause, own, size = _VIEW.unpack_from(frame)
    offset = _VIEW.size + size
    if cause >= len(_VIEW_CAUSES) or own > 1:
        raise BadDatagram("view", f"cause {cause}, own {own}")
    group = frame[_VIEW.size : offset].decode()
    members, offset = decode_members(frame, offset)
    changed, offset = decode_members(frame, offset)
    vs_set, offset = decode_members(frame, offset)
    if offset != len(frame):
        raise BadDatagram("trailing", f"{len(frame) - offset} bytes after a VIEW frame")
    return GroupView(
        group=group,
        id=Position(view, time, ring, bundle, message),
        members=members,
        cause=_VIEW_CAUSES[cause],
        changed=changed,
        vs_set=vs_set,
        own=own == 1,
    )


def encode_origins(origins: Mapping[str, int]) -> bytes:
    """Return the ORIGINS frame: which daemons of a new view came from the same view before it.

    ::

        kind u8, daemons u16, per daemon: name (u8 + UTF-8), number u16

    Daemons with one number came together. Only a client that asked gets the frame, behind VIEWID
    and in front of the views of its groups. Each client is told its own part of that in
    `GroupView.vs_set`; the rest matters to clients that are told of all parts, as Spread's are.
    In front of TRANSITION it names the daemons that continue together into the next view.

    Args:
        origins: the number of each daemon, by name.
    """
    parts = [_ORIGINS.pack(FrameKind.ORIGINS, len(origins))]
    for daemon, number in origins.items():
        name = daemon.encode()
        parts.append(b"%c%b%b" % (len(name), name, _ORIGIN.pack(number)))
    body = b"".join(parts)
    return LENGTH.pack(len(body)) + body


def decode_origins_untrusted(frame: bytes) -> dict[str, int]:
    """Return the numbers of daemons, by name, in a frame from its kind on.

    Raises:
        BadDatagram: it breaks its layout. No other exception, whatever the bytes.
    """
    origins: dict[str, int] = {}
    try:
        _, count = _ORIGINS.unpack_from(frame)
        offset = _ORIGINS.size
        for _ in range(count):
            end = offset + 1 + frame[offset]
            name = bytes(frame[offset + 1 : end]).decode()
            (origins[name],) = _ORIGIN.unpack_from(frame, end)
            offset = end + _ORIGIN.size
    except (struct.error, IndexError):
        raise BadDatagram("short", f"an ORIGINS frame of {len(frame)} bytes") from None
    except UnicodeDecodeError:
        raise BadDatagram("name", "not UTF-8") from None
    if offset != len(frame) or len(origins) != count:
        raise BadDatagram("origins", f"{count} daemons in {len(frame)} bytes")
    return origins


EVENTS: Final[Mapping[int, Callable[[bytes], Event]]] = {
    FrameKind.ANSWER: lambda frame: Answer(data=frame[1:]),
    FrameKind.STOPPING: decode_stopping_untrusted,
    FrameKind.LINE: decode_line_untrusted,
}
"""The decoders of frames that are an event of their own, whatever came before them."""
