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
from collections.abc import Mapping, Sequence
from typing import Final

from groupcomm.clocks.stamp import Position
from groupcomm.events import Cause, GroupView, MemberId
from groupcomm.session.spread.layout import (
    CAUSED_BY_DISCONNECT,
    CAUSED_BY_JOIN,
    CAUSED_BY_LEAVE,
    CAUSED_BY_NETWORK,
    NAME_BYTES,
    REG_MEMB,
    TRANSITION,
    Head,
    encode_head,
    encode_names,
)
from groupcomm.session.spread.names import encode_name

_CAUSES: Final = {
    Cause.JOIN: CAUSED_BY_JOIN,
    Cause.LEAVE: CAUSED_BY_LEAVE,
    Cause.DISCONNECT: CAUSED_BY_DISCONNECT,
    Cause.NETWORK: CAUSED_BY_NETWORK,
}
SHARED_BYTES: Final = 4 * 1024 * 1024
"""The most bytes of messages that sessions share: those of 400 changes of a group of 300."""

_ID_BYTES: Final = 12
_VIEW_BYTES: Final = 8
_SETS = struct.Struct("<II")
_COUNT = struct.Struct("<I")
_VIEW = struct.Struct("!QQ")  # of daemons: its counter and incarnation
_PLACE = struct.Struct("!QHHI")  # a position in it


def group_id(group: str, position: Position) -> bytes:
    """Return the 12 bytes that stand for a group's view: equal where its positions are equal.

    The first two numbers of the three are those of the view of the daemons, as Spread's are. Two
    views of a group within one of these have equal ids once in 2**32 times.
    """
    view, time, ring, bundle, message = position
    counter, daemon, incarnation = view
    whole = _VIEW.pack(counter, incarnation) + daemon.encode()
    place = _PLACE.pack(time, ring, bundle, message) + group.encode()
    return _hash(whole, _VIEW_BYTES) + _hash(place, _ID_BYTES - _VIEW_BYTES)


def _hash(data: bytes, size: int) -> bytes:
    return hashlib.blake2b(data, digest_size=size, person=b"spread view").digest()


def encode_regular(view: GroupView, origins: Mapping[str, int]) -> bytes:
    """Return a regular membership message.

    Args:
        view: the group's view.
        origins: with NETWORK the daemons' numbers; daemons with one number came from one view.
    """
    members = [encode_name(member.name) for member in _in_order(view.members)]
    sets, offset = _sets(view, origins)
    data = (
        group_id(view.group, view.id)
        + _SETS.pack(len(sets), offset)
        + b"".join(map(_encode_set, sets))
    )
    type_ = REG_MEMB | _CAUSES[view.cause]
    head = Head(type_, encode_name(view.group), len(members), 0, False, len(data))
    return encode_head(head) + encode_names(members) + data


class SharedMessages:
    """Regular messages that the sessions of one listener share: a change is encoded once for all.

    Each of them gets the same frame with a change of a group; those that hold less get none. The
    oldest messages are forgotten: sessions that are far behind have theirs encoded anew.
    """

    __slots__ = ("_by_change", "_bytes")

    def __init__(self) -> None:
        self._by_change: dict[bytes, bytes] = {}
        self._bytes = 0

    def regular(self, change: bytes, view: GroupView) -> bytes:
        """Return the regular message of a change that is not of the network.

        Args:
            change: the frame that led to the view.
            view: the group's view after the change.
        """
        message = self._by_change.get(change)
        if message is None:
            message = self._by_change[change] = encode_regular(view, {})
            self._bytes += len(message)
            while self._bytes > SHARED_BYTES and len(self._by_change) > 1:
                self._bytes -= len(self._by_change.pop(next(iter(self._by_change))))
        return message


def encode_transitional(view: GroupView) -> bytes:
    """Return the message that a group's view is over: others may lack the messages after it."""
    head = Head(TRANSITION, encode_name(view.group), 0, 0, False, _ID_BYTES)
    return encode_head(head) + group_id(view.group, view.id)


def encode_own_leave(group: str) -> bytes:
    """Return the message to a client that it is no member any more."""
    return encode_head(Head(CAUSED_BY_LEAVE, encode_name(group), 0, 0, False, 0))


def _in_order(members: Sequence[MemberId]) -> list[MemberId]:
    """Return members by their daemons' names, then by their own, as Spread orders them."""
    return sorted(members, key=lambda member: (member.daemon, member.user))


def _sets(view: GroupView, origins: Mapping[str, int]) -> tuple[list[list[MemberId]], int]:
    """Return the sets that came together, and the offset of the client's own set."""
    if view.cause is not Cause.NETWORK:
        return [list(view.changed)], 0
    own = set(view.vs_set)
    found: dict[int, list[MemberId]] = {}
    for member in _in_order(view.members):
        daemon = member.daemon
        # Members of the client's own set are together whatever the daemons' numbers say.
        origin = -1 if member in own else origins.get(daemon, len(origins))
        found.setdefault(origin, []).append(member)
    before = 0
    for origin, members in found.items():
        if origin == -1:
            break
        before += _COUNT.size + NAME_BYTES * len(members)
    else:
        before = 0  # a client that may not see the members is alone in its view
    return list(found.values()), before


def _encode_set(members: Sequence[MemberId]) -> bytes:
    names = [encode_name(member.name) for member in members]
    return _COUNT.pack(len(names)) + encode_names(names)
