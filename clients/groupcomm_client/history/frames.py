"""The messages between subscribers and archives; docs/history.md has them as a table.

Each is ``ff 47 48``, a version, and a MessagePack array that begins with its kind. A piece of
history holds messages in runs: a run has what its messages share, once, and in the piece the types
and the data of all are two lists.
"""

from collections.abc import Sequence
from itertools import repeat
from typing import Final, TypeAlias

import attrs
import msgspec

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import Cause, DaemonView, GroupView, MemberId, Message
from groupcomm.level import LEVELS
from groupcomm.wire.messages import MAX_MESSAGE_BYTES
from groupcomm_client.history.cursors import CursorFrame
from groupcomm_client.history.places import Line
from groupcomm_client.history.refusals import Refusal
from groupcomm_client.undecodable import UNDECODABLE

ARCHIVES: Final = "groupcomm.history"
"""The group of all archives."""

HEAD: Final = b"\xffGH\x01"
"""The start of each message; its last byte is the version of the format."""

CHANNEL_ID_BYTES: Final = 16
CHANNEL_KEY_BYTES: Final = 32

MAX_PIECE_BYTES: Final = 2 * MAX_MESSAGE_BYTES
"""The most bytes of a piece: a message of the greatest size, and what may come before it."""

LENGTH_BYTES: Final = 4
"""The size of the length of a chunk of a channel."""

Interval: TypeAlias = tuple[Position, Position]
"""Two places: an archive holds all events of the line behind the first one, up to the second."""


