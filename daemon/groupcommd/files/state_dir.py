"""A daemon's folder on disk: its number of starts, the view counters that it may have used, the
rosters of its cluster, and the mark that says whose it is.

A record is written to a temporary file, synced, renamed, and the folder synced, before any datagram
that depends on it is sent: a daemon that repeated an incarnation or a view id could be mistaken for
an earlier start of itself.
"""

import fcntl
import json
import logging
import os
import secrets
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import attrs

from groupcomm.config.roster import RosterRecord
from groupcomm.config.view import Incarnation, Start
from groupcomm.errors import ConfigError, GroupCommError
from groupcomm.host.private_files import make_private_folder, open_unwritable
from groupcomm.membership.reservation import count_start
from groupcommd.files.roster_file import decode_record, encode_record
from groupcommd.files.state_owner import OWNER, RECORD, Owner, check_owner, encode_owner

_ROSTERS: Final = "roster.json"
_LOCK: Final = "lock"
_log = logging.getLogger("groupcommd")
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class StateError(GroupCommError):
    """The state folder cannot be used: a daemon does not start, and a running one tries again."""


@attrs.frozen
class StateRecord:
    """The record on disk.

    Attributes:
        restarts: the number of starts of the daemon.
        mark: numbers up to this one may have been used, for views and connections.
    """

    restarts: int = 0
    mark: int = 0


