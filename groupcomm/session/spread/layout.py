"""Layout of the packets between Spread's clients and their daemon: bits, heads and names.

A message is a head of 48 bytes, the names of its groups in fields of 32 bytes, and its data::

    type u32, sender 32 bytes, number of groups i32, hint u32, bytes of data i32

The writer uses its own byte order and says which in bits of the type: the mask is the same when its
bytes are turned round. The hint holds the program's 16-bit tag in the byte order of the *program*,
whatever daemon has written the head, and so says in which order the program writes its data.

Heads are always written little-endian here; received ones may have either order.
"""

import struct
from typing import Final, NamedTuple

from groupcomm.errors import BadDatagram

UNRELIABLE: Final = 0x01
RELIABLE: Final = 0x02
FIFO: Final = 0x04
CAUSAL: Final = 0x08
AGREED: Final = 0x10
SAFE: Final = 0x20
SERVICES: Final = (UNRELIABLE, RELIABLE, FIFO, CAUSAL, AGREED, SAFE)
"""By `ServiceLevel`."""

SELF_DISCARD: Final = 0x40
CAUSED_BY_JOIN: Final = 0x100
CAUSED_BY_LEAVE: Final = 0x200
CAUSED_BY_DISCONNECT: Final = 0x400
CAUSED_BY_NETWORK: Final = 0x800
REG_MEMB: Final = 0x1000
TRANSITION: Final = 0x2000
JOIN: Final = 0x10000
LEAVE: Final = 0x20000
KILL: Final = 0x40000
REJECT: Final = 0x400000
MARKS: Final = 0x70000000
"""Bits that mean nothing to a daemon: programs set them for their receivers. With 0x40000000 the
flush layer says that the name of the group stands at the end of a message's data."""

LITTLE_ENDIAN: Final = 0x80000080
"""The bits of a word that give its writer's byte order: all set little-endian, none set big."""

HEAD_BYTES: Final = 48
NAME_BYTES: Final = 32
MAX_NAME: Final = NAME_BYTES - 1
MAX_GROUPS: Final = 100
MAX_BODY_BYTES: Final = 144_000
"""The most bytes of the names of groups and the data together, as in Spread's own library."""

_LITTLE: Final = struct.Struct("<I32siIi")
_BIG: Final = struct.Struct(">I32siIi")
_HINT: Final = 0x00FFFF00
_TAG_SHIFT: Final = 8
_MAX_TAG: Final = 0xFFFF


class Head(NamedTuple):
    """The head of a message.

    Attributes:
        type: its bits, without those of the byte order.
        name: the private name of its sender, or a group; the field without its padding.
        groups: the number of names that follow.
        tag: the program's 16 bits.
        big_endian: the program that has sent it writes big-endian.
        size: bytes of its data.
    """

    type: int
    name: bytes
    groups: int
    tag: int
    big_endian: bool
    size: int

    @property
    def rest(self) -> int:
        """Return the bytes that follow the head: names, a rejected type, data."""
        more = 4 if self.type & REJECT else 0
        return NAME_BYTES * self.groups + more + self.size


def encode_head(head: Head) -> bytes:
    """Return the 48 bytes of a head; its name has at most MAX_NAME bytes."""
    word = (head.tag & _MAX_TAG) << _TAG_SHIFT
    hint = int.from_bytes(word.to_bytes(4, "big"), "little") if head.big_endian else _marked(word)
    return _LITTLE.pack(_marked(head.type), head.name, head.groups, hint, head.size)


def _marked(word: int) -> int:
    return word | LITTLE_ENDIAN


def decode_head_untrusted(raw: bytes) -> Head:
    """Decode the head of a message from 48 bytes.

    Raises:
        BadDatagram: its byte orders are half one and half the other, a length is below 0, or the
            hint has other bits than those of a tag. No other exception, whatever the bytes.
    """
    if len(raw) != HEAD_BYTES:
        raise BadDatagram("short", f"the head of a message in {len(raw)} bytes")
    layout = _LITTLE if _is_little(raw[:4]) else _BIG
    type_, name, groups, _, size = layout.unpack(raw)
    little = _is_little(raw[40:44])
    hint = int.from_bytes(raw[40:44], "little" if little else "big") & ~LITTLE_ENDIAN
    if hint & ~_HINT:
        raise BadDatagram("hint", f"a hint of {hint:#x}")
    if groups < 0 or size < 0:
        raise BadDatagram("length", f"{groups} groups and {size} bytes of data")
    return Head(
        type_ & ~LITTLE_ENDIAN, cut_name(name), groups, hint >> _TAG_SHIFT, not little, size
    )


def _is_little(raw: bytes) -> bool:
    marks = int.from_bytes(raw, "big") & LITTLE_ENDIAN
    if marks not in (0, LITTLE_ENDIAN):
        raise BadDatagram("order", f"bytes {raw.hex()} are of neither byte order")
    return marks != 0


def encode_names(names: list[bytes] | tuple[bytes, ...]) -> bytes:
    """Return names in fields of 32 bytes; each has at most MAX_NAME bytes."""
    return b"".join([name.ljust(NAME_BYTES, b"\0") for name in names])


def decode_names(raw: bytes) -> list[bytes]:
    """Return the names in fields of 32 bytes, each up to its first NUL."""
    starts = range(0, len(raw), NAME_BYTES)
    return [cut_name(raw[start : start + NAME_BYTES]) for start in starts]


def cut_name(field: bytes) -> bytes:
    """Return the name in a field, up to its first NUL."""
    return field.partition(b"\0")[0]
