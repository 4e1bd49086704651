"""The connection for programs that use asyncio.

::

    from groupcomm_client.aio import connect

    async with connect(user="ann") as connection, connection.group("chat"):
        await connection.multicast("chat", b"hello")
        async for event in connection:
            print(event)

All that `groupcomm_client.Connection` can do, this one can: it is the same class.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from groupcomm.host.tls import AnySocket
from groupcomm_client.aio_stream import AioStream
from groupcomm_client.connecting import ADMISSION_S, open_connection
from groupcomm_client.connection import Connection
from groupcomm_client.conversation import Conversation
from groupcomm_client.credentials import Credentials, StrPath
from groupcomm_client.filters.factories import Factory
from groupcomm_client.loops import Step, Target, targets_of
from groupcomm_client.staying import StayingConnection


class AsyncioLoop:
    """See `groupcomm_client.loops.Loop`."""

    def connection(self, socket_: AnySocket, conversation: Conversation) -> Connection:
        """See `Loop`."""
        return Connection(AioStream(socket_, conversation), conversation, self)

    async def look_up(self, host: str, port: int) -> list[Target]:
        """See `Loop`."""
        loop = asyncio.get_running_loop()
        return targets_of(await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))

    async def readable(self, socket_: AnySocket) -> None:
        """See `Loop`."""
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_reader(socket_, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(socket_)

    async def writable(self, socket_: AnySocket) -> None:
        """See `Loop`."""
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_writer(socket_, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_writer(socket_)

    async def sleep(self, seconds: float) -> None:
        """See `Loop`."""
        await asyncio.sleep(seconds)

    async def checkpoint(self) -> None:
        """See `Loop`."""
        await asyncio.sleep(0)

    async def within(self, seconds: float, step: Step) -> bool:
        """See `Loop`."""
        try:
            async with asyncio.timeout(seconds) as timer:
                await step()
        except TimeoutError:
            if not timer.expired():
                raise
            return False
        return True

    async def in_spite(self, seconds: float, step: Step) -> None:
        """See `Loop`."""
        task = asyncio.ensure_future(self.within(seconds, step))
        cancelled: asyncio.CancelledError | None = None
        while not task.done():
            try:
                await asyncio.shield(task)
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled
        task.result()

    def lock(self) -> asyncio.Lock:
        """See `Loop`."""
        return asyncio.Lock()


@asynccontextmanager
async def connect(
    address: str | None = None,
    *,
    user: str | None = None,
    timeout_s: float = ADMISSION_S,
    trace: Path | None = None,
    causes: bool = False,
    principals: bool = False,
    ca: StrPath | None = None,
    certificate: StrPath | None = None,
    key: StrPath | None = None,
    token: StrPath | None = None,
    filters: Sequence[Factory] | None = None,
) -> AsyncIterator[Connection]:
    """Open a session for the length of a block; see `groupcomm_client.connect`.

    Raises:
        CannotConnect: there is no daemon, or it does not admit this session in time.
        SessionEnded: the daemon refuses it; the code tells why.
        LocalProtocolError: not a user's name.
        ConfigError: no trace can be written there.
    """
    credentials = Credentials.of(ca, certificate, key, token)
    connection = await open_connection(
        AsyncioLoop(),
        address,
        user,
        timeout_s,
        trace,
        causes=causes,
        principals=principals,
        filters=filters,
        credentials=credentials,
    )
    try:
        yield connection
    finally:
        await connection.aclose()


@asynccontextmanager
async def stay_connected(
    address: str | None = None,
    *,
    user: str | None = None,
    timeout_s: float = ADMISSION_S,
    trace: Path | None = None,
    causes: bool = False,
    principals: bool = False,
    ca: StrPath | None = None,
    certificate: StrPath | None = None,
    key: StrPath | None = None,
    token: StrPath | None = None,
    filters: Sequence[Factory] | None = None,
) -> AsyncIterator[StayingConnection]:
    """As `connect`, with a new session when one ends; see `groupcomm_client.stay_connected`.

    Raises:
        CannotConnect: there is no first session.
        SessionEnded: the daemon refuses it for good.
    """
    credentials = Credentials.of(ca, certificate, key, token)
    staying = StayingConnection(
        AsyncioLoop(),
        address,
        user,
        trace,
        causes=causes,
        principals=principals,
        filters=filters,
        credentials=credentials,
    )
    await staying.open(timeout_s)
    try:
        yield staying
    finally:
        await staying.aclose()
