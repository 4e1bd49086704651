"""Plans which rows of which files are read, from the names of the files.

Only the footers of sealed files that several tasks share are read.
"""

from bisect import bisect_right
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Final

from groupcomm_log.live import Frame, read_frames
from groupcomm_log.names import Segment
from groupcomm_log.reader import BEGIN, LogReader
from groupcomm_log.schema import Offset
from groupcomm_log.sealed import group_starts
from groupcomm_spark.reading.options import Place

_TRIES: Final = 10
"""The most sealings of live files while a folder is listed."""


@dataclass(frozen=True)
class Part:
    """Rows of one file.

    Attributes:
        segment: the file.
        start: number of the first row.
        stop: number after the last row.
        at: for a live file, the offset of a batch with rows at or before the first one.
    """

    segment: Segment
    start: int
    stop: int
    at: int = 0

    @property
    def count(self) -> int:
        """Return the number of rows, if none is missing."""
        return self.stop - self.start

    def within(self, first: int, stop: int) -> "Part":
        """Return the part of it that is in a range of rows; it may have none."""
        return replace(self, start=max(self.start, first), stop=min(self.stop, stop))

    @property
    def begin(self) -> Offset:
        """Return the offset of the first row."""
        return Offset(self.segment.first.epoch, self.start)

    @property
    def end(self) -> Offset:
        """Return the offset after the last row."""
        return Offset(self.segment.first.epoch, self.stop)

    @property
    def is_whole(self) -> bool:
        """Return whether these are all rows of a sealed file."""
        segment = self.segment
        return (
            segment.last is not None
            and self.start <= segment.first.row
            and self.stop > segment.last.row
        )


Task = tuple[Part, ...]
"""The parts that one task reads."""


