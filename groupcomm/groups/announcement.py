"""Announcements: each daemon tells all others of a new view which sessions and groups it brings.

An announcement travels in the first packets of the new view's stream, in parts that are neither
ordered nor delivered to anybody. Together the announcements of all daemons are the group table at
position (view, 0).

From version 2 of the protocol on an announcement that does not fit one packet is compressed: names
of users and groups are much alike. Its first byte then says so, as it begins no array.
"""

import zlib
from collections.abc import Sequence
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from groupcomm.config.view import MAX_DAEMONS
from groupcomm.errors import LocalProtocolError
from groupcomm.groups.table import GroupTable
from groupcomm.names import check_group, check_user, private_name
from groupcomm.security.access import MAX_PRINCIPAL_BYTES
from groupcomm.wire.bundle import Bundle, body_payload, state_bundle
from groupcomm.wire.membership import Name, Number
from groupcomm.wire.packet import Raw

Principal: TypeAlias = Annotated[str, Meta(min_length=1, max_length=MAX_PRINCIPAL_BYTES)]

MAX_ANNOUNCEMENT_BYTES: Final = 64 * 1024 * 1024
"""The most bytes of an announcement once it is unpacked: those of more than a million sessions."""

_LEVEL: Final = 1  # the fastest: daemons wait for announcements

_PACKED: Final = b"\x00"
"""Begins a compressed announcement; an array begins with another byte."""

_USER = "state"
"""Stands for the session in the records of announcements, which no session sends."""


