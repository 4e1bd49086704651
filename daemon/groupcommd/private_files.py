"""Files and folders that others must keep out of: what is wrong with them, and how to mend it."""

import fcntl
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

from groupcomm.errors import ConfigError

_T = TypeVar("_T")

ENTER_BY: Final = {"owner": 0o000, "group": 0o010, "all": 0o011}
"""Of a socket's folder: who else may enter it, by `clients.unix_for`."""


def open_private(path: Path, key: str) -> BinaryIO:
    """Open a file that holds a secret.

    Args:
        path: of the file.
        key: what to call it in an error.

    Raises:
        ConfigError: anybody but its owner may read it.
        OSError: it cannot be read.
    """
    file = path.open("rb")
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o077:
        file.close()
        raise ConfigError(
            f"{key} {path}: others may read it (mode {stat.S_IMODE(status.st_mode):o});"
            f" mend that with: chmod 600 {path}"
        )
    return file


def open_irreplaceable(path: Path, key: str) -> BinaryIO:
    """As `open_private`, where also nobody else shall put another file in its place.

    Raises:
        ConfigError: others may read or replace it.
        OSError: it cannot be read.
    """
    file = open_private(path, key)
    fault = _owner_fault(path, os.fstat(file.fileno())) or _replaceable(path.absolute().parent)
    if fault is not None:
        file.close()
        raise ConfigError(f"{key} {path}: {fault}")
    return file


def open_unwritable(path: Path, key: str) -> BinaryIO:
    """Open a file that everybody may read, and only its owner change or replace.

    Raises:
        ConfigError: others may change or replace it.
        OSError: it cannot be read.
    """
    file = path.open("rb")
    status = os.fstat(file.fileno())
    fault = _owner_fault(path, status) or _replaceable(path.absolute().parent)
    if status.st_mode & 0o022:
        mode = stat.S_IMODE(status.st_mode)
        fault = f"others may write to it (mode {mode:o}); mend that with: chmod go-w {path}"
    if fault is not None:
        file.close()
        raise ConfigError(f"{key} {path}: {fault}")
    return file


def _trusted() -> tuple[int, ...]:
    """The users who may own a secret file and its folder."""
    return 0, os.geteuid()


def _owner_fault(path: Path, status: os.stat_result) -> str | None:
    if status.st_uid in _trusted():
        return None
    return (
        f"it belongs to user {status.st_uid}, who may change it;"
        f" mend that with: chown {os.geteuid()} {path}"
    )


def _replaceable(folder: Path) -> str | None:
    status = folder.stat()
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o022 and not mode & stat.S_ISVTX:  # in a sticky folder others cannot replace it
        return (
            f"others may write to its folder (mode {mode:o}) and replace it;"
            f" mend that with: chmod go-w {folder}"
        )
    if status.st_uid not in _trusted():
        return (
            f"its folder belongs to user {status.st_uid}, who may replace it;"
            f" mend that with: chown {os.geteuid()} {folder}"
        )
    return None


def write_new(path: Path, text: str) -> None:
    """Write a file that its owner alone can read, where there is none.

    Raises:
        FileExistsError: there is one, or a symbolic link; it is left as it is.
        OSError: it cannot be written.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def rewrite_private(path: Path, change: Callable[[], _T], text_of: Callable[[_T], str]) -> _T:
    """Write a file anew: it holds the old text or the new one, whenever the power fails.

    All who do so to files of one folder at the same time wait for each other, so that none undoes
    what another has just written.

    Args:
        path: of the file, which its owner alone can read then; it need not be there.
        change: reads the file, and returns what it shall hold; called while others wait.
        text_of: how that is written.

    Returns:
        What it holds now.

    Raises:
        OSError: it cannot be written, and is as it was; so it is if a function given raises.
    """
    folder = os.open(path.absolute().parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        changed = change()
        temporary = path.with_name(f".{path.name}.new")
        temporary.unlink(missing_ok=True)  # of a change that was cut off
        write_new(temporary, text_of(changed))
        temporary.rename(path)
        os.fsync(folder)
    finally:
        os.close(folder)
    return changed


def folder_fault(path: Path, status: os.stat_result, opened_for: str = "owner") -> str | None:
    """What is wrong with the folder of a socket, with the remedy; None if nothing is.

    Args:
        path: of the folder.
        status: its own.
        opened_for: who may connect: "owner", "group" or "all".
    """
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid not in (0, os.geteuid()):
        return f"{path} belongs to user {status.st_uid}, who could put another socket there"
    if mode & 0o022:
        return f"others may write to {path} (mode {mode:o}); mend that with: chmod go-w {path}"
    if mode & 0o011 & ~ENTER_BY[opened_for]:
        return (
            f"others may enter {path} (mode {mode:o}); mend that with: chmod 700 {path},"
            ' or say that they may: clients.unix_for = "group" or "all"'
        )
    return None
