"""Sockets on which clients are accepted."""

import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Final

from groupcomm.errors import ConfigError
from groupcomm.host.addresses import Address
from groupcomm.host.private_files import ENTER_BY, folder_fault, make_private_folder

BACKLOG: Final = 1024
MAX_PATH_BYTES: Final = 107
"""Of a unix socket's path on Linux."""


_MODES: Final = {"owner": 0o600, "group": 0o660, "all": 0o666}


def listen_unix(path: Path, opened_for: str = "owner") -> socket.socket:
    """Listen on a path, in a folder of its owner only; what is left of a dead daemon is replaced.

    Args:
        path: of the socket.
        opened_for: who may connect: "owner", "group" or "all" users of this host.

    Raises:
        ConfigError: the path is too long, another daemon listens there, or others may do in the
            folder what they must not.
        OSError: it cannot be made.
    """
    if len(os.fsencode(path)) + len(".new") > MAX_PATH_BYTES:
        raise ConfigError(
            f"clients.unix is {path}; a socket's path may have {MAX_PATH_BYTES - 4} bytes"
        )
    _make_folder(path.parent, opened_for)
    if _is_alive(path):
        raise ConfigError(f"clients.unix is {path}; another daemon listens there")
    temporary = path.with_name(path.name + ".new")
    temporary.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        listener.bind(str(temporary))
        temporary.chmod(_MODES[opened_for])
        listener.listen(BACKLOG)
        temporary.rename(path)  # from here on, and not before, it can be connected to
    except OSError:
        listener.close()
        raise
    return listener


def _make_folder(path: Path, opened_for: str) -> None:
    if not path.exists():
        make_private_folder(path)
        path.chmod(0o700 | ENTER_BY[opened_for])
    if fault := folder_fault(path, path.stat(), opened_for):
        raise ConfigError(f"clients.unix is {path}/...: {fault}")


def listen_tcp(address: Address) -> socket.socket:
    """Listen on an address.

    Raises:
        OSError: it is in use, or not of this host.
    """
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address.host, address.port))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def close_unix(listener: socket.socket, path: Path) -> None:
    """Stop listening and remove the path."""
    listener.close()
    with suppress(OSError):
        path.unlink()


def _is_alive(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True
