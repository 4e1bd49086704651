"""Reads pieces from the files of logs, in a process of its own: it is the program of one.

The archive records live messages meanwhile, and neither waits for the interpreter of the other. The
archive asks on standard input, which is a socket, and gets its answers there::

    archive: length u32, a pickled FileRead
    reader:  one byte once it is ready; length u32, a pickled EncodedPiece, or the text of an error

It ends with the archive, whose end closes the socket.
"""

import os
import pickle
import select
import signal
import socket
import struct
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import attrs
import pyarrow as pa

from groupcomm.clocks.stamp import Position
from groupcomm_client.history.frames import EncodedPiece
from groupcomm_client.history.places import place_of
from groupcomm_log.errors import LogError
from groupcomm_log.reader import LogReader
from groupcomm_log.schema import Offset
from groupcomm_tools.archive import pieces
from groupcomm_tools.archive.archive import Key, ReadStore
from groupcomm_tools.archive.pieces import Pieces
from groupcomm_tools.archive.rows import READ, MessageRun, Part, parts_of

READY: Final = b"r"

LENGTH: Final = struct.Struct("!I")

NICENESS: Final = 5
"""Live messages come first: daemon, archive and programs get the processor before this process."""

MOST_PREPARED: Final = 10
"""The pieces that are kept because they are likely to be asked for next, each of another stream."""


@attrs.frozen
class FileRead:
    """A piece that is wanted.

    Attributes:
        folder: the folder of the log.
        first: the offset of a row at or before its first event.
        action: which piece.
    """

    folder: Path
    first: Offset
    action: ReadStore


def parts_behind(
    batches: Iterable[pa.RecordBatch], after: Position, groups: Collection[str]
) -> Iterator[Part]:
    """Yield the events of the line behind a place, in parts that are not too large."""
    for batch in batches:
        for start in range(0, batch.num_rows, pieces.PIECE_ROWS):
            for part in parts_of(batch.slice(start, pieces.PIECE_ROWS), groups):
                if isinstance(part, MessageRun):
                    if part.place > after:
                        yield part
                    elif part.last > after:
                        yield part.behind(after)
                else:
                    at = place_of(part)
                    if at is not None and at > after:
                        yield part


class _Files:
    """The files of one log."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pieces = Pieces(self._parts)
        self._first = Offset(0, 0)

    def read(self, wanted: FileRead) -> EncodedPiece:
        """Return a piece; see `PieceReader.read`."""
        self._first = wanted.first
        return self._pieces.read(wanted.action, wanted.action.after)

    def _parts(self, after: Position, groups: Collection[str]) -> Iterator[Part]:
        batches = LogReader(self._folder).batches(self._first, None, READ)
        return parts_behind(batches, after, groups)


class FileReader:
    """Reads the pieces of streams, and prepares those that are likely to be asked for next."""

    def __init__(self) -> None:
        """Begin without a stream."""
        self._files: dict[Path, _Files] = {}
        self._prepared: dict[Key, tuple[FileRead, EncodedPiece]] = {}

    def read(self, wanted: FileRead) -> EncodedPiece:
        """Return a piece; see `PieceReader.read`. What was removed meanwhile may be missing."""
        before, piece = self._prepared.pop(wanted.action.key, (None, None))
        if piece is not None and before is not None and _are_same(before, wanted):
            return piece
        if wanted.folder not in self._files:
            self._files[wanted.folder] = _Files(wanted.folder)
        return self._files[wanted.folder].read(wanted)

    def prepare(self, wanted: FileRead, piece: EncodedPiece) -> None:
        """Read the piece behind one that was wanted, if it is certain what it will be.

        Raises:
            LogError, OSError: see `PieceReader.read`.
        """
        action = wanted.action
        if piece.upto >= action.upto or len(self._prepared) >= MOST_PREPARED:
            return
        next_action = attrs.evolve(action, index=action.index + 1, after=piece.upto)
        following = attrs.evolve(wanted, action=next_action)
        found = self.read(following)
        if found.upto < action.upto:  # else it may have more when it is asked for
            self._prepared[action.key] = following, found


def _are_same(one: FileRead, other: FileRead) -> bool:
    """Return whether two requests want the same piece; the log may have grown between them."""
    first, second = one.action, other.action
    return (one.folder, first.index, first.after, first.groups) == (
        *(other.folder, second.index, second.after, second.groups),
    )


def serve(end: socket.socket) -> None:
    """Answer until the archive closes the socket."""
    reader = FileReader()
    end.sendall(READY)
    while (size := _exactly(end, LENGTH.size)) is not None:
        request = _exactly(end, LENGTH.unpack(size)[0])
        if request is None:
            return
        wanted: FileRead = pickle.loads(request)
        try:
            piece = reader.read(wanted)
        except (LogError, OSError) as error:
            _answer(end, str(error))
            continue
        _answer(end, piece)
        if not select.select([end], [], [], 0)[0]:
            with suppress(LogError, OSError):  # who asks for it is told
                reader.prepare(wanted, piece)


def _answer(end: socket.socket, answer: EncodedPiece | str) -> None:
    data = pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)
    end.sendall(LENGTH.pack(len(data)))
    end.sendall(data)


def _exactly(end: socket.socket, size: int) -> bytes | None:
    """Return this number of bytes; None if the archive has closed the socket before."""
    data = end.recv(size, socket.MSG_WAITALL)
    return data if len(data) == size else None


def main() -> None:
    """Serve the archive that has started this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for the archive, which closes the socket
    os.nice(NICENESS)
    with socket.socket(fileno=0) as end:
        try:
            serve(end)
        except ConnectionError:
            return  # the archive has ended


if __name__ == "__main__":
    main()
