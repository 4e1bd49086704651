"""Segments: a sealed datagram that is larger than the path travels as several small ones.

Pure. The sender cuts a datagram into a *train* of segments, all of one size but the last; the
receiver joins them again. So a packet of the protocol costs its number, its seal and its checks
once, however many datagrams carry it. A train is named after the start and the counter of its
datagram: if the same datagram is sent again, cut in the same way, the receiver needs only the
segments that it lacks.

Each segment begins with a head of 29 bytes, at whose places 1 and 5 to 20 a whole datagram has the
same fields (security/layout.py)::

    version u8 (2), suite u8, index u8, count u8, size u8, cluster u64, sender u64,
    start u32, counter u32

The last two are the lower halves of the datagram's random id and counter. The size is the lower
byte of a segment's: a datagram that is cut in another way is another train. Heads are not sealed:
the seal of the joined datagram proves all of it. Whoever can forge the source address, and has seen
or guessed a start and a counter, can spoil a train, no more; what the receiver keeps is bounded.
"""

from collections.abc import Hashable
from functools import lru_cache
from struct import Struct
from typing import Final

SEGMENT_VERSION: Final = 2
"""The first byte of a segment; a whole datagram has another one."""

SEGMENT_HEAD_BYTES: Final = 29
MAX_SEGMENTS: Final = 255

TRAINS_OF_SOURCE: Final = 64
"""The most incomplete trains of one source that are kept; the oldest goes first."""

MAX_KEPT_BYTES: Final = 16 * 1024 * 1024
"""The most bytes of incomplete trains of all sources that are kept, overhead included."""

_MAX_DATAGRAM_BYTES: Final = 65_507
_SEGMENT_COST: Final = 128
"""What a segment takes besides its bytes: two objects and their places."""

_NAMES: Final = slice(5, 21)  # of a datagram: cluster and sender
_START: Final = slice(33, 37)
_COUNTER: Final = slice(41, 45)
_INDICES: Final = bytes(range(256))