class _DurableFile:
    """One file of the folder, which holds the old contents or the new ones whenever the power
    fails.

    Args:
        folder: descriptor of the folder.
        name: the name of the file.
    """

    def __init__(self, folder: int, name: str) -> None:
        self._folder = folder
        self._name = name
        self._temporary = f"{name}.new"
        self._next = -1  # descriptor of the file that is written next; -1: it must be made

    def write(self, data: bytes) -> None:
        """Replace the contents; raise OSError if the disk may not hold them."""
        with os.fdopen(self._pop_next(), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(self._temporary, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        os.fsync(self._folder)

    def prepare(self) -> None:
        """Make the file that is written next; if this fails, the next write makes it or fails."""
        with suppress(OSError):
            self._next = self._make_next()

    def close(self) -> None:
        """Close the file that was to be written next."""
        if self._next >= 0:
            os.close(self._next)

    def _pop_next(self) -> int:
        """Return the file that is written next, which was held open to need no descriptor now."""
        held, self._next = self._next, -1
        if held >= 0 and self._is_next(held):
            return held
        if held >= 0:
            os.close(held)  # another process has removed it
        return self._make_next()

    def _is_next(self, held: int) -> bool:
        try:
            found = os.stat(self._temporary, dir_fd=self._folder, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return os.path.samestat(found, os.fstat(held))

    def _make_next(self) -> int:
        """Make the file anew in the open folder, wherever the folder's path leads by now."""
        with suppress(FileNotFoundError):
            os.unlink(self._temporary, dir_fd=self._folder)  # left by a start that was cut off
        return os.open(self._temporary, _NEW, 0o600, dir_fd=self._folder)


class StateDir:
    """The state folder of one daemon, locked while this object is open.

    Attributes:
        rosters: the rosters that were read or written last.

    Its methods may be called by any thread. A thread that was abandoned while the disk hung may
    return after the next one, and must not write an old record over a new one.
    """

    def __init__(self, path: Path) -> None:
        """Make the folder if it is missing, and lock it.

        Raises:
            StateError: it cannot be made or written, or another daemon uses it.
        """
        self._path = path
        self._record = StateRecord()
        self._claimed: Owner | None = None  # its mark is to be written at the start
        self.rosters = RosterRecord()
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
                f"state_dir {path} is in use by another daemon: stop that one, or give each its own"
            ) from None
        self._state = _DurableFile(self._folder, RECORD)
        self._rosters = _DurableFile(self._folder, _ROSTERS)

    def close(self) -> None:
        """Unlock the folder; while the disk hangs it stays locked until the process ends."""
        if self._writing.acquire(blocking=False):
            self._state.close()
            self._rosters.close()
            os.close(self._lock)
            os.close(self._folder)

    def claim(self, owner: Owner) -> None:
        """Check that the folder is a daemon's; one without a mark is marked at the next `begin`.

        Raises:
            StateError: it is another one's, or the mark is wrong; the text says what to do.
        """
        try:
            marked = check_owner(self._path, owner)
            is_used = (self._path / RECORD).exists()
        except ConfigError as error:
            raise StateError(str(error)) from None
        except OSError as error:
            raise self._unusable(error) from None
        self._claimed = None if marked else owner
        if is_used and not marked:
            _log.warning(
                "state_dir %s was made by an earlier release, which did not note whose it is: from"
                " now on it belongs to %s. If another cluster's daemon has used it, stop this one,"
                " remove %s, and give it a folder of its own with state_dir or --state-dir",
                self._path,
                owner,
                self._path / OWNER,
                extra={"state_dir": str(self._path)},
            )

    def begin(self, name: str) -> Start:
        """Count a start on disk, and return it.

        Args:
            name: the name of the daemon.

        Raises:
            StateError: the record is damaged, others could have changed it, or it cannot be
                written.
        """
        with self._writing:
            begun, old = time.monotonic(), self._read()
            incarnation = Incarnation(old.restarts + 1, secrets.randbits(64))
            reading = int(time.time() * 1e6)
            used, mark = count_start(old.mark, reading, incarnation.random_id)
            self._write_owner()
            self._write(StateRecord(incarnation.restarts, mark))
            return Start(
                name=name,
                incarnation=incarnation,
                counter=used,
                mark=mark,
                write_s=time.monotonic() - begun,
            )

    def store(self, mark: int) -> None:
        """Write a mark to disk; block for as long as the disk takes.

        Raises:
            StateError: it cannot be written.
        """
        with self._writing:
            self._write(StateRecord(self._record.restarts, max(mark, self._record.mark)))

    def _read(self) -> StateRecord:
        path = self._path / RECORD
        try:
            with open_unwritable(path, "state_dir") as file:
                found: Any = json.load(file)
            record = StateRecord(found["restarts"], found["mark"])
            if not all(type(value) is int and value >= 0 for value in attrs.astuple(record)):
                raise ValueError
        except FileNotFoundError:
            return StateRecord()
        except ConfigError as error:
            raise StateError(str(error)) from None
        except OSError as error:
            raise self._unusable(error) from error
        except (ValueError, KeyError, TypeError):
            raise StateError(
                f"{path} is damaged: if this daemon's clock is right, remove it, and the daemon"
                " starts as one whose disk was lost"
            ) from None
        return record

    def _write_owner(self) -> None:
        if self._claimed is None:
            return
        try:
            _DurableFile(self._folder, OWNER).write(encode_owner(self._claimed))
        except OSError as error:
            raise self._unusable(error) from error
        self._claimed = None

    def _write(self, record: StateRecord) -> None:
        try:
            self._state.write(json.dumps(attrs.asdict(record)).encode() + b"\n")
        except OSError as error:
            raise self._unusable(error) from error
        self._record = record
        self._state.prepare()

    @property
    def path(self) -> Path:
        """Return the path of the folder."""
        return self._path

    # ---- rosters ----

    @property
    def rosters_path(self) -> Path:
        """Return the path of the file with the rosters, which need not exist."""
        return self._path / _ROSTERS

    def read_rosters(self) -> RosterRecord:
        """Return the rosters on disk; an empty record without any.

        Raises:
            StateError: the file is damaged, others could have changed it, or it cannot be read.
        """
        path = self.rosters_path
        with self._writing:
            try:
                with open_unwritable(path, "state_dir") as file:
                    self.rosters = decode_record(file.read())
            except FileNotFoundError:
                self.rosters = RosterRecord()
            except ConfigError as error:
                raise StateError(str(error)) from None
            except OSError as error:
                raise self._unusable(error) from error
            except ValueError as error:
                raise StateError(
                    f"{path} is damaged ({error}): if the other daemons of the cluster run, remove"
                    " it, and start this daemon while they do: it learns the roster from them"
                ) from None
            return self.rosters

    def store_rosters(self, record: RosterRecord) -> None:
        """Write the rosters to disk; block for as long as the disk takes.

        Raises:
            StateError: they cannot be written.
        """
        with self._writing:
            try:
                self._rosters.write(encode_record(record))
            except OSError as error:
                raise self._unusable(error) from error
            self.rosters = record
            self._rosters.prepare()

    def _unusable(self, error: OSError) -> StateError:
        return StateError(
            f"state_dir {self._path} cannot be used: {error.strerror or error}; without it a daemon"
            " cannot tell its starts and views apart: check the disk with df, mount and dmesg"
        )
