"""Where a daemon is: from what a user writes to a connected socket."""

import errno
import os
import socket
from pathlib import Path
from typing import Any, Final

from groupcomm.errors import CannotConnect
from groupcomm_client.loops import Loop, Target
from groupcommd.addresses import DEFAULT_HOST, DEFAULT_PORT, SOCKET_NAME, runtime_folder

ADDRESS_VARIABLE: Final = "GROUPCOMM_ADDRESS"

BUFFER_BYTES: Final = 1024 * 1024
"""Asked for with unix sockets: what is sent goes to the daemon in few pieces."""


def default_address() -> str:
    """Where a daemon of this user is expected."""
    told = os.environ.get(ADDRESS_VARIABLE)
    if told:
        return told
    path = runtime_folder() / SOCKET_NAME
    return str(path) if path.exists() else f"{DEFAULT_HOST}:{DEFAULT_PORT}"


async def open_socket(address: str, loop: Loop[Any]) -> socket.socket:
    """A connected non-blocking socket; all addresses of a name are tried in turn.

    Args:
        address: the path of a socket, ``host:port``, ``host`` or ``[host]:port``.
        loop: how to wait.

    Raises:
        CannotConnect: nobody listens there.
    """
    failures: list[str] = []
    try:
        for family, target in await _targets(address, loop):
            try:
                return await _connect(family, target, loop)
            except OSError as error:
                failures.append(error.strerror or str(error))
    except (OSError, UnicodeError) as error:  # the name is not known
        failures.append(getattr(error, "strerror", None) or str(error))
    raise _refused(address, failures)


async def _targets(address: str, loop: Loop[Any]) -> list[Target]:
    if "/" in address:
        return [(socket.AF_UNIX, str(Path(address).expanduser()))]
    host, port = _host_and_port(address)
    if port > 65535:
        raise _refused(address, [f"port {port} is above 65535"])
    return await loop.look_up(host, port)


def _host_and_port(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or (":" in host and not host.endswith("]")):
        host, port = address, str(DEFAULT_PORT)
    return host.strip("[]"), int(port)


async def _connect(family: int, target: object, loop: Loop[Any]) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        result = made.connect_ex(target)  # type: ignore[arg-type]  # as the family wants it
        if result == errno.EINPROGRESS:
            await loop.writable(made)
            result = made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if result == errno.EAGAIN and family == socket.AF_UNIX:
            raise OSError(result, "the daemon has no room for another client now")
        if result:
            raise OSError(result, os.strerror(result))
        if family == socket.AF_UNIX:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
        else:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        made.close()
        raise
    return made


def _refused(address: str, failures: list[str]) -> CannotConnect:
    reasons = ", ".join(dict.fromkeys(failures))
    return CannotConnect(
        f"cannot connect to {address}: {reasons} - is the daemon running? try: groupcomm daemon"
    )


def not_admitted(address: str, seconds: float) -> CannotConnect:
    """What a user is told when time is up."""
    return CannotConnect(f"the daemon at {address} did not admit this client in {seconds:g} s")
