"""The files of batches, on their way from executors to the driver.

Each attempt of a task writes a file of its own. The manifest defines a batch. The driver creates it
when all tasks have succeeded, and only once: whatever later attempts compute, also for another
driver at the same time, the manifest defines the batch.
"""

import os
import re
import secrets
import shutil
import socket
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from groupcomm.errors import ConfigError, GroupCommError
from groupcomm.wire.bundle import MAX_GROUPS
from groupcomm_log.disk import Disk
from groupcomm_spark.sink.options import STAGED

READ_ROWS: Final = 1024
"""Rows that are read and sent at a time."""

_NOTED: Final = "published.json"
_MANIFEST: Final = "{:012d}.json"
_BATCH: Final = re.compile(r"\.?(\d{12})[-.]")


class StagingDamaged(GroupCommError):
    """A batch that was decided has changed, and cannot be published."""


class Part(msgspec.Struct, frozen=True):
    """The rows of one partition.

    Attributes:
        name: name of its file; empty without rows.
        partition: number of the partition; partitions are sent in this order.
        rows: number of rows.
        groups: number of rows for each destination.
    """

    name: str
    partition: int
    rows: int
    groups: Mapping[str, int]


class Manifest(msgspec.Struct, frozen=True):
    """The definition of a batch.

    Attributes:
        query, batch: identity of the batch.
        parts: the parts with rows, in order.
        after: for each destination, the batch before this one that had rows for it.
    """

    query: str
    batch: int
    parts: tuple[Part, ...]
    after: Mapping[str, int]

    @property
    def groups(self) -> dict[str, int]:
        """Return the number of rows for each destination, in the order of their first rows."""
        found: Counter[str] = Counter()
        for part in self.parts:
            found.update(part.groups)
        return dict(found)


class Published(msgspec.Struct, frozen=True):
    """The published batches of a query.

    Attributes:
        batch: last batch; -1 for none.
        groups: last batch for each destination.
    """

    batch: int = -1
    groups: Mapping[str, int] = {}


_T = TypeVar("_T")


