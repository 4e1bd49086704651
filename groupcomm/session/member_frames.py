"""Lists of members in frames: a count u32, and for each its connection u64 and its name."""

import struct
from functools import lru_cache

from groupcomm.errors import BadDatagram
from groupcomm.events import MemberId

_COUNT = struct.Struct("!I")
_MEMBER = struct.Struct("!QB")


def encode_members(members: tuple[MemberId, ...]) -> bytes:
    """Encode a list of members."""
    return b"".join((_COUNT.pack(len(members)), *map(_encode_member, members)))


@lru_cache(maxsize=16_384)  # each new member of a group gets the whole list
def _encode_member(member: MemberId) -> bytes:
    name = member.name.encode()
    return _MEMBER.pack(member.connection, len(name)) + name


def decode_members(frame: bytes, offset: int) -> tuple[tuple[MemberId, ...], int]:
    """Decode a list of members at an offset; return it, and the offset behind it.

    Raises:
        BadDatagram, struct.error, IndexError, UnicodeDecodeError: it breaks its layout.
    """
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