class Announcement(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """The sessions and groups that one daemon brings along.

    `completed`: key of the last view whose group table it completed; empty before the first.
    `together`: number and random id of the daemons that have come along with it since then.
    `sessions`: connection number and user's name of each. `groups`: each group with its members'
    connection numbers, in the order in which they joined. `principals`: the owners of the sessions
    that have one, by connection number. `readers`: each group with the sessions that read it
    and are no members; only in views of daemons that all have the feature READERS.
    """

    completed: Annotated[bytes, Meta(max_length=16)]
    together: Annotated[tuple[tuple[Number, Number], ...], Meta(max_length=MAX_DAEMONS)]
    sessions: tuple[tuple[Number, Name], ...]
    groups: tuple[tuple[Name, tuple[Number, ...]], ...]
    principals: tuple[tuple[Number, Principal], ...] = ()
    readers: tuple[tuple[Name, tuple[Number, ...]], ...] = ()


NOTHING = Announcement(b"", (), (), ())
_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(Announcement)


def announce(
    table: GroupTable | None,
    completed: bytes,
    together: Sequence[tuple[int, int]],
    *,
    readers: bool = True,
) -> Announcement:
    """Return the announcement of a daemon with this table of its last view.

    Without `readers`, as some daemons do not know them, they become members.
    """
    if table is None:
        return Announcement(completed, tuple(together), (), ())
    local, reading = table.local, table.reading
    if not readers:
        names = local.keys() | reading.keys()
        local = {name: {**local.get(name, {}), **reading.get(name, {})} for name in names}
        reading = {}
    groups, read = (tuple((g, tuple(each[g])) for g in sorted(each)) for each in (local, reading))
    sessions, principals = tuple(table.own_sessions()), tuple(table.own_principals())
    return Announcement(completed, tuple(together), sessions, groups, principals, read)


def cut_announcement(
    announcement: Announcement, room: int, *, packed: bool = False
) -> list[Bundle]:
    """Return the bundles that carry an announcement, each of at most `room` bytes.

    Args:
        announcement: the announcement.
        room: bytes, at least those of a bundle's head.
        packed: whether all receivers know compressed ones.
    """
    frame = state_bundle(b"", 0, 1)
    frame.address(0, _USER, ())
    size = room - frame.size
    # Daemons that know no readers know no such field either.
    fields = msgspec.structs.astuple(announcement)
    body = _encode(fields if announcement.readers else fields[:-1])
    if packed and len(body) > size:
        body = min(_PACKED + zlib.compress(body, _LEVEL), body, key=len)
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    bundles = [state_bundle(piece, index, len(pieces)) for index, piece in enumerate(pieces)]
    for bundle in bundles:
        bundle.address(0, _USER, ())
    return bundles


def decode_announcement(body: bytes, daemon: str, *, packed: bool = True) -> Announcement:
    """Return the announcement of the daemon of this name; an empty one if it breaks a rule.

    Compressed ones are known only where `packed` is true, as in earlier releases.
    Each session has a user and a number of its own, each group has members, and they are sessions.
    """
    try:
        announcement = _decoder.decode(_unpacked(body) if packed else body)
        for _, user in announcement.sessions:
            private_name(check_user(user), daemon)
        for group, _ in (*announcement.groups, *announcement.readers):
            check_group(group)
    except (
        msgspec.MsgspecError,
        UnicodeDecodeError,
        RecursionError,
        LocalProtocolError,
        zlib.error,
    ):
        return NOTHING
    connections = {connection for connection, _ in announcement.sessions}
    users = {user for _, user in announcement.sessions}
    true = (
        len(connections) == len(users) == len(announcement.sessions)
        and _are_groups(announcement.groups, connections)
        and _are_groups(announcement.readers, connections)
        and not _pairs(announcement.groups) & _pairs(announcement.readers)
        and connections.issuperset(number for number, _ in announcement.principals)
        and len(dict(announcement.principals)) == len(announcement.principals)
    )
    return announcement if true else NOTHING


_Groups: TypeAlias = tuple[tuple[Name, tuple[Number, ...]], ...]


def _are_groups(groups: _Groups, connections: set[int]) -> bool:
    """Return whether each group stands once, and has sessions, each once."""
    return len(dict(groups)) == len(groups) and all(
        len(set(sessions)) == len(sessions) > 0 and connections.issuperset(sessions)
        for _, sessions in groups
    )


def _pairs(groups: _Groups) -> set[tuple[str, int]]:
    return {(group, connection) for group, sessions in groups for connection in sessions}


def _unpacked(body: bytes) -> bytes:
    """Return the body as it was before it was compressed; raise zlib.error if that fails."""
    if body[:1] != _PACKED:
        return body
    unpacker = zlib.decompressobj()
    whole = unpacker.decompress(memoryview(body)[1:], MAX_ANNOUNCEMENT_BYTES)
    if not unpacker.eof or unpacker.unused_data:
        raise zlib.error("it is cut, too long, or something follows")
    return whole


class Announcements:
    """The announcements of one view that have arrived here.

    Attributes:
        whole: for each daemon, by index, its announcement.
    """

    __slots__ = ("_daemons", "_names", "_packed", "_parts", "whole")

    def __init__(self, names: Sequence[str], *, packed: bool = True) -> None:
        """Await the announcements of these daemons, by index; `packed`: they may be compressed."""
        self._packed = packed
        daemons = len(names)
        self._daemons = daemons
        self._names = names
        self._parts: list[dict[int, Raw]] = [{} for _ in range(daemons)]
        self.whole: dict[int, Announcement] = {}

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
        self.whole[daemon] = decode_announcement(
            b"".join(parts.get(index, b"") for index in range(bundle.count)),
            self._names[daemon],
            packed=self._packed,
        )
        parts.clear()

    def together(self, me: int, keys: Sequence[tuple[int, int]]) -> frozenset[int]:
        """Return the daemons that come from the same view as this one, and were with it since then.

        Both daemons must say so.

        Args:
            me: index of this daemon.
            keys: for each daemon its number and random id.
        """
        own = self.whole[me]
        return frozenset(
            daemon
            for daemon, other in self.whole.items()
            if daemon == me
            or (
                own.completed
                and other.completed == own.completed
                and keys[daemon] in own.together
                and keys[me] in other.together
            )
        )

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
