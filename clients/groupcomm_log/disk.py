"""What a writer does to files: each call returns once it is done, or raises OSError.

Only the user who records can enter the folder and read the files: they hold what others have sent.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


class Disk:
    """The real one; tests have others that fail."""

    def make_folder(self, folder: Path) -> None:
        """A folder that lasts, and those it is in; nothing if it is there."""
        if not folder.is_dir():
            self.make_folder(folder.parent)
            folder.mkdir(mode=0o700, exist_ok=True)
            self.sync_folder(folder.parent)

    def create(self, path: Path) -> int:
        """A new empty file in place of what is there; its descriptor. Its name lasts."""
        descriptor = _open_new(path)
        try:
            self.sync_folder(path.parent)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    def write(self, descriptor: int, data: memoryview, at: int) -> None:
        """Write all of it at a place of the file."""
        while data:
            written = os.pwrite(descriptor, data, at)
            data, at = data[written:], at + written

    def sync(self, descriptor: int) -> None:
        """Have what was written last."""
        os.fdatasync(descriptor)

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut off what is behind it."""
        os.ftruncate(descriptor, size)

    def close(self, descriptor: int) -> None:
        """Give the descriptor back."""
        os.close(descriptor)

    @contextmanager
    def synced_file(self, path: Path) -> Iterator[BinaryIO]:
        """A file that lasts once the block ends; its name need not, and it goes if that fails."""
        try:
            with os.fdopen(_open_new(path), "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            path.unlink(missing_ok=True)
            raise

    def rename(self, old: Path, new: Path) -> None:
        """Give a file its lasting name; what had it is gone."""
        old.rename(new)
        self.sync_folder(new.parent)

    def remove(self, path: Path) -> None:
        """Remove a file; it may be there again after a power failure."""
        path.unlink(missing_ok=True)

    def sync_folder(self, folder: Path) -> None:
        """Have the names in it last."""
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _open_new(path: Path) -> int:
    """Make a file of this user alone in the place of what is there; return its descriptor."""
    path.unlink(missing_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
