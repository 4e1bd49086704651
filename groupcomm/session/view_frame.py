"""The VIEW frame: the members of a group, from the daemon to a client.

::

    kind u8, time u64, ring u16, bundle u16, message u32, cause u8, own u8,
    group (u8 + UTF-8), members, changed, vs_set
    each list: count u32, then per member: connection u64, private name (u8 + UTF-8)
"""

import struct
from typing import Final

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.errors import BadDatagram
from groupcomm.events import Cause, GroupView, MemberId
from groupcomm.session.frames import FrameKind

_LENGTH = struct.Struct("!I")
_HEAD = struct.Struct("!BQHHIBBB")  # kind, position, cause, own, bytes of the name
_COUNT = struct.Struct("!I")
_MEMBER = struct.Struct("!QB")
_CAUSES: Final = tuple(Cause)


def encode_view(view: GroupView) -> bytes:
    """A whole frame; the same for every local member whose `own` is the same."""
    _, time, ring, bundle, message = view.id
    group = view.group.encode()
    rest = b"".join((group, _members(view.members), _members(view.changed), _members(view.vs_set)))
    head = _HEAD.pack(
        FrameKind.VIEW,
        time,
        ring,
        bundle,
        message,
        view.cause.value,
        view.own,
        len(group),
    )
    return b"%b%b%b" % (_LENGTH.pack(len(head) + len(rest)), head, rest)


def _members(members: tuple[MemberId, ...]) -> bytes:
    parts = [_COUNT.pack(len(members))]
    for member in members:
        name = member.name.encode()
        parts += (_MEMBER.pack(member.connection, len(name)), name)
    return b"".join(parts)


def decode_view_untrusted(frame: bytes, view: ViewId) -> GroupView:
    """Decode a frame from its kind on; `view` is the daemons' view of its position.

    Raises:
        BadDatagram: it breaks its layout. No other exception, whatever the bytes.
    """
    try:
        return _decode(frame, view)
    except (struct.error, IndexError) as error:
        raise BadDatagram("short", f"a VIEW frame of {len(frame)} bytes: {error}") from None
    except UnicodeDecodeError:
        raise BadDatagram("name", "not UTF-8") from None


def _decode(frame: bytes, view: ViewId) -> GroupView:
    _, time, ring, bundle, message, cause, own, size = _HEAD.unpack_from(frame)
    offset = _HEAD.size + size
    if cause >= len(_CAUSES) or own > 1:
        raise BadDatagram("view", f"cause {cause}, own {own}")
    group = frame[_HEAD.size : offset].decode()
    members, offset = _decode_members(frame, offset)
    changed, offset = _decode_members(frame, offset)
    vs_set, offset = _decode_members(frame, offset)
    if offset != len(frame):
        raise BadDatagram("trailing", f"{len(frame) - offset} bytes after a VIEW frame")
    return GroupView(
        group=group,
        id=Position(view, time, ring, bundle, message),
        members=members,
        cause=_CAUSES[cause],
        changed=changed,
        vs_set=vs_set,
        own=own == 1,
    )


def _decode_members(frame: bytes, offset: int) -> tuple[tuple[MemberId, ...], int]:
    (count,) = _COUNT.unpack_from(frame, offset)
    offset += _COUNT.size
    if count * _MEMBER.size > len(frame) - offset:
        raise BadDatagram("short", f"a list of {count} members")
    members: list[MemberId] = []
    for _ in range(count):
        connection, size = _MEMBER.unpack_from(frame, offset)
        offset += _MEMBER.size
        members.append(MemberId(frame[offset : offset + size].decode(), connection))
        offset += size
    if offset > len(frame):
        raise BadDatagram("short", "a member's name")
    return tuple(members), offset
