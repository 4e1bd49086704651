"""Unix sockets of a daemon: their paths, and the users who may connect there.

Programs of groupcomm connect in a folder that only the daemon's user can change. Spread's library
has a path of its own, in a folder that all users may write to: see `listen_for_spread`.
"""

import os
import secrets
import socket
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from groupcomm.errors import ConfigError

BACKLOG: Final = 1024
_MODES: Final = {"owner": 0o600, "group": 0o660, "all": 0o666}


def listen_at(path: Path, temporary: Path, opened_for: str) -> socket.socket:
    """Listen on a path, and replace the file that has it.

    Args:
        path: the path of the socket.
        temporary: a free path in the same folder; the socket gets its own path once it listens.
        opened_for: the users of this host that may connect: "owner", "group" or "all".

    Raises:
        OSError: it cannot be made.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        listener.bind(str(temporary))
        temporary.chmod(_MODES[opened_for])
        listener.listen(BACKLOG)
        temporary.rename(path)  # clients can connect from here on, and not before
    except OSError:
        listener.close()
        raise
    return listener


def is_alive(path: Path) -> bool:
    """Return whether a process listens on a path."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True


def listen_for_spread(path: Path, opened_for: str) -> socket.socket:
    """Listen where Spread's library connects for a bare port: in a folder that all may write to.

    A file of another user is left alone: a sticky folder would not let it be replaced, and programs
    connect to the owner of the path. The socket of a dead daemon of the same user is replaced.

    Args:
        path: the path of the socket.
        opened_for: the users of this host that may connect: "owner", "group" or "all".

    Raises:
        ConfigError: the name is in use; the text names the user.
        OSError: it cannot be made.
    """
    if fault := _path_fault(path):
        raise ConfigError(f"{path} {fault}")
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")  # nobody can guess the name
    try:
        return listen_at(path, temporary, opened_for)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def _path_fault(path: Path) -> str:
    """Return the reason why a daemon cannot listen at a path; "" if it can."""
    folder = path.parent.stat()
    if folder.st_mode & 0o022 and not folder.st_mode & stat.S_ISVTX:
        return f"is in a folder in which others may replace it: chmod +t {path.parent}"
    try:
        found = path.lstat()
    except FileNotFoundError:
        return ""
    if not stat.S_ISSOCK(found.st_mode):
        return "exists, and is no socket: choose another path"
    if found.st_uid != os.geteuid():
        return f"belongs to user {found.st_uid}, whose daemon programs would reach there"
    if is_alive(path):
        return "is the socket of another daemon, which listens there"
    return ""


def close_for_spread(listener: socket.socket, path: Path) -> None:
    """Stop listening, and remove the path unless it has become another daemon's."""
    listener.close()
    with suppress(OSError):
        if not is_alive(path):
            path.unlink()
