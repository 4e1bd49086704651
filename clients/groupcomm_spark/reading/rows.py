"""Reads the rows of parts of a log, on Spark's workers."""

import os
import socket
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from groupcomm_log.errors import Damage, LogDamaged, LogError, LogRemoved
from groupcomm_log.live import read_frames
from groupcomm_log.names import Segment, list_segments
from groupcomm_log.recovery import lost_rows
from groupcomm_log.schema import GAP, MESSAGE, OFFSET
from groupcomm_log.sealed import check_sealed, read_sealed
from groupcomm_spark.reading.options import LOG, ReadOptions, arrow_schema
from groupcomm_spark.reading.planning import Part

BATCH_ROWS: Final = 16_384
"""Rows passed to Spark at once; smaller batches cost more than their contents."""


def read_parts(
    parts: Iterable[Part],
    options: ReadOptions,
    columns: Sequence[str],
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of parts in order, as far as the options ask for them.

    Args:
        parts: the parts.
        options: options of the query.
        columns: names of columns, in this order.

    Raises:
        LogDamaged: bytes differ from those that were written, and the options do not allow skipping
            them.
        LogRemoved: rows were removed since this was planned, and the options do not allow that.
        LogError: this host has no such folder, or this user may not read it.
        OSError: a file cannot be read.
    """
    wanted = _Wanted(options)
    stored = [name for name in columns if name != LOG]
    needed = list(dict.fromkeys([*stored, *wanted.columns, *OFFSET]))
    schema = arrow_schema(columns)
    batches = (
        _shaped(wanted.of(batch), options.logs[part.segment.path.parent], columns)
        for part in parts
        for batch in _PartReader(part, options, needed).batches()
    )
    for batch in _larger(batches):
        yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def read_coded(
    part: Part, options: ReadOptions, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a part; names of sealed rows come as dictionaries and codes.

    Args:
        part: the part.
        options: options of the query; groups, levels and kinds select nothing here.
        columns: names of columns of a log, in this order.

    Raises: see `read_parts`.
    """
    return _PartReader(part, options, list(columns), coded=True).batches()


def _shaped(batch: pa.RecordBatch, log: str, columns: Sequence[str]) -> pa.RecordBatch:
    if LOG not in columns:
        return batch.select(columns)
    names = pa.repeat(pa.scalar(log), batch.num_rows)
    values = [names if name == LOG else batch[name] for name in columns]
    return pa.RecordBatch.from_arrays(values, names=list(columns))


def _larger(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows in larger batches, none of them empty."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        if not waiting and batch.num_rows >= BATCH_ROWS:
            yield batch
            continue
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= BATCH_ROWS:
            yield _joined(pa.Table.from_batches(waiting))
            waiting, rows = [], 0
    if waiting:
        yield _joined(pa.Table.from_batches(waiting))


def _joined(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)


# ---- which rows are wanted ----


class _Wanted:
    """A filter of the rows that the options select; gaps are kept whatever their groups."""

    def __init__(self, options: ReadOptions) -> None:
        self._groups = pa.array(options.groups, pa.string())
        self._levels = pa.array(options.levels, pa.string())
        self._kinds = pa.array(options.kinds, pa.string())
        self.columns = [
            *(("groups", "kind") if options.groups else ()),
            *(("level", "kind") if options.levels else ()),
            *(("kind",) if options.kinds else ()),
        ]

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if len(self._kinds):
            batch = batch.filter(pc.is_in(batch["kind"], self._kinds))
        if len(self._levels):
            is_other = pc.not_equal(batch["kind"], MESSAGE)
            batch = batch.filter(pc.or_(is_other, pc.is_in(batch["level"], self._levels)))
        if len(self._groups):
            of_all = pc.or_(pc.is_null(batch["groups"]), pc.equal(batch["kind"], GAP))
            batch = batch.filter(pc.or_(of_all, has_any(batch["groups"], self._groups)))
        return batch


def has_any(lists: pa.ListArray, names: pa.Array) -> pa.Array:
    """Return the lists that contain one of the names."""
    found = pc.is_in(pc.list_flatten(lists), names)
    having = pc.unique(pc.list_parent_indices(lists).filter(found))
    every = pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), len(lists)), start=-1)
    return pc.is_in(every, pc.cast(having, pa.int64()))


# ---- present rows ----


