"""Where a daemon is: from what a user writes to a connected socket, over TLS if it says so."""

import errno
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final

from groupcomm.errors import CannotConnect
from groupcomm.host.addresses import (
    DEFAULT_PORT,
    SOCKET_NAME,
    TLS_PORT,
    runtime_folders,
)
from groupcomm_client.byte_stream import ByteSocket
from groupcomm_client.loops import Loop, Target

if TYPE_CHECKING:
    from groupcomm_client.credentials import Credentials

TLS: Final = "tls://"
ADDRESS_VARIABLE: Final = "GROUPCOMM_ADDRESS"

BUFFER_BYTES: Final = 1024 * 1024
"""Asked for with unix sockets: what is sent goes to the daemon in few pieces."""


def default_address() -> str:
    """Return where a daemon of this user is expected: always in a folder of the user's own.

    A port of the host would not do: while no daemon has it, any other user may listen there.
    """
    told = os.environ.get(ADDRESS_VARIABLE)
    if told:
        return told
    paths = [folder / SOCKET_NAME for folder in runtime_folders()]
    return str(next((path for path in paths if path.exists()), paths[0]))


async def open_socket(
    address: str, loop: Loop, credentials: "Credentials | None" = None
) -> ByteSocket:
    """Return a connected non-blocking socket; all addresses of a name are tried in turn.

    Args:
        address: the path of a socket, ``host:port``, ``host`` or ``[host]:port``, and for TLS
            ``tls://`` before it.
        loop: how to wait.
        credentials: what is needed for TLS.

    Raises:
        CannotConnect: nobody listens there, or either side does not trust the other.
        ConfigError: the files of the credentials do not do.
    """
    if not address.startswith(TLS):
        return await _open_plain(address, loop)
    host, port = _host_and_port(address.removeprefix(TLS), TLS_PORT)
    if "/" in host:
        raise _refused(address, [f"{host} is no host: an address is tls://HOST:PORT"])
    assert credentials is not None, "those of the environment at least"
    context = credentials.context()  # first: a file that cannot be used is told of at once
    plain = await _open_plain(f"[{host}]:{port}", loop, address)
    try:
        return await credentials.secure(plain, context, host, address, loop)
    except OSError as error:
        plain.close()
        raise _refused(address, [error.strerror or str(error)]) from None
    except BaseException:
        plain.close()
        raise


async def _open_plain(address: str, loop: Loop, shown: str = "") -> socket.socket:
    shown = shown or address
    failures: list[str] = []
    try:
        for family, target in await _targets(address, loop):
            try:
                return await _connect(family, target, loop)
            except OSError as error:
                failures.append(error.strerror or str(error))
    except (OSError, UnicodeError) as error:  # the name is not known
        failures.append(getattr(error, "strerror", None) or str(error))
    raise _refused(shown, failures)


async def _targets(address: str, loop: Loop) -> list[Target]:
    if "/" in address:
        return [(socket.AF_UNIX, str(Path(address).expanduser()))]
    host, port = _host_and_port(address)
    if port > 65535:
        raise _refused(address, [f"port {port} is above 65535"])
    return await loop.look_up(host, port)


def _host_and_port(address: str, default: int = DEFAULT_PORT) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or (":" in host and not host.endswith("]")):
        host, port = address, str(default)
    return host.strip("[]"), int(port)


async def _connect(family: int, target: object, loop: Loop) -> socket.socket:
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
    """Return the error for a user when time is up."""
    return CannotConnect(f"the daemon at {address} did not admit this client in {seconds:g} s")
