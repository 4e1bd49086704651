"""The rows of a token by columns, where all their numbers in full leave no room.

A daemon reads the least number of a column, and its own row. All numbers but `sent` only rise, and
who gets the token has the numbers with which it was here before. So a column may tell less than is
so, or be left out until it is its turn: :class:`Far` has the turns. A column is

::

    twice its least number above 0, or 0; plus 1 if not all numbers are equal: varint
    if not all are equal, for each daemon its number above that least one, plus 1; or 0: varint

and a varint has 7 bits a byte, lowest first, the highest bit of each byte but the last one set.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from groupcomm.errors import BadDatagram

_EVER: Final = 2**64
_MOST_BYTES: Final = 10

MOST_TIME: Final = 2**21 - 2
"""A frontier, in microseconds, is told to be at most this much above the least: in three bytes."""

MOST_NUMBER: Final = 2**14 - 2
"""A packet number is told to be at most this much above the least: in two bytes."""

TURNS: Final = 2
"""The far columns of a token stay for this many passes of it for each daemon of the ring."""


class Far(msgspec.Struct, frozen=True):
    """Which far columns a token tells: those of the streams of other rings.

    Attributes:
        first: the first of them, counted without the token's own ring and the last column.
        told: their number; those after the last one begin again at 0.
        passes: how often the token was passed on since the first one changed.
    """

    first: int
    told: int
    passes: int

    def passed(self, rows: int, columns: int) -> "Far":
        """Return what the next token of this many rows tells, of so many far columns.

        All daemons have seen columns before others take their place, unless many ask for the token.
        """
        if self.passes < TURNS * rows:
            return Far(self.first, self.told, self.passes + 1)
        first = (self.first + max(1, self.told)) % max(1, columns)
        return Far(first, columns, 0)

    def places(self, ring: int, columns: int) -> list[int]:
        """Return the columns of `held` that are told, of a token of this ring with so many."""
        far = far_columns(ring, columns)
        return [far[(self.first + place) % len(far)] for place in range(self.told)]


def far_columns(ring: int, columns: int) -> list[int]:
    """Return all columns of `held` but the near ones, that of the token's ring and the last one."""
    return [column for column in range(columns) if column not in (ring, columns - 1)]


def encode_column(numbers: Sequence[int], most: int = _EVER) -> bytes:
    """Return the bytes of a column.

    Args:
        numbers: 0 for nothing yet.
        most: they are told to be at most so much above the least of the others.
    """
    greatest = max(numbers)
    if min(numbers) == greatest:
        return _varint(2 * greatest)
    least = min(filter(None, numbers))
    out = bytearray(_varint(2 * least + 1))
    for number in numbers:
        more = number - least + 1 if number else 0
        more = min(more, most + 1)
        if more < 0x80:
            out.append(more)
        else:
            out += _varint(more)
    return bytes(out)


def decode_column_untrusted(
    packet: bytes, offset: int, rows: int, most: int = _EVER
) -> tuple[list[int], int]:
    """Return the numbers of a column, and the offset of what follows; raise only BadDatagram."""
    head, offset = _read(packet, offset)
    least, differ = head >> 1, head & 1
    if least >= _EVER:
        raise BadDatagram("rows", f"a number of {least}")
    if not differ:
        return [least] * rows, offset
    numbers = []
    for _ in range(rows):
        more = packet[offset] if offset < len(packet) else 0x80
        if more < 0x80:
            offset += 1
        else:
            more, offset = _read(packet, offset)
        numbers.append(least + more - 1 if more else 0)
    greatest = max(numbers)
    right = greatest < _EVER and greatest - least <= most and min(numbers) < greatest
    if not least or min(filter(None, numbers), default=0) != least or not right:
        raise BadDatagram("rows", f"a column of {least} to {greatest}, {most} apart at most")
    return numbers, offset


def _varint(left: int) -> bytes:
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


def _read(packet: bytes, offset: int) -> tuple[int, int]:
    """Return a number and the offset of what follows."""
    number = shift = 0
    for byte in packet[offset : offset + _MOST_BYTES]:
        offset += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if not byte and shift:
                raise BadDatagram("rows", "a number that has a shorter form")
            return number, offset
        shift += 7
    raise BadDatagram("short", "a number without an end")
