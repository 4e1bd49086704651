"""The payload of a bundle: whole messages, or a part of one.

Only libraries of clients look into it; daemons do not. Network byte order::

    MESSAGES  per message type u16 and length u32; then the data of all
    FRAGMENT  type u16 and length u64 of the whole message; then a part of its data
"""

import struct
from collections.abc import Sequence
from typing import Final

from groupcomm.errors import BadDatagram

_MESSAGE = struct.Struct("!HI")
_FRAGMENT = struct.Struct("!HQ")

MESSAGE_HEAD_BYTES: Final = _MESSAGE.size
"""What each message adds to a bundle besides its data."""

FRAGMENT_HEAD_BYTES: Final = _FRAGMENT.size
"""What a fragment adds to its bundle besides its data."""


def encode_messages(messages: Sequence[tuple[int, bytes]]) -> bytes:
    """The payload of whole messages, each (type, data)."""
    if len(messages) == 1:
        kind, data = messages[0]
        return _MESSAGE.pack(kind, len(data)) + data
    heads = [_MESSAGE.pack(kind, len(data)) for kind, data in messages]
    return b"".join([*heads, *[data for _, data in messages]])


def decode_messages_untrusted(payload: bytes, count: int) -> list[tuple[int, bytes]]:
    """The (type, data) of `count` messages, in the sender's order.

    Raises:
        BadDatagram: the lengths do not add up to the payload. No other exception.
    """
    start = MESSAGE_HEAD_BYTES * count
    size = len(payload)
    if start > size:
        raise BadDatagram("short", f"{count} messages in {size} bytes")
    messages: list[tuple[int, bytes]] = []
    for kind, length in _MESSAGE.iter_unpack(payload[:start]):
        end = start + length
        messages.append((kind, payload[start:end]))
        start = end
    if start != size:
        raise BadDatagram("bundle", f"messages of {start} bytes in a payload of {size}")
    return messages


def encode_fragment(kind: int, total: int, part: bytes) -> bytes:
    """The payload of a part of a message that has `total` bytes."""
    return _FRAGMENT.pack(kind, total) + part


def decode_fragment_untrusted(payload: bytes) -> tuple[int, int, bytes]:
    """The type and length of the whole message, and the data of this part.

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
