"""Logs for tests."""

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

import pyarrow.parquet as pq

from groupcomm_log.disk import Disk
from groupcomm_log.names import Segment, sealed_name
from groupcomm_log.reader import LogReader
from groupcomm_log.schema import MESSAGE, Offset, rows_of
from groupcomm_log.sealed import crc_of
from groupcomm_log.writer import LogWriter

open_log: Final = partial(LogWriter, step=lambda: 1)
"""Opens a log whose epochs are 1, 2, 3 and so on."""


def append(writer: LogWriter, *data: bytes) -> Offset:
    """Write messages with this data."""
    return writer.append(rows_of([{"kind": MESSAGE, "data": each} for each in data]))


def contents(folder: Path, *columns: str) -> list[tuple[Any, ...]]:
    """Return the contents of a log; all of it must be whole."""
    names = columns or ("epoch", "row", "data")
    return [
        tuple(row.values())
        for batch in LogReader(folder).batches(columns=names)
        for row in batch.to_pylist()
    ]


def crash(writer: LogWriter) -> None:
    """End it as `kill -9` does: nothing is closed but the lock."""
    writer._unlock()


def live_file(folder: Path) -> Path:
    """The only one."""
    (path,) = folder.glob("_live-*")
    return path


class QuickDisk(Disk):
    """Syncs nothing; that is for tests that lose no power."""

    def sync(self, descriptor: int) -> None:
        pass

    def sync_folder(self, folder: Path) -> None:
        pass

    @contextmanager
    def synced_file(self, path: Path) -> Iterator[BinaryIO]:
        with path.open("wb") as file:
            yield file


class _FullFile:
    """Has room for a few bytes."""

    closed = False

    def __init__(self, file: BinaryIO, error: OSError) -> None:
        self._file = file
        self._error = error

    def write(self, data: bytes) -> int:
        if self._file.tell() + len(data) > 100:
            raise self._error
        return self._file.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class FailingDisk(Disk):
    """Fails with an error in some of its calls.

    Attributes:
        failing: names of the calls that fail; "write" leaves the first half behind.
    """

    def __init__(self, error: int = errno.ENOSPC, failing: Sequence[str] = ()) -> None:
        self.failing = set(failing)
        self._error = OSError(error, os.strerror(error))

    def _try(self, call: str) -> None:
        if call in self.failing:
            raise self._error

    def create(self, path: Path) -> None:
        self._try("create")
        super().create(path)

    def write(self, descriptor: int, data: memoryview, at: int) -> None:
        if "write" in self.failing:
            super().write(descriptor, data[: len(data) // 2], at)
        self._try("write")
        super().write(descriptor, data, at)

    def sync(self, descriptor: int) -> None:
        self._try("sync")
        super().sync(descriptor)

    def truncate(self, descriptor: int, size: int) -> None:
        self._try("truncate")
        super().truncate(descriptor, size)

    @contextmanager
    def synced_file(self, path: Path) -> Iterator[BinaryIO]:
        with super().synced_file(path) as file:
            self._try("synced_file")
            yield cast(BinaryIO, _FullFile(file, self._error)) if "fill" in self.failing else file

    def rename(self, old: Path, new: Path) -> None:
        self._try("rename")
        super().rename(old, new)

    def remove(self, path: Path) -> None:
        self._try("remove")
        super().remove(path)


def without_a_column(segment: Segment) -> None:
    """Make a sealed file one of an earlier release, which had no `vs_set`."""
    assert segment.last is not None
    pq.write_table(pq.read_table(segment.path).drop_columns(["vs_set"]), segment.path)
    name = sealed_name(segment.first, segment.last.row, crc_of(segment.path))
    segment.path.rename(segment.path.with_name(name))
