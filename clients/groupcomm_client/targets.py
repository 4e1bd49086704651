"""Where a daemon is: from what a user writes to a socket that is being connected."""

import errno
import math
import os
import select
import socket
from pathlib import Path
from typing import Any, Final

from groupcomm.errors import CannotConnect
from groupcommd.addresses import DEFAULT_HOST, DEFAULT_PORT, SOCKET_NAME, runtime_folder

ADDRESS_VARIABLE: Final = "GROUPCOMM_ADDRESS"


def default_address() -> str:
    """Where a daemon of this user is expected."""
    told = os.environ.get(ADDRESS_VARIABLE)
    if told:
        return told
    path = runtime_folder() / SOCKET_NAME
    return str(path) if path.exists() else f"{DEFAULT_HOST}:{DEFAULT_PORT}"


def unix_path(address: str) -> str | None:
    """The path of a socket; None if the address is a host's."""
    return str(Path(address).expanduser()) if "/" in address else None


def host_and_port(address: str) -> tuple[str, int]:
    """The parts of ``host:port``, ``host`` or ``[host]:port``."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        host, port = address, str(DEFAULT_PORT)
    return host.strip("[]"), int(port)


def begin_connecting(family: int, target: Any) -> tuple[socket.socket, bool]:
    """A non-blocking socket, and whether it is connected already.

    If it is not, wait until it is writable and call `finish_connecting`.

    Raises:
        OSError: it cannot be.
    """
    made = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    result = made.connect_ex(target)
    if result not in (0, errno.EINPROGRESS):
        made.close()
        if result == errno.EAGAIN and family == socket.AF_UNIX:
            raise OSError(result, "the daemon has no room for another client now")
        raise OSError(result, os.strerror(result))
    if family != socket.AF_UNIX:
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made, not result


def finish_connecting(made: socket.socket) -> None:
    """Raise OSError, and close the socket, if it could not be connected."""
    result = made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if result:
        made.close()
        raise OSError(result, os.strerror(result))


def refused(address: str, error: Exception) -> CannotConnect:
    """What a user is told."""
    reason = getattr(error, "strerror", None) or str(error)
    return CannotConnect(
        f"cannot connect to {address}: {reason} - is the daemon running? try: groupcomm daemon"
    )


def not_admitted(address: str, seconds: float) -> CannotConnect:
    """What a user is told when time is up."""
    return CannotConnect(f"the daemon at {address} did not admit this client in {seconds:g} s")


def wait_for_socket(socket_: socket.socket, events: int, timeout_s: float = math.inf) -> int:
    """What of some events has come; 0 if nothing has in time."""
    if socket_.fileno() < 0:  # closed by another thread
        return select.POLLHUP
    poll = select.poll()
    poll.register(socket_, events)
    found = poll.poll(None if timeout_s == math.inf else timeout_s * 1000)
    return found[0][1] if found else 0


def open_socket(address: str, timeout_s: float) -> socket.socket:
    """A connected non-blocking socket, waiting for it in this thread.

    Raises:
        CannotConnect: nobody listens there, or not in time.
    """
    family: int = socket.AF_UNIX
    target: object = unix_path(address)
    try:
        if target is None:
            host, port = host_and_port(address)
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            family, target = found[0][0], found[0][4]
        made, connected = begin_connecting(family, target)
        if not connected:
            if not wait_for_socket(made, select.POLLOUT, timeout_s):
                made.close()
                raise not_admitted(address, timeout_s)
            finish_connecting(made)
    except (OSError, UnicodeError) as error:
        raise refused(address, error) from None
    return made
