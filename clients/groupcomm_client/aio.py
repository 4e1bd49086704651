"""asyncio: the connection for its programs, and the stream that moves the bytes of a session.

::

    from groupcomm_client.aio import connect

    async with connect(user="ann") as connection, connection.group("chat"):
        await connection.multicast("chat", b"hello")
        async for message in connection.messages():
            print(message.sender, message.data)

The event loop watches the socket for input only while a task waits for it.
"""

import asyncio
import math
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

from groupcomm.host.forks import keep_own
from groupcomm_client.block import async_block
from groupcomm_client.byte_stream import ByteSocket, CoalescingStream, look, read_some, write_some
from groupcomm_client.client_protocol import ClientProtocol, Ready
from groupcomm_client.connection import Connection
from groupcomm_client.loops import Step, Target, single_of, targets_of
from groupcomm_client.opening import connection_block
from groupcomm_client.options import (
    DEFAULT_OPTIONS,
    ConnectOptions,
    Once,
    Resume,
    TlsOptions,
    with_views,
)
from groupcomm_client.program import as_program
from groupcomm_client.standard_input import read_lines

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

__all__ = ["AsyncioLoop", "AsyncioStream", "connect", "input_lines", "run"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class AsyncioStream(CoalescingStream):
    """A socket and the session on it; see `groupcomm_client.byte_stream.Stream`."""

    def __init__(self, socket_: ByteSocket, protocol: ClientProtocol) -> None:
        """Take over a connected non-blocking socket, in a running event loop."""
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._socket = socket_
        self._protocol = protocol
        self._unsent = memoryview(b"")
        self._readers: set[asyncio.Future[None]] = set()
        self._writers: set[asyncio.Future[None]] = set()
        self._timers: set[asyncio.Timeout] = set()  # the timers of tasks that also wait for a time
        self._looking: asyncio.TimerHandle | None = None
        protocol.on_earlier_wake = self._wake_earlier
        protocol.on_watched = self._look_later
        keep_own(self)

    def forsake(self) -> object:
        """See `groupcomm.host.forks`."""
        self._socket.close()
        self._protocol.forsake()
        return getattr(self._loop, "_selector", None)

    def close(self) -> None:
        """Break the connection off; output that was not written yet is lost."""
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._socket.close()
            self._protocol.break_off()
            if self._looking is not None:
                self._looking.cancel()
            _wake(self._readers)
            _wake(self._writers)

    def _look_later(self) -> None:
        """Send heartbeats, and notice a silent daemon, whatever the tasks of the program do."""
        if self._looking is not None:
            self._looking.cancel()
        wait_s = self._protocol.look_in_s
        if wait_s < math.inf:
            self._looking = self._loop.call_later(wait_s, self._look)

    def _look(self) -> None:
        if self._protocol.owner:
            return
        look(self._socket, self._protocol, reads=True)
        if self._protocol.pending_bytes:
            self.write_soon()
        self._look_later()
        _wake(self._readers)
        if self._protocol.closed is not None:
            _wake(self._writers)

    async def exchange(self, ready: Ready) -> None:
        """Write everything that waits, then read until a condition holds."""
        await self.flush()
        await self.until(ready)

    async def until(self, ready: Ready) -> None:
        """Read until a condition holds; raise SessionEnded if the session is over first."""
        while not ready():
            self._protocol.check_open()
            if not self._readers:
                self._loop.add_reader(self._socket, self.read_ready)
            wake_in_s = self._protocol.wake_in_s
            try:
                if wake_in_s is None:
                    await self._wait(self._readers)
                else:
                    await self._wait_or_wake(wake_in_s)
            finally:
                if not self._readers and self._socket.fileno() >= 0:
                    self._loop.remove_reader(self._socket)
            if self._protocol.needs_flush:
                self.write_soon()

    async def _wait_or_wake(self, wake_in_s: float) -> None:
        """Wait for input, or for the time at which filters and keys need to wake."""
        with suppress(TimeoutError):
            async with asyncio.timeout(wake_in_s) as timer:
                self._timers.add(timer)
                try:
                    await self._wait(self._readers)
                finally:
                    self._timers.discard(timer)
        self._protocol.wake()
        _wake(self._readers)

    def _wake_earlier(self) -> None:
        """Wait for a time that is earlier than the one when the waits began.

        If filters have released events meanwhile, the tasks that wait receive them at once.
        """
        wake_in_s = self._protocol.wait_left_s
        if wake_in_s is not None:
            for timer in self._timers:
                timer.reschedule(self._loop.time() + wake_in_s)

    def read_ready(self) -> None:
        """Read the bytes that have arrived already, without waiting."""
        if self._socket.fileno() >= 0:
            read_some(self._socket, self._protocol)
            _wake(self._readers)

    async def flush(self) -> None:
        """Write all pending output; the rest is written even if this call is cancelled."""
        while not self._write():
            self._loop.add_writer(self._socket, self._on_writable)
            await self._wait(self._writers)

    def _call_soon(self, call: Callable[[], None]) -> None:
        self._loop.call_soon(call)

    def _finish(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.add_writer(self._socket, self._on_writable)

    def _write(self) -> bool:
        if self._protocol.closed is not None:
            return True
        self._unsent, done = write_some(self._socket, self._protocol, self._unsent)
        return done

    def _on_writable(self) -> None:
        if self._write():
            self._loop.remove_writer(self._socket)
        _wake(self._writers)

    async def _wait(self, waiting: set[asyncio.Future[None]]) -> None:
        mine = self._loop.create_future()
        waiting.add(mine)
        try:
            await mine
        finally:
            waiting.discard(mine)


def _wake(waiting: set[asyncio.Future[None]]) -> None:
    for future in waiting:
        if not future.done():
            future.set_result(None)


class AsyncioTasks:
    """See `groupcomm_client.loops.Tasks`."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self._running: set[asyncio.Task[object]] = set()

    def start(self, function: Callable[..., Awaitable[object]], *arguments: Any) -> None:
        """See `Tasks`."""

        async def run() -> object:
            return await function(*arguments)

        task = self._group.create_task(run())
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def cancel(self) -> None:
        """Cancel the tasks that run."""
        for task in self._running:
            task.cancel()


class AsyncioCancelScope:
    """See `groupcomm_client.loops.CancelScope`."""

    def __init__(self) -> None:
        self._timer = asyncio.timeout(None)
        self._is_open = False

    async def open(self) -> None:
        """See `CancelScope`."""
        await self._timer.__aenter__()
        self._is_open = True

    async def close(self, error: BaseException | None) -> bool:
        """See `CancelScope`."""
        self._is_open = False
        try:
            trace = None if error is None else error.__traceback__
            await self._timer.__aexit__(None if error is None else type(error), error, trace)
        except TimeoutError:
            return True
        return False

    def cancel(self) -> None:
        """See `CancelScope`."""
        if self._is_open:
            self._is_open = False
            self._timer.reschedule(asyncio.get_running_loop().time())


class AsyncioLoop:
    """See `groupcomm_client.loops.Loop`."""

    protocol = ClientProtocol

    def stream(self, socket_: ByteSocket, protocol: ClientProtocol) -> AsyncioStream:
        """See `Loop`."""
        return AsyncioStream(socket_, protocol)

    async def look_up(self, host: str, port: int) -> list[Target]:
        """See `Loop`."""
        loop = asyncio.get_running_loop()
        return targets_of(await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))

    async def from_disk(self, read: Callable[[], T]) -> T:
        """See `Loop`."""
        return await asyncio.to_thread(read)

    async def readable(self, socket_: ByteSocket) -> None:
        """See `Loop`."""
        await _readable(socket_)

    async def writable(self, socket_: ByteSocket) -> None:
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

    async def timeout(self, seconds: float, step: Step) -> bool:
        """See `Loop`."""
        try:
            async with asyncio.timeout(seconds) as timer:
                await step()
        except TimeoutError:
            if not timer.expired():
                raise
            return False
        return True

    async def shielded(self, seconds: float, step: Step) -> bool:
        """See `Loop`."""
        task = asyncio.ensure_future(self.timeout(seconds, step))
        cancelled: asyncio.CancelledError | None = None
        while not task.done():
            try:
                await asyncio.wait((task,))  # which raises nothing that the step has raised
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled from task.exception()
        return task.result()

    def lock(self) -> asyncio.Lock:
        """See `Loop`."""
        return asyncio.Lock()

    def thread_lock(self) -> AbstractContextManager[object]:
        """See `Loop`."""
        return nullcontext()

    def event(self) -> asyncio.Event:
        """See `Loop`."""
        return asyncio.Event()

    @asynccontextmanager
    async def tasks(self) -> AsyncIterator[AsyncioTasks]:
        """See `Loop`."""
        try:
            async with asyncio.TaskGroup() as group:
                tasks = AsyncioTasks(group)
                yield tasks
                tasks.cancel()
        except BaseExceptionGroup as failed:
            single = single_of(failed)
            raise single from single.__cause__

    def cancel_scope(self) -> AsyncioCancelScope:
        """See `Loop`."""
        return AsyncioCancelScope()


@async_block
async def connect(
    address: str | None = None,
    *,
    user: str | None = None,
    reconnect: bool = False,
    resume: Resume = False,
    exactly_once: Once = False,
    views: bool = True,
    options: ConnectOptions = DEFAULT_OPTIONS,
    tls: TlsOptions | None = None,
) -> AsyncIterator[Connection]:
    """Open a connection for the length of a block; see `groupcomm_client.connect`.

    Raises:
        CannotConnect: there is no daemon, or it does not admit this session in time.
        SessionEnded: the daemon refuses it; the code tells why.
        LocalProtocolError: the name of a user or of a filter is invalid, or there is a token
            without TLS.
        ConfigError: no trace can be written there, or a file for TLS cannot be used.
    """
    loop = AsyncioLoop()
    options = with_views(options, views=views)
    how = (reconnect, resume, exactly_once)
    async with connection_block(loop, address, user, how, options, tls) as connection:
        yield connection


def run(main: Callable[[*Ts], Coroutine[Any, Any, T]], *arguments: *Ts) -> T:
    """Run a program: call `asyncio.run`, and end in order at an error; see `groupcomm_client.run`.

    Raises:
        SystemExit: a `GroupCommError` or ^C has ended the function.
    """
    with as_program():
        return asyncio.run(main(*arguments))


async def input_lines() -> AsyncIterator[str]:
    """Yield the lines of standard input; see `groupcomm_client.input_lines`.

    Raises:
        UnicodeDecodeError: a line is not in the encoding of standard input.
    """
    async for line in read_lines(_readable, AsyncioLoop().checkpoint):
        yield line


async def _readable(file: "FileDescriptorLike") -> None:
    """Wait until a file is readable; raise PermissionError for one on a disk."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(file, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(file)
