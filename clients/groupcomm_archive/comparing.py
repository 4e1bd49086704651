"""The messages with which archives compare digests, and tell of that; see docs/history.md.

They have the form of those between subscribers and archives, with kinds of their own.
"""

from typing import Final, TypeAlias

import msgspec

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm_client.history.frames import HEAD, Interval
from groupcomm_client.undecodable import UNDECODABLE


class Claim(msgspec.Struct, frozen=True, array_like=True):
    """The digest of a group in a range of the line.

    Attributes:
        group: the group.
        view, span: the range.
        is_whole: whether the range has ended; else these are the events up to now.
        count, last, digest: the number of events, the place of the last one, and their digest.
    """

    group: str
    view: ViewId
    span: int
    is_whole: bool
    count: int
    last: Position
    digest: bytes


class Claims(msgspec.Struct, frozen=True, array_like=True, tag=16):
    """What an archive holds, to the others.

    Attributes:
        wants_all: whether the receivers are to send all of theirs in return.
        claims: digests, of some ranges.
    """

    wants_all: bool
    claims: tuple[Claim, ...]


class Ask(msgspec.Struct, frozen=True, array_like=True, tag=17):
    """A question to all archives: what do you hold of these groups, and who agrees?"""

    number: int
    groups: tuple[str, ...]


class Compared(msgspec.Struct, frozen=True, array_like=True):
    """What the comparison with one other archive has shown.

    Attributes:
        archive: the private name of the other archive.
        upto: the last place up to which a range was the same; None if none was compared.
        ranges: the number of ranges that were the same.
        differing: the ranges that were not: the places behind which they begin, and up to which
            they go.
    """

    archive: str
    upto: Position | None
    ranges: int
    differing: tuple[Interval, ...]


class GroupReport(msgspec.Struct, frozen=True, array_like=True):
    """What an archive holds of a group.

    Attributes:
        group: the group.
        intervals: see `Interval`.
        digested: the place up to which it has digests; None if it has none.
        compared: what comparisons have shown.
    """

    group: str
    intervals: tuple[Interval, ...]
    digested: Position | None
    compared: tuple[Compared, ...]


class Report(msgspec.Struct, frozen=True, array_like=True, tag=18):
    """The answer to an `Ask`."""

    number: int
    is_live: bool
    groups: tuple[GroupReport, ...]


class Compact(msgspec.Struct, frozen=True, array_like=True, tag=19):
    """A request to all archives that compact a group: compact it up to this place."""

    group: str
    horizon: Position


Comparing: TypeAlias = Claims | Ask | Report | Compact

_SPANS: Final = (1 << 40) - 1
"""Spans are below this: a stamp has 64 bits, and a span 2^24 of its values."""

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final[msgspec.msgpack.Decoder[Comparing]] = msgspec.msgpack.Decoder(Comparing)


def encode_comparing(frame: Comparing) -> bytes:
    """Return the data of a message."""
    return HEAD + _encoder.encode(frame)


def decode_comparing_untrusted(data: bytes) -> Comparing | None:
    """Return the frame in a message; None if it is none of these, or has an impossible span."""
    if not data.startswith(HEAD):
        return None
    try:
        frame = _decoder.decode(memoryview(data)[len(HEAD) :])
    except UNDECODABLE:
        return None
    if isinstance(frame, Claims) and not all(0 <= each.span < _SPANS for each in frame.claims):
        return None
    return frame
