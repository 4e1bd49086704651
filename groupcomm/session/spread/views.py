"""Membership messages: the form in which Spread's clients get our group views.

::

    regular      REG_MEMB and a cause; head names the group; members; data:
                 group id 12 bytes, number of sets u32, offset of the client's set u32,
                 sets: each a count u32 and names of 32 bytes
    transitional TRANSITION; head names the group; data: the group id of the view that ends
    own leave    CAUSED_BY_LEAVE; head names the group; nothing else

The offset counts from the first set, in bytes. All numbers are little-endian, as in the head.
"""

import hashlib
import struct
from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.errors import BadDatagram
from groupcomm.events import Cause, GroupView, MemberId
from groupcomm.session.differences import (
    ChangeRun,
    Difference,
    decode_difference_untrusted,
)
from groupcomm.session.frames import LENGTH
from groupcomm.session.group_lists import UNFIT, GroupLists
from groupcomm.session.spread.layout import (
    CAUSED_BY_DISCONNECT,
    CAUSED_BY_JOIN,
    CAUSED_BY_LEAVE,
    CAUSED_BY_NETWORK,
    MAX_NAME,
    NAME_BYTES,
    REG_MEMB,
    TRANSITION,
    Head,
    encode_head,
)
from groupcomm.session.spread.names import encode_name

_CAUSES: Final = {
    Cause.JOIN: CAUSED_BY_JOIN,
    Cause.LEAVE: CAUSED_BY_LEAVE,
    Cause.DISCONNECT: CAUSED_BY_DISCONNECT,
    Cause.NETWORK: CAUSED_BY_NETWORK,
}
_JOIN: Final = Cause.JOIN
_NETWORK: Final = Cause.NETWORK

SHARED_BYTES: Final = 4 * 1024 * 1024
"""The most bytes of messages that sessions share: those of 400 changes of a group of 300."""

MOST_LISTS: Final = 1024
"""The most groups whose lists are kept, to work out the next change of each."""

MOST_FIELDS: Final = 8192
"""The most names whose fields are kept: names return in each view of their group."""

_NUMBER_BYTES: Final = 4
_MOST_TIME: Final = 0x7FFFFFFF  # programs read a signed number
_SETS = struct.Struct("<II")
_COUNT = struct.Struct("<I")
_VIEW = struct.Struct("!QQ")  # of daemons: its counter and incarnation
_PLACE = struct.Struct("!QHHI")  # a position in it

Entry: TypeAlias = tuple[str, str, bytes]
"""A member in Spread's order: its daemon, its user, and the field of its name."""


def group_id(group: str, position: Position) -> bytes:
    """Return the 12 bytes that stand for a group's view: equal where its positions are equal.

    The first two numbers of the three are those of the view of the daemons, as Spread's are: the
    second one rises from view to view like Spread's, which is a time. Two views of a group within
    one of these have equal ids once in 2**32 times.
    """
    view, time, ring, bundle, message = position
    counter, daemon, incarnation = view
    whole = _hash(_VIEW.pack(counter, incarnation) + daemon.encode())
    place = _hash(_PLACE.pack(time, ring, bundle, message) + group.encode())
    return whole + (counter & _MOST_TIME).to_bytes(_NUMBER_BYTES, "little") + place


def _hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_NUMBER_BYTES, person=b"spread view").digest()


def encode_regular(view: GroupView, origins: Mapping[str, int]) -> bytes:
    """Return a regular membership message.

    Args:
        view: the group's view.
        origins: with NETWORK the daemons' numbers; daemons with one number came from one view.
    """
    return _encode(view, _in_order(view.members), origins)


def _encode(view: GroupView, members: list[Entry], origins: Mapping[str, int]) -> bytes:
    """Return a regular membership message, given the view's members in order."""
    sets, offset = _sets(view, members, origins)
    data = [group_id(view.group, view.id), _SETS.pack(len(sets), offset)]
    for fields in sets:
        data += (_COUNT.pack(len(fields)), *fields)
    size = sum(map(len, data))
    type_ = REG_MEMB | _CAUSES[view.cause]
    head = Head(type_, encode_name(view.group), len(members), 0, False, size)
    return b"".join([encode_head(head), *[field for _, _, field in members], *data])


class SharedChange(NamedTuple):
    """A change of a group, as the sessions of one daemon share it.

    Attributes:
        before: the id of the view before it.
        view: the view that it leads to, for all but the session that has itself left.
        regular: the regular message about that.
    """

    before: Position
    view: GroupView
    regular: bytes


K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """The latest values of a kind, SHARED_BYTES of them at most, or the last one."""

    __slots__ = ("_bytes", "_kept")

    def __init__(self) -> None:
        self._kept: dict[K, tuple[V, int]] = {}
        self._bytes = 0

    def get(self, key: K) -> V | None:
        """Return a value; None if it is not kept."""
        found = self._kept.get(key)
        return None if found is None else found[0]

    def keep(self, key: K, value: V, size: int) -> None:
        """Keep a value of `size` bytes, which has no other of its key."""
        self._kept[key] = value, size
        self._bytes += size
        while self._bytes > SHARED_BYTES and len(self._kept) > 1:
            self._bytes -= self._kept.pop(next(iter(self._kept)))[1]


