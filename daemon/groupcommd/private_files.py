"""Files and folders that others must keep out of: what is wrong with them, and how to mend it."""

import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

from groupcomm.errors import ConfigError

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


def write_private(path: Path, text: str, *, exist_ok: bool = False) -> None:
    """Write a file that its owner alone can read, whole or not at all.

    Raises:
        ConfigError: it is there already, and shall not be replaced.
        OSError: it cannot be written.
    """
    if not exist_ok and path.exists():
        raise ConfigError(f"{path} exists, and is left as it is: choose another path")
    temporary = path.with_name(path.name + ".new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        descriptor = os.open(temporary, flags, 0o600)
    except FileExistsError:
        raise ConfigError(
            f"{temporary} exists: somebody else is writing {path.name}; if nobody is, remove it"
        ) from None
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)


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
