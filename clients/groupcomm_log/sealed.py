"""Sealed rows: Parquet files that never change. A file exists as a whole or not at all."""

import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from groupcomm_log.disk import Disk
from groupcomm_log.errors import Damage, LogDamaged
from groupcomm_log.names import UNFINISHED, Segment, sealed_name
from groupcomm_log.schema import GAP, KINDS, MESSAGE, SCHEMA, Offset

_CHUNK_BYTES: Final = 1 << 20

GROUP_BYTES: Final = 32 * 1024 * 1024
"""Uncompressed size of the rows of one row group of a file."""

_RISING: Final = ("row", "stamp", "message", "number")
"""Columns with small differences; without this encoding they are half of the work."""

_CODED: Final = ("kind", "view", "sender", "groups.list.element", "level")
"""Columns of names that recur."""

_FULL: Final = {MESSAGE, GAP}
"""The kinds of rows that have `data`, which is most of a file."""

_PARQUET: Final[dict[str, Any]] = {
    "compression": "zstd",
    "write_page_checksum": True,
    "column_encoding": dict.fromkeys(_RISING, "DELTA_BINARY_PACKED"),
    "use_dictionary": [name for name in SCHEMA.names if name not in (*_RISING, "data")],
    "write_statistics": [name for name in SCHEMA.names if name != "data"],
}


def seal(disk: Disk, folder: Path, batches: Iterable[pa.RecordBatch]) -> Path | None:
    """Write rows of one epoch as one durable file; return its path, or None without rows.

    Raises:
        OSError: nothing was written.
    """
    groups = _grouped(batches)
    group = next(groups, None)
    if group is None:
        return None
    first, last = _offset(group, 0), _offset(group, -1)
    temporary = folder / f".{first.epoch:06d}-{first.row:015d}.parquet{UNFINISHED}"
    with disk.synced_file(temporary) as file, pq.ParquetWriter(file, SCHEMA, **_PARQUET) as writer:
        writer.write_table(group)
        for group in groups:
            writer.write_table(group)
            last = _offset(group, -1)
    path = folder / sealed_name(first, last.row, crc_of(temporary))
    disk.rename(temporary, path)
    return path


def _grouped(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the rows in tables of about GROUP_BYTES, so that no more of a file is in memory."""
    part: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        part.append(batch)
        size += batch.nbytes
        if size >= GROUP_BYTES:
            yield pa.Table.from_batches(part, SCHEMA)
            part, size = [], 0
    if part:
        yield pa.Table.from_batches(part, SCHEMA)


def _offset(table: pa.Table, row: int) -> Offset:
    return Offset(table["epoch"][row].as_py(), table["row"][row].as_py())


def crc_of(path: Path) -> int:
    """Return the CRC-32 of all bytes of a file."""
    crc = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            crc = zlib.crc32(chunk, crc)
    return crc


def check_sealed(segment: Segment) -> Damage | None:
    """Return the damage of a file; None if there is none.

    Raises:
        OSError: it cannot be read.
    """
    assert segment.last is not None
    size = segment.path.stat().st_size
    if crc_of(segment.path) == segment.crc:
        return None
    rows = segment.first.row, segment.last.row
    return Damage(segment.path, 0, size, rows, "the checksum is not that of its name")


def read_sealed(
    segment: Segment,
    columns: Sequence[str] | None,
    rows: tuple[int, int] | None = None,
    *,
    kinds: Collection[str] = (),
    coded: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file that was checked, with all columns if none are named.

    Args:
        segment: the file.
        columns: names of columns, in the order of the file.
        rows: first and last needed row; some rows before and after may come, too.
        kinds: the only needed kinds of rows; rows of others may come, too, perhaps without their
            `data`. Empty for all.
        coded: names come as dictionaries and codes, several times as fast.

    Raises:
        LogDamaged: no recorder wrote the file, or it has changed since it was checked.
    """
    try:
        file = pq.ParquetFile(
            segment.path,
            page_checksum_verification=True,
            read_dictionary=_CODED if coded else None,
        )
        groups = range(file.num_row_groups) if rows is None else _groups_with(file.metadata, *rows)
        names = SCHEMA.names if columns is None else columns
        for group in groups:
            there = _kinds_of(file, group).intersection(kinds) if kinds else KINDS
            if not there:
                continue
            needed = names if _FULL.intersection(there) else [n for n in names if n != "data"]
            for batch in file.iter_batches(columns=needed, row_groups=[group]):
                yield _completed(batch, names)
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException) as error:
        size = segment.path.stat().st_size
        raise LogDamaged(Damage(segment.path, 0, size, None, str(error))) from None


def _completed(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """Return a batch with columns of nulls that were not read, or not written by an earlier
    release.
    """
    if batch.schema.names == list(names):
        return batch
    columns = [
        batch[name]
        if name in batch.schema.names
        else pa.nulls(batch.num_rows, SCHEMA.field(name).type)
        for name in names
    ]
    return pa.RecordBatch.from_arrays(columns, names=list(names))


def _groups_with(metadata: pq.FileMetaData, first: int, last: int) -> Sequence[int]:
    """Return the row groups in which some of these rows may be."""
    return [
        number
        for number, span in enumerate(_spans(metadata))
        if span is None or not span.has_min_max or (span.min <= last and span.max >= first)
    ]


def _kinds_of(file: pq.ParquetFile, group: int) -> set[str]:
    """Return the kinds of the rows of a row group."""
    span = file.metadata.row_group(group).column(SCHEMA.names.index("kind")).statistics
    if span is not None and span.has_min_max and span.min == span.max:
        return {span.min}
    return set(file.read_row_group(group, columns=["kind"])["kind"].unique().to_pylist())


def group_starts(segment: Segment) -> list[int]:
    """Return the first row of each row group of a file; of a damaged file, that of the file.

    Raises:
        FileNotFoundError: it is not there.
    """
    try:
        spans = _spans(pq.read_metadata(segment.path))
        return [int(span.min) for span in spans] or [segment.first.row]
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException, AttributeError):
        return [segment.first.row]  # whoever reads it reports the damage


def _spans(metadata: pq.FileMetaData) -> list[Any]:
    """Return the statistics of the rows of each row group."""
    column = SCHEMA.names.index("row")
    return [
        metadata.row_group(number).column(column).statistics
        for number in range(metadata.num_row_groups)
    ]