class _PartReader:
    """A reader of rows of one file."""

    def __init__(
        self, part: Part, options: ReadOptions, columns: list[str], *, coded: bool = False
    ) -> None:
        self._part = part
        self._options = options
        self._columns = columns
        self._coded = coded

    def batches(self) -> Iterator[pa.RecordBatch]:
        try:
            if self._part.segment.is_live:
                yield from self._live()
            else:
                yield from self._sealed()
        except FileNotFoundError:
            for part in self._elsewhere():
                reader = _PartReader(part, self._options, self._columns, coded=self._coded)
                yield from reader.batches()
        except PermissionError as error:
            raise LogError(
                f"{error.filename}: user {os.geteuid()} of {socket.gethostname()} may not read it;"
                " let the executors run as the recorder's user, or in a group that may read"
            ) from None

    def _elsewhere(self) -> Iterator[Part]:
        """Yield the same rows in the files that have them now: a live file is sealed, and sealed
        ones are compacted.
        """
        part, folder = self._part, self._part.segment.path.parent
        if not folder.is_dir():
            raise LogError(
                f"{folder}: {socket.gethostname()} has no such folder; all of Spark's workers need"
                " the log at the path that it has on the driver, so mount it there"
            )
        row = part.start
        for other in list_segments(folder):
            if other.last is None or other.first.epoch != part.segment.first.epoch:
                continue
            start, stop = max(row, other.first.row), min(part.stop, other.last.row + 1)
            if start < stop:
                self._removed(row, start)
                yield Part(other, start, stop)
                row = stop
        self._removed(row, part.stop)

    def _removed(self, first: int, stop: int) -> None:
        if first < stop and self._options.fail_on_loss:
            raise LogRemoved(
                f"{self._part.segment.path.parent}: rows {first} to {stop - 1} were removed"
                " before they were read; have the recorder keep more, or read the present rows"
            )

    # ---- sealed files ----

    def _sealed(self) -> Iterator[pa.RecordBatch]:
        part, segment = self._part, self._part.segment
        damage = None
        if not self._options.is_checked:
            damage = check_sealed(segment) if part.is_whole else _checked_before(segment)
        rows = part.start, part.stop - 1
        if damage is not None:
            yield from self._damaged(*rows, damage)
            return
        try:
            kinds, coded = self._options.kinds, self._coded
            for batch in read_sealed(segment, self._columns, rows, kinds=kinds, coded=coded):
                yield _cut(batch.select(self._columns), part)
        except LogDamaged:
            _check_once.cache_clear()
            raise

    # ---- the live file ----

    def _live(self) -> Iterator[pa.RecordBatch]:
        part = self._part
        next_row, damage = part.start, None
        for each in read_frames(part.segment.path, part.at):
            if isinstance(each, Damage):
                damage = damage or each
            elif each.first + each.count > next_row:
                if each.first > next_row:
                    told = damage or self._gone(next_row)
                    yield from self._damaged(next_row, min(each.first, part.stop) - 1, told)
                damage = None
                yield _cut(each.batch().select(self._columns), part)
                next_row = each.first + each.count
            if next_row >= part.stop:
                return
        # A part that was complete at planning is not complete now: a crash or a full disk took it
        # back.
        yield from self._damaged(next_row, part.stop - 1, damage or self._gone(next_row))

    def _gone(self, row: int) -> Damage:
        path = self._part.segment.path
        return Damage(path, self._part.at, 0, (row, self._part.stop - 1), "rows are not there")

    def _damaged(self, first: int, last: int, damage: Damage) -> Iterator[pa.RecordBatch]:
        """Raise an error, or yield a gap row, as a recorder does when its own file is damaged."""
        if not self._options.skip_damage:
            raise LogDamaged(replace(damage, rows=damage.rows or (first, last)))
        for batch in lost_rows(self._part.segment.first.epoch, first, last, damage):
            yield batch.select(self._columns)


def _checked_before(segment: Segment) -> Damage | None:
    """Return the damage of a file that is read in small parts, checked once in this process.

    The checksums of its pages are checked each time.
    """
    stat = segment.path.stat()
    return _check_once(segment, (stat.st_ino, stat.st_size, stat.st_mtime_ns))


@lru_cache(maxsize=64)
def _check_once(segment: Segment, version: tuple[int, ...]) -> Damage | None:
    return check_sealed(segment)


def _cut(batch: pa.RecordBatch, part: Part) -> pa.RecordBatch:
    """Return the rows of a batch that are in the part; rows increase within a batch."""
    rows = batch["row"]
    if rows[0].as_py() >= part.start and rows[-1].as_py() < part.stop:
        return batch
    before = pc.sum(pc.less(rows, part.start)).as_py()
    count = pc.sum(pc.less(rows, part.stop)).as_py() - before
    return batch.slice(before, count)
