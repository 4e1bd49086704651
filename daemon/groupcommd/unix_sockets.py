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
from groupcomm.host.peer_credentials import peer_credentials
from groupcomm.visible import visible

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
    return _listening_process(path) is not None


def _listening_process(path: Path) -> int | None:
    """Return the number of the process that listens on a path; 0 if it is in another container."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
            return peer_credentials(probe).pid
        except OSError:
            return None


def check_free(path: Path, key: str) -> None:
    """Check that no process listens on a path.

    Args:
        path: the path.
        key: the key of the path in the configuration, for errors.

    Raises:
        ConfigError: one does; the text names its command line, and the remedy.
    """
    process = _listening_process(path)
    if process is None:
        return
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