class Planner:
    """A planner of repeated reads of one log.

    Args:
        folder: folder of the log.
        first: the first row to read; None for that of the log.
        stop: the first row that is not wanted; None for no limit.
    """

    def __init__(self, folder: Path, first: Place | None = None, stop: Place | None = None) -> None:
        self._reader = LogReader(folder)
        self._first = first or Place(*BEGIN)
        self._stop = stop
        self._live: dict[Path, _LiveFile] = {}

    def check(self, offset: Offset, *, may_lack: bool) -> None:
        """Check that one may go on at an offset; see `LogReader.check`."""
        self._reader.check(offset, may_lack=may_lack)

    def begin(self) -> Offset:
        """Return the offset of the first row, or of the first row to come."""
        return self._reader.begin()

    def end(self) -> Offset:
        """Return the offset after the last row."""
        return max((part.end for part in self._all()), default=BEGIN)

    def parts(self, start: Offset = BEGIN, stop: Offset | None = None) -> list[Part]:
        """Return the present rows, in order.

        Args:
            start: offset of the first row, which need not exist.
            stop: offset after the last row; None for all rows.

        Raises:
            LogError: there is no log.
            LogReplaced: the first row, or the one that is not wanted, is of another log.
            OSError: the folder or a live file cannot be read.
        """
        cut = [self._cut(part, start, stop) for part in self._all()]
        return [self._from_byte(part) for part in cut if part.count > 0]

    def limited(self, start: Offset, stop: Offset, rows: int) -> Offset:
        """Return the offset after this number of rows, or `stop` if there are fewer."""
        for part in self.parts(start, stop):
            if part.count >= rows:
                return part.begin._replace(row=part.start + rows)
            rows -= part.count
        return stop

    def tasks(self, parts: list[Part], most: int) -> list[Task]:
        """Return tasks of nearly the same number of rows, none of them without rows.

        Args:
            parts: parts in order, as `parts` returned them.
            most: approximate rows of a task, which has at least a row group of a sealed file, or
                what was appended at once to a live one.
        """
        pieces = [piece for part in parts for piece in self._pieces(part, most)]
        rows = sum(piece.count for piece in pieces)
        count = -(-rows // max([most, *(piece.count for piece in pieces)]))
        tasks: dict[int, Task] = {}
        before = 0
        for piece in pieces:
            at = (2 * before + piece.count) * count // (2 * rows)  # that of its middle
            tasks[at] = _with(tasks.get(at, ()), piece)
            before += piece.count
        return [*tasks.values()]

    def _pieces(self, part: Part, most: int) -> list[Part]:
        """Return a part as several ones, of which a task may read any number."""
        if part.count <= most:
            return [part]
        live = self._live.get(part.segment.path)
        try:
            starts = group_starts(part.segment) if live is None else live.rows
        except FileNotFoundError:
            return [part]  # its rows are elsewhere by now, as whoever reads it finds
        inner = [row for row in starts if part.start < row < part.stop]
        pieces = [
            replace(part, start=start, stop=stop)
            for start, stop in pairwise([part.start, *inner, part.stop])
        ]
        return [self._from_byte(piece) for piece in pieces]

    def _all(self) -> list[Part]:
        """Return all files with rows, with the rows that count in each."""
        for place in (self._first, self._stop):
            if place is not None and place.epoch is not None:
                self.check(Offset(place.epoch, place.row), may_lack=True)
        for _ in range(_TRIES - 1):
            try:
                return self._list_parts()
            except FileNotFoundError:  # a live file was sealed in this moment
                continue
        return self._list_parts()

    def _list_parts(self) -> list[Part]:
        segments = self._reader.segments()
        live = {segment.path for segment in segments if segment.is_live}
        self._live = {path: file for path, file in self._live.items() if path in live}
        parts = [Part(each, each.first.row, self._stop_of(each)) for each in segments]
        parts = [part for part in parts if part.count > 0]
        return [_before(*pair) for pair in zip_longest(parts, parts[1:])]

    def _stop_of(self, segment: Segment) -> int:
        if segment.last is not None:
            return segment.last.row + 1
        return self._live.setdefault(segment.path, _LiveFile(segment)).read_new()

    def _cut(self, part: Part, start: Offset, stop: Offset | None) -> Part:
        epoch = part.segment.first.epoch
        first = max(_row_in(epoch, place, part) for place in (Place(*start), self._first))
        ends = [Place(*stop)] if stop is not None else []
        ends += [self._stop] if self._stop is not None else []
        last = min((_row_in(epoch, place, part) for place in ends), default=part.stop)
        return part.within(first, last)

    def _from_byte(self, part: Part) -> Part:
        live = self._live.get(part.segment.path)
        return part if live is None else replace(part, at=live.byte_of(part.start))


def _with(task: Task, piece: Part) -> Task:
    """Return a task with another piece, perhaps of the file that it ends with."""
    if task and task[-1].segment == piece.segment:
        return (*task[:-1], replace(task[-1], stop=piece.stop))
    return (*task, piece)


class _LiveFile:
    """The known part of a live file: only its new part is read again.

    Attributes:
        rows: the first row of each batch.
    """

    def __init__(self, segment: Segment) -> None:
        self._path = segment.path
        self._at = 0
        self._stop = segment.first.row
        self.rows: list[int] = []
        self._bytes: list[int] = []  # the offset of each batch

    def read_new(self) -> int:
        """Return the number after its last row."""
        for each in read_frames(self._path, self._at):
            if isinstance(each, Frame):
                self._at = each.end
                if each.count:
                    self.rows.append(each.first)
                    self._bytes.append(each.at)
                    self._stop = each.first + each.count
        return self._stop

    def byte_of(self, row: int) -> int:
        """Return the offset of a batch that begins at or before a row."""
        found = bisect_right(self.rows, row) - 1
        return self._bytes[found] if found >= 0 else 0


def _before(part: Part, following: Part | None) -> Part:
    """Return a part without rows that the next file has, too: a failed write is repeated there."""
    if following is None or following.segment.first.epoch != part.segment.first.epoch:
        return part
    return replace(part, stop=min(part.stop, following.start))


def _row_in(epoch: int, place: Place, part: Part) -> int:
    """Return the relation of a place to the rows of an epoch: before, in or after a part of it."""
    if place.epoch is None or place.epoch == epoch:
        return place.row
    return part.start if place.epoch < epoch else part.stop
