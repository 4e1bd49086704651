"""Finding a daemon and being admitted by it; `connect` for programs that use trio."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Protocol, TypeVar

from groupcomm_client.connection import Connection
from groupcomm_client.conversation import Conversation
from groupcomm_client.filters.factories import Factory
from groupcomm_client.loops import Loop, TrioLoop
from groupcomm_client.targets import default_address, not_admitted, open_socket

ADMISSION_S: Final = 10.0
"""Longer than any view change: being admitted is ordered among all daemons."""


class Greeter(Protocol):
    """What every kind of connection can do before it is open."""

    async def greet(self) -> None:
        """Say hello, and wait until the daemon admits this session."""

    def close_socket(self) -> None:
        """Break the connection off."""


_Made = TypeVar("_Made", bound=Greeter)


@asynccontextmanager
async def connect(
    address: str | None = None,
    *,
    user: str | None = None,
    timeout_s: float = ADMISSION_S,
    trace: Path | None = None,
    causes: bool = False,
    filters: Sequence[Factory] | None = None,
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
        causes: have `Message.causes` say what each message depends on; a daemon of an older
            release does not tell.
        filters: factories of the filters that all messages go through, the first of them next to
            the program (docs/filters.md); None for those of `filters.set_default`.

    Raises:
        CannotConnect: there is no daemon, or it does not admit this session in time.
        SessionEnded: the daemon refuses it; the code tells why.
        LocalProtocolError: not a user's name, or not a filter's.
        ConfigError: no trace can be written there.
    """
    connection = await open_connection(
        TrioLoop(), address, user, timeout_s, trace, causes=causes, filters=filters
    )
    try:
        yield connection
    finally:
        await connection.aclose()


async def open_connection(
    loop: Loop[_Made],
    address: str | None,
    user: str | None,
    timeout_s: float,
    trace: Path | None,
    *,
    causes: bool = False,
    filters: Sequence[Factory] | None = None,
) -> _Made:
    """A connection that was admitted; `connect` says what may be given and raised."""
    where = address or default_address()
    conversation = Conversation(user, trace, causes=causes, filters=filters)
    connection: _Made | None = None

    async def be_admitted() -> None:
        nonlocal connection
        connection = loop.connection(await open_socket(where, loop), conversation)
        await connection.greet()

    try:
        if not await loop.within(timeout_s, be_admitted):
            raise not_admitted(where, timeout_s)
    except BaseException:
        if connection is not None:
            connection.close_socket()
        raise
    assert connection is not None
    return connection