class Find(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """A question to all archives: what do you have of these groups?"""

    number: int
    groups: tuple[str, ...]


class Offer(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """The answer to a Find: the intervals that the archive holds, in order.

    Attributes:
        number: the number of the Find.
        is_live: whether the archive gets the events of the line as they happen.
        intervals: see `Interval`.
        compacted: two places: of the events of the line behind the first one, up to the second, the
            archive holds at least the last message of each key. None if it holds no such part.
        away_ms: every archive that is not in the group now has been away for so many milliseconds
            at least; None if the archive does not say.
    """

    number: int
    is_live: bool
    intervals: tuple[Interval, ...]
    compacted: Interval | None = None
    away_ms: int | None = None


class Read(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """A request for a stream of pieces.

    Attributes:
        number: the number of the stream, unique at its subscriber.
        groups: the groups to read.
        after: the place behind which the stream begins; None for the first event.
        since_us: begin with the first event received then or later, in microseconds since 1970, in
            place of `after`.
        granted: the number of pieces that may be sent through the daemons.
        by_channel: whether the subscriber can read by a channel of its own: then it takes pieces
            from there as it likes, without grants.
        compacted: whether to begin in the compacted part of the archive.
    """

    number: int
    groups: tuple[str, ...]
    after: Position | None
    since_us: int | None
    granted: int
    by_channel: bool = False
    compacted: bool = False


class More(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """A grant: the stream may have this number of pieces, from its beginning."""

    number: int
    granted: int


class Stop(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """The end of a stream."""

    number: int


class Run(msgspec.Struct, frozen=True, array_like=True, tag=0, gc=False):
    """Consecutive messages of one bundle.

    Attributes:
        bundle: the position of the bundle.
        index: the place of the first message in the bundle.
        number: the first message's number in its sender's count.
        sender, groups: indices of the sender and of the destinations in the piece.
        level: the service level.
        count: the number of messages.
    """

    bundle: Position
    index: int
    number: int
    sender: int
    groups: int
    level: int
    count: int


class View(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """A view of a group."""

    group: str
    id: Position
    members: tuple[MemberId, ...]
    cause: int
    changed: tuple[MemberId, ...]
    vs_set: tuple[MemberId, ...]


class Daemons(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """A view of daemons."""

    id: ViewId
    daemons: tuple[str, ...]
    majority: bool | None


Item: TypeAlias = Run | View | Daemons


class Piece(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """A piece of a stream.

    Attributes:
        number: the number of the stream.
        index: the place of the piece in the stream, from 0.
        after: the place behind which the piece begins.
        upto: with this piece the subscriber has all events behind `after` up to here.
        is_end: whether the archive's interval ends here.
        items: the events, with messages in runs.
        senders, groups: what runs refer to.
        types, data: the types and the data of all messages, in order; one type stands for all that
            are equal.
        horizon: the end of the compacted part in which the piece is: with it the subscriber has at
            least the last message of each key. None for all events.
    """

    number: int
    index: int
    after: Position
    upto: Position
    is_end: bool
    items: tuple[Item, ...] = ()
    senders: tuple[MemberId, ...] = ()
    groups: tuple[tuple[str, ...], ...] = ()
    types: tuple[int, ...] = ()
    data: tuple[bytes, ...] = ()
    horizon: Position | None = None


class Channel(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """The answer to a Read whose pieces come by a channel; see `groupcomm_client.history.channel`.

    Attributes:
        number: the number of the stream.
        id: the name of the channel, CHANNEL_ID_BYTES long.
        key: its key, CHANNEL_KEY_BYTES long.
        addresses: where the archive listens, the best first; see `parse_channel_address`.
    """

    number: int
    id: bytes
    key: bytes
    addresses: tuple[str, ...]


class Part(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """A part of the data of a piece that is larger than a message may be.

    Attributes:
        number: the number of the stream.
        index: the place of the part in the piece, from 0.
        is_last: whether the piece is complete with it.
        data: some bytes of the piece.
    """

    number: int
    index: int
    is_last: bool
    data: bytes


class AwaitKept(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """A question to all archives: who holds the line of these groups up to a place on its disk?

    Each answers once it does, also a question that was repeated.
    """

    number: int
    groups: tuple[str, ...]
    place: Position


class Kept(msgspec.Struct, frozen=True, array_like=True, tag=9):
    """The answer to an AwaitKept.

    Attributes:
        number: the number of the question.
        disk: the name of the archive's folder, the same at all of its starts.
        archives: how many archives of the groups there are to be, as this one was told; 0 if it
            was not.
    """

    number: int
    disk: bytes
    archives: int


Frame: TypeAlias = (
    Find
    | Offer
    | Read
    | More
    | Stop
    | Piece
    | Channel
    | Part
    | AwaitKept
    | Kept
    | CursorFrame
    | Refusal
)


@attrs.frozen
class EncodedPiece:
    """A piece as the data of a message, and what its archive needs of it; see `Piece`."""

    after: Position
    upto: Position
    is_end: bool
    data: bytes


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final[msgspec.msgpack.Decoder[Frame]] = msgspec.msgpack.Decoder(Frame)


def encode(frame: Frame) -> bytes:
    """Return the data of a message."""
    return HEAD + _encoder.encode(frame)


def encode_piece(piece: Piece) -> EncodedPiece:
    """Return a piece as the data of a message."""
    return EncodedPiece(piece.after, piece.upto, piece.is_end, encode(piece))


def decode_untrusted(data: bytes) -> Frame | None:
    """Return the frame in a message; None if it is none, or of another version."""
    if not data.startswith(HEAD):
        return None
    try:
        return _decoder.decode(memoryview(data)[len(HEAD) :])
    except UNDECODABLE:
        return None


def events_of_untrusted(piece: Piece) -> list[Line] | None:
    """Return the events of a piece, in order; None if its parts contradict each other."""
    events: list[Line] = []
    at, types = 0, piece.types
    total = len(piece.data)
    if len(types) == 1:
        types *= total
    try:
        for item in piece.items:
            if not isinstance(item, Run):
                events.append(_view_of(item))
                continue
            end = at + item.count
            if item.count < 1 or end > total:
                return None
            events += map(
                Message,
                repeat(piece.senders[item.sender]),
                range(item.number, item.number + item.count),
                repeat(piece.groups[item.groups]),
                repeat(LEVELS[item.level]),
                types[at:end],
                piece.data[at:end],
                repeat(item.bundle),
                range(item.index, item.index + item.count),
            )
            at = end
    except (IndexError, ValueError):
        return None
    return events if at == total == len(types) else None


def _view_of(item: View | Daemons) -> GroupView | DaemonView:
    if isinstance(item, Daemons):
        return DaemonView(id=item.id, daemons=item.daemons, majority=item.majority)
    return GroupView(
        group=item.group,
        id=item.id,
        members=item.members,
        cause=Cause(item.cause),
        changed=item.changed,
        vs_set=item.vs_set,
        own=False,
    )


class PieceBuilder:
    """The items of a piece, from events in their order."""

    def __init__(self) -> None:
        self._items: list[Item] = []
        self._senders: dict[MemberId, int] = {}
        self._groups: dict[tuple[str, ...], int] = {}
        self._types: list[int] = []
        self._data: list[bytes] = []

    def add_run(
        self,
        bundle: Position,
        index: int,
        number: int,
        sender: MemberId,
        groups: tuple[str, ...],
        level: int,
        types: Sequence[int],
        data: Sequence[bytes],
    ) -> None:
        """Add consecutive messages of a bundle; see `Run`."""
        known = self._senders.setdefault(sender, len(self._senders))
        to = self._groups.setdefault(groups, len(self._groups))
        self._items.append(Run(bundle, index, number, known, to, level, len(data)))
        self._types += types
        self._data += data

    def add_runs(
        self,
        bundles: Sequence[Position],
        indices: Sequence[int],
        numbers: Sequence[int],
        senders: Sequence[MemberId],
        groups: Sequence[tuple[str, ...]],
        levels: Sequence[int],
        counts: Sequence[int],
        types: Sequence[int],
        data: Sequence[bytes],
    ) -> None:
        """Add runs: what `add_run` takes for each, the count of messages, and all messages."""
        for sender in dict.fromkeys(senders):
            self._senders.setdefault(sender, len(self._senders))
        for to in dict.fromkeys(groups):
            self._groups.setdefault(to, len(self._groups))
        known, sent_to = map(self._senders.get, senders), map(self._groups.get, groups)
        self._items += map(Run, bundles, indices, numbers, known, sent_to, levels, counts)
        self._types += types
        self._data += data

    def add(self, event: Line) -> None:
        """Add one event."""
        match event:
            case Message():
                assert event.bundle is not None, "messages of the line have a position"
                self.add_run(
                    *(event.bundle._replace(message=0), event.index, event.number),
                    *(event.sender, event.groups, int(event.level)),
                    *((event.type,), (event.data,)),
                )
            case GroupView():
                self._items.append(
                    View(
                        *(event.group, event.id, event.members, event.cause.value),
                        *(event.changed, event.vs_set),
                    )
                )
            case DaemonView():
                self._items.append(Daemons(event.id, event.daemons, event.majority))

    def piece(
        self,
        number: int,
        index: int,
        after: Position,
        upto: Position,
        *,
        is_end: bool,
        horizon: Position | None = None,
    ) -> Piece:
        """Return the piece; see `Piece`."""
        types = self._types
        return Piece(
            *(number, index, after, upto, is_end, tuple(self._items)),
            *(tuple(self._senders), tuple(self._groups)),
            types=tuple(types[:1] if types and len(set(types)) == 1 else types),
            data=tuple(self._data),
            horizon=horizon,
        )
