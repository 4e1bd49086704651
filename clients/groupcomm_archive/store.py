"""The store of an archive: a log of the recorder, and an index of the places in it.

It blocks, so a program with an event loop calls it in threads: one that writes, and one that reads.
The index has an entry for each batch of rows. The newest batches also stay in memory, as most
subscribers read these.
"""

import json
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, cast

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm_archive import columns
from groupcomm_archive.archive import ReadStore
from groupcomm_archive.columns import EventBatch, to_rows
from groupcomm_archive.file_reader import FileRead, parts_behind
from groupcomm_archive.pieces import Cursors, PieceReader
from groupcomm_archive.rows import LEVELS, READ, Part, place_of_row
from groupcomm_client.events import Received
from groupcomm_client.history.frames import EncodedPiece, Interval
from groupcomm_client.history.given import Gap
from groupcomm_client.history.places import just_before, place_of
from groupcomm_log.errors import Damage, LogRemoved
from groupcomm_log.lock import SharedLock
from groupcomm_log.reader import BEGIN, LogReader
from groupcomm_log.schema import DAEMONS, GAP, MESSAGE, PLACE, VIEW, Offset
from groupcomm_log.writer import Limits, LogWriter

CACHE_BYTES: Final = 64 * 1024 * 1024
"""The newest rows that stay in memory."""

FAR_ROWS: Final = 50_000
"""What is as many rows before the end another process may read from the files."""

_INDEX: Final = ("epoch", "row", "kind", "received", *PLACE, "level")


@attrs.define
class _Entry:
    """A batch of rows.

    Attributes:
        first: the offset of its first row.
        last: the place of its last event of the line.
        received_us: when the last of its rows was received.
        batch: the rows, while they stay in memory.
    """

    first: Offset
    last: Position
    received_us: int
    batch: pa.RecordBatch | None = None


