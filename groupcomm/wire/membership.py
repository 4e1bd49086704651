"""The messages by which daemons agree on views, in MessagePack arrays.

They are rare and have nested fields, so a library encodes and checks them. The holdings of one
daemon can be so long that a message takes several packets (control.py).
"""

import enum
from bisect import bisect_left
from functools import lru_cache
from hashlib import blake2b
from operator import attrgetter
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import Meta

from groupcomm.config.shared import MAX_ITEM, MAX_ITEMS, MAX_KEY, MAX_ROWS
from groupcomm.config.versions import Versions
from groupcomm.config.view import MAX_DAEMONS, MAX_RINGS
from groupcomm.errors import BadDatagram, ConfigError, LocalProtocolError
from groupcomm.names import check_daemon

MAX_HELD_RANGES: Final = 4096
MAX_NOTICES: Final = 1024
MAX_MISSING: Final = 64
MAX_HELD_IN_ALL: Final = 16_384
MAX_NOTICES_IN_ALL: Final = 8192
"""The most ranges, and notices, that one daemon reports of all rings together: with 19 bytes each
its join fits into the parts that a control message may have, also with the smallest packets."""

_NUMBER: Final = attrgetter("number")

MAX_ROSTER_BYTES: Final = 2**20
MAX_VERSION_NUMBERS: Final = 16

Number: TypeAlias = Annotated[int, Meta(ge=0)]
"""0 to 2**64 - 1; MessagePack has no larger ones."""

Key: TypeAlias = Annotated[bytes, Meta(min_length=16, max_length=16)]
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=255)]
Span: TypeAlias = tuple[Number, Number]
"""(first, last) of a range of packet numbers."""

Digests: TypeAlias = Key
"""Digests of a daemon's shared settings: 8 bytes for those that must be equal, 8 for the others."""

Rows: TypeAlias = Annotated[
    tuple[
        tuple[
            Annotated[str, Meta(max_length=MAX_KEY)],
            Annotated[
                tuple[Annotated[str, Meta(max_length=MAX_ITEM)], ...], Meta(max_length=MAX_ITEMS)
            ],
        ],
        ...,
    ],
    Meta(max_length=MAX_ROWS),
]
"""Settings: the key and the value of each."""

Heard: TypeAlias = Annotated[tuple[tuple[Number, Number], ...], Meta(max_length=MAX_DAEMONS)]
"""Number and random id of each daemon whose own datagrams arrived here lately."""


Spoken: TypeAlias = Annotated[
    tuple[Number, ...], Meta(min_length=3, max_length=MAX_VERSION_NUMBERS)
]
"""The lowest and the highest version of the protocol, and features as bits; later releases may
append numbers, which are ignored."""


@lru_cache(maxsize=64)
def versions_of(spoken: tuple[int, ...]) -> Versions:
    """Return versions and features; raise ConfigError if they are impossible."""
    lowest, highest, features = spoken[:3]
    return Versions(lowest=lowest, highest=highest, features=features)


def spoken_of(versions: Versions) -> tuple[int, ...]:
    """Return versions and features as messages have them."""
    return versions.lowest, versions.highest, versions.features


class ControlKind(enum.IntEnum):
    """Which message a control packet carries."""

    BEACON = 1
    JOIN = 2
    COMMIT = 3
    REPAIR = 4
    LEAVE = 5
    LINKS = 7  # 6 was a warning to a daemon whose disk had forgotten starts
    SETTINGS = 8
    ROSTER = 9
    SHORT_BEACON = 10
    SHORT_JOIN = 11
    SHORT_COMMIT = 12
    ASK = 13
    RELAYED = 14