class Staging:
    """The batches of one query.

    Args:
        folder: folder of all queries.
        query: identity of the query.
        disk: writes the files.
    """

    def __init__(self, folder: Path, query: str, disk: Disk | None = None) -> None:
        self.query = query
        self.folder = folder / query
        self._disk = disk or Disk()

    # ---- on executors ----

    def write(self, batch: int, partition: int, rows: Iterator[pa.RecordBatch]) -> Part:
        """Write the rows of a partition, batches that are not empty; they are durable on return.

        Raises:
            ConfigError: this user may not write there, or others may.
        """
        first = next(rows, None)
        if first is None:
            return Part("", partition, 0, {})
        try:
            return self._write(batch, partition, chain([first], rows))
        except PermissionError as error:
            raise ConfigError(
                f"staging {error.filename}: user {os.geteuid()} of {socket.gethostname()} may not"
                " write there; let the executors run as the driver's user"
            ) from None

    def _write(self, batch: int, partition: int, rows: Iterator[pa.RecordBatch]) -> Part:
        self._disk.make_folder(self.folder)
        self.check()
        name = f"{batch:012d}-{partition:06d}-{secrets.token_hex(6)}.parquet"
        count, groups = 0, Counter[str]()
        temporary = self.folder / f".{name}"
        with (
            self._disk.synced_file(temporary) as file,
            pq.ParquetWriter(file, STAGED, compression="zstd", write_page_checksum=True) as writer,
        ):
            for each in rows:
                writer.write_batch(each)
                count += each.num_rows
                groups.update(
                    {
                        item["values"]: item["counts"]
                        for item in each["groups"].flatten().value_counts().to_pylist()
                    }
                )
        self._disk.rename(temporary, self.folder / name)
        return Part(name, partition, count, dict(groups))

    # ---- on the driver ----

    def published(self) -> Published:
        """Return the last note."""
        self.check()
        return self._load(self.folder / _NOTED, Published) or Published()

    def is_decided(self, batch: int) -> bool:
        """Return whether a batch has been decided."""
        return (self.folder / _MANIFEST.format(batch)).exists()

    def decide(self, batch: int, parts: Sequence[Part]) -> Manifest:
        """Decide that a batch consists of these parts, unless it was decided before; return the
        decision.

        Raises:
            ConfigError: the rows are for too many groups.
        """
        self.check()
        path = self.folder / _MANIFEST.format(batch)
        found = self._load(path, Manifest)
        if found is not None:
            return found
        ordered = sorted((part for part in parts if part.rows), key=lambda part: part.partition)
        manifest = Manifest(self.query, batch, tuple(ordered), {})
        if len(manifest.groups) > MAX_GROUPS:
            raise ConfigError(
                f"batch {batch} has rows for {len(manifest.groups)} groups; at most {MAX_GROUPS}"
                " are possible: send to fewer groups, or limit the rows of a batch at the source"
            )
        before = self.published().groups
        after = {group: before[group] for group in manifest.groups if group in before}
        self._create(path, msgspec.structs.replace(manifest, after=after))
        made = self._load(path, Manifest)
        assert made is not None, "it was created, here or by another driver"
        return made

    def rows(self, manifest: Manifest) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a batch, in order.

        Raises:
            StagingDamaged: they are missing or changed.
        """
        for part in manifest.parts:
            path = self.folder / part.name
            count = 0
            try:
                with pq.ParquetFile(path, page_checksum_verification=True) as file:
                    for each in file.iter_batches(READ_ROWS):
                        count += each.num_rows
                        yield each
            except (OSError, pa.ArrowException) as error:
                raise StagingDamaged(_damaged(manifest, path, str(error))) from None
            if count != part.rows:
                raise StagingDamaged(_damaged(manifest, path, f"{count} rows"))

    def note(self, manifest: Manifest) -> None:
        """Note that a batch was published, and remove files that are no longer needed."""
        noted = self.published()
        groups = {
            group: max(manifest.batch, noted.groups.get(group, -1)) for group in manifest.groups
        }
        batch = max(manifest.batch, noted.batch)  # another driver may have written a later batch
        path = self.folder / _NOTED
        temporary = self._write_json(path, Published(batch, {**noted.groups, **groups}))
        self._disk.rename(temporary, path)
        self.clean(manifest)

    def clean(self, manifest: Manifest) -> None:
        """Remove earlier batches, and files of attempts that are not part of this batch."""
        keep = {part.name for part in manifest.parts} | {_MANIFEST.format(manifest.batch)}
        for path in list(self.folder.iterdir()):
            match = _BATCH.match(path.name)
            if match is not None and int(match[1]) <= manifest.batch and path.name not in keep:
                self._disk.remove(path)

    def remove(self, parts: Iterable[Part]) -> None:
        """Remove parts of a batch that was already published."""
        for part in parts:
            if part.name:
                self._disk.remove(self.folder / part.name)

    def discard(self) -> None:
        """Remove the query with all that is staged."""
        shutil.rmtree(self.folder, ignore_errors=True)

    # ---- files ----

    def check(self) -> None:
        """Check that no other user could change a batch.

        Raises:
            ConfigError: another user could put files there, or a folder in the place of this one.
        """
        for folder, is_its_own in ((self.folder.parent, False), (self.folder, True)):
            try:
                status = folder.lstat() if is_its_own else folder.stat()
            except FileNotFoundError:
                continue  # the folder is for this user alone
            fault = _fault(status, sticky_will_do=not is_its_own)
            if fault is not None:
                raise ConfigError(
                    f"staging {folder}: {fault}, so others could have the driver publish their"
                    " messages; name a folder of this user alone, by the option staging"
                )

    def _create(self, path: Path, value: Any) -> None:
        """Create a file atomically; do nothing if it exists."""
        self._disk.make_folder(self.folder)
        temporary = self._write_json(path, value)
        try:
            os.link(temporary, path)
        except FileExistsError:
            return  # another driver was first
        finally:
            self._disk.remove(temporary)
        self._disk.sync_folder(self.folder)

    def _write_json(self, path: Path, value: Any) -> Path:
        temporary = path.with_name(f".{path.name}-{secrets.token_hex(6)}")
        with self._disk.synced_file(temporary) as file:
            file.write(msgspec.json.encode(value))
        return temporary

    def _load(self, path: Path, kind: type[_T]) -> _T | None:
        try:
            return msgspec.json.decode(path.read_bytes(), type=kind)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            raise StagingDamaged(f"{path} was changed: {error}; restore it from a copy") from None


def _fault(status: os.stat_result, *, sticky_will_do: bool) -> str | None:
    """Return the fault of a folder; None if only this user, or root, can change its contents.

    Args:
        status: status of the folder.
        sticky_will_do: others may write there if they cannot replace this user's files.
    """
    if not stat.S_ISDIR(status.st_mode):
        return "it is not a folder"
    if status.st_uid not in (0, os.geteuid()):
        return f"it belongs to user {status.st_uid}"
    if status.st_mode & 0o022 and not (sticky_will_do and status.st_mode & stat.S_ISVTX):
        return f"others may write to it (mode {stat.S_IMODE(status.st_mode):o})"
    return None


def _damaged(manifest: Manifest, path: Path, why: str) -> str:
    return (
        f"batch {manifest.batch} of query {manifest.query} cannot be published: {path}: {why};"
        " restore the file, or remove the manifest to have the batch computed anew (receivers may"
        " have a part of it)"
    )
