"""Sealed rows: Parquet files that never change. A file is there whole or not at all."""

import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from groupcomm_log.disk import Disk
from groupcomm_log.errors import Damage, LogDamaged
from groupcomm_log.names import UNFINISHED, Segment, sealed_name
from groupcomm_log.schema import SCHEMA, Offset

_CHUNK_BYTES: Final = 1 << 20

_RISING: Final = ("row", "stamp", "message", "number")
"""Columns of which the differences are small; they are half of the work otherwise."""

_PARQUET: Final[dict[str, Any]] = {
    "compression": "zstd",
    "write_page_checksum": True,
    "column_encoding": dict.fromkeys(_RISING, "DELTA_BINARY_PACKED"),
    "use_dictionary": [name for name in SCHEMA.names if name not in (*_RISING, "data")],
    "write_statistics": [name for name in SCHEMA.names if name != "data"],
}


def seal(disk: Disk, folder: Path, batches: Sequence[pa.RecordBatch]) -> Path:
    """Write rows of one epoch, one at least, as one file; it lasts once this returns.

    Raises:
        OSError: nothing was written.
    """
    table = pa.Table.from_batches(batches, SCHEMA)
    first = Offset(table["epoch"][0].as_py(), table["row"][0].as_py())
    last = table["row"][-1].as_py()
    temporary = folder / f".{first.epoch:06d}-{first.row:015d}.parquet{UNFINISHED}"
    with disk.synced_file(temporary) as file:
        pq.write_table(table, file, **_PARQUET)
    path = folder / sealed_name(first, last, crc_of(temporary))
    disk.rename(temporary, path)
    return path


def crc_of(path: Path) -> int:
    """CRC-32 of all bytes of a file."""
    crc = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            crc = zlib.crc32(chunk, crc)
    return crc


def check_sealed(segment: Segment) -> Damage | None:
    """What is wrong with a file, if anything is.

    Raises:
        OSError: it cannot be read.
    """
    assert segment.last is not None
    size = segment.path.stat().st_size
    if crc_of(segment.path) == segment.crc:
        return None
    rows = segment.first.row, segment.last.row
    return Damage(segment.path, 0, size, rows, "the checksum is not that of its name")


def read_sealed(segment: Segment, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
    """The rows of a file that was checked; all columns if none are named.

    Raises:
        LogDamaged: it was not written by a recorder, or has changed since it was checked.
    """
    try:
        file = pq.ParquetFile(segment.path, page_checksum_verification=True)
        yield from file.iter_batches(columns=columns)
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException) as error:
        size = segment.path.stat().st_size
        raise LogDamaged(Damage(segment.path, 0, size, None, str(error))) from None
