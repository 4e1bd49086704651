"""Finding a daemon and being admitted by it."""

import errno
import os
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import trio

from groupcomm.errors import CannotConnect
from groupcomm.session.client import ClientSession, State
from groupcomm_client.connection import Connection
from groupcommd.addresses import DEFAULT_HOST, DEFAULT_PORT, SOCKET_NAME, runtime_folder

ADMISSION_S: Final = 10.0
"""Longer than any view change: being admitted is ordered among all daemons."""

ADDRESS_VARIABLE: Final = "GROUPCOMM_ADDRESS"


@asynccontextmanager
async def connect(
    address: str | None = None,
    *,
    user: str | None = None,
    timeout_s: float = ADMISSION_S,
    trace: Path | None = None,
) -> AsyncIterator[Connection]:
    """Open a session for the length of a block, and end it in order.

    ::

        async with connect(user="ann") as connection, connection.group("chat"):
            await connection.multicast("chat", b"hello")
            async for event in connection:
                print(event)

    Args:
        address: of the daemon: the path of its socket, or ``host:port``; None for what
            ``GROUPCOMM_ADDRESS`` says, else the daemon of this user on this host.
        user: the name to be known by, unique at the daemon; None for a random one.
        timeout_s: seconds until it must be admitted.
        trace: a folder in which all that the session asks for and is told is written down, for
            ``groupcomm check`` (docs/trace.md).

    Raises:
        CannotConnect: there is no daemon, or it does not admit this session in time.
        SessionEnded: the daemon refuses it; the code tells why.
        LocalProtocolError: not a user's name.
        ConfigError: no trace can be written there.
    """
    where = address or default_address()
    session = ClientSession(user or f"u{secrets.token_hex(6)}")
    connection = None
    with trio.move_on_after(timeout_s):
        connection = Connection(await open_socket(where), session, trace)
        try:
            await connection.greet()
        except BaseException:
            connection.close_socket()
            raise
    if connection is None or session.state is not State.OPEN:
        raise CannotConnect(f"the daemon at {where} did not admit this client in {timeout_s:g} s")
    try:
        yield connection
    finally:
        await connection.aclose()


def default_address() -> str:
    """Where a daemon of this user is expected."""
    told = os.environ.get(ADDRESS_VARIABLE)
    if told:
        return told
    path = runtime_folder() / SOCKET_NAME
    return str(path) if path.exists() else f"{DEFAULT_HOST}:{DEFAULT_PORT}"


async def open_socket(address: str) -> socket.socket:
    """A connected non-blocking socket.

    Raises:
        CannotConnect: nobody listens there.
    """
    try:
        if "/" in address:
            return await _connect(socket.AF_UNIX, str(Path(address).expanduser()), address)
        host, colon, port = address.rpartition(":")
        if not colon or not port.isdigit():
            host, port = address, str(DEFAULT_PORT)
        found = await trio.socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
        family, _, _, _, target = found[0]
        connected = await _connect(family, target, address)
    except (OSError, UnicodeError) as error:
        raise _refused(address, error) from None
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected


async def _connect(family: int, target: object, address: str) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        result = made.connect_ex(target)  # type: ignore[arg-type]
        if result == errno.EAGAIN and family == socket.AF_UNIX:
            raise OSError(result, "the daemon has no room for another client now")
        if result == errno.EINPROGRESS:
            await trio.lowlevel.wait_writable(made)
            result = made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if result:
            raise OSError(result, os.strerror(result))
    except BaseException:
        made.close()
        raise
    return made


def _refused(address: str, error: Exception) -> CannotConnect:
    reason = getattr(error, "strerror", None) or str(error)
    return CannotConnect(
        f"cannot connect to {address}: {reason} - is the daemon running? try: groupcomm daemon"
    )
