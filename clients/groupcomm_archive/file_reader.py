"""The process that sends what an archive has in files: pieces do not go through the archive itself.

The archive passes a channel to which a subscriber has connected, and gets it back once everything
up to a place is sent. Each stream has its turn whenever its subscriber takes more; meanwhile pieces
are prepared. Run by `groupcomm_archive.reader_process`.
"""

import gc
import os
import pickle
import selectors
import signal
import socket
import time
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import attrs
import pyarrow as pa

from groupcomm.clocks.stamp import Position
from groupcomm.host.parent import end_with_parent
from groupcomm_archive import pieces
from groupcomm_archive.archive import ReadStore
from groupcomm_archive.pieces import Pieces
from groupcomm_archive.rows import READ, Block, MessageRun, Part, block_of, parts_of
from groupcomm_client.history.channel import PieceSealer
from groupcomm_client.history.places import place_of
from groupcomm_log.errors import LogError, LogRemoved
from groupcomm_log.reader import LogReader
from groupcomm_log.schema import Offset

READY: Final = b"r"

NICENESS: Final = 10
"""Live messages come first: daemon, archive and programs get the processor before this process."""

SEND_S: Final = 60.0
"""The time in which a subscriber must take something."""

MOST_PREPARED: Final = 2
"""The pieces of a stream that wait in memory."""

REQUEST_BYTES: Final = 1024 * 1024
"""The most bytes of a request, or of its answer."""

_TURN_S: Final = 1.0
_BUFFER_BYTES: Final = 1024 * 1024


@attrs.frozen
class FileRead:
    """Pieces that are wanted.

    Attributes:
        folder: the folder of the log.
        first: the offset of a row at or before the first event.
        action: the first piece, and the place up to which everything is wanted.
    """

    folder: Path
    first: Offset
    action: ReadStore


@attrs.frozen
class Request:
    """A request of the archive; the socket of the channel comes with it.

    Attributes:
        number: the number of the request.
        wanted: what to send.
        key, count: the key of the channel, and the chunks that were sealed with it already.
    """

    number: int
    wanted: FileRead
    key: bytes
    count: int


@attrs.frozen
class Answer:
    """The end of a request.

    Attributes:
        number: the number of the request.
        pieces: the pieces of the stream that were sent, with those before the request.
        after: the place up to which everything was sent.
        count: the chunks that were sealed.
        error: why the files cannot be read; None if they can.
        is_broken: whether the subscriber has closed the channel, or takes nothing.
    """

    number: int
    pieces: int
    after: Position
    count: int
    error: str | None = None
    is_broken: bool = False


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


