"""Pieces that are larger than a message may be: a message of the greatest size, with its heads.

Pure. The parts of a piece come in order, through the daemons; a channel has chunks of its own.
"""

from typing import Final

from groupcomm.wire.messages import MAX_MESSAGE_BYTES
from groupcomm_client.history.frames import MAX_PIECE_BYTES, Part, Piece, decode_untrusted, encode

PART_BYTES: Final = 1_000_000


def messages_of(number: int, piece: bytes) -> list[bytes]:
    """Return the data of the messages that carry a piece of a stream: one, or several parts."""
    if len(piece) <= MAX_MESSAGE_BYTES:
        return [piece]
    starts = range(0, len(piece), PART_BYTES)
    return [
        encode(Part(number, index, start == starts[-1], piece[start : start + PART_BYTES]))
        for index, start in enumerate(starts)
    ]


class PartReader:
    """The parts of one piece, as they come."""

    def __init__(self) -> None:
        """Begin before the first part."""
        self._parts: list[bytes] = []
        self._bytes = 0

    def clear(self) -> None:
        """Forget what has come: the rest of it does not."""
        self._parts, self._bytes = [], 0

    def add(self, part: Part) -> Piece | None:
        """Add a part; return the piece once it is complete.

        What is no whole piece, or too large, is forgotten; it is asked for again in time.
        """
        if part.index == 0:
            self.clear()
        if part.index != len(self._parts) or self._bytes + len(part.data) > MAX_PIECE_BYTES:
            self.clear()
            return None
        self._parts.append(part.data)
        self._bytes += len(part.data)
        if not part.is_last:
            return None
        found = decode_untrusted(b"".join(self._parts))
        self.clear()
        return found if isinstance(found, Piece) and found.number == part.number else None
