"""Unix sockets of a daemon: their paths, and the users who may connect there.

Programs of groupcomm connect in a folder that only the daemon's user can change. Spread's library
has a path of its own, in a folder that all users may write to: see `listen_for_spread`.

A path may name anything, by a slip of the pen: only a socket of the daemon's user at which nobody
listens any more is ever replaced or removed.
"""

import errno
import os
import secrets
import socket
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from groupcomm.errors import ConfigError
from groupcomm.host.peer_credentials import peer_credentials
from groupcomm.visible import visible

BACKLOG: Final = 1024
_MODES: Final = {"owner": 0o600, "group": 0o660, "all": 0o666}
_KINDS: Final = {
    stat.S_IFREG: "a file",
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a pipe",
}
_NOBODY_LISTENS: Final = (errno.ECONNREFUSED, errno.ENOENT)


def listen_at(path: Path, temporary: Path, opened_for: str) -> socket.socket:
    """Listen on a path; the socket of a process that has ended is replaced.

    Args:
        path: the path of the socket; `path_fault` says what forbids to use it.
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


def path_fault(path: Path) -> str:
    """Return the reason why a daemon must not replace or remove what is at a path; "" if it may."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return ""
    if not stat.S_ISSOCK(found.st_mode):
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "something")
        return f"is {kind} and no socket, and is left as it is: choose another path, or remove it"
    if found.st_uid != os.geteuid():
        return (
            f"belongs to user {found.st_uid}, whose daemon programs would reach there: choose"
            " another path, or remove it if that daemon has ended"
        )
    if is_alive(path):
        return "is the socket of another daemon, which listens there"
    return ""


def is_alive(path: Path) -> bool:
    """Return whether a process listens on a path."""
    return _listening_process(path) is not None


def _listening_process(path: Path) -> int | None:
    """Return the number of the process that listens on a path; 0 if that is unknown.

    It is so if the process is in another container, does not accept, or admits nobody.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
            return peer_credentials(probe).pid
        except OSError as error:
            return None if error.errno in _NOBODY_LISTENS else 0


def check_free(path: Path, key: str) -> None:
    """Check that a path is free, or has the socket of a process of this user that has ended.

    Args:
        path: the path.
        key: the key of the path in the configuration, for errors.

    Raises:
        ConfigError: something else is there, which the text names, with the remedy; if a process
            listens there, with its command line.
    """
    fault = path_fault(path)
    if not fault:
        return
    process = _listening_process(path) if path.is_socket() and not path.is_symlink() else None
    if process is None:
        raise ConfigError(f"{key} is {path}, which {fault}")
    text = f"{key} is {path}; another daemon listens there{_described(process)}: stop it, or choose"
    if key != "clients.unix":
        raise ConfigError(f"{text} another path")
    raise ConfigError(
        f"{text} another path with --unix, and give it to programs with --address. Daemons of one"
        ' host that share a file have a socket each with unix = "{name}.sock" in [clients]'
    )


def _described(process: int) -> str:
    """Return the number of a process and its command line, in brackets; "" for an unknown one."""
    try:
        words = Path(f"/proc/{process}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    except OSError:
        return ""
    command = " ".join(word.decode(errors="replace") for word in words)
    return f" (process {process}: {visible(command)})"


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
    if fault := _folder_fault(path.parent) or path_fault(path):
        raise ConfigError(f"{path} {fault}")
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")  # nobody can guess the name
    try:
        return listen_at(path, temporary, opened_for)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def _folder_fault(path: Path) -> str:
    """Return the reason why Spread's path cannot be in a folder; "" if it can."""
    mode = path.stat().st_mode
    if mode & 0o022 and not mode & stat.S_ISVTX:
        return f"is in a folder in which others may replace it: chmod +t {path}"
    return ""


def close_unix(listener: socket.socket, path: Path) -> None:
    """Stop listening, and remove the path unless it has become something else's meanwhile."""
    listener.close()
    with suppress(OSError):
        if not path_fault(path):
            path.unlink()
