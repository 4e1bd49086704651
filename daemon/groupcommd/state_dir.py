"""A daemon's folder on disk: how often it has started, and which view counters it may have used.

Everything is written to a temporary file, synced, renamed, and the folder synced, before anything
that depends on it is sent; a daemon that repeated an incarnation or a view id could be taken for
its own past.
"""

import fcntl
import json
import os
import secrets
import threading
import time
from pathlib import Path
from typing import Any, Final

import attrs

from groupcomm.config.start import Start
from groupcomm.config.view import Incarnation
from groupcomm.errors import ConfigError, GroupCommError
from groupcomm.membership.reservation import count_start
from groupcommd.private_files import make_private_folder, open_unwritable, write_new

_RECORD: Final = "state.json"
_LOCK: Final = "lock"


class StateError(GroupCommError):
    """The state folder cannot be used: a daemon does not start, one that runs tries again."""


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
    """The state folder of one daemon, locked as long as this object is open.

    Its methods may be called by any thread: one that was left alone while the disk hung may come
    back behind the next one, and must not write what is old over what is new.
    """

    def __init__(self, path: Path) -> None:
        """Make the folder if it is missing, and lock it.

        Raises:
            StateError: it cannot be made or written, or another daemon has it.
        """
        self._path = path
        self._record = Record()
        self._writing = threading.Lock()
        try:
            make_private_folder(path)
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
        """Unlock it; while the disk hangs it stays locked until the process is over."""
        if self._writing.acquire(blocking=False):
            os.close(self._lock)
            os.close(self._folder)

    def begin(self, name: str, least_restarts: int = 0) -> Start:
        """Count a start, on disk before this returns.

        Args:
            name: of the daemon.
            least_restarts: how many restarts others are known to count.

        Raises:
            StateError: the record is damaged, others could have changed it, or it cannot be
                written.
        """
        with self._writing:
            begun, old = time.monotonic(), self._read()
            restarts = max(old.restarts, least_restarts) + 1
            used, mark = count_start(old.mark, int(time.time() * 1e6))
            self._write(Record(restarts, mark))
            return Start(
                name=name,
                incarnation=Incarnation(restarts, secrets.randbits(64)),
                counter=used,
                mark=mark,
                write_s=time.monotonic() - begun,
            )

    def store(self, mark: int) -> None:
        """Have the disk hold a mark; it blocks for as long as the disk takes.

        Raises:
            StateError: it cannot be written.
        """
        with self._writing:
            self._write(Record(self._record.restarts, max(mark, self._record.mark)))

    def _read(self) -> Record:
        path = self._path / _RECORD
        try:
            with open_unwritable(path, "state_dir") as file:
                found: Any = json.load(file)
            record = Record(found["restarts"], found["mark"])
            if not all(type(value) is int and value >= 0 for value in attrs.astuple(record)):
                raise ValueError
        except FileNotFoundError:
            return Record()
        except ConfigError as error:
            raise StateError(str(error)) from None
        except OSError as error:
            raise self._unusable(error) from None
        except (ValueError, KeyError, TypeError):
            raise StateError(
                f"{path} is damaged; if this daemon's clock is right it may be removed: the daemon"
                " then starts as one whose disk was lost"
            ) from None
        return record

    def _write(self, record: Record) -> None:
        temporary = self._path / f"{_RECORD}.new"
        try:
            temporary.unlink(missing_ok=True)  # of a start that was cut off
            write_new(temporary, json.dumps(attrs.asdict(record)) + "\n")
            temporary.rename(self._path / _RECORD)
            os.fsync(self._folder)
        except OSError as error:
            raise self._unusable(error) from None
        self._record = record

    def _unusable(self, error: OSError) -> StateError:
        return StateError(
            f"state_dir {self._path} cannot be used: {error.strerror or error}; without it a daemon"
            " cannot tell its starts and views apart: see to the disk with df, mount and dmesg"
        )
