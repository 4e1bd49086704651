"""Inputs made of valid ones: bits flipped, fields at their edges, pieces cut, moved and doubled.

The mutations ignore coverage; so a decoder gets a hundred times as many inputs as a guided one.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from random import Random
from typing import Final

MAX_BYTES: Final = 2048
"""The most bytes of an input."""

_EDGES: Final = (0, 1, 0x7F, 0x80, 0xFF, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32)
_WIDE_EDGES: Final = (2**63 - 1, 2**63, 2**64 - 1)


def _leb(value: int) -> bytes:
    """Seven bits a byte, lowest first."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def fields() -> Iterator[bytes]:
    """Lengths and counts at their edges, as formats have them: 1, 2, 4 and 8 bytes, and varints."""
    for value in (*_EDGES, *_WIDE_EDGES):
        for width in (1, 2, 4, 8):
            if value < 1 << 8 * width:
                yield value.to_bytes(width)
        yield _leb(value)


_FIELDS: Final = tuple(dict.fromkeys(fields()))


def mutated(rng: Random, seeds: Sequence[bytes]) -> Iterator[bytes]:
    """Yield inputs without end, from at least one seed; they depend only on the state of `rng`."""
    bits, several = rng.getrandbits, len(seeds)
    while True:
        draw = bits(32)
        raw = bytearray(seeds[draw % several])
        for _ in range(_TIMES[draw >> 24]):
            raw = _change(raw, bits(64), seeds)
        yield bytes(raw[:MAX_BYTES])


_TIMES: Final = tuple(1 if n < 128 else 2 if n < 192 else 3 if n < 240 else 8 for n in range(256))
"""The number of changes of an input, by a random byte."""


def _change(raw: bytearray, draw: int, seeds: Sequence[bytes]) -> bytearray:
    """Return one change; `draw` has 64 random bits: kind, place, length, and another number."""
    what, draw = draw & 15, draw >> 4
    at, draw = (draw & 0xFFFF) % (len(raw) + 1), draw >> 16
    size, draw = draw & 0xFF, draw >> 8  # 36 bits are left
    if what < 4:  # change a bit, and do nothing if it is after the end
        if at < len(raw):
            raw[at] ^= 1 << (size & 7)
    elif what < 6:
        raw[at : at + 1] = bytes((size,))
    elif what < 10:
        field = _FIELDS[draw % len(_FIELDS)]
        raw[at : at + len(field)] = field
    elif what == 10:
        del raw[at:]
    elif what == 11:
        del raw[at : at + (size & 15)]
    elif what == 12:
        raw[at:at] = draw.to_bytes(5)[: size & 3]
    elif what == 13:  # repeat a part
        raw[at:at] = raw[at : at + size]
    elif what == 14:  # append the rest of another seed
        other = seeds[size % len(seeds)]
        raw[at:] = other[(draw & 0xFFFF) % (len(other) + 1) :]
    else:
        raw += draw.to_bytes(5) * (size & 7)
    return raw


def inputs(name: str, chunk: int, count: int, seeds: Sequence[bytes]) -> Iterator[bytes]:
    """Yield this number of inputs for a target, always the same for the same chunk of the same
    seeds."""
    return islice(mutated(Random(f"{name}/{chunk}"), seeds), count)