class Cutter:
    """Cuts the datagrams of one start of one daemon."""

    __slots__ = ("_heads",)

    def __init__(self) -> None:
        self._heads: dict[tuple[int, int], list[bytes]] = {}  # by count and size: all but counters

    def cut(self, datagram: bytes, size: int) -> bytes:
        """Return the segments of a datagram, one directly behind the other.

        Args:
            datagram: it has a whole head, always of the same start.
            size: the bytes of each segment but the last; there are at most MAX_SEGMENTS.
        """
        room = size - SEGMENT_HEAD_BYTES
        count = -(-len(datagram) // room)
        view = memoryview(datagram)
        parts: list[bytes | memoryview] = [b""] * (3 * count)
        parts[0::3] = self._heads.get((count, size)) or self._make_heads(datagram, count, size)
        parts[1::3] = [datagram[_COUNTER]] * count
        parts[2::3] = [view[at : at + room] for at in range(0, len(datagram), room)]
        return b"".join(parts)

    def _make_heads(self, datagram: bytes, count: int, size: int) -> list[bytes]:
        suite, names = datagram[1], datagram[_NAMES] + datagram[_START]
        rest = bytes((count, size & 0xFF)) + names
        heads = [bytes((SEGMENT_VERSION, suite, index)) + rest for index in range(count)]
        if len(self._heads) > MAX_SEGMENTS:
            self._heads.clear()
        self._heads[count, size] = heads
        return heads


def train_of(segment: bytes) -> bytes:
    """Return what all segments of one train have in common: the head without the index."""
    return segment[1:2] + segment[3:SEGMENT_HEAD_BYTES]


class _Train:
    """A train of which some segments are missing: those that are here, by index."""

    __slots__ = ("cost", "segments", "size")

    def __init__(self) -> None:
        self.segments: dict[int, bytes] = {}
        self.size = 0
        self.cost = _SEGMENT_COST


class Joiner:
    """Joins the segments that one daemon receives.

    Attributes:
        joined: the number of datagrams that were joined.
        given_up: the number of incomplete trains that were dropped for newer ones, or as too long.
        junk: the number of segments that no sender makes.
        kept_bytes: what the incomplete trains take, of all sources.
    """

    __slots__ = ("_all", "_of", "given_up", "joined", "junk", "kept_bytes")

    def __init__(self) -> None:
        self._of: dict[Hashable, dict[bytes, _Train]] = {}  # by source, then by name
        self._all: dict[tuple[Hashable, bytes], None] = {}  # the oldest first
        self.joined = self.given_up = self.junk = 0
        self.kept_bytes = 0

    def accept_untrusted(self, source: Hashable, data: bytes, size: int) -> list[bytes]:
        """Accept segments; return the datagrams that they complete.

        Args:
            source: where they come from: trains of one source never displace another's, unless all
                together take too much.
            data: segments, one directly behind the other.
            size: the bytes of each segment but the last.
        """
        whole = _join_whole(data, size)
        found = [] if whole is None else [whole]
        if whole is None:
            for at in range(0, len(data), size):
                datagram = self._accept(source, data[at : at + size])
                if datagram is not None:
                    found.append(datagram)
        self.joined += len(found)
        return found

    def segments_of(self, source: Hashable, name: bytes) -> int:
        """Return how many segments of an incomplete train are kept; 0 without one (train_of)."""
        train = self._of.get(source, {}).get(name)
        return len(train.segments) if train is not None else 0

    def _accept(self, source: Hashable, segment: bytes) -> bytes | None:
        """Accept one segment; return the datagram that it completes."""
        if (
            len(segment) <= SEGMENT_HEAD_BYTES
            or segment[0] != SEGMENT_VERSION
            or segment[2] >= segment[3]
        ):
            self.junk += 1
            return None
        index, count, name = segment[2], segment[3], train_of(segment)
        train = self._of.get(source, {}).get(name) or self._begin(source, name)
        if index in train.segments:
            return None
        content = segment[SEGMENT_HEAD_BYTES:]
        train.segments[index] = content
        train.size += len(content)
        train.cost += len(content) + _SEGMENT_COST
        self.kept_bytes += len(content) + _SEGMENT_COST
        if train.size > _MAX_DATAGRAM_BYTES:
            self._give_up(source, name)
        elif len(train.segments) == count:
            self._remove(source, name)
            return b"".join([train.segments[place] for place in range(count)])
        while self.kept_bytes > MAX_KEPT_BYTES:
            self._give_up(*next(iter(self._all)))
        return None

    def _begin(self, source: Hashable, name: bytes) -> _Train:
        trains = self._of.get(source, {})
        if len(trains) >= TRAINS_OF_SOURCE:
            self._give_up(source, next(iter(trains)))
        train = _Train()
        self._of.setdefault(source, {})[name] = train
        self._all[source, name] = None
        self.kept_bytes += train.cost
        return train

    def _give_up(self, source: Hashable, name: bytes) -> None:
        self.given_up += 1
        self._remove(source, name)

    def _remove(self, source: Hashable, name: bytes) -> None:
        trains = self._of[source]
        self.kept_bytes -= trains.pop(name).cost
        del self._all[source, name]
        if not trains:
            del self._of[source]


def _join_whole(data: bytes, size: int) -> bytes | None:
    """Return a datagram if all its segments are here, in order, and nothing else."""
    count = -(-len(data) // size)
    last = len(data) - (count - 1) * size
    if min(size, last) <= SEGMENT_HEAD_BYTES or not 1 <= count <= MAX_SEGMENTS:
        return None
    if data[3] != count or data[2::size] != _INDICES[:count]:
        return None
    parts = _layout(count, size, last).unpack(data)  # three for each: head without index, content
    if len({*parts[0::3]}) > 1 or len({*parts[1::3]}) > 1:
        return None
    joined = b"".join(parts[2::3])
    return joined if len(joined) <= _MAX_DATAGRAM_BYTES else None


@lru_cache(64)
def _layout(count: int, size: int, last: int) -> Struct:
    """Return the layout of a train: one call takes it apart, a slice for each part takes longer."""
    head = f"2sx{SEGMENT_HEAD_BYTES - 3}s"
    more = f"{head}{size - SEGMENT_HEAD_BYTES}s" * (count - 1)
    return Struct(f"{more}{head}{last - SEGMENT_HEAD_BYTES}s")
