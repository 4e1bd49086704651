"""The writer of a log: rows are on disk when `append` returns; see docs/recorder.md.

It blocks, so a program with an event loop calls it in threads: `append` in one, `tend` in another.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from groupcomm_log.disk import Disk
from groupcomm_log.live import encode_batch, encode_schema
from groupcomm_log.lock import SharedLock, lock_folder
from groupcomm_log.manifest import MANIFEST, Manifest, draw_step, read_manifest
from groupcomm_log.names import UNFINISHED, Segment, list_files, list_segments, live_name
from groupcomm_log.recovery import Found, Unsealed, find_contents, seal_live
from groupcomm_log.schema import SCHEMA, Offset


@dataclass(frozen=True)
class Limits:
    """The limits at which files are sealed and removed.

    Attributes:
        seal_bytes: approximate size at which a live file is sealed.
        seal_s: age in seconds, from its first row, at which a live file is sealed.
        keep_bytes: maximum size of all files; the oldest sealed ones are removed. None for no
            limit.
        keep_s: seconds until a sealed file is removed. None for no limit.
    """

    seal_bytes: int = 64 * 1024 * 1024
    seal_s: float = 300.0
    keep_bytes: int | None = None
    keep_s: float | None = None


class LogWriter:
    """The writer of one folder; there is no other writer at the same time.

    Attributes:
        folder: the folder.
        epoch: epoch of the rows that it writes.
        next_row: the number of the next row.
        found: the contents of the folder before.
    """

    def __init__(
        self,
        folder: Path,
        limits: Limits | None = None,
        *,
        disk: Disk | None = None,
        lock: SharedLock | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        step: Callable[[], int] = draw_step,
    ) -> None:
        """Continue the log in a folder.

        Args:
            folder: the folder, which is made if it does not exist.
            limits: see `Limits`.
            disk: see `Disk`.
            lock: a lock that is to cover the folder; None: it has one of its own.
            clock: the wall clock, seconds since 1970; for retention.
            monotonic: seconds; for sealing.
            step: returns by how much the epoch is above the one before.

        Raises:
            LogBusy: another recorder writes to it.
            LogError: the folder cannot hold a log.
            OSError: it cannot be made, read or written.
        """
        self._disk = disk or Disk()
        self._disk.make_folder(folder)
        self.folder = folder
        self._limits = limits or Limits()
        self._clock = clock
        self._monotonic = monotonic
        self._lock_file = lock_folder(folder) if lock is None else lock.cover(folder)
        self._live: _LiveFile | None = None
        self._live_lock = threading.Lock()  # append and tend may both roll the file
        try:
            for left_over in folder.glob(f".*{UNFINISHED}"):
                self._disk.remove(left_over)
            manifest = read_manifest(folder)
            self._manifest = manifest or Manifest()
            if manifest is None:
                self._write_manifest(self._manifest)
            segments = list_segments(folder)
            self.found: Found = find_contents(segments)
        except BaseException:
            self._unlock()
            raise
        self._earlier = {segment.first.epoch for segment in segments}
        self.epoch = max(self.found.epoch, *self._manifest.epochs[-1:], 0) + step()
        self.next_row = self.found.next_row
        self._unsealed = deque(self.found.unsealed)

    # ---- rows ----

    def append(self, rows: pa.RecordBatch) -> Offset:
        """Write rows, at least one, and return the offset of the last one: they are on disk.

        Args:
            rows: rows with the columns of `schema.ROWS`.

        Raises:
            OSError: they are not. A call with the same rows, and perhaps more after them, tries
                again.
        """
        count = rows.num_rows
        batch = pa.RecordBatch.from_arrays(
            [
                _repeat(self.epoch, count),
                pc.cumulative_sum(_repeat(1, count), start=self.next_row - 1),
                *rows.columns,
            ],
            schema=SCHEMA,
        )
        with self._live_lock:
            if self.epoch not in self._manifest.epochs:  # first, so that readers know it for ever
                self._write_manifest(self._manifest.with_epochs(*self._earlier, self.epoch))
            if self._live is None:
                first = Offset(self.epoch, self.next_row)
                self._live = _LiveFile(self._disk, self.folder, first, self._monotonic())
            try:
                self._live.append(batch, self.next_row)
            except OSError:
                self._roll()  # after a failed sync the contents of the file are unknown
                raise
            self.next_row += count
            self._roll_if_due()
        return Offset(self.epoch, self.next_row - 1)

    def _roll_if_due(self) -> None:
        limits, live = self._limits, self._live
        if live is not None and (
            live.size >= limits.seal_bytes or self._monotonic() - live.since >= limits.seal_s
        ):
            self._roll()

    def _roll(self) -> None:
        """Hand the live file over to be sealed; the next row begins another one."""
        live, self._live = self._live, None
        assert live is not None
        live.close()
        if live.rows:
            self._unsealed.append(Unsealed(live.path, live.first, live.first.row + live.rows))

    # ---- deferred work ----

    def tend(self) -> list[Path]:
        """Seal and remove files that are due; return the files that were sealed.

        Raises:
            OSError: a part of it failed; the next call tries again.
        """
        with self._live_lock:
            self._roll_if_due()
        return self._seal_all()

    def close(self) -> list[Path]:
        """Seal all rows and release the folder; return the files that were sealed.

        Raises:
            OSError: they are not sealed; the next recorder seals them.
        """
        try:
            with self._live_lock:
                if self._live is not None:
                    self._roll()
            return self._seal_all()
        finally:
            self._unlock()

    def _unlock(self) -> None:
        if self._lock_file is not None:
            os.close(self._lock_file)

    def _seal_all(self) -> list[Path]:
        sealed = []
        while self._unsealed:
            path = seal_live(self._disk, self._unsealed[0])
            self._unsealed.popleft()
            if path is not None:
                sealed.append(path)
            self._remove_old()  # under load there may always be one more file to seal
        self._remove_old()
        return sealed

    def _remove_old(self) -> None:
        """Remove files by the limits; the newest sealed file stays, so that the next epoch is
        known.
        """
        keep_bytes, keep_s = self._limits.keep_bytes, self._limits.keep_s
        if keep_bytes is None and keep_s is None:
            return
        segments = list_files(self.folder)  # also those that a compaction left
        stats = {segment.path: segment.path.stat() for segment in segments}
        total = sum(stat.st_size for stat in stats.values())
        going = []
        for segment in [segment for segment in segments if not segment.is_live][:-1]:
            stat = stats[segment.path]
            too_old = keep_s is not None and self._clock() - stat.st_mtime >= keep_s
            if not too_old and (keep_bytes is None or total <= keep_bytes):
                break
            total -= stat.st_size
            going.append(segment)
        self._remove(going)

    def remove_before(self, first: Offset) -> None:
        """Remove sealed files all of whose rows are before a row; the newest sealed file stays.

        Raises:
            OSError: a file cannot be removed; another call tries again.
        """
        sealed = [each for each in list_files(self.folder) if not each.is_live][:-1]
        self._remove([each for each in sealed if each.last is not None and each.last < first])

    def _remove(self, going: Sequence[Segment]) -> None:
        if going:
            assert going[-1].last is not None
            with self._live_lock:
                self._write_manifest(replace(self._manifest, kept_from=going[-1].last.row + 1))
        for segment in going:
            self._disk.remove(segment.path)

    def _write_manifest(self, manifest: Manifest) -> None:
        self._disk.replace(self.folder / MANIFEST, manifest.encode())
        self._manifest = manifest


class _LiveFile:
    """The file to which rows are appended; it is open only while something is written.

    Attributes:
        path: path of the file.
        first: its first row.
        since: the time of its creation.
        size: the number of synced bytes.
        rows: number of synced rows.
    """

    def __init__(self, disk: Disk, folder: Path, first: Offset, since: float) -> None:
        self.path = folder / live_name(first)
        self.first = first
        self.since = since
        self.size = self.rows = 0
        self._disk = disk
        disk.create(self.path)
        try:
            self._write(encode_schema())
        except OSError:
            self.close()
            raise

    def append(self, batch: pa.RecordBatch, first: int) -> None:
        self._write(encode_batch(batch, at=self.size, first=first))
        self.rows += batch.num_rows

    def _write(self, data: memoryview) -> None:
        with self._disk.opened(self.path) as descriptor:
            self._disk.write(descriptor, data, self.size)
            self._disk.sync(descriptor)
        self.size += len(data)

    def close(self) -> None:
        """Cut off rows that were not synced."""
        # If that fails the empty file stays, and readers ignore it: see `Unsealed.stop`.
        with suppress(OSError), self._disk.opened(self.path) as descriptor:
            self._disk.truncate(descriptor, self.size)


def _repeat(value: int, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.int64()), count)
