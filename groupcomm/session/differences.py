"""DIFFERENCE frames: what a change of a group changes in the view that its members hold.

Pure. Encoded once for all members at a daemon. docs/protocol/session.md has the layout.
"""

import struct
from typing import Final, TypeAlias

import msgspec

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.errors import BadDatagram
from groupcomm.events import Cause, MemberId
from groupcomm.session.frames import LENGTH, FrameKind, short_text, utf8
from groupcomm.session.member_frames import decode_members, encode_members

_HEAD = struct.Struct("!BQHHIQQQHHIBIHB")
# kind; position; counter and random id of a view of daemons, position; cause, size, daemons, name
_CAUSES: Final = tuple(Cause)

Place: TypeAlias = tuple[int, int, int, int, int, int]
"""The id of a view without the name of a daemon: counter, random id, time, ring, bundle, message.
"""


def place_of(position: Position) -> Place:
    """Return the id of a view of a group in the form that names it in a difference."""
    (counter, _, incarnation), time, ring, bundle, message = position
    return counter, incarnation, time, ring, bundle, message


class ChangeRun(bytes):
    """DIFFERENCE frames, whole, that many sessions get as one object.

    So what a session makes of them is found by others without reading them again.
    """

    __slots__ = ()


class Difference(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A change of a group, as a difference from the view before it.

    Attributes:
        group: its name.
        id: the position of the change.
        before: the id of the view before it.
        cause: its cause.
        size: the number of members after the change.
        went: with NETWORK the daemons whose members did not come along.
        members: with JOIN the new member, with LEAVE and DISCONNECT the one that has gone; with
            NETWORK the members that have come, after those who went.
    """

    group: str
    id: Position
    before: Place
    cause: Cause
    size: int
    went: tuple[str, ...] = ()
    members: tuple[MemberId, ...] = ()


def encode_difference(found: Difference) -> ChangeRun:
    """Encode a difference; the frame is the same for all local members."""
    _, *place = found.id
    group = found.group.encode()
    size, went = found.size, found.went
    cause = found.cause.value
    head = _HEAD.pack(
        FrameKind.DIFFERENCE, *place, *found.before, cause, size, len(went), len(group)
    )
    rest = b"".join((group, *map(short_text, went), encode_members(found.members)))
    return ChangeRun(b"%b%b%b" % (LENGTH.pack(len(head) + len(rest)), head, rest))


def decode_difference_untrusted(frame: bytes, view: ViewId) -> Difference:
    """Decode a frame from its kind on; `view` is the daemons' view of its position.

    Raises:
        BadDatagram: it breaks its layout. No other exception, whatever the bytes.
    """
    try:
        return _decode(frame, view)
    except (struct.error, IndexError) as error:
        raise BadDatagram("short", f"a frame of {len(frame)} bytes: {error}") from None
    except UnicodeDecodeError:
        raise BadDatagram("name", "not UTF-8") from None


def _decode(frame: bytes, view: ViewId) -> Difference:
    _, time, ring, bundle, message, *before, cause, size, daemons, name = _HEAD.unpack_from(frame)
    if cause >= len(_CAUSES):
        raise BadDatagram("view", f"cause {cause}")
    offset = _HEAD.size + name
    group = frame[_HEAD.size : offset].decode()
    went = []
    for _ in range(daemons):
        end = offset + 1 + frame[offset]
        went.append(utf8(frame[offset + 1 : end]))
        offset = end
    members, offset = decode_members(frame, offset)
    if offset != len(frame):
        raise BadDatagram("trailing", f"{len(frame) - offset} bytes after a difference")
    is_network = _CAUSES[cause] is Cause.NETWORK
    if (went and not is_network) or (len(members) != 1 and not is_network):
        raise BadDatagram("view", f"{len(went)} daemons, {len(members)} members, cause {cause}")
    return Difference(
        group=group,
        id=Position(view, time, ring, bundle, message),
        before=(before[0], before[1], before[2], before[3], before[4], before[5]),
        cause=_CAUSES[cause],
        size=size,
        went=tuple(went),
        members=members,
    )
