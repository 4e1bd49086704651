"""The file operations of a writer: each call returns once it is done, or raises OSError.

Only the recording user can enter the folder and read the files, because they hold messages of
others.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from groupcomm_log.names import UNFINISHED


class Disk:
    """The real disk; tests use others, which fail."""

    def make_folder(self, folder: Path) -> None:
        """Make a durable folder with its parents; do nothing if it exists."""
        if not folder.is_dir():
            self.make_folder(folder.parent)
            folder.mkdir(mode=0o700, exist_ok=True)
            self.sync_folder(folder.parent)

    def create(self, path: Path) -> None:
        """Create an empty file, whose name is durable, in place of any other."""
        os.close(_open_new(path))
        self.sync_folder(path.parent)

    @contextmanager
    def opened(self, path: Path) -> Iterator[int]:
        """Open a file to write to it, for the length of a block; yield its descriptor."""
        descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def write(self, descriptor: int, data: memoryview, at: int) -> None:
        """Write all of the data at an offset of the file."""
        while data:
            written = os.pwrite(descriptor, data, at)
            data, at = data[written:], at + written

    def sync(self, descriptor: int) -> None:
        """Make durable what was written."""
        os.fdatasync(descriptor)

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut the file off at a size."""
        os.ftruncate(descriptor, size)

    @contextmanager
    def synced_file(self, path: Path) -> Iterator[BinaryIO]:
        """Yield a file that is durable once the block ends; remove it if the block fails."""
        try:
            with os.fdopen(_open_new(path), "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            path.unlink(missing_ok=True)
            raise

    def rename(self, old: Path, new: Path) -> None:
        """Give a file its durable name; a file that had it is replaced."""
        old.rename(new)
        self.sync_folder(new.parent)

    def replace(self, path: Path, data: bytes) -> None:
        """Write a whole small file, which is durable then; a file that had its name is replaced."""
        unfinished = path.with_name(f".{path.name}{UNFINISHED}")
        with self.synced_file(unfinished) as file:
            file.write(data)
        self.rename(unfinished, path)

    def remove(self, path: Path) -> None:
        """Remove a file; after a power failure it may be there again."""
        path.unlink(missing_ok=True)

    def sync_folder(self, folder: Path) -> None:
        """Make the names in a folder durable."""
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _open_new(path: Path) -> int:
    """Create a file of this user alone in place of any other; return its descriptor."""
    path.unlink(missing_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