class LogStore:
    """The log of an archive, in which all events have rising places.

    Attributes:
        folder: the folder of the log.
        intervals: what the log holds, when it was opened.
        damage: the damage that was found then.
    """

    def __init__(
        self,
        folder: Path,
        limits: Limits | None = None,
        lock: SharedLock | None = None,
        cursors: Cursors | None = None,
    ) -> None:
        """Open a folder, or make one.

        Args:
            folder, limits, lock: see `LogWriter`.
            cursors: see `PieceReader`.

        Raises:
            LogBusy: another program writes to it.
            LogError: the folder cannot hold a log.
            OSError: it cannot be made, read or written.
        """
        self._writer = LogWriter(folder, limits, lock=lock)
        self.folder = folder
        self._lock = threading.Lock()  # of the index
        self._entries: list[_Entry] = []
        self._cached = 0  # the first entry in memory
        self._cached_bytes = 0
        self._pieces = PieceReader(self, cursors)
        self._removed: Position | None = None  # everything up to here, since it was opened
        self.damage: list[Damage] = list(self._writer.found.damage)
        self.intervals: list[Interval] = []
        try:
            self._scan()
        except BaseException:
            self._writer.close()
            raise

    # ---- the index ----

    def _scan(self) -> None:
        """Find the places and the intervals of the rows that the log has."""
        damage: list[Damage] = []
        reader = LogReader(self.folder, damage.append)
        known = 0
        is_broken = True  # whether rows before the next one may be missing
        for batch in reader.batches(columns=_INDEX):
            is_broken = self._index(reader, batch, is_broken or len(damage) > known)
            known = len(damage)
        self.damage += damage

    def _index(self, reader: LogReader, batch: pa.RecordBatch, is_broken: bool) -> bool:
        """Enter a batch of the log; return whether rows behind it may be missing.

        Args:
            reader: the reader of the log.
            batch: rows, with the columns of _INDEX.
            is_broken: whether rows before it may be missing: then an interval begins.
        """
        gaps = set(pc.indices_nonzero(pc.equal(batch["kind"], GAP)).to_pylist())
        places = _places(batch)
        ends = {*places[:1], *places[-1:], *(_before(places, gap) for gap in gaps)}
        starts = {_after(places, gap) for gap in gaps}
        for index in sorted((gaps | ends | starts) - {-1}):
            row = batch.slice(index, 1).to_pylist()[0]
            if index in gaps:
                upto = self._gap_at(reader, row)
                is_broken = upto is None
                if upto is not None:
                    self.intervals.append((upto, upto))
                continue
            place = place_of_row(row)
            if is_broken:
                self.intervals.append((just_before(place), place))
                is_broken = False
            self.intervals[-1] = self.intervals[-1][0], place
        if places:
            row = batch.slice(places[-1], 1).to_pylist()[0]
            first = batch.slice(0, 1).to_pylist()[0]
            offset = Offset(first["epoch"], first["row"])
            self._entries.append(_Entry(offset, place_of_row(row), _us(batch)))
        return is_broken

    @staticmethod
    def _gap_at(reader: LogReader, row: dict[str, Any]) -> Position | None:
        """Return the place up to which a gap goes; None if it is another kind of gap."""
        at = Offset(row["epoch"], row["row"])
        (batch,) = reader.batches(at, at._replace(row=at.row + 1), ["cause", "data"])
        if batch["cause"][0].as_py() != "missed":
            return None
        counter, daemon, incarnation, *rest = json.loads(batch["data"][0].as_py())["upto"]
        return Position(ViewId(counter, daemon, incarnation), *rest)

    @property
    def last(self) -> Position | None:
        """Return the place up to which the log has everything, when it was opened."""
        return self.intervals[-1][1] if self.intervals else None

    # ---- writing ----

    def append(self, batches: Sequence[tuple[int, Sequence[Received | Gap]]]) -> None:
        """Write events, at least one; they are on disk then.

        Args:
            batches: events that were received together, with the time in microseconds since 1970.

        Raises:
            OSError: they are not on disk. A call with the same events tries again.
        """
        rows = to_rows(EventBatch(at, _recorded(part)) for at, part in batches)
        last = self._writer.append(rows)
        first = last._replace(row=last.row - rows.num_rows + 1)
        place = next(
            (
                at
                for _, part in reversed(batches)
                for each in reversed(part)
                if (at := place_of(each))
            ),
            None,
        )
        if place is None:
            return
        full = _with_offsets(rows, first)
        with self._lock:
            self._entries.append(_Entry(first, place, _us(rows), full))
            self._cached_bytes += full.nbytes
            while self._cached_bytes > CACHE_BYTES and self._cached < len(self._entries) - 1:
                self._uncache()

    def _uncache(self) -> None:
        entry = self._entries[self._cached]
        if entry.batch is not None:
            self._cached_bytes -= entry.batch.nbytes
            entry.batch = None
        self._cached += 1

    def tend(self) -> Position | None:
        """Seal and remove files that are due; return the place up to which events were removed.

        Raises:
            OSError: a part of it failed; the next call tries again.
        """
        self._writer.tend()
        return self._forget_removed()

    def remove_upto(self, place: Position) -> Position | None:
        """Remove sealed files that have only events up to a place; see `tend`.

        Raises:
            OSError: a file cannot be removed; another call tries again.
        """
        with self._lock:
            at = bisect_right(self._entries, place, key=lambda entry: entry.last)
            first = self._entries[at].first if at < len(self._entries) else None
        if first is not None:
            self._writer.remove_before(first)
        return self._forget_removed()

    def sealed_upto(self, least_age_s: float) -> tuple[Position, int] | None:
        """Return the last place in sealed files of an age, and their size in bytes.

        None if there is no such place.
        """
        before = time.time() - least_age_s
        last, size = BEGIN, 0
        for segment in LogReader(self.folder).segments():
            stat = segment.path.stat()
            if segment.last is None or stat.st_mtime > before:
                break
            last, size = segment.last, size + stat.st_size
        with self._lock:
            places = [entry.last for entry in self._entries if entry.first <= last]
        return (places[-1], size) if places else None

    def _forget_removed(self) -> Position | None:
        """Forget the entries of files that were removed; return the place up to which they went."""
        first = next((segment.first for segment in LogReader(self.folder).segments()), None)
        removed = None
        with self._lock:
            while first is not None and len(self._entries) > 1 and self._entries[1].first <= first:
                removed = self._removed = self._entries.pop(0).last
                self._cached = max(0, self._cached - 1)
        return removed

    def close(self) -> None:
        """Seal all rows and release the folder.

        Raises:
            OSError: they are not sealed; the next start seals them.
        """
        self._writer.close()

    # ---- reading ----

    def read(self, action: ReadStore) -> EncodedPiece:
        """Return the next piece of a stream; see `PieceReader.read`."""
        return self._pieces.read(action)

    def check_kept(self, after: Position) -> None:
        """Raise LogRemoved if events behind a place were removed."""
        with self._lock:
            if self._removed is not None and after < self._removed:
                raise LogRemoved(f"{self.folder}: what was to be read next was removed meanwhile")

    def parts(self, after: Position, groups: Collection[str]) -> Iterator[Part]:
        """Yield the events of the line behind a place, in parts that are not too large."""
        return parts_behind(self._batches(after), after, groups)

    def far(self, action: ReadStore) -> FileRead | None:
        """Return how another process reads a piece; None if it is better read from memory."""
        if action.since_us is not None or action.is_compacted:
            return None
        with self._lock:
            entries = self._entries
            place = bisect_left(entries, action.after, key=lambda entry: entry.last)
            if place == len(entries):
                return None
            first, newest = entries[place].first, entries[-1].first
        if first.epoch == newest.epoch and newest.row - first.row < FAR_ROWS:
            return None
        return FileRead(self.folder, first, action)

    def _batches(self, after: Position) -> Iterator[pa.RecordBatch]:
        """Yield the rows in which the events behind a place are, from the disk or from memory."""
        with self._lock:
            place = bisect_left(self._entries, after, key=lambda entry: entry.last)
            if place == len(self._entries):
                return
            entry = self._entries[place]
        behind = entry.first
        if entry.batch is None:
            for batch in LogReader(self.folder).batches(entry.first, self._cached_from(), READ):
                yield batch
                behind = Offset(batch["epoch"][-1].as_py(), batch["row"][-1].as_py() + 1)
        with self._lock:
            later = [each for each in self._entries if each.first >= behind]
        for entry in later:
            if entry.batch is None:  # it is on disk only, meanwhile
                yield from LogReader(self.folder).batches(entry.first, None, READ)
                return
            yield entry.batch

    def _cached_from(self) -> Offset | None:
        """Return the offset of the first row in memory; None if there is none."""
        with self._lock:
            return next((each.first for each in self._entries if each.batch is not None), None)

    def first_since(self, since_us: int, after: Position, upto: Position) -> Position:
        """Return a place just before the first event that was received then or later."""
        with self._lock:
            found = next((each for each in self._entries if each.received_us >= since_us), None)
        if found is None:
            return upto
        for batch in LogReader(self.folder).batches(found.first, None, _INDEX):
            received = pc.cast(batch["received"], pa.int64())
            late = pc.greater_equal(received, since_us).to_pylist()
            for index in _places(batch):
                if late[index]:
                    row = batch.slice(index, 1).to_pylist()[0]
                    return min(max(just_before(place_of_row(row)), after), upto)
        return upto


