"""The payload of a bundle: whole messages, or a part of one.

Only the client libraries read it; daemons do not. Network byte order::

    MESSAGES  per message type u16 and length u32; then the data of all
    FRAGMENT  type u16 and length u64 of the whole message; then a part of its data

Most bundles hold messages of one type and one length. Their heads are written and checked as one,
and one call splits their data, at a tenth of the cost of handling each message.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Final

from groupcomm.errors import BadDatagram
from groupcomm.wire.packet import Raw

MAX_MESSAGE_BYTES: Final = 64 * 1024 * 1024
"""The most bytes of the data of one message."""

_MESSAGE = struct.Struct("!HI")
_FRAGMENT = struct.Struct("!HQ")

MESSAGE_HEAD_BYTES: Final = _MESSAGE.size
"""Bytes that each message adds to a bundle besides its data."""

FRAGMENT_HEAD_BYTES: Final = _FRAGMENT.size
"""Bytes that a fragment adds to its bundle besides its data."""


def message_parts(runs: Sequence[tuple[int, Sequence[bytes]]]) -> list[bytes]:
    """Return the payload of whole messages, in parts to join.

    Args:
        runs: messages of one type that follow each other: the type, and the data of each.
    """
    parts = [_heads(kind, [*map(len, messages)]) for kind, messages in runs]
    for _, messages in runs:
        parts += messages
    return parts


def _heads(kind: int, sizes: list[int]) -> bytes:
    first = sizes[0]
    if sizes.count(first) == len(sizes):
        return _MESSAGE.pack(kind, first) * len(sizes)
    return b"".join([_MESSAGE.pack(kind, size) for size in sizes])


def decode_messages_untrusted(payload: Raw, count: int) -> tuple[Sequence[int], Sequence[bytes]]:
    """Return the types and the data of `count` messages, in the sender's order.

    Raises:
        BadDatagram: the lengths do not add up to the payload. No other exception.
    """
    start = MESSAGE_HEAD_BYTES * count
    size = len(payload)
    if start > size:
        raise BadDatagram("short", f"{count} messages in {size} bytes")
    kinds: Sequence[int]
    sizes: Sequence[int]
    if not count:
        kinds, sizes = (), ()
    elif payload[:start] == bytes(payload[:MESSAGE_HEAD_BYTES]) * count:
        kind, length = _MESSAGE.unpack_from(payload)
        if start + length * count == size:
            return (kind,) * count, _cutter(length, count).unpack_from(payload, start)
        raise _wrong(start + length * count, size)
    else:
        kinds, sizes = zip(*_MESSAGE.iter_unpack(payload[:start]), strict=True)
    ends = [*accumulate(sizes, initial=start)]
    if ends[-1] != size:
        raise _wrong(ends[-1], size)
    return kinds, [bytes(payload[begin:end]) for begin, end in pairwise(ends)]


def _wrong(needed: int, size: int) -> BadDatagram:
    return BadDatagram("bundle", f"messages of {needed} bytes in a payload of {size}")


@lru_cache(maxsize=16)
def _cutter(length: int, count: int) -> struct.Struct:
    return struct.Struct(f"{length}s" * count)


def encode_fragment(kind: int, total: int, part: Raw) -> bytes:
    """Return the payload of a part of a message that has `total` bytes."""
    return _FRAGMENT.pack(kind, total) + part


def decode_fragment_untrusted(payload: Raw) -> tuple[int, int, Raw]:
    """Return the type and length of the whole message, and the data of this part.

    Raises:
        BadDatagram: the head is missing, or the part is longer than the whole.
    """
    if len(payload) < FRAGMENT_HEAD_BYTES:
        raise BadDatagram("short", f"a fragment of {len(payload)} bytes")
    kind, total = _FRAGMENT.unpack_from(payload)
    part = payload[FRAGMENT_HEAD_BYTES:]
    if len(part) > total:
        raise BadDatagram("bundle", f"a part of {len(part)} bytes of a message of {total}")
    return kind, total, part
