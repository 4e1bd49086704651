"""Finding a daemon and being admitted by it."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import trio

from groupcomm_client.connection import Connection
from groupcomm_client.conversation import Conversation
from groupcomm_client.stream import SessionStream
from groupcomm_client.targets import (
    begin_connecting,
    default_address,
    finish_connecting,
    host_and_port,
    not_admitted,
    refused,
    unix_path,
)

ADMISSION_S: Final = 10.0
"""Longer than any view change: being admitted is ordered among all daemons."""


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
    conversation = Conversation(user, trace)
    connection = None
    with trio.move_on_after(timeout_s):
        stream = SessionStream(await open_socket(where), conversation)
        connection = Connection(stream, conversation)
        try:
            await connection.greet()
        except BaseException:
            connection.close_socket()
            raise
    if connection is None or not conversation.is_open:
        raise not_admitted(where, timeout_s)
    try:
        yield connection
    finally:
        await connection.aclose()


async def open_socket(address: str) -> socket.socket:
    """A connected non-blocking socket.

    Raises:
        CannotConnect: nobody listens there.
    """
    try:
        path = unix_path(address)
        if path is not None:
            return await _connect(socket.AF_UNIX, path)
        host, port = host_and_port(address)
        found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return await _connect(found[0][0], found[0][4])
    except (OSError, UnicodeError) as error:
        raise refused(address, error) from None


async def _connect(family: int, target: object) -> socket.socket:
    made, connected = begin_connecting(family, target)
    if not connected:
        try:
            await trio.lowlevel.wait_writable(made)
        except BaseException:
            made.close()
            raise
        finish_connecting(made)
    return made
