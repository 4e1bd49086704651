"""Which rows of which files are read, from the names of these: no sealed file is opened."""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Final

from groupcomm_log.live import Frame, read_frames
from groupcomm_log.names import Segment
from groupcomm_log.reader import BEGIN, LogReader
from groupcomm_log.schema import Offset
from groupcomm_spark.reading.options import Place

_TRIES: Final = 10
"""So often live files may be sealed while a folder is looked at."""


@dataclass(frozen=True)
class Part:
    """Rows of one file.

    Attributes:
        segment: the file.
        start: the first row.
        stop: behind the last row.
        at: of a live file: a batch with rows at or before the first one begins at this byte.
        share: of a whole sealed file: (2, 5) for the third of five about equal shares of the rows.
    """

    segment: Segment
    start: int
    stop: int
    at: int = 0
    share: tuple[int, int] = (0, 1)

    @property
    def count(self) -> int:
        """How many rows, if none is missing."""
        return self.stop - self.start

    @property
    def begin(self) -> Offset:
        """The first row."""
        return Offset(self.segment.first.epoch, self.start)

    @property
    def end(self) -> Offset:
        """Behind the last row."""
        return Offset(self.segment.first.epoch, self.stop)

    @property
    def is_whole(self) -> bool:
        """Whether these are all rows of a sealed file."""
        segment = self.segment
        return (
            segment.last is not None
            and self.start <= segment.first.row
            and self.stop > segment.last.row
        )


Task = tuple[Part, ...]
"""What is read by one task."""


class Planner:
    """Plans what is read of one log, again and again.

    Args:
        folder: of the log.
        first: no row before this one.
        stop: no row from this one on; None: no limit.
    """

    def __init__(self, folder: Path, first: Place | None = None, stop: Place | None = None) -> None:
        self._reader = LogReader(folder)
        self._first = first or Place(*BEGIN)
        self._stop = stop
        self._live: dict[Path, _LiveFile] = {}

    def begin(self) -> Offset:
        """The first row that is there, or will be."""
        return self._reader.begin()

    def end(self) -> Offset:
        """Behind the last row that is there."""
        return max((part.end for part in self._all()), default=BEGIN)

    def parts(self, start: Offset = BEGIN, stop: Offset | None = None) -> list[Part]:
        """Rows that are there, in their order.

        Args:
            start: the first row, or where it would be.
            stop: behind the last one; None: all that are there.

        Raises:
            LogError: there is no log.
            OSError: the folder or a live file cannot be read.
        """
        cut = [self._cut(part, start, stop) for part in self._all()]
        return [self._from_byte(part) for part in cut if part.count > 0]

    def limited(self, start: Offset, stop: Offset, rows: int) -> Offset:
        """Behind so many rows, or all there are from one row on to another."""
        for part in self.parts(start, stop):
            if part.count >= rows:
                return part.begin._replace(row=part.start + rows)
            rows -= part.count
        return stop

    def _all(self) -> list[Part]:
        """All files in which there are rows, with the rows that count in each."""
        for _ in range(_TRIES - 1):
            try:
                return self._look()
            except FileNotFoundError:  # a live file was sealed in this moment
                continue
        return self._look()

    def _look(self) -> list[Part]:
        segments = self._reader.segments()
        live = {segment.path for segment in segments if segment.is_live}
        self._live = {path: file for path, file in self._live.items() if path in live}
        parts = [Part(each, each.first.row, self._stop_of(each)) for each in segments]
        parts = [part for part in parts if part.count > 0]
        return [_before(*pair) for pair in zip_longest(parts, parts[1:])]

    def _stop_of(self, segment: Segment) -> int:
        if segment.last is not None:
            return segment.last.row + 1
        return self._live.setdefault(segment.path, _LiveFile(segment)).look()

    def _cut(self, part: Part, start: Offset, stop: Offset | None) -> Part:
        epoch = part.segment.first.epoch
        first = max(_row_in(epoch, place, part) for place in (Place(*start), self._first))
        ends = [Place(*stop)] if stop is not None else []
        ends += [self._stop] if self._stop is not None else []
        last = min((_row_in(epoch, place, part) for place in ends), default=part.stop)
        return replace(part, start=max(part.start, first), stop=min(part.stop, last))

    def _from_byte(self, part: Part) -> Part:
        live = self._live.get(part.segment.path)
        return part if live is None else replace(part, at=live.byte_of(part.start))


def to_tasks(parts: Iterable[Part], most: int) -> list[Task]:
    """Small parts that follow each other together, and a large one in shares.

    Args:
        parts: in order.
        most: rows of a task, about; shares of a file are made of what was written at once.
    """
    tasks: list[Task] = []
    rows = most
    for part in parts:
        if rows + part.count > most:
            shares = -(-part.count // most) if part.is_whole else 1
            tasks += [(replace(part, share=(which, shares)),) for which in range(shares)]
            rows = part.count
        else:
            tasks[-1] += (part,)
            rows += part.count
    return tasks


class _LiveFile:
    """What is known of a live file: only what is new is read again."""

    def __init__(self, segment: Segment) -> None:
        self._path = segment.path
        self._at = 0
        self._stop = segment.first.row
        self._rows: list[int] = []  # the first ones of its batches
        self._bytes: list[int] = []  # where these stand

    def look(self) -> int:
        """Behind its last row."""
        for each in read_frames(self._path, self._at):
            if isinstance(each, Frame):
                self._at = each.end
                if each.count:
                    self._rows.append(each.first)
                    self._bytes.append(each.at)
                    self._stop = each.first + each.count
        return self._stop

    def byte_of(self, row: int) -> int:
        """Where a batch stands with this row, or one before it if there is any."""
        found = bisect_right(self._rows, row) - 1
        return self._bytes[found] if found >= 0 else 0


def _before(part: Part, following: Part | None) -> Part:
    """Without what the next file has as well: after a failed write rows are written there again."""
    if following is None or following.segment.first.epoch != part.segment.first.epoch:
        return part
    return replace(part, stop=min(part.stop, following.start))


def _row_in(epoch: int, place: Place, part: Part) -> int:
    """Where a place is among the rows of an epoch: before, in or behind a part of it."""
    if place.epoch is None or place.epoch == epoch:
        return place.row
    return part.start if place.epoch < epoch else part.stop
