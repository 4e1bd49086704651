"""Private files and folders: checks that no other user can read or replace them, with remedies."""

import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

from groupcomm.errors import ConfigError
from groupcomm.host.acting import user_name

_T = TypeVar("_T")

ENTER_BY: Final = {"owner": 0o000, "group": 0o010, "all": 0o011}
"""The bits of a socket folder's mode by which others may enter it, by `clients.unix_for`."""

_MAX_LINKS: Final = 40
"""Symbolic links that Linux follows in one path."""


def open_private(path: Path, key: str) -> BinaryIO:
    """Open a file that only its owner may read, and that nobody else can change or replace.

    Args:
        path: the path of the file.
        key: its name in an error.

    Raises:
        ConfigError: others may read, change or replace it.
        OSError: it cannot be read.
    """
    return _open_checked(path, key, 0o077, "read", f"chmod 600 {path}")


def open_unwritable(path: Path, key: str) -> BinaryIO:
    """Open a file that everybody may read, and that only its owner can change or replace.

    Args:
        path: the path of the file.
        key: its name in an error.

    Raises:
        ConfigError: others may change or replace it.
        OSError: it cannot be read.
    """
    return _open_checked(path, key, 0o022, "write to", f"chmod go-w {path}")


def _open_checked(path: Path, key: str, forbidden: int, what: str, remedy: str) -> BinaryIO:
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # a user's pipe must not stop the daemon
    with ExitStack() as stack:
        file = stack.enter_context(os.fdopen(os.open(path, flags), "rb"))
        status = os.fstat(file.fileno())
        fault = None
        if not stat.S_ISREG(status.st_mode):
            fault = "it is no regular file; name one that is"
        elif status.st_mode & forbidden:
            mode = stat.S_IMODE(status.st_mode)
            fault = f"others may {what} it (mode {mode:o}); mend that with: {remedy}"
        fault = fault or _owner_fault(path, status) or _replaceable(path.absolute())
        if fault is not None:
            raise ConfigError(f"{key} {path}: {fault}")
        stack.pop_all()
    return file


def _trusted() -> tuple[int, ...]:
    """Return the users that may own a file which a daemon trusts, and its folder."""
    return 0, os.geteuid()


def _owner_fault(path: Path, status: os.stat_result) -> str | None:
    if status.st_uid in _trusted():
        return None
    return (
        f"it belongs to user {status.st_uid}, who may change it;"
        f" {_remedy(status, f'chown -h {os.geteuid()} {path}')}"
    )


def _remedy(status: os.stat_result, command: str) -> str:
    """Return the remedy for a file or folder of another user. What root reads may be a service's,
    which root's own file would keep from starting.
    """
    if os.geteuid() == 0:
        return f"run this as that user: runuser -u {user_name(status.st_uid)} -- COMMAND"
    return f"mend that with: {command}"


def _replaceable(path: Path) -> str | None:
    """Return the way in which another user can replace a file; None if none can.

    A symbolic link can be replaced in its own folder, and its target in that of the target.
    """
    fault = _folder_fault(path.parent)
    for _ in range(_MAX_LINKS):
        if fault is not None or not path.is_symlink():
            break
        owner_fault = _owner_fault(path, path.lstat())
        path = path.parent / path.readlink()
        fault = owner_fault or _folder_fault(path.parent)
    return fault


def _folder_fault(folder: Path) -> str | None:
    status = folder.stat()
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o022 and not mode & stat.S_ISVTX:  # sticky: others cannot replace the file
        return (
            f"others may write to its folder (mode {mode:o}) and replace it;"
            f" mend that with: chmod go-w {folder}"
        )
    if status.st_uid not in _trusted():
        return (
            f"its folder belongs to user {status.st_uid}, who may replace it;"
            f" {_remedy(status, f'chown {os.geteuid()} {folder}')}"
        )
    return None


def write_new(path: Path, text: str) -> None:
    """Write a new file that its owner alone can read.

    Raises:
        FileExistsError: the file, or a symbolic link, exists; it is left as it is.
        OSError: the file cannot be written.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def write_private(path: Path, text: str) -> None:
    """Write a file that its owner alone can read, in place of an older one.

    It is written completely or not at all. A symbolic link is replaced, and its target is left as
    it is.

    Raises:
        OSError: it cannot be written, or what is there is no file: a device, a socket, a folder,
            or a link to one.
    """
    if path.exists() and not path.is_file():
        raise FileExistsError(errno.EEXIST, "what is there is no file, and is kept", str(path))
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")  # nobody can guess the name
    try:
        write_new(temporary, text)
        temporary.rename(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def make_private_folder(path: Path) -> None:
    """Make a folder that its owner alone can enter, and missing folders above it.

    Raises:
        OSError: a folder cannot be made.
    """
    if not path.is_dir():
        make_private_folder(path.absolute().parent)
        path.mkdir(mode=0o700, exist_ok=True)


def rewrite_private(path: Path, change: Callable[[], _T], text_of: Callable[[_T], str]) -> _T:
    """Rewrite a file, which holds the old text or the new one whenever the power fails.

    Processes that rewrite files of one folder at the same time wait for each other, so that none
    undoes another's change.

    Args:
        path: the file, which its owner alone can read then; it need not exist.
        change: reads the file, and returns its new contents; called while others wait.
        text_of: returns the text of the new contents.

    Returns:
        The new contents.

    Raises:
        OSError: the file cannot be written; it is as before, as it is if `change` or `text_of`
            raises.
    """
    folder = os.open(path.absolute().parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        changed = change()
        temporary = path.with_name(f".{path.name}.new")
        temporary.unlink(missing_ok=True)  # the rest of a change that was cut off
        write_new(temporary, text_of(changed))
        temporary.rename(path)
        os.fsync(folder)
    finally:
        os.close(folder)
    return changed


def folder_fault(path: Path, status: os.stat_result, opened_for: str = "owner") -> str | None:
    """Return the fault of a socket's folder, and the remedy; None if it has none.

    Args:
        path: the folder.
        status: its status.
        opened_for: the users that may connect: "owner", "group" or "all".
    """
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid not in (0, os.geteuid()):
        return f"{path} belongs to user {status.st_uid}, who could put another socket there"
    if mode & 0o022 and mode & stat.S_ISVTX:
        return (
            f"{path} is a folder of all users (mode {mode:o}), where others could put a socket"
            f" first; name a path in a folder of your own, such as {path}/{os.geteuid()}/NAME.sock:"
            " the daemon makes the folder"
        )
    if mode & 0o022:
        return f"others may write to {path} (mode {mode:o}); mend that with: chmod go-w {path}"
    if mode & 0o011 & ~ENTER_BY[opened_for]:
        return (
            f"others may enter {path} (mode {mode:o}); mend that with: chmod 700 {path},"
            ' or say that they may: clients.unix_for = "group" or "all"'
        )
    return None