class SharedChanges:
    """Changes of groups that the sessions of one listener share: each is worked out once for all.

    Each of them gets the same frame with a change of a group; those that hold less get none. The
    oldest changes are forgotten: for sessions that are far behind they are worked out anew.
    """

    __slots__ = ("_by_frame", "_by_run", "_lists", "_messages", "_orders")

    def __init__(self) -> None:
        self._lists = GroupLists()
        self._orders: dict[str, list[Entry]] = {}  # the members of each of these lists
        self._by_run = Recent[tuple[bytes, ViewId], list[SharedChange]]()
        self._by_frame = Recent[tuple[bytes, ViewId], SharedChange]()
        self._messages = Recent[tuple[str, Position, int], bytes]()  # by group, view, members

    def regular(self, view: GroupView, size: int) -> bytes:
        """Return the regular message of a view of so many members that is not of the network.

        Sessions that may see no others have lists of one member, so the number tells them apart.
        """
        key = view.group, view.id, size
        message = self._messages.get(key)
        if message is None:
            message = encode_regular(view, {})
            self._messages.keep(key, message, len(message))
        return message

    def apply(
        self,
        run: ChangeRun,
        held: Mapping[str, GroupView],
        daemons: ViewId,
        origins: Mapping[str, int],
    ) -> list[SharedChange]:
        """Return the changes of a run of DIFFERENCE frames; the caller sees whether they fit.

        Args:
            run: whole frames.
            held: the latest view of each group that the session holds.
            daemons: the view of the daemons.
            origins: see `encode_regular`.

        Raises:
            BadDatagram: a frame does not decode, or does not fit the view before it.
        """
        found = self._by_run.get((run, daemons))
        if found is None:
            found, latest, start = [], dict(held), 0
            while start < len(run):
                (size,) = LENGTH.unpack_from(run, start)
                start += LENGTH.size + size
                change = self._apply(run[start - size : start], latest, daemons, origins)
                latest[change.view.group] = change.view
                found.append(change)
            self._by_run.keep((run, daemons), found, sum(len(each.regular) for each in found))
        return found

    def _apply(
        self,
        frame: bytes,
        held: Mapping[str, GroupView],
        daemons: ViewId,
        origins: Mapping[str, int],
    ) -> SharedChange:
        found = self._by_frame.get((frame, daemons))
        if found is None:
            found = self._work_out(frame, held, daemons, origins)
            self._by_frame.keep((frame, daemons), found, len(found.regular))
        return found

    def _work_out(
        self,
        frame: bytes,
        held: Mapping[str, GroupView],
        daemons: ViewId,
        origins: Mapping[str, int],
    ) -> SharedChange:
        change = decode_difference_untrusted(frame, daemons)
        before = held.get(change.group)
        if before is None:
            raise BadDatagram(UNFIT, f"a change of {change.group!r}, of which no view is held")
        lists = self._lists
        if not lists.holds(before):  # others are further
            if len(lists) >= MOST_LISTS:
                lists, self._orders = GroupLists(), {}
                self._lists = lists
            lists.hold(before, before.members[0])
            self._orders[before.group] = _in_order(before.members)
        view = lists.apply(change, None)
        if change.cause is not _NETWORK:
            regular = self._messages.get((view.group, view.id, change.size))
            order = self._orders[view.group]
            _change_order(order, change)
            if regular is None:
                regular = _encode(view, order, {})
            return SharedChange(before.id, view, regular)
        order = self._orders[view.group] = _in_order(view.members)
        return SharedChange(before.id, view, _encode(view, order, origins))


def encode_transitional(view: GroupView) -> bytes:
    """Return the message that a group's view is over: others may lack the messages after it."""
    head = Head(TRANSITION, encode_name(view.group), 0, 0, False, 3 * _NUMBER_BYTES)
    return encode_head(head) + group_id(view.group, view.id)


def encode_own_leave(group: str) -> bytes:
    """Return the message to a client that it is no member any more."""
    return encode_head(Head(CAUSED_BY_LEAVE, encode_name(group), 0, 0, False, 0))


def _new_entry(name: str) -> Entry:
    user, _, daemon = name[1:].rpartition("#")
    return daemon, user, encode_name(name).ljust(NAME_BYTES, b"\0")


_kept_entry = lru_cache(MOST_FIELDS)(_new_entry)


def _entry(member: MemberId) -> Entry:
    name = member.name
    is_short = len(name) <= MAX_NAME and name.isascii()
    return _kept_entry(name) if is_short else _new_entry(name)  # which notes its alias


def _in_order(members: Iterable[MemberId]) -> list[Entry]:
    """Return members by their daemons' names, then by their own, as Spread orders them."""
    return sorted(map(_entry, members))


def _change_order(order: list[Entry], change: Difference) -> None:
    """Apply the join or the end of a member to the members in order."""
    entry = _entry(change.members[0])
    if change.cause is _JOIN:
        insort(order, entry)
    else:
        del order[bisect_left(order, entry)]


def _sets(
    view: GroupView, members: list[Entry], origins: Mapping[str, int]
) -> tuple[list[list[bytes]], int]:
    """Return the fields of the sets that came together, and the offset of the client's own set."""
    if view.cause is not _NETWORK:
        return [[field for _, _, field in _in_order(view.changed)]], 0
    own = set(_in_order(view.vs_set))
    found: dict[int, list[bytes]] = {}
    for entry in members:
        # Members of the client's own set are together whatever the daemons' numbers say.
        origin = -1 if entry in own else origins.get(entry[0], len(origins))
        found.setdefault(origin, []).append(entry[2])
    before = 0
    for origin, fields in found.items():
        if origin == -1:
            break
        before += _COUNT.size + NAME_BYTES * len(fields)
    else:
        before = 0  # a client that may not see the members is alone in its view
    return list(found.values()), before
