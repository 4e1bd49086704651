"""Announcements: each daemon tells all others of a new view which sessions and groups it brings.

An announcement travels in the first packets of the new view's stream, in parts that are neither
ordered nor delivered to anybody. Together the announcements of all daemons are the group table at
position (view, 0). Its rows are in sections, each of which is decoded and entered by itself
(beginning.py), so that a large table takes many short steps.

Daemons that come along from one view have the same table of it. In a view of such daemons alone
nobody sends rows, if all have the feature CARRIED. Without that feature an announcement has one
section with everything, compressed from version 2 of the protocol on if it does not fit one packet:
names of users and groups are much alike. Its first byte then says so, as it begins no array.
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from groupcomm.config.versions import CARRIED, PACKED, Versions
from groupcomm.config.view import MAX_DAEMONS
from groupcomm.groups.table import GroupTable
from groupcomm.security.access import MAX_PRINCIPAL_BYTES
from groupcomm.wire.bundle import Bundle, body_payload, state_bundle
from groupcomm.wire.membership import Name, Number, Present
from groupcomm.wire.packet import Raw

Principal: TypeAlias = Annotated[str, Meta(min_length=1, max_length=MAX_PRINCIPAL_BYTES)]
GroupRow: TypeAlias = tuple[Name, tuple[Number, ...]]
"""A group with connection numbers of sessions."""

Groups: TypeAlias = tuple[GroupRow, ...]

MAX_ANNOUNCEMENT_BYTES: Final = 64 * 1024 * 1024
"""The most bytes of a section once it is unpacked: those of more than a million sessions."""

SECTION_ROWS: Final = 500
"""The sessions and memberships of a section: entering them takes some 3 ms."""

_LEVEL: Final = 1  # the fastest: daemons wait for announcements

_PACKED: Final = b"\x00"
"""Begins a compressed section or announcement; an array begins with another byte."""

_USER = "state"
"""Stands for the session in the records of announcements, which no session sends."""

Together: TypeAlias = Annotated[tuple[tuple[Number, Number], ...], Meta(max_length=MAX_DAEMONS)]


class Rows(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """Sessions and memberships of one daemon.

    `sessions`: connection number and user's name of each. `groups`: each group with its members'
    connection numbers, in the order in which they joined. `principals`: the owners of the sessions
    that have one, by connection number. `readers`: each group with the sessions that read it
    and are no members; only in views of daemons that all have the feature READERS.
    """

    sessions: tuple[tuple[Number, Name], ...] = ()
    groups: Groups = ()
    principals: tuple[tuple[Number, Principal], ...] = ()
    readers: Groups = ()

    @property
    def size(self) -> int:
        """Return the number of sessions and memberships."""
        return len(self.sessions) + sum(len(each) for _, each in (*self.groups, *self.readers))


class Announcement(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """What one daemon brings along.

    `completed`: key of the last view whose group table it completed; empty before the first.
    `together`: the daemons that have come along with it since then, itself among them: bits by
    their indices in the view; number and random id of each where not all have the feature CROWDS.
    `digest`: the digest of its rows (GroupTable.digests). `sections`: the rows, each section an
    encoded `Rows`; none if all daemons of the view have come along. `pausing`: each group with
    the daemon's sessions in it that need a quorum; only where all daemons have the feature PAUSES.
    `lines`: the table of lines (lines.py), of the first of the daemons that have come along; only
    in views of daemons that all have the feature LINES.
    """

    completed: Annotated[bytes, Meta(max_length=16)]
    together: Together | Present
    digest: Number = 0
    sections: tuple[bytes, ...] = ()
    pausing: Groups = ()
    lines: bytes = b""


class _Whole(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """An announcement in a view without the feature CARRIED."""

    completed: Annotated[bytes, Meta(max_length=16)]
    together: Together
    sessions: tuple[tuple[Number, Name], ...]
    groups: Groups
    principals: tuple[tuple[Number, Principal], ...] = ()
    readers: Groups = ()


NOTHING = Announcement(b"", ())
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Announcement).decode
_decode_whole = msgspec.msgpack.Decoder(_Whole).decode
_decode_rows = msgspec.msgpack.Decoder(Rows).decode


# ---- what a daemon sends ----


def rows_of(table: GroupTable, *, readers: bool = True) -> Rows:
    """Return the rows of a daemon with this table.

    Without `readers`, as some daemons do not know them, they become members.
    """
    groups, read = map(tuple, _groups_of(table, readers=readers))
    return Rows(tuple(table.own_sessions()), groups, tuple(table.own_principals()), read)


def slices_of(table: GroupTable, *, readers: bool = True) -> Iterator[Rows]:
    """Yield the rows of a daemon with this table, as many at a time as a section has."""
    own = Rows(tuple(table.own_sessions()), (), tuple(table.own_principals()))
    yield from slices(own, *_groups_of(table, readers=readers))


def slices(
    rows: Rows, groups: Iterable[GroupRow] = (), readers: Iterable[GroupRow] = ()
) -> Iterator[Rows]:
    """Yield rows and groups as sections have them: sessions first, the members in order."""
    principals = dict(rows.principals)
    for some in _slices(rows.sessions):
        owned = tuple((c, principals[c]) for c, _ in some if c in principals)
        yield Rows(sessions=some, principals=owned)
    for each in _by_size(chain(rows.groups, groups)):
        yield Rows(groups=each)
    for each in _by_size(chain(rows.readers, readers)):
        yield Rows(readers=each)


def encode_section(rows: Rows) -> bytes:
    """Encode the rows of a section."""
    return _pack(_encode(rows))


def _groups_of(
    table: GroupTable, *, readers: bool
) -> tuple[Iterator[GroupRow], Iterator[GroupRow]]:
    """Return groups with local members and those with local readers; see `rows_of`."""
    local, reading = table.local, table.reading
    if not readers:
        names = local.keys() | reading.keys()
        local = {name: {**local.get(name, {}), **reading.get(name, {})} for name in names}
        reading = {}
    return _sorted(local), _sorted(reading)


def _sorted(groups: Mapping[str, Iterable[int]]) -> Iterator[GroupRow]:
    """Yield groups, some names at a time in their order: a section of like names is short."""
    names = list(groups)
    for at in range(0, len(names), SECTION_ROWS):
        for name in sorted(names[at : at + SECTION_ROWS]):
            yield name, tuple(groups[name])


def _slices(rows: tuple[tuple[int, str], ...]) -> Iterator[tuple[tuple[int, str], ...]]:
    left = iter(rows)
    while some := tuple(islice(left, SECTION_ROWS)):
        yield some


def _by_size(groups: Iterable[GroupRow]) -> Iterator[Groups]:
    """Cut groups into sections by their memberships; a large group goes into several."""
    some: list[tuple[str, tuple[int, ...]]] = []
    room = SECTION_ROWS
    for group, members in groups:
        left = members
        while len(left) >= room:
            yield (*some, (group, left[:room]))
            some, left, room = [], left[room:], SECTION_ROWS
        if left:
            some.append((group, left))
            room -= len(left)
    if some:
        yield tuple(some)


def encode_announcement(
    announcement: Announcement, rows: Rows, versions: Versions, size: int
) -> bytes:
    """Encode an announcement for a view of these versions.

    Args:
        announcement: the announcement; without the feature CARRIED it has no sections.
        rows: the rows of one without that feature; those of others are in its sections.
        versions: what all daemons of the view have in common.
        size: the bytes that fit one packet.
    """
    if versions.features & CARRIED:
        fields = msgspec.structs.astuple(announcement)
        left_out = 0 if announcement.lines else 1 if versions.knows_pauses else 2
        return _encode(fields[: len(fields) - left_out])
    fields = msgspec.structs.astuple(rows)
    head = (announcement.completed, announcement.together)
    # Daemons that know no readers know no such field either.
    body = _encode((*head, *(fields if fields[-1] else fields[:-1])))
    return _pack(body) if versions.highest >= PACKED and len(body) > size else body


def _pack(body: bytes) -> bytes:
    """Return a body compressed, if that is shorter."""
    return min(_PACKED + zlib.compress(body, _LEVEL), body, key=len)


def part_bytes(room: int) -> int:
    """Return the bytes of an announcement in a bundle of `room` bytes, more than its head has."""
    frame = state_bundle(b"", 0, 1)
    frame.address(0, _USER, ())
    return room - frame.size


def cut_announcement(body: bytes, room: int) -> list[Bundle]:
    """Return the bundles that carry an encoded announcement, each of at most `room` bytes."""
    size = part_bytes(room)
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    bundles = [state_bundle(piece, index, len(pieces)) for index, piece in enumerate(pieces)]
    for bundle in bundles:
        bundle.address(0, _USER, ())
    return bundles


# ---- what a daemon receives ----


def decode_announcement_untrusted(body: bytes, versions: Versions) -> Announcement:
    """Return the announcement of a daemon; an empty one if it breaks its layout.

    Without the feature CARRIED its digest is 0, and its rows are one section.
    """
    try:
        if versions.features & CARRIED:
            return _decode(body)
        found = _decode_whole(_unpacked(body) if versions.highest >= PACKED else body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, zlib.error):
        return NOTHING
    rows = Rows(found.sessions, found.groups, found.principals, found.readers)
    return Announcement(found.completed, found.together, 0, (_encode(rows),))


def decode_rows_untrusted(section: bytes) -> Rows | None:
    """Return the rows of a section; None if it breaks its layout."""
    try:
        return _decode_rows(_unpacked(section))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, zlib.error):
        return None


def _unpacked(body: bytes) -> bytes:
    """Return a body as it was before it was compressed; raise zlib.error if that fails."""
    if body[:1] != _PACKED:
        return body
    unpacker = zlib.decompressobj()
    whole = unpacker.decompress(memoryview(body)[1:], MAX_ANNOUNCEMENT_BYTES)
    if not unpacker.eof or unpacker.unused_data:
        raise zlib.error("it is cut, too long, or something follows")
    return whole


def _first_of(together: Together | Present) -> object:
    """Return what stands for the first of the daemons that have come together."""
    if isinstance(together, bytes):
        bits = int.from_bytes(together, "little")
        return bits & -bits
    return together[0]


class Announcements:
    """The announcements of one view that have arrived here.

    Attributes:
        whole: for each daemon, by index, its announcement.
    """

    __slots__ = ("_along", "_daemons", "_parts", "_versions", "whole")

    def __init__(self, daemons: int, versions: Versions) -> None:
        """Await the announcements of so many daemons, which have these versions in common."""
        self._daemons = daemons
        self._versions = versions
        self._parts: list[dict[int, Raw]] = [{} for _ in range(daemons)]
        self.whole: dict[int, Announcement] = {}
        self._along: dict[int, int] = {}

    @property
    def complete(self) -> bool:
        """Return whether the announcements of all daemons are here."""
        return len(self.whole) == self._daemons

    def accept(self, daemon: int, bundle: Bundle) -> None:
        """Add one part of a daemon's announcement; an invalid one counts as empty."""
        parts = self._parts[daemon]
        parts[bundle.index] = body_payload(bundle.body)
        if len(parts) < bundle.count or daemon in self.whole:
            return
        body = b"".join(parts.get(index, b"") for index in range(bundle.count))
        self.whole[daemon] = decode_announcement_untrusted(body, self._versions)
        parts.clear()

    def together(self, me: int, keys: Sequence[tuple[int, int]]) -> frozenset[int]:
        """Return the daemons that come from the same view as this one, and were with it since then.

        Both daemons must say so.

        Args:
            me: index of this daemon.
            keys: for each daemon its number and random id.
        """
        own, along = self.whole[me], self._came_with(me, keys)
        return frozenset(
            daemon
            for daemon, other in self.whole.items()
            if daemon == me
            or (
                own.completed
                and other.completed == own.completed
                and along >> daemon & 1
                and self._came_with(daemon, keys) >> me & 1
            )
        )

    def _came_with(self, daemon: int, keys: Sequence[tuple[int, int]]) -> int:
        """Return who has come along with a daemon, as it says: bits by indices in the view."""
        said = self.whole[daemon].together
        if isinstance(said, bytes):
            return int.from_bytes(said, "little")
        if daemon not in self._along:
            places = {key: place for place, key in enumerate(keys)}
            self._along[daemon] = sum(1 << places[key] for key in said if key in places)
        return self._along[daemon]

    def tables(self) -> list[tuple[list[int], bytes]]:
        """Return the daemons that say that they have come together, and the lines that their first
        one has told; nothing if all have come together."""
        found: dict[object, list[int]] = {}
        for daemon in range(self._daemons):
            each = self.whole[daemon]
            alone = not (each.completed and each.together)
            key = daemon if alone else (each.completed, _first_of(each.together))
            found.setdefault(key, []).append(daemon)
        if len(found) == 1:
            return []
        return [(daemons, self.whole[daemons[0]].lines) for daemons in found.values()]

    def origins(self, keys: Sequence[tuple[int, int]]) -> list[int]:
        """Return a number for each daemon, the same for daemons that have come together.

        Args:
            keys: see `together`.
        """
        found: dict[int, int] = {}
        for daemon in range(self._daemons):
            if daemon not in found:
                others = self.together(daemon, keys) - found.keys()
                found.update(dict.fromkeys(others, daemon))
        return [found[daemon] for daemon in range(self._daemons)]
