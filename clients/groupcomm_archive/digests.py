"""Digests of ranges of the line, which archives compare.

The files of two archives end at different rows, so a range does not depend on files. It is a span
of stamps in one view of daemons: `SPAN_US` of about physical time. The digest of a group in a range
is made of what is the same at all daemons, in the order of the line. What an event looks like from
one daemon is left out: when it was received, `vs_set`, `own` and `majority`.
"""

from collections.abc import Collection, Iterable
from hashlib import blake2b
from struct import pack
from typing import Final, NamedTuple

import attrs
import msgspec

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import DaemonView, GroupView
from groupcomm_archive.rows import MessageRun, Part
from groupcomm_client.history.places import just_before, place_of

SPAN_US: Final = 1 << 24
"""The length of a range: 16.8 s, by the stamps of messages."""

DIGEST_BYTES: Final = 16

_encode: Final = msgspec.msgpack.Encoder().encode


class Range(NamedTuple):
    """A range of the line: the places of a view of daemons in one span of time.

    Attributes:
        view: the view of daemons.
        span: the span, from 0: that of a stamp is its time, divided by SPAN_US.
    """

    view: ViewId
    span: int

    @property
    def first(self) -> Position:
        """Return the place behind which the range begins."""
        return just_before(Position(self.view, self.span * SPAN_US, 0, 0, 0))

    @property
    def last(self) -> Position:
        """Return the place up to which the range goes."""
        return just_before(Position(self.view, (self.span + 1) * SPAN_US, 0, 0, 0))


def range_of(place: Position) -> Range:
    """Return the range in which a place is."""
    return Range(place.view, place.time // SPAN_US)


@attrs.frozen
class Digest:
    """The events of a group in a range.

    Attributes:
        count: the number of events.
        last: the place of the last one.
        value: the digest of all of them.
    """

    count: int
    last: Position
    value: bytes


class _Digesting:
    """The digest of a group in a range, while it grows.

    It does not depend on how the messages of a bundle are cut into runs: heads of bundles, sizes
    and data are hashed apart.
    """

    def __init__(self, at: Range, first: Position) -> None:
        self.range = at
        self._count = 0
        self._last = first
        self._heads, self._sizes, self._data = blake2b(), blake2b(), blake2b()
        self._bundle: Position | None = None
        self._in_bundle = 0

    def add_run(self, run: MessageRun) -> None:
        """Add messages of a bundle."""
        view, time, ring, bundle, index = run.place
        key = Position(view, time, ring, bundle, 0)
        if key != self._bundle:
            self._heads.update(self._end_of_bundle())
            self._bundle, self._in_bundle = key, 0
            head = (key, index, run.number, run.sender, run.groups, run.level)
            self._heads.update(_encode(head))
        count = len(run.data)
        self._in_bundle += count
        sizes = [kind << 32 | len(data) for kind, data in zip(run.types, run.data, strict=True)]
        self._sizes.update(pack(f"<{count}Q", *sizes))
        self._data.update(b"".join(run.data))
        self._count += count
        self._last = run.last

    def add_view(self, view: GroupView | DaemonView) -> None:
        """Add a view."""
        self._heads.update(self._end_of_bundle())
        self._bundle, self._in_bundle = None, 0
        if isinstance(view, GroupView):
            self._heads.update(_encode((view.id, view.group, view.members, view.cause.value)))
            self._last = view.id
        else:
            self._heads.update(_encode((view.id, view.daemons)))
            self._last = Position(view.id, 0, 0, 0, 0)
        self._count += 1

    def _end_of_bundle(self) -> bytes:
        return pack("<I", self._in_bundle)

    def digest(self) -> Digest:
        """Return the digest of what was added so far."""
        heads = self._heads.copy()
        heads.update(self._end_of_bundle())
        parts = b"".join(each.digest() for each in (heads, self._sizes, self._data))
        value = blake2b(parts, digest_size=DIGEST_BYTES).digest()
        return Digest(self._count, self._last, value)


class LineDigests:
    """The digests of groups along the line; call `add` for its events, in order."""

    def __init__(self, groups: Collection[str]) -> None:
        """Begin before the first event.

        Args:
            groups: the groups of the line.
        """
        self._groups = tuple(groups)
        self._open: dict[str, _Digesting] = {}

    def add(self, parts: Iterable[Part]) -> list[tuple[str, Range, Digest]]:
        """Add events; return the digests of the ranges that ended before the last of them."""
        ended: list[tuple[str, Range, Digest]] = []
        for part in parts:
            place = part.place if isinstance(part, MessageRun) else place_of(part)
            assert place is not None, "an event of the line has a place"
            at = range_of(place)
            for group in self._groups_of(part):
                digesting = self._open.get(group)
                if digesting is None or digesting.range != at:
                    if digesting is not None:
                        ended.append((group, digesting.range, digesting.digest()))
                    digesting = self._open[group] = _Digesting(at, place)
                if isinstance(part, MessageRun):
                    digesting.add_run(part)
                else:
                    digesting.add_view(part)
        return ended

    def end_before(self, place: Position) -> list[tuple[str, Range, Digest]]:
        """Return the digests of the ranges that end before a place, and that are still open."""
        at = range_of(place)
        ended = [(group, each) for group, each in self._open.items() if each.range < at]
        for group, _ in ended:
            del self._open[group]
        return [(group, each.range, each.digest()) for group, each in ended]

    def open(self) -> list[tuple[str, Range, Digest]]:
        """Return the digests of the ranges in which more may come."""
        return [(group, each.range, each.digest()) for group, each in self._open.items()]

    def _groups_of(self, part: Part) -> Collection[str]:
        if isinstance(part, DaemonView):
            return self._groups
        if isinstance(part, GroupView):
            return (part.group,)
        return [group for group in part.groups if group in self._groups]