def _places(batch: pa.RecordBatch) -> list[int]:
    """Return the indices of the rows that are events of the line."""
    kind, level = batch["kind"], batch["level"]
    agreed = pc.and_(pc.equal(kind, MESSAGE), pc.is_in(level, pa.array([*LEVELS])))
    views = pc.is_in(kind, pa.array([VIEW, DAEMONS]))
    found: list[int] = pc.indices_nonzero(pc.or_(agreed.fill_null(False), views)).to_pylist()
    return found


def _after(places: list[int], index: int) -> int:
    """Return the first of these indices after an index; -1 without one."""
    at = bisect_left(places, index)
    return places[at] if at < len(places) else -1


def _before(places: list[int], index: int) -> int:
    """Return the last of these indices before an index; -1 without one."""
    at = bisect_left(places, index)
    return places[at - 1] if at else -1


def _us(batch: pa.RecordBatch) -> int:
    """Return when the last row of a batch was received, in microseconds since 1970."""
    found = pc.max(pc.cast(batch["received"], pa.int64())).as_py()
    return 0 if found is None else int(found)


def _with_offsets(rows: pa.RecordBatch, first: Offset) -> pa.RecordBatch:
    """Return rows with their offsets, and the columns that are read."""
    count = rows.num_rows
    offsets = [
        pa.repeat(pa.scalar(first.epoch, pa.int64()), count),
        pa.array(range(first.row, first.row + count), pa.int64()),
    ]
    names = READ[2:]
    return pa.RecordBatch.from_arrays(
        [*offsets, *(rows[name] for name in names)], names=["epoch", "row", *names]
    )


def _recorded(events: Sequence[Received | Gap]) -> list[Received | columns.Gap]:
    """Return events as a log records them."""
    if Gap not in set(map(type, events)):
        return cast(list[Received | columns.Gap], events)
    return [_gap_row(each) if isinstance(each, Gap) else each for each in events]


def _gap_row(gap: Gap) -> columns.Gap:
    after, upto = gap.after, gap.upto
    details = {"after": None if after is None else [*after.view, *after[1:]]}
    return columns.Gap(cause="missed", details={**details, "upto": [*upto.view, *upto[1:]]})
