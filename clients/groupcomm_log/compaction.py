"""Compaction: many sealed files become few, with the same rows.

It needs no recorder to stop, and readers go on across it: a file with all rows of several others
has their place as soon as it has its name (`names.list_segments`), and they are removed once nobody
can still be listing the folder as it was before.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from groupcomm_log.disk import Disk
from groupcomm_log.errors import LogBusy, LogDamaged, LogError
from groupcomm_log.names import OWN, Segment, list_files, list_segments, superseded
from groupcomm_log.schema import SCHEMA
from groupcomm_log.sealed import check_sealed, read_sealed, seal

MOST_BYTES: Final = 512 * 1024 * 1024
"""The most bytes of files that become one."""

WAIT_S: Final = 10.0
"""Seconds from the name of a new file until the old ones go: to list a folder takes less."""


@dataclass(frozen=True)
class Compacted:
    """What compaction did.

    Attributes:
        before, after: numbers of sealed files.
        rows: the rows that were written anew.
    """

    before: int
    after: int
    rows: int


def compact(
    folder: Path,
    most_bytes: int = MOST_BYTES,
    *,
    disk: Disk | None = None,
    wait: Callable[[], None] = lambda: time.sleep(WAIT_S),
) -> Compacted:
    """Write consecutive small files of each epoch as one, and remove them.

    Args:
        folder: folder of a log, also one that is being recorded; not one of an archive.
        most_bytes: the most bytes of files that become one.
        disk: see `Disk`.
        wait: waits WAIT_S.

    Raises:
        LogBusy: another compaction is under way.
        LogDamaged: a file is not as it was written; it and those after it are left as they are.
        LogError: there is no log, or an archive keeps it.
        OSError: a file cannot be read or written; those that were replaced before stay so.
    """
    disk = disk or Disk()
    others = sorted(path.name for path in folder.glob("_*") if not OWN.match(path.name))
    if others:
        raise LogError(
            f"{folder}: {others[0]} is no file of a recorder's log; the files of an archive are"
            " known to its server by their names, so they are not compacted"
        )
    with _alone(folder):
        segments = [segment for segment in list_segments(folder) if not segment.is_live]
        runs = _runs(segments, _unsealed(folder), most_bytes)
        written = sum(_rewrite(disk, folder, run) for run in runs)
        old = superseded(list_files(folder))
        if old:
            wait()
        for segment in old:
            disk.remove(segment.path)
        disk.sync_folder(folder)
    count = len(segments)
    return Compacted(count, count - sum(len(run) - 1 for run in runs), written)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise LogBusy(f"{folder}: another compaction is under way; wait for its end") from None
    finally:
        os.close(descriptor)


def _unsealed(folder: Path) -> set[object]:
    """Return the first rows of live files; one of them may be sealed, and not yet removed."""
    return {segment.first for segment in list_files(folder) if segment.is_live}


def _runs(
    segments: Sequence[Segment], unsealed: set[object], most_bytes: int
) -> list[list[Segment]]:
    """Return the files that become one: at least two, without rows missing in between."""
    runs: list[list[Segment]] = []
    size = 0
    for segment in segments:
        bytes_ = segment.path.stat().st_size
        if segment.first in unsealed or _columns(segment) - {*SCHEMA.names}:
            runs.append([])  # a later release has written columns that would be lost
        elif runs and runs[-1] and _follows(runs[-1][-1], segment) and size + bytes_ <= most_bytes:
            runs[-1].append(segment)
            size += bytes_
        else:
            runs.append([segment])
            size = bytes_
    return [run for run in runs if len(run) > 1]


def _columns(segment: Segment) -> set[str]:
    try:
        return {*pq.read_schema(segment.path).names}
    except pa.ArrowException:
        damage = check_sealed(segment)
        if damage is None:
            raise
        raise LogDamaged(damage) from None


def _follows(one: Segment, other: Segment) -> bool:
    assert one.last is not None
    return other.first == one.last._replace(row=one.last.row + 1)


def _rewrite(disk: Disk, folder: Path, run: Sequence[Segment]) -> int:
    """Write files as one, which is compared with them; return the number of its rows."""
    for segment in run:
        damage = check_sealed(segment)
        if damage is not None:
            raise LogDamaged(damage)
    path = seal(disk, folder, _rows(run))
    assert path is not None, "a sealed file has rows"
    sealed_s = max(segment.path.stat().st_mtime for segment in run)
    os.utime(path, (sealed_s, sealed_s))  # retention counts from it
    (new,) = [segment for segment in list_files(folder) if segment.path == path]
    if not _are_equal(_rows([new]), _rows(run)):
        disk.remove(path)
        raise LogError(f"{path}: the disk has changed what was written; the old files are kept")
    assert new.last is not None
    return new.last.row - new.first.row + 1


def _rows(run: Sequence[Segment]) -> Iterator[pa.RecordBatch]:
    return (batch for segment in run for batch in read_sealed(segment, None))


def _are_equal(ones: Iterator[pa.RecordBatch], others: Iterator[pa.RecordBatch]) -> bool:
    """Return whether two logs have the same rows, however they are cut into batches."""
    one, other = next(ones, None), next(others, None)
    while one is not None and other is not None:
        count = min(one.num_rows, other.num_rows)
        if not one.slice(0, count).equals(other.slice(0, count)):
            return False
        one = one.slice(count) if one.num_rows > count else next(ones, None)
        other = other.slice(count) if other.num_rows > count else next(others, None)
    return one is None and other is None
