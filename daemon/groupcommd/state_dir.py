"""A daemon's folder on disk: how often it has started, and which view counters it may have used.

Everything is written to a temporary file, synced, renamed, and the folder synced, before anything
that depends on it is sent; a daemon that repeated an incarnation or a view id could be taken for
its own past.
"""

import fcntl
import json
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import attrs

from groupcomm.config.start import Start
from groupcomm.config.view import Incarnation
from groupcomm.errors import GroupCommError

_RECORD: Final = "state.json"
_NEXT: Final = "state.json.new"
_LOCK: Final = "lock"
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


class StateError(GroupCommError):
    """The state folder cannot be used; the daemon must not start."""


@attrs.frozen
class Record:
    """What the disk holds.

    Attributes:
        restarts: how many times the daemon has started.
        mark: view counters up to it may have been used.
    """

    restarts: int = 0
    mark: int = 0


class StateDir:
    """The state folder of one daemon, locked as long as this object is open."""

    def __init__(self, path: Path) -> None:
        """Make the folder if it is missing, and lock it.

        Raises:
            StateError: it cannot be made or written, or another daemon has it.
        """
        self._path = path
        self._record = Record()
        self._next = -1  # descriptor of the file that is written next; -1: it is to be opened
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            self._lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise self._unusable(error) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            os.close(self._folder)
            raise StateError(
                f"state_dir {path} is in use by another daemon; stop it, or give each its own"
            ) from None

    def close(self) -> None:
        """Unlock it."""
        if self._next >= 0:
            os.close(self._next)
        os.close(self._lock)
        os.close(self._folder)

    def begin(self, name: str, least_restarts: int = 0) -> Start:
        """Count a start, on disk before this returns.

        Args:
            name: of the daemon.
            least_restarts: how many restarts others are known to count.

        Raises:
            StateError: the record is damaged or cannot be written.
        """
        old = self._read()
        self._write(Record(max(old.restarts, least_restarts) + 1, old.mark))
        incarnation = Incarnation(self._record.restarts, secrets.randbits(64))
        return Start(name=name, incarnation=incarnation, counter=self._record.mark)

    def store(self, mark: int) -> None:
        """Have the disk hold a mark; it blocks for as long as the disk takes.

        Raises:
            StateError: it cannot be written.
        """
        self._write(Record(self._record.restarts, mark))

    def _read(self) -> Record:
        path = self._path / _RECORD
        try:
            with os.fdopen(self._open(_RECORD, os.O_RDONLY), "rb") as file:
                found: Any = json.loads(file.read())
            record = Record(found["restarts"], found["mark"])
            if not all(type(value) is int and value >= 0 for value in attrs.astuple(record)):
                raise ValueError
        except FileNotFoundError:
            return Record()
        except OSError as error:
            raise self._unusable(error) from error
        except (ValueError, KeyError, TypeError):
            raise StateError(
                f"{path} is damaged; if this daemon's clock is right it may be removed: the daemon"
                " then starts as one whose disk was lost"
            ) from None
        return record

    def _write(self, record: Record) -> None:
        try:
            with os.fdopen(self._take_next(), "wb") as file:
                file.write(json.dumps(attrs.asdict(record)).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
            os.rename(_NEXT, _RECORD, src_dir_fd=self._folder, dst_dir_fd=self._folder)
            os.fsync(self._folder)
        except OSError as error:
            raise self._unusable(error) from error
        self._record = record
        with suppress(OSError):  # then the next write opens it, or fails
            self._next = self._open(_NEXT, _WRITE)

    def _take_next(self) -> int:
        """The file that is written next, held open: to store a mark takes no more descriptors."""
        held, self._next = self._next, -1
        if held >= 0 and os.fstat(held).st_nlink:
            return held
        if held >= 0:
            os.close(held)  # somebody has removed it
        return self._open(_NEXT, _WRITE)

    def _open(self, name: str, flags: int) -> int:
        """Open a file of the folder that is held open, wherever its path may lead by now."""
        return os.open(name, flags | os.O_CLOEXEC, 0o600, dir_fd=self._folder)

    def _unusable(self, error: OSError) -> StateError:
        return StateError(
            f"state_dir {self._path} cannot be used: {error.strerror or error}; without it a daemon"
            " cannot tell its starts apart, so it does not start"
        )
