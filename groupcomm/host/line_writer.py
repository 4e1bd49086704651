"""Lines for people, written without ever waiting for whoever reads them.

A terminal that was stopped, a pipe that nobody reads and a disk without room hold a writer up for
as long as they like. So lines wait in a queue with a bound, and a thread writes them. What does not
fit, or cannot be written, is dropped and counted, and a line says so as soon as one can be written.

Where no thread can be started, as at the end of a process that has no memory, the next line tries
again, and `flush` writes what waits itself.
"""

import os
import select
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from math import inf
from typing import Final, TextIO

from groupcomm.visible import visible

MOST_LINES: Final = 1000
"""The lines that may wait."""

MOST_BYTES: Final = 1024 * 1024
"""The bytes of lines that may wait; a longer line is dropped."""

FLUSH_S: Final = 1.0
"""The time for which the end of a program waits for its last lines."""

BATCH_BYTES: Final = 65_536
"""About the bytes that are written at once."""


LAST_S: Final = 2.0
"""The time that whoever reads standard error has to take the last message of a command."""


def write_last(text: str, within_s: float = LAST_S) -> None:
    """Write a message to standard error before the end; wait for its reader for some seconds."""
    lines = LineWriter(sys.stderr, str)
    lines.put(visible(text, kept="\n\t"))
    lines.close(within_s)


class _Dropped:
    """A place in the queue at which lines are missing."""

    def __init__(self) -> None:
        self.count = 1


class LineWriter:
    """A writer of lines to a stream; see above. All threads may call it.

    Attributes:
        dropped: the lines that were dropped so far.
        has_no_reader: whether the reader of a pipe has ended.
    """

    def __init__(self, stream: TextIO | None, note: Callable[[int], str]) -> None:
        """Begin with nothing to write.

        Args:
            stream: where to write; None: nowhere, as there is no such stream.
            note: returns the line that says that some lines were dropped.
        """
        self.dropped = 0
        self.has_no_reader = False
        self._stream = stream
        self._descriptor = _descriptor_of(stream)
        self._note = note
        self._queue: deque[bytes | _Dropped] = deque()
        self._bytes = 0  # of the queue
        self._missing = 0  # lines that were dropped, and that no line tells of yet
        self._is_writing = self._is_closed = False
        self._is_stuck = False  # whether nothing was written since a flush was in vain
        self._is_cut = False  # whether the last line was written in part
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def put(self, line: str) -> None:
        """Have a line written, without its end; return at once."""
        if self._stream is None:
            return
        data = line.encode(errors="backslashreplace") + b"\n"
        with self._changed:
            if len(self._queue) < MOST_LINES and self._bytes + len(data) <= MOST_BYTES:
                self._queue.append(data)
                self._bytes += len(data)
            else:
                self.dropped += 1
                if self._queue and isinstance(self._queue[-1], _Dropped):
                    self._queue[-1].count += 1
                else:
                    self._queue.append(_Dropped())
            if self._thread is None or not self._thread.is_alive():
                self._thread = self._start()
            self._changed.notify_all()

    def _start(self) -> threading.Thread | None:
        """Start the thread; return None if there is no memory for its stack, or no more threads are
        allowed."""
        thread = threading.Thread(target=self._run, name="lines", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return None
        return thread

    def flush(self, within_s: float = FLUSH_S) -> bool:
        """Wait until all lines are written or dropped, or for some seconds; return whether so."""
        until = time.monotonic() + within_s
        with self._changed:
            while self._queue and self._thread is None:
                self._write(self._pop(), until)
            while self._queue or self._is_writing:
                left = until - time.monotonic()
                if left <= 0 or self._is_stuck:
                    self._is_stuck = True
                    return False
                self._changed.wait(left)
        return True

    def close(self, within_s: float = FLUSH_S) -> None:
        """Flush, and write no more."""
        self.flush(within_s)
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    # ---- the thread ----

    def _run(self) -> None:
        while True:
            with self._changed:
                self._is_writing = self._is_stuck = False
                self._changed.notify_all()
                while not self._queue:
                    if self._is_closed:
                        return
                    self._changed.wait()
                lines = self._pop()
                self._is_writing = True
            self._write(lines)

    def _pop(self) -> list[bytes]:
        """Remove and return some lines; with a place in front at which some are missing."""
        lines: list[bytes] = []
        size = 0
        while self._queue and size < BATCH_BYTES:
            first = self._queue[0]
            if isinstance(first, _Dropped):
                if lines:
                    break
                self._missing += first.count
            else:
                self._bytes -= len(first)
                size += len(first)
                lines.append(first)
            self._queue.popleft()
        return lines

    def _write(self, lines: list[bytes], until: float = inf) -> None:
        head = b"\n" if self._is_cut else b""
        if self._missing:
            head += self._note(self._missing).encode(errors="backslashreplace") + b"\n"
        if self._write_all(head + b"".join(lines), until):
            self._missing = 0
        else:
            self._missing += len(lines)
            with self._changed:
                self.dropped += len(lines)

    def _write_all(self, data: bytes, until: float) -> bool:
        """Write bytes; wait for the reader until some time; return whether that was possible."""
        written = 0
        try:
            if self._descriptor is None:
                assert self._stream is not None, "nothing is put without one"
                self._stream.write(data.decode())
                self._stream.flush()
                return True
            while written < len(data):
                end = len(data)
                if until < inf:
                    left = max(0.0, until - time.monotonic())
                    if not select.select([], [self._descriptor], [], left)[1]:
                        raise BlockingIOError("nobody reads")
                    end = written + select.PIPE_BUF  # so many do not block
                try:
                    written += os.write(self._descriptor, data[written:end])
                except BlockingIOError:
                    select.select([], [self._descriptor], [])
        except (OSError, ValueError) as error:  # no room, nobody reads, or it is closed
            self.has_no_reader |= isinstance(error, BrokenPipeError)
            self._is_cut = self._is_cut or 0 < written < len(data)
            return False
        self._is_cut = False
        return True


def _descriptor_of(stream: TextIO | None) -> int | None:
    """Return the descriptor of a stream; None if it has none."""
    try:
        return None if stream is None else stream.fileno()
    except (OSError, ValueError, AttributeError):
        return None
