"""Reads a log, also while a recorder writes it, and in several processes at once.

A reader needs read access to the folder and nothing else; it takes no lock. It sees the sealed
files, and the live file up to its last whole batch.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from groupcomm_log.errors import Damage, LogDamaged, LogError, LogRemoved
from groupcomm_log.live import Frame, read_frames
from groupcomm_log.names import Segment, list_segments
from groupcomm_log.schema import MESSAGE, OFFSET, SCHEMA, Offset
from groupcomm_log.sealed import check_sealed, read_sealed

OnDamage = Callable[[Damage], None]

BEGIN = Offset(0, 0)
"""The offset before every row."""


def _fail(damage: Damage) -> None:
    raise LogDamaged(damage)


class LogReader:
    """A reader of one folder.

    Args:
        folder: folder of the log.
        on_damage: called for each damaged part, which is skipped; without it LogDamaged is raised.
            The end of a live file that is being written, or was torn by a crash, is none.
    """

    def __init__(self, folder: Path, on_damage: OnDamage = _fail) -> None:
        self.folder = folder
        self._on_damage = on_damage
        self._ends: dict[Path, tuple[int, int]] = {}  # of live files: byte, row, as far as known

    def segments(self) -> list[Segment]:
        """Return the files with rows, in order, without live files that are sealed already.

        Raises:
            LogError: there is no log.
        """
        found: list[Segment] = []
        for segment in list_segments(self.folder):
            if not (segment.is_live and found and found[-1].first == segment.first):
                found.append(segment)
        return found

    def begin(self) -> Offset:
        """Return the offset of the first row, or of the first row to come."""
        return next((segment.first for segment in self.segments()), BEGIN)

    def end(self) -> Offset:
        """Return the offset after the last row."""
        for segment in reversed(self.segments()):
            if segment.last is not None:
                return segment.last._replace(row=segment.last.row + 1)
            try:
                return segment.first._replace(row=self._live_end(segment))
            except FileNotFoundError:  # the file was sealed in this moment
                return self.end()
        return BEGIN

    def _live_end(self, segment: Segment) -> int:
        at, row = self._ends.get(segment.path, (0, segment.first.row))
        for each in read_frames(segment.path, at):
            if isinstance(each, Frame):
                at, row = each.end, each.first + each.count
        self._ends[segment.path] = at, row
        return row

    def batches(
        self,
        start: Offset = BEGIN,
        stop: Offset | None = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows in their order, in batches that are not empty, up to the present end.

        Args:
            start: offset of the first row, which need not exist.
            stop: offset after the last row; None for all rows.
            columns: columns in this order; None for all.

        Raises:
            LogError: there is no log.
            LogDamaged: see `on_damage`.
            LogRemoved: retention has removed rows before they were reached.
            OSError: a file cannot be read.
        """
        names = SCHEMA.names if columns is None else list(columns)
        read = list(dict.fromkeys([*names, *OFFSET]))
        for batch in self._from(start, read):
            wanted = batch if stop is None else _before(batch, stop)
            if wanted.num_rows:
                yield wanted.select(names)
            if wanted.num_rows < batch.num_rows:
                return

    def _from(self, start: Offset, columns: list[str]) -> Iterator[pa.RecordBatch]:
        segments = self.segments()
        while segments:
            segment = segments.pop(0)
            if segment.last is not None and segment.last < start:
                continue
            try:
                for batch in self._read(segment, columns):
                    wanted = _behind(batch, start)
                    if wanted.num_rows:
                        yield wanted
                        start = _offset_behind(wanted)
            except FileNotFoundError:
                segments = self.segments()
                if not segment.is_live and segment.path not in [s.path for s in segments]:
                    raise LogRemoved(
                        f"{self.folder}: rows {max(start, segment.first).row} to"
                        f" {segment.last and segment.last.row} were removed before they were"
                        " read; have the recorder keep more, or read on from the first row that is"
                        " left"
                    ) from None

    def _read(self, segment: Segment, columns: list[str]) -> Iterator[pa.RecordBatch]:
        if segment.is_live:
            for each in read_frames(segment.path):
                if isinstance(each, Frame):
                    if each.count:
                        yield each.batch().select(columns)
                elif not each.torn:
                    self._on_damage(each)
            return
        damage = check_sealed(segment)
        if damage is not None:
            self._on_damage(damage)
            return
        for batch in read_sealed(segment, columns):
            yield batch.select(columns)


