"""Many messages in parts: what is queued, and then written, at a time."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from groupcomm.wire.messages import MESSAGE_HEAD_BYTES

SOME_BYTES: Final = 256 * 1024
"""Of many messages, so much is queued before it is written: about what a socket takes."""


def in_parts(messages: Iterable[bytes]) -> Iterator[Sequence[bytes]]:
    """Messages in parts of about SOME_BYTES; what was taken comes out also before an error.

    So nothing that makes messages runs while they are queued: it may wait, fail, or send itself.
    """
    if isinstance(messages, list | tuple):
        yield from _cut(messages)
        return
    part: list[bytes] = []
    size = 0
    try:
        for data in messages:
            size += MESSAGE_HEAD_BYTES + len(data)
            part.append(data)
            if size >= SOME_BYTES:
                yield part
                part, size = [], 0
    except Exception:
        yield part
        raise
    yield part


def _cut(messages: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Parts of what is there already, by the size of the first of each."""
    at = 0
    while at < len(messages):
        count = max(1, SOME_BYTES // (MESSAGE_HEAD_BYTES + len(messages[at])))
        yield messages[at : at + count]
        at += count
