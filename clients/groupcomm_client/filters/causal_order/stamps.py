"""The stamps that the causal filter puts before messages, and its marks.

A stamp is made of numbers, each in seven bits a byte, lowest first, as LEB128 has it::

    count | epoch | slots | slot ...

`count` is the sender's own count of messages to the group, from 1. The others' counts stand in
slots, in the order of the sender's table of that epoch: 0 for a member whose count the sender did
not know, otherwise 1 more than the count. Slots of 0 at the end are left out. A mark carries the
table.
"""

from typing import Final, NamedTuple

import msgspec

from groupcomm.events import MemberId
from groupcomm_client.filters.roles import CannotUndo
from groupcomm_client.undecodable import UNDECODABLE

MEMBERS: Final = 65_535
"""The most slots; bytes with more are not a stamp."""

_BITS: Final = 63


class Stamp(NamedTuple):
    """A stamp; `own` is the count, `slots` are as on the wire."""

    own: int
    epoch: int
    slots: tuple[int, ...]


class Mark(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A mark, which a member sends to the group when there is a new member.

    Attributes:
        epoch: the number of the table, from 1 for each member.
        count: the number of messages that the member has sent to the group; the next message has
            one more.
        members: the table: the members whose counts stand in the slots.
    """

    epoch: int
    count: int
    members: tuple[MemberId, ...]


encode_mark = msgspec.msgpack.Encoder().encode
"""A mark as bytes."""

_decode_mark = msgspec.msgpack.Decoder(Mark).decode


def decode_mark_untrusted(data: bytes) -> Mark:
    """Return a mark from bytes.

    Raises:
        CannotUndo: the bytes are not a mark.
    """
    try:
        mark = _decode_mark(data)
    except UNDECODABLE as error:
        raise CannotUndo(f"its mark does not decode: {error}") from None
    if mark.epoch < 1 or mark.count < 0:
        raise CannotUndo(
            f"its mark has the epoch {mark.epoch} and the count {mark.count}, which are too small"
        )
    return mark


def encode_stamp(stamp: Stamp) -> bytes:
    """Return a stamp as bytes."""
    slots = list(stamp.slots)
    while slots and not slots[-1]:
        slots.pop()
    out = bytearray()
    for number in (stamp.own, stamp.epoch, len(slots), *slots):
        left = number
        while left > 127:
            out.append(left & 127 | 128)
            left >>= 7
        out.append(left)
    return bytes(out)


def decode_stamp_untrusted(data: bytes, at: int) -> tuple[Stamp, int]:
    """Return the stamp that begins at an index, and the index after it.

    Raises:
        CannotUndo: there is no stamp.
    """
    count, at = _number(data, at)
    epoch, at = _number(data, at)
    length, at = _number(data, at)
    if length > MEMBERS or count < 1:
        raise CannotUndo(f"its stamp has the count {count} and {length} slots")
    slots = []
    for _ in range(length):
        slot, at = _number(data, at)
        slots.append(slot)
    return Stamp(count, epoch, tuple(slots)), at


def _number(data: bytes, at: int) -> tuple[int, int]:
    found = shift = 0
    while at < len(data) and shift < _BITS:
        byte = data[at]
        at += 1
        found |= (byte & 127) << shift
        if byte < 128:
            return found, at
        shift += 7
    raise CannotUndo("its stamp is cut off")
