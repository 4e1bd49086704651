"""Pieces of history, as an archive sends them."""

from collections.abc import Iterable

from groupcomm.clocks.stamp import Position
from groupcomm_client.history.frames import Piece, PieceBuilder
from groupcomm_client.history.places import Line


def piece_of(
    events: Iterable[Line],
    number: int,
    index: int,
    after: Position,
    upto: Position,
    *,
    is_end: bool = False,
) -> Piece:
    """Return a piece with these events; see `Piece`."""
    builder = PieceBuilder()
    for event in events:
        builder.add(event)
    return builder.piece(number, index, after, upto, is_end=is_end)
