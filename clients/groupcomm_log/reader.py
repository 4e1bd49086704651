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

from groupcomm_log.errors import Damage, LogDamaged, LogError, LogRemoved, LogReplaced
from groupcomm_log.live import Frame, read_frames
from groupcomm_log.manifest import Manifest, read_manifest
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
        return next((each.first for each in self.segments() if _has_rows(each)), BEGIN)

    def end(self) -> Offset:
        """Return the offset after the last row."""
        for segment in reversed(self.segments()):
            if segment.last is not None:
                return segment.last._replace(row=segment.last.row + 1)
            try:
                row = self._live_end(segment)
            except FileNotFoundError:  # the file was sealed in this moment
                return self.end()
            if row > segment.first.row:  # else nothing may ever have its epoch
                return segment.first._replace(row=row)
        return BEGIN

    def _live_end(self, segment: Segment) -> int:
        at, row = self._ends.get(segment.path, (0, segment.first.row))
        for each in read_frames(segment.path, at):
            if isinstance(each, Frame):
                at, row = each.end, each.first + each.count
        self._ends[segment.path] = at, row
        return row

    def check(self, offset: Offset, *, may_lack: bool = False) -> None:
        """Check that one may go on at an offset: what this log had before it is what was read.

        Args:
            offset: the offset of a row of this log, or behind one; or BEGIN.
            may_lack: whether rows before the offset may have been lost since, with their epoch's
                end.

        Raises:
            LogReplaced: it is of another log, or of rows that this log has lost.
            LogError, OSError: see `batches`.
        """
        self._check(offset, self.segments(), may_lack=may_lack)

    def _check(
        self, offset: Offset, segments: Sequence[Segment], *, may_lack: bool = False
    ) -> None:
        if offset.epoch == BEGIN.epoch:
            return
        if offset.epoch not in [segment.first.epoch for segment in segments]:
            known = (read_manifest(self.folder) or Manifest()).epochs
            was_counted = not known and segments and offset < segments[0].first
            if offset.epoch not in known and not was_counted:
                raise LogReplaced(
                    f"{self.folder}: row {offset.row} of epoch {offset.epoch} is of another log:"
                    " this one was recorded anew, or is another copy that was continued; read it"
                    " from its beginning, with a new checkpoint or state"
                )
        later = _first_after(segments, offset.epoch)
        if later is not None and offset.row > later.row and not may_lack:
            raise LogReplaced(
                f"{self.folder}: epoch {offset.epoch} ends before row {later.row}, and rows up to"
                f" {offset.row - 1} were read: this is an older copy that was continued, or a power"
                " failure has lost them; to go on with the rows that are there, begin with row"
                f" {later.row} of epoch {later.epoch}"
            )

    def next_existing(self, offset: Offset) -> Offset:
        """Return an offset, or that of the next row if its own was removed or lost.

        Raises:
            LogReplaced: it is of another log.
            LogError, OSError: see `batches`.
        """
        segments = self.segments()
        self._check(offset, segments, may_lack=True)
        later = _first_after(segments, offset.epoch)
        if segments and offset < segments[0].first:
            return segments[0].first
        return later if later is not None and offset.row > later.row else offset

    def batches(
        self,
        start: Offset = BEGIN,
        stop: Offset | None = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows in their order, in batches that are not empty, up to the present end.

        Args:
            start: offset of the first row, or that behind the last one that was read.
            stop: offset after the last row; None for all rows.
            columns: columns in this order; None for all.

        Raises:
            LogError: there is no log.
            LogDamaged: see `on_damage`.
            LogRemoved: retention has removed rows before they were reached.
            LogReplaced: the start or the stop is not of this log; see `check`.
            OSError: a file cannot be read.
        """
        names = SCHEMA.names if columns is None else list(columns)
        read = list(dict.fromkeys([*names, *OFFSET]))
        segments = self.segments()
        if stop is not None:
            self._check(stop, segments, may_lack=True)
        for batch in self._from(start, read, segments):
            wanted = batch if stop is None else _before(batch, stop)
            if wanted.num_rows:
                yield wanted.select(names)
            if wanted.num_rows < batch.num_rows:
                return

    def _from(
        self, start: Offset, columns: list[str], segments: list[Segment]
    ) -> Iterator[pa.RecordBatch]:
        self._check(start, segments)
        first = segments[0].first if segments else BEGIN
        if start != BEGIN and start < first and start.row < first.row:
            raise self._removed(start.row, first.row - 1)
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
                self._check(start, segments)
                begin = max(start, segment.first)
                if segment.last is not None and not any(_has(each, begin) for each in segments):
                    raise self._removed(begin.row, segment.last.row) from None

    def _removed(self, first: int, last: int) -> LogRemoved:
        return LogRemoved(
            f"{self.folder}: rows {first} to {last} were removed before they were read; have the"
            " recorder keep more, or read on from the first row that is left"
        )

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


def _first_after(segments: Sequence[Segment], epoch: int) -> Offset | None:
    """Return the first row of a later epoch than this one; None if there is none."""
    return next((each.first for each in segments if each.first.epoch > epoch), None)


def _has(segment: Segment, offset: Offset) -> bool:
    """Return whether a row is in a sealed file: that of its name, or what that was compacted to."""
    return segment.last is not None and segment.first <= offset <= segment.last


def _has_rows(segment: Segment) -> bool:
    """Return whether a file has rows: a live one may have none, and then nothing has its epoch."""
    if not segment.is_live:
        return True
    try:
        return any(isinstance(each, Frame) and each.count for each in read_frames(segment.path))
    except FileNotFoundError:
        return True  # it was sealed in this moment


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
        return reader.next_existing(start.offset)
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