class _Message(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """A message: compared by value, encoded as an array of its fields."""


class Beacon(_Message, frozen=True):
    """A heartbeat: the view of a daemon, and the daemons that it hears; never forwarded.

    `used`: the highest view counter that this daemon may have used. `mark`: its disk has reserved
    all counters up to this one. `write_us`: the time that its disk takes for a write. `spoken`: the
    versions and features that all members of its view have in common.
    """

    counter: Number  # the counter of the view
    view: Key
    heard: Heard
    digests: Digests
    used: Number
    mark: Number
    write_us: Number
    spoken: Spoken

    @property
    def versions(self) -> Versions:
        """Return what its view has in common; raise ConfigError if there is no version."""
        return versions_of(self.spoken)


class Holding(_Message, frozen=True):
    """The packets that one daemon holds of the stream of one ring in the view that ends.

    `forgotten`: all daemons held all packets up to here, and it has dropped them. `spans`: the
    numbers that it holds above. `notices`: (upto, value) of horizons, the last counted one and
    those beyond it. `frontier`: the highest known frontier of the ring.
    """

    forgotten: Number
    spans: Annotated[tuple[Span, ...], Meta(max_length=MAX_HELD_RANGES)]
    notices: Annotated[tuple[Span, ...], Meta(max_length=MAX_NOTICES)]
    frontier: Number


def most_reported(rings: int) -> tuple[int, int]:
    """Return the most ranges and the most notices that a daemon reports of each of its rings.

    A daemon that holds more counts as not having them: then others repair them, or they are lost to
    its view, and the daemon leaves that view alone if it has delivered one of them.
    """
    held = min(MAX_HELD_RANGES, MAX_HELD_IN_ALL // rings)
    return held, min(MAX_NOTICES, MAX_NOTICES_IN_ALL // rings)


class Past(_Message, frozen=True):
    """The view that a daemon comes from, by its key, and the packets that it holds of it.

    `obligation`: indices of the daemons with which it must treat that view alike, as it has
    announced to them that it holds all that they held (obligations).
    """

    view: Key
    holdings: Annotated[tuple[Holding, ...], Meta(min_length=1, max_length=MAX_RINGS)]
    obligation: Annotated[tuple[Number, ...], Meta(max_length=MAX_DAEMONS)]


class Join(_Message, frozen=True):
    """The wish of a daemon for a new view. Within an attempt only `heard` and `mark` change.

    `reading`: physical time; `clock`: the last stamp known, both in microseconds. `counter`: the
    highest view counter that this daemon may have used. `mark`: its disk has reserved all counters
    up to this one. `spoken`: the versions that it speaks, and its features.
    """

    attempt: Number
    name: Name
    digests: Digests
    heard: Heard
    reading: Number
    clock: Number
    counter: Number
    mark: Number
    past: Past | None
    spoken: Annotated[tuple[Number, ...], Meta(min_length=3, max_length=MAX_VERSION_NUMBERS)]

    @property
    def versions(self) -> Versions:
        """Return the versions that its daemon speaks; raise ConfigError if there are none."""
        return versions_of(self.spoken)

    def updated(self, heard: Heard, mark: int) -> "Join":
        """Return the same join with the daemons heard now and the mark reserved now."""
        if heard == self.heard and mark == self.mark:
            return self
        return msgspec.structs.replace(self, heard=heard, mark=mark)


class Seat(_Message, frozen=True):
    """A member of a proposed view: a daemon in one attempt.

    `mutual`: which of the other members it hears in both directions, as bits by their places in
    the proposal.
    """

    number: Number
    restarts: Number
    random_id: Number
    attempt: Number
    mutual: Annotated[bytes, Meta(max_length=MAX_DAEMONS // 8)]


class Proposal(_Message, frozen=True):
    """The members of the next view, sorted by number. All else follows from their joins."""

    seats: Annotated[tuple[Seat, ...], Meta(min_length=1, max_length=MAX_DAEMONS)]

    def find(self, number: int) -> Seat | None:
        """Return the seat of a daemon; None if it is no member."""
        at = bisect_left(self.seats, number, key=_NUMBER)
        found = self.seats[at] if at < len(self.seats) else None
        return found if found is not None and found.number == number else None


class Commit(_Message, frozen=True):
    """The agreement of a daemon to a view.

    `recovered`: it holds all packets that the daemons coming from its last view hold together.
    `missing`: otherwise, for each ring of that view, the first ranges that it still lacks.
    `installed`: it has installed the view, and informs a daemon that has not; this needs no answer.
    """

    attempt: Number
    proposal: Proposal
    recovered: bool
    installed: bool
    missing: Annotated[
        tuple[Annotated[tuple[Span, ...], Meta(max_length=MAX_MISSING)], ...],
        Meta(max_length=MAX_RINGS),
    ]


Present: TypeAlias = Annotated[bytes, Meta(max_length=MAX_DAEMONS // 8)]
"""Daemons, as bits by their places among the numbers of all listed daemons, rising."""


class ShortBeacon(_Message, frozen=True):
    """A beacon without the list of the daemons heard.

    `present`: these daemons, and its own. `digest`: of the numbers and random ids of all of them.
    """

    present: Present
    digest: Key
    beacon: Beacon


class ShortJoin(_Message, frozen=True):
    """A join without the list of the daemons heard; see `ShortBeacon`."""

    present: Present
    digest: Key
    join: Join


class ShortCommit(_Message, frozen=True):
    """A commit with a digest in place of its proposal."""

    attempt: Number
    proposal: Key
    recovered: bool
    installed: bool
    missing: Annotated[
        tuple[Annotated[tuple[Span, ...], Meta(max_length=MAX_MISSING)], ...],
        Meta(max_length=MAX_RINGS),
    ]


class Ask(_Message, frozen=True):
    """The wish for the latest message of a kind, in full; never forwarded."""

    kind: Number


class Relayed(_Message, frozen=True):
    """Control packets of other daemons, which go from site to site together; never forwarded.

    `deflated`: the packets one after the other, each behind its length as a u16, as raw DEFLATE
    (RFC 1951). The joins of one site are much alike. See `relayed`.
    """

    deflated: bytes


class Repair(_Message, frozen=True):
    """A packet of the view that ends, for the daemons that lack it."""

    view: Key
    packet: bytes


class Leave(_Message, frozen=True):
    """The notice that a daemon leaves for good; it sends nothing that others do not hold yet."""


class Links(_Message, frozen=True):
    """The links that a daemon cannot use in this view, each by the indices of its ends, rising."""

    view: Key
    lost: Annotated[tuple[Span, ...], Meta(max_length=MAX_DAEMONS)]


class Settings(_Message, frozen=True):
    """The shared settings of a daemon, for daemons whose digests differ.

    `required`: those that must be equal. `advised`: those that should be equal. Very long values
    are cut.
    """

    name: Name
    digests: Digests
    required: Rows
    advised: Rows


class RosterNotice(_Message, frozen=True):
    """A roster, for the daemons that lack it.

    `counts`: the cluster has agreed on it; else it is a proposed one, and daemons store it only if
    the agreed order asks them to. `roster`: see roster.py.
    """

    name: Name
    counts: bool
    roster: Annotated[bytes, Meta(max_length=MAX_ROSTER_BYTES)]


ShortMessage: TypeAlias = ShortBeacon | ShortJoin | ShortCommit

ControlMessage: TypeAlias = (
    Beacon
    | Join
    | Commit
    | Repair
    | Leave
    | Links
    | Settings
    | RosterNotice
    | ShortMessage
    | Ask
    | Relayed
)


@lru_cache(maxsize=256)  # the same lists and proposals come from all daemons
def digest_of(content: Heard | Proposal) -> bytes:
    """Return the digest that stands for daemons heard, or for a proposal, in short messages."""
    return blake2b(_encode(content), digest_size=16, person=b"groupcomm short").digest()


_MAX_COUNT: Final = 2**64 - 2**32  # a count from here still fits 64 bits

_TYPES: Final[dict[int, type[Any]]] = {
    ControlKind.BEACON: Beacon,
    ControlKind.JOIN: Join,
    ControlKind.COMMIT: Commit,
    ControlKind.REPAIR: Repair,
    ControlKind.LEAVE: Leave,
    ControlKind.LINKS: Links,
    ControlKind.SETTINGS: Settings,
    ControlKind.ROSTER: RosterNotice,
    ControlKind.SHORT_BEACON: ShortBeacon,
    ControlKind.SHORT_JOIN: ShortJoin,
    ControlKind.SHORT_COMMIT: ShortCommit,
    ControlKind.ASK: Ask,
    ControlKind.RELAYED: Relayed,
}
KNOWN_KINDS: Final = frozenset(_TYPES)
"""The kinds of messages that this release has; others are ignored."""

_KINDS: Final = {type_: int(kind) for kind, type_ in _TYPES.items()}
_DECODERS: Final = {kind: msgspec.msgpack.Decoder(type_) for kind, type_ in _TYPES.items()}
_encode = msgspec.msgpack.Encoder().encode


def encode_message(message: ControlMessage) -> tuple[int, bytes]:
    """Return the kind and the body of a message."""
    return _KINDS[type(message)], _encode(message)


SHORT_BODY: Final = 8192
"""The most bytes of a body of which a thousand are kept decoded: 8 MB of them at most."""


def decode_message_untrusted(kind: int, body: bytes) -> ControlMessage:
    """Decode a body.

    Raises:
        BadDatagram: it breaks its layout or a rule of its kind. No other exception.
    """
    return (_decode_short if len(body) <= SHORT_BODY else _decode_long)(kind, body)


def _decode(kind: int, body: bytes) -> ControlMessage:
    decoder = _DECODERS.get(kind)
    if decoder is None:
        raise BadDatagram("kind", f"a control message of kind {kind}")
    try:
        message: ControlMessage = decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadDatagram("control", str(error)) from None
    _check(message)
    if isinstance(message, Join) and message.past is not None and len(body) <= SHORT_BODY:
        return msgspec.structs.replace(message, past=_the_same(message.past))
    return message


# The same message arrives again and again until it is answered, and from several daemons.
_decode_short: Final = lru_cache(maxsize=1024)(_decode)
_decode_long: Final = lru_cache(maxsize=16)(_decode)


@lru_cache(maxsize=256)
def _the_same(past: Past) -> Past:
    """Return one object for all that are equal: daemons at rest hold the same."""
    return past


def _check(message: ControlMessage) -> None:
    match message:
        case Join():
            _check_join(message)
        case ShortJoin(join=rest) | ShortBeacon(beacon=rest):
            _check(rest)
            _check_short(rest.heard)
        case Settings() | RosterNotice():
            _check_name(message.name)
        case Beacon():
            _check_counts(message.used)
            _check_versions(message.spoken)
        case Commit() | ShortCommit():
            _check_commit(message)
        case Repair() | Leave() | Links() | Ask() | Relayed():
            pass  # their types say all


def _check_commit(commit: Commit | ShortCommit) -> None:
    if isinstance(commit, Commit):
        _check_proposal(commit.proposal)
    for spans in commit.missing:
        _check_spans(spans)


def _check_short(heard: Heard) -> None:
    if heard:
        raise BadDatagram("heard", "a short message lists the daemons that it has a digest of")


def _check_counts(*counts: int) -> None:
    if max(counts) >= _MAX_COUNT:
        raise BadDatagram("count", "a clock or counter is near the end of its range")


def _check_versions(spoken: tuple[int, ...]) -> None:
    try:
        versions_of(spoken)
    except ConfigError as error:
        raise BadDatagram("versions", str(error)) from None


def _check_join(join: Join) -> None:
    _check_counts(join.reading, join.clock, join.counter, join.attempt)
    _check_versions(join.spoken)
    _check_name(join.name)
    for holding in join.past.holdings if join.past is not None else ():
        _check_spans(holding.spans)


def _check_name(name: str) -> None:
    try:
        check_daemon(name)
    except LocalProtocolError as error:
        raise BadDatagram("name", str(error)) from None


def _check_spans(spans: tuple[Span, ...]) -> None:
    last = 0
    for first, end in spans:
        if not last < first <= end:
            raise BadDatagram("range", f"range {first} to {end} does not follow {last}")
        last = end


def _check_proposal(proposal: Proposal) -> None:
    numbers = [seat.number for seat in proposal.seats]
    size = (len(numbers) + 7) // 8
    if sorted(set(numbers)) != numbers or any(len(s.mutual) != size for s in proposal.seats):
        raise BadDatagram("proposal", "its seats are out of order, or its bits do not fit them")
