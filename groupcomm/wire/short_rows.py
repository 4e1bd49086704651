"""Short rows of a token: what differs from the row before, where rows in full leave no room.

Each number goes as its difference from the same column of the row before, from 0 in the first row,
modulo 2**64: 2 d for a difference d of 0 to 2**63 - 1, and -2 d - 1 for one below 0; 7 bits a byte,
lowest first, the highest bit of each byte but the last one set. There is no second encoding.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from groupcomm.errors import BadDatagram

_EVER: Final = 2**64
_HALF: Final = 2**63
_MOST_BYTES: Final = 10


def encode_rows(rows: Iterable[Sequence[int]]) -> bytes:
    """Return the bytes of rows of equally many numbers, 0 to 2**64 - 1."""
    out = bytearray()
    before: Sequence[int] | None = None
    for row in rows:
        for number, last in zip(row, before or (0,) * len(row), strict=True):
            step = (number - last) % _EVER
            left = 2 * step if step < _HALF else 2 * (_EVER - step) - 1
            while left > 0x7F:
                out.append(left & 0x7F | 0x80)
                left >>= 7
            out.append(left)
        before = row
    return bytes(out)


def decode_rows_untrusted(
    packet: bytes, offset: int, rows: int, columns: int
) -> tuple[list[list[int]], int]:
    """Return rows of so many numbers, and the offset of what follows; raise only BadDatagram."""
    if rows * columns > len(packet) - offset:
        raise BadDatagram("short", f"{rows} rows of {columns} numbers in {len(packet)} bytes")
    found: list[list[int]] = []
    before = [0] * columns
    for _ in range(rows):
        row = []
        for last in before:
            step, offset = _read(packet, offset)
            half = step >> 1
            row.append((last + (-half - 1 if step & 1 else half)) % _EVER)
        found.append(row)
        before = row
    return found, offset


def _read(packet: bytes, offset: int) -> tuple[int, int]:
    """Return a number and the offset of what follows."""
    number = shift = 0
    for byte in packet[offset : offset + _MOST_BYTES]:
        offset += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if (not byte and shift) or number >= _EVER:
                raise BadDatagram("rows", "a number that is too large, or has a shorter form")
            return number, offset
        shift += 7
    raise BadDatagram("short", "a number without an end")