class FileStream:
    """The pieces of one stream, from the files of a log.

    Attributes:
        index: the pieces that the stream has had.
        after: the place up to which it has had everything.
    """

    def __init__(self, wanted: FileRead) -> None:
        """Begin with the first piece that is wanted."""
        self.index, self.after = wanted.action.index, wanted.action.after
        self._folder, self._first = wanted.folder, wanted.first
        self._action = wanted.action
        self._pieces = Pieces(self._parts)

    @property
    def is_over(self) -> bool:
        """Return whether it has had everything that is wanted."""
        return self.after >= self._action.upto

    def next(self) -> bytes:
        """Return the next piece.

        Raises:
            LogRemoved: rows were removed before they were read.
            LogError: they are damaged.
            OSError: they cannot be read.
        """
        first = self._first
        # The archive says that an interval ends: what it holds may have grown meanwhile.
        action = attrs.evolve(self._action, index=self.index, after=self.after, is_last=True)
        piece = self._pieces.read(action, self.after)
        if LogReader(self._folder).begin() > first:
            raise LogRemoved(f"{self._folder}: what was to be read next was removed meanwhile")
        self.index, self.after = self.index + 1, piece.upto
        return piece.data

    def _parts(self, after: Position, groups: Collection[str]) -> Iterator[Part | Block]:
        for batch in self._batches():
            data_bytes = 1 + batch["data"].nbytes
            rows = min(pieces.PIECE_ROWS, pieces.PIECE_BYTES * batch.num_rows // data_bytes + 1)
            for start in range(0, batch.num_rows, rows):
                part = batch.slice(start, rows)
                block = block_of(part, groups)
                if block is not None and block.first > after:
                    yield block
                elif block is None or block.last > after:
                    yield from parts_behind([part], after, groups)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        """Yield rows, and note where to go on if there are more later."""
        for batch in LogReader(self._folder).batches(self._first, None, READ):
            self._first = Offset(batch["epoch"][0].as_py(), batch["row"][0].as_py())
            yield batch


class _Sending:
    """A stream and the channel by which it is sent."""

    def __init__(self, request: Request, end: socket.socket) -> None:
        self.end = end
        self.error: str | None = None
        self.is_broken = False
        self._number = request.number
        self._stream = FileStream(request.wanted)
        self._sealer = PieceSealer(request.key, request.count)
        self._prepared: deque[list[memoryview]] = deque()
        self._sent_at = time.monotonic()

    @property
    def is_done(self) -> bool:
        return self.is_broken or not (self._has_more or self._prepared)

    @property
    def may_prepare(self) -> bool:
        return self._has_more and len(self._prepared) < MOST_PREPARED

    @property
    def _has_more(self) -> bool:
        return not self._stream.is_over and self.error is None

    def prepare(self) -> None:
        """Make the next piece."""
        try:
            piece = self._stream.next()
        except (LogError, OSError) as error:
            self.error = str(error)
        else:
            if not self._prepared:
                self._sent_at = time.monotonic()  # it had nothing to take
            self._prepared.append([memoryview(part) for part in self._sealer.seal(piece)])

    def send(self) -> None:
        """Send as much as the subscriber takes."""
        if not self._prepared and self.may_prepare:
            self.prepare()
        try:
            while self._prepared:
                parts = self._prepared[0]
                sent = self.end.sendmsg(parts)
                self._sent_at = time.monotonic()
                while parts and sent >= len(parts[0]):
                    sent -= len(parts.pop(0))
                if parts:
                    parts[0] = parts[0][sent:]
                else:
                    self._prepared.popleft()
        except BlockingIOError:
            return
        except OSError:
            self.is_broken = True

    def check_time(self) -> None:
        """Give up a subscriber that takes nothing."""
        self.is_broken |= time.monotonic() > self._sent_at + SEND_S

    def answer(self) -> Answer:
        stream = self._stream
        of = (self._number, stream.index, stream.after, self._sealer.count)
        return Answer(*of, self.error, self.is_broken)


class _Server:
    """All streams that this process sends at present."""

    def __init__(self, archive: socket.socket) -> None:
        self._archive = archive
        self._streams: list[_Sending] = []
        self._selector = selectors.DefaultSelector()
        self._selector.register(archive, selectors.EVENT_READ)

    def run(self) -> None:
        """Serve until the archive closes its socket."""
        while True:
            waiting = [each for each in self._streams if each.may_prepare]
            ready = [key for key, _ in self._selector.select(0 if waiting else _TURN_S)]
            for key in ready:
                if key.fileobj is not self._archive:
                    key.data.send()
                elif not self._begin():
                    return
            if not ready and waiting:
                waiting[0].prepare()
            self._end_done()

    def _begin(self) -> bool:
        """Begin the stream that the archive asks for; return False if there is no archive."""
        data, ends, _, _ = socket.recv_fds(self._archive, REQUEST_BYTES, 1)
        if not data:
            return False
        end = socket.socket(fileno=ends[0])
        end.setblocking(False)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
        sending = _Sending(pickle.loads(data), end)
        self._streams.append(sending)
        self._selector.register(end, selectors.EVENT_WRITE, sending)
        return True

    def _end_done(self) -> None:
        for each in list(self._streams):
            each.check_time()
            if each.is_done:
                self._streams.remove(each)
                self._selector.unregister(each.end)
                each.end.close()
                self._archive.sendall(pickle.dumps(each.answer(), pickle.HIGHEST_PROTOCOL))


def main() -> None:
    """Serve the archive that has started this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for the archive, which closes the socket
    end_with_parent(signal.SIGKILL)  # it only reads
    os.nice(NICENESS)
    gc.disable()  # it makes many objects, none of which refer to each other in a circle
    with socket.socket(fileno=0) as archive, suppress(ConnectionError):  # the archive has ended
        archive.sendall(READY)
        _Server(archive).run()
