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
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from groupcomm_client.connecting import ADMISSION_S
from groupcomm_client.connection import Connection
from groupcomm_client.conversation import Conversation, Ready
from groupcomm_client.stream import read_some, write_some
from groupcomm_client.targets import (
    begin_connecting,
    default_address,
    finish_connecting,
    host_and_port,
    not_admitted,
    refused,
    unix_path,
)


class AioStream:
    """A socket and the conversation on it; see `groupcomm_client.connection.Stream`.

    The loop watches the socket only while somebody waits for it.
    """

    def __init__(self, socket_: socket.socket, conversation: Conversation) -> None:
        """Take over a connected non-blocking socket; in a running loop."""
        self._loop = asyncio.get_running_loop()
        self._socket = socket_
        self._conversation = conversation
        self._unsent = memoryview(b"")
        self._readers: set[asyncio.Future[None]] = set()
        self._writers: set[asyncio.Future[None]] = set()

    def close(self) -> None:
        """Break the connection off; what was not written yet is lost."""
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._socket.close()
            self._conversation.broken_off()
            self._conversation.feed(b"")  # who still waits learns of it
            _wake(self._readers)
            _wake(self._writers)

    async def checkpoint(self) -> None:
        """Let other tasks run."""
        await asyncio.sleep(0)

    async def in_spite(self, seconds: float, what: Callable[[], Awaitable[object]]) -> None:
        """Do something for so long at most, also in a task that is being cancelled."""

        async def do() -> None:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await what()

        task = asyncio.ensure_future(do())
        cancelled: asyncio.CancelledError | None = None
        while not task.done():
            try:
                await asyncio.shield(task)
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled
        task.result()

    async def exchange(self, ready: Ready) -> None:
        """Write all that waits, then read until something is so."""
        await self.flush()
        await self.until(ready)

    async def until(self, ready: Ready) -> None:
        """Read until something is so; raises SessionEnded if nothing follows."""
        while not ready():
            self._conversation.check_open()
            if not self._readers:
                self._loop.add_reader(self._socket, self._on_readable)
            await self._wait(self._readers)

    async def flush(self) -> None:
        """Write all that waits."""
        while not self._write():
            if not self._writers:
                self._loop.add_writer(self._socket, _wake, self._writers)
            await self._wait(self._writers)

    def _write(self) -> bool:
        if self._conversation.closed is not None:
            return True
        self._unsent, done = write_some(self._socket, self._conversation, self._unsent)
        return done

    def _on_readable(self) -> None:
        read_some(self._socket, self._conversation)
        _wake(self._readers)

    async def _wait(self, waiting: set[asyncio.Future[None]]) -> None:
        mine = self._loop.create_future()
        waiting.add(mine)
        try:
            await mine
        finally:
            waiting.discard(mine)
            if not waiting and self._socket.fileno() >= 0:
                forget = self._loop.remove_reader
                if waiting is self._writers:
                    forget = self._loop.remove_writer
                forget(self._socket)


def _wake(waiting: Iterable[asyncio.Future[None]]) -> None:
    for future in waiting:
        if not future.done():
            future.set_result(None)


@asynccontextmanager
async def connect(
    address: str | None = None,
    *,
    user: str | None = None,
    timeout_s: float = ADMISSION_S,
    trace: Path | None = None,
) -> AsyncIterator[Connection]:
    """Open a session for the length of a block; see `groupcomm_client.connect`.

    Raises:
        CannotConnect: there is no daemon, or it does not admit this session in time.
        SessionEnded: the daemon refuses it; the code tells why.
        LocalProtocolError: not a user's name.
        ConfigError: no trace can be written there.
    """
    where = address or default_address()
    conversation = Conversation(user, trace)
    stream: AioStream | None = None
    try:
        async with asyncio.timeout(timeout_s):
            stream = AioStream(await _open_socket(where), conversation)
            connection = Connection(stream, conversation)
            await connection.greet()
    except BaseException as error:
        if stream is not None:
            stream.close()
        if isinstance(error, TimeoutError):
            raise not_admitted(where, timeout_s) from None
        raise
    try:
        yield connection
    finally:
        await connection.aclose()


async def _open_socket(address: str) -> socket.socket:
    loop = asyncio.get_running_loop()
    family: int = socket.AF_UNIX
    target: object = unix_path(address)
    try:
        if target is None:
            host, port = host_and_port(address)
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            family, target = found[0][0], found[0][4]
        made, connected = begin_connecting(family, target)
        if not connected:
            await _writable(loop, made)
            finish_connecting(made)
    except (OSError, UnicodeError) as error:
        if isinstance(error, TimeoutError):
            raise
        raise refused(address, error) from None
    return made


async def _writable(loop: asyncio.AbstractEventLoop, made: socket.socket) -> None:
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_writer(made, _wake, (ready,))
    try:
        await ready
    except BaseException:
        made.close()
        raise
    finally:
        if made.fileno() >= 0:
            loop.remove_writer(made)
