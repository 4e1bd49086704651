"""Packets that are too large for a link's way go over it in pieces, each repaired for itself.

Pure. Pieces are of what passes every path, so none has to be cut again. The other end puts them
together before anybody else sees them.
"""

from typing import Final

from groupcomm.wire.link import PIECE_BYTES, Piece

MAX_UNFINISHED: Final = 1024
"""Packets of which some pieces have come. The oldest is given up: an UNRELIABLE one may never be
whole, and what is lacking of a stream is asked for."""


def cut(packet: bytes, whole: int, size: int) -> list[Piece]:
    """A packet's pieces, equally long and each at most `size` bytes on the link."""
    count = -(-len(packet) // (size - PIECE_BYTES))
    length = -(-len(packet) // count)
    return [
        Piece(whole, part, count, packet[part * length : (part + 1) * length])
        for part in range(count)
    ]


class Pieces:
    """What has come in pieces over one link and is not whole yet."""

    __slots__ = ("_unfinished",)

    def __init__(self) -> None:
        self._unfinished: dict[int, dict[int, Piece]] = {}  # by packet, by part

    def take(self, piece: Piece) -> bytes | None:
        """Take a piece; the packet that it completes, else None."""
        parts = self._unfinished.setdefault(piece.whole, {})
        parts[piece.part] = piece
        if len(parts) < piece.parts:
            while len(self._unfinished) > MAX_UNFINISHED:
                del self._unfinished[next(iter(self._unfinished))]
            return None
        del self._unfinished[piece.whole]
        return b"".join(parts[part].content for part in sorted(parts))