def _offset_behind(batch: pa.RecordBatch) -> Offset:
    last = batch.num_rows - 1
    return Offset(batch["epoch"][last].as_py(), batch["row"][last].as_py() + 1)


def _behind(batch: pa.RecordBatch, start: Offset) -> pa.RecordBatch:
    """Return the rows from this offset on."""
    return batch.slice(_count_before(batch, start))


def _before(batch: pa.RecordBatch, stop: Offset) -> pa.RecordBatch:
    """Return the rows before this offset."""
    return batch.slice(0, _count_before(batch, stop))


def _count_before(batch: pa.RecordBatch, offset: Offset) -> int:
    """Return the number of rows before this offset; all rows of a batch are of one epoch."""
    epoch = batch["epoch"][0].as_py()
    if epoch != offset.epoch:
        return batch.num_rows if epoch < offset.epoch else 0
    return int(pc.sum(pc.less(batch["row"], offset.row)).as_py())


START_HELP: Final = (
    "begin, -100 (the last 100 messages), row:N, row:EPOCH:N, or @TIME (ISO 8601, in UTC unless it"
    " says otherwise, or seconds since 1970)"
)

_ROW: Final = re.compile(r"row:(?:(\d+):)?(\d+)")


@dataclass(frozen=True)
class Start:
    """A place in a log, as a user names it: one of these, or all None for the beginning.

    Attributes:
        messages: number of messages before the end.
        row: row number, in any epoch.
        offset: offset of a row.
        time: the first row received then or later.
    """

    messages: int | None = None
    row: int | None = None
    offset: Offset | None = None
    time: datetime | None = None


def parse_start(text: str) -> Start:
    """Return the place that a text names.

    Raises:
        LogError: the text names no place.
    """
    if text == "begin":
        return Start()
    if re.fullmatch(r"-\d+", text):
        return Start(messages=int(text[1:]))
    if match := _ROW.fullmatch(text):
        epoch, row = match.groups()
        return Start(row=int(row)) if epoch is None else Start(offset=Offset(int(epoch), int(row)))
    if text.startswith("@"):
        try:
            return Start(time=_parse_time(text[1:]))
        except (ValueError, OverflowError, OSError):
            pass  # the error below reports it
    raise LogError(f"{text}: it must be {START_HELP}")


def _parse_time(text: str) -> datetime:
    try:
        return datetime.fromtimestamp(float(text), UTC)
    except ValueError:
        time = datetime.fromisoformat(text)
        return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def find_start(reader: LogReader, start: Start) -> Offset:
    """Return the offset of the first row from a place on; the end of the log if there is none.

    Raises:
        LogError, OSError: see `LogReader.batches`.
    """
    if start.offset is not None:
        return start.offset
    if start.row is not None:
        return _first_row(reader, "row", pa.scalar(start.row, pa.int64()))
    if start.time is not None:
        return _first_row(reader, "received", pa.scalar(start.time, pa.timestamp("us", tz="UTC")))
    if start.messages is not None:
        return _last_messages(reader, start.messages)
    return BEGIN


def _first_row(reader: LogReader, column: str, least: pa.Scalar) -> Offset:
    names = list(dict.fromkeys(["epoch", "row", column]))
    for batch in reader.batches(columns=names):
        found = pc.index(pc.greater_equal(batch[column], least), pa.scalar(True)).as_py()
        if found >= 0:
            return _offset_at(batch, found)
    return reader.end()


def _last_messages(reader: LogReader, count: int) -> Offset:
    """Search the files from the end until there are enough messages."""
    if count == 0:
        return reader.end()
    end = None
    for segment in reversed(reader.segments()):
        batches = [*reader.batches(segment.first, end, ["epoch", "row", "kind"])]
        for batch in reversed(batches):
            messages = pc.indices_nonzero(pc.equal(batch["kind"], MESSAGE))
            if len(messages) >= count:
                return _offset_at(batch, messages[-count].as_py())
            count -= len(messages)
        end = segment.first
    return BEGIN


def _offset_at(batch: pa.RecordBatch, index: int) -> Offset:
    return Offset(batch["epoch"][index].as_py(), batch["row"][index].as_py())
