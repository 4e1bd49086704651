"""Pieces of streams, made of the events of one log, or of several that are read as one.

It blocks, and may be called in several threads.
"""

import threading
from collections.abc import Callable, Collection, Iterator
from itertools import chain
from typing import Final, Protocol

import attrs

from groupcomm.clocks.stamp import Position
from groupcomm_archive.archive import Key, ReadStore
from groupcomm_archive.rows import Block, MessageRun, Part, place_of_part
from groupcomm_client.history.frames import EncodedPiece, PieceBuilder, encode_piece

PIECE_BYTES: Final = 1_000_000
PIECE_ROWS: Final = 10_000

MOST_OPEN: Final = 100
"""The files that streams of an archive keep open between their pieces, whatever it records."""


class Source(Protocol):
    """Where the events of streams come from."""

    def parts(self, after: Position, groups: Collection[str]) -> Iterator[Part]:
        """Yield the events of groups behind a place, in parts that are not too large."""
        ...

    def first_since(self, since_us: int, after: Position, upto: Position) -> Position:
        """Return a place just before the first event that was received then or later."""
        ...

    def check_kept(self, after: Position) -> None:
        """Raise LogRemoved if events behind a place were removed."""
        ...


@attrs.define
class _Cursor:
    """How far a stream is: the next events are behind `after`, in `parts`."""

    after: Position
    parts: Iterator[Part | Block]
    held: Part | Block | None = None


class Cursors:
    """How far streams are, of all logs of an archive; of those that are not used any more, the
    oldest are forgotten, as their files are open."""

    def __init__(self, most: int = MOST_OPEN) -> None:
        """Begin without a stream.

        Args:
            most: the files that may be open, apart from those of the stream that was used last.
        """
        self._most = most
        self._kept: dict[tuple[object, Key], tuple[_Cursor, int]] = {}  # with its files
        self._files = 0
        self._lock = threading.Lock()  # two threads read

    def pop(self, reader: object, key: Key) -> _Cursor | None:
        """Remove and return the cursor of a stream."""
        with self._lock:
            found = self._kept.pop((reader, key), None)
            self._files -= 0 if found is None else found[1]
        return None if found is None else found[0]

    def put(self, reader: object, key: Key, cursor: _Cursor, files: int) -> None:
        """Keep the cursor of a stream, which has so many files open."""
        with self._lock:
            self._kept[reader, key] = cursor, files
            self._files += files
            while self._files > self._most and len(self._kept) > 1:
                oldest = next(iter(self._kept))
                self._files -= self._kept.pop(oldest)[1]


class PieceReader:
    """Reads the pieces of streams; each goes on where its last one ended."""

    def __init__(self, source: Source, cursors: Cursors | None = None, files: int = 1) -> None:
        """Begin without a stream.

        Args:
            source: where the events come from.
            cursors: those of the archive; None for some of its own.
            files: the files that a stream has open.
        """
        self._source = source
        self._pieces = Pieces(source.parts, cursors, files)

    def read(self, action: ReadStore) -> EncodedPiece:
        """Return the next piece of a stream.

        Raises:
            LogRemoved: the rows were removed, perhaps while they were read.
            LogError: they are damaged.
            OSError: they cannot be read.
        """
        source = self._source
        after = action.after
        if action.since_us is not None:
            after = source.first_since(action.since_us, after, action.upto)
        piece = self._pieces.read(action, after)
        source.check_kept(action.after)
        return piece


class Pieces:
    """Makes the pieces of streams out of parts."""

    def __init__(
        self,
        parts: Callable[[Position, Collection[str]], Iterator[Part | Block]],
        cursors: Cursors | None = None,
        files: int = 1,
    ) -> None:
        """Begin without a stream.

        Args:
            parts: see `Source.parts`; there may be blocks among them.
            cursors, files: see `PieceReader`.
        """
        self._parts = parts
        self._cursors = cursors or Cursors()
        self._files = files

    def read(self, action: ReadStore, after: Position) -> EncodedPiece:
        """Return the next piece of a stream, behind a place; see `PieceReader.read`."""
        upto = action.upto
        cursor = self._cursors.pop(self, action.key)
        if cursor is None or cursor.after != after:
            cursor = _Cursor(after, iter(()))
        builder = PieceBuilder()
        self._fill(builder, cursor, upto, action.groups)
        self._cursors.put(self, action.key, cursor, self._files)
        is_end = cursor.after >= upto and not action.is_last
        number = action.key[1]
        horizon = upto if action.is_compacted else None
        of = (number, action.index, after, cursor.after)
        piece = builder.piece(*of, is_end=is_end, horizon=horizon)
        return encode_piece(piece)

    def _fill(
        self, builder: PieceBuilder, cursor: _Cursor, upto: Position, groups: tuple[str, ...]
    ) -> None:
        """Fill a piece, and move the cursor to the place up to which it has everything."""
        size = rows = 0
        place = cursor.after
        is_fresh = False  # whether the parts have all that was written before this call
        while True:
            part, cursor.held = cursor.held or next(cursor.parts, None), None
            if part is None and not is_fresh:
                cursor.parts, is_fresh = self._parts(place, groups), True
                continue
            at = None if part is None else place_of_part(part)
            if part is None or at is None or at > upto:
                cursor.after, cursor.held = max(place, upto), part
                return
            # Views of one moment share a place: all of them go into one piece.
            if at != place and (size >= PIECE_BYTES or rows >= PIECE_ROWS):
                cursor.after, cursor.held = place, part
                return
            if isinstance(part, Block):
                block_bytes = sum(map(len, part.data))
                if part.last > upto:
                    cursor.parts = chain(part.runs(), cursor.parts)
                    continue
                if rows and size + block_bytes > PIECE_BYTES:
                    cursor.after, cursor.held = place, part
                    return
                builder.add_runs(*part)
                size += block_bytes
                rows += len(part.data)
                place = part.last
            elif isinstance(part, MessageRun):
                view, time, ring, bundle, message = part.place
                builder.add_run(
                    *(Position(view, time, ring, bundle, 0), message, part.number, part.sender),
                    groups=part.groups,
                    level=part.level,
                    types=part.types,
                    data=part.data,
                )
                size += sum(map(len, part.data))
                rows += len(part.data)
                place = part.last
            else:
                builder.add(part)
                rows += 1
                place = at
