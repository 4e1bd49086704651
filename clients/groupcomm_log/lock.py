"""The lock of a log's folder against other writers: it lasts as long as a descriptor is open.

An archive writes hundreds of logs, and descriptors are few. So the files of their locks are links
to one file, which is locked once.
"""

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from groupcomm_log.errors import LogBusy
from groupcomm_log.names import LOCK, UNFINISHED

PATIENCE_S: Final = 2.0
"""The time to wait for another writer that is about to end."""


def lock_folder(folder: Path) -> int:
    """Lock a folder, for as long as the descriptor that is returned is open.

    Raises:
        LogBusy: another program writes to it.
        OSError: the file of the lock cannot be made.
    """
    until = time.monotonic() + PATIENCE_S
    while True:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(folder / LOCK, flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_same(descriptor, folder / LOCK):
                return descriptor
        except BlockingIOError:
            pass
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)
        if time.monotonic() >= until:
            raise LogBusy(
                f"{folder}: another recorder writes to it; end that one, or choose another folder"
            )
        time.sleep(0.05)


class SharedLock:
    """The lock of a folder, and of others of the same owner."""

    def __init__(self, folder: Path) -> None:
        """Lock a folder; see `lock_folder` for the errors."""
        self._path = folder / LOCK
        self._descriptor = lock_folder(folder)

    def cover(self, folder: Path) -> int | None:
        """Lock another folder, too; see `lock_folder` for the errors.

        Returns:
            None if no descriptor is needed; else that of the folder's own lock, as this disk has no
            links to a file, or the folder is on another one.
        """
        path = folder / LOCK
        if _is_same(self._descriptor, path):
            return None
        own = lock_folder(folder)
        link = folder / f".{LOCK}{UNFINISHED}"
        try:
            link.unlink(missing_ok=True)
            os.link(self._path, link)
            link.replace(path)
        except OSError:
            return own
        os.close(own)
        return None

    def close(self) -> None:
        """Unlock all of them, apart from those that have a lock of their own."""
        os.close(self._descriptor)


def _is_same(descriptor: int, path: Path) -> bool:
    """Return whether a path leads to the file that is open."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), path.stat())
    return False
