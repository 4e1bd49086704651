"""trio: the event loop of its programs, and the stream of a session's bytes.

Bytes are read and written by the tasks that wait. One of them reads for all; when it is cancelled
another one takes over. Nothing is read while no task waits, so output that a program does not read
stays at its daemon. A separate task runs only to write output for which no task waits any more.
"""

import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from typing import Any, TypeVar, TypeVarTuple

import trio

from groupcomm.errors import LocalProtocolError
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

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class TrioStream(CoalescingStream):
    """A socket and the session on it; see `groupcomm_client.byte_stream.Stream`.

    Args:
        socket_: the connected non-blocking socket.
        protocol: a session that has not begun.
    """

    def __init__(self, socket_: ByteSocket, protocol: ClientProtocol) -> None:
        super().__init__()
        self._socket = socket_
        self._protocol = protocol
        self._unsent = memoryview(b"")
        self._reading = self._writing = False
        self._finishing = False
        self._wait = trio.CancelScope()  # the scope of the task that reads
        self._watching = trio.CancelScope()  # the scope of the task that looks at the session
        self._sleep = trio.CancelScope()  # its sleep; before it runs for the first time, nobody's
        self._is_watching = False
        protocol.on_earlier_wake = self._wake_earlier
        protocol.on_watched = self._look_earlier
        self._readers, self._writers = trio.lowlevel.ParkingLot(), trio.lowlevel.ParkingLot()
        keep_own(self)

    def forsake(self) -> object:
        """See `groupcomm.host.forks`."""
        self._socket.close()
        self._protocol.forsake()
        return epoll_of_run()

    def close(self) -> None:
        """Break the connection off; output that was not written yet is lost."""
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()
            self._protocol.break_off()
            self._watching.cancel()

    def _look_earlier(self) -> None:
        """Look at the session in time, from now on or earlier than planned."""
        if self._is_watching:
            self._sleep.deadline = trio.current_time() + self._protocol.look_in_s
        else:
            self._is_watching = True
            trio.lowlevel.spawn_system_task(self._watch)

    async def _watch(self) -> None:
        """Send heartbeats, and notice a silent daemon, whatever the tasks of the program do."""
        with self._watching:
            while self._protocol.closed is None:
                with trio.CancelScope() as self._sleep:
                    self._sleep.deadline = trio.current_time() + self._protocol.look_in_s
                    await trio.sleep_forever()
                look(self._socket, self._protocol, reads=not self._reading)
                if self._protocol.owner:
                    return
                if self._protocol.closed is not None:
                    trio.lowlevel.notify_closing(self._socket)  # nobody waits for it any more
                elif self._protocol.pending_bytes:
                    self.write_soon()
                self._readers.unpark_all()

    # ---- in ----

    async def exchange(self, ready: Ready) -> None:
        """Write all pending output, then read until a condition holds; see `until`."""
        await self.flush()
        await self.until(ready)

    async def until(self, ready: Ready) -> None:
        """Read until a condition holds; raise SessionEnded if the session is over first."""
        while not ready():
            self._protocol.check_open()
            if self._reading:
                await self._readers.park()
                continue
            self._reading = True
            try:
                await self._read()
            finally:
                self._reading = False
                self._readers.unpark_all()
            if self._protocol.needs_flush:
                self.write_soon()

    async def _read(self) -> None:
        """Read input, or wait for the time at which filters and keys need to wake."""
        with suppress(trio.ClosedResourceError):  # the session is over then
            wake_in_s = self._protocol.wake_in_s
            if wake_in_s is None:
                await trio.lowlevel.wait_readable(self._socket)
            else:
                with trio.move_on_after(wake_in_s) as self._wait:
                    await trio.lowlevel.wait_readable(self._socket)
                self._protocol.wake()
            read_some(self._socket, self._protocol)

    def read_ready(self) -> None:
        """Read the bytes that have arrived already, without waiting."""
        if self._socket.fileno() >= 0:
            if read_some(self._socket, self._protocol) and self._reading:
                trio.lowlevel.notify_closing(self._socket)  # wakes the task that waits for more
            self._readers.unpark_all()

    def _wake_earlier(self) -> None:
        """Wait for a time that is earlier than the one when the wait began.

        If filters have released events meanwhile, the task that waits receives them at once.
        """
        wake_in_s = self._protocol.wait_left_s
        if wake_in_s is not None:
            self._wait.deadline = trio.current_time() + wake_in_s

    # ---- out ----

    async def flush(self) -> None:
        """Write all pending output; the rest is written even if this call is cancelled."""
        try:
            await self._write_all()
        except trio.Cancelled:
            self._finish()  # half a frame would hold up all later output
            raise

    def _call_soon(self, call: Callable[[], None]) -> None:
        trio.lowlevel.current_trio_token().run_sync_soon(call)

    def _finish(self) -> None:
        """Have a task write the rest, unless one does already."""
        if not self._writing and not self._finishing:
            self._finishing = True
            trio.lowlevel.spawn_system_task(self._write_rest)

    async def _write_rest(self) -> None:
        try:
            await self._write_all()
        finally:
            self._finishing = False

    async def _write_all(self) -> None:
        while not self._write():
            if self._writing:
                await self._writers.park()
                continue
            self._writing = True
            try:
                with suppress(trio.ClosedResourceError):  # no task waits then
                    await trio.lowlevel.wait_writable(self._socket)
            finally:
                self._writing = False
                self._writers.unpark_all()

    def _write(self) -> bool:
        """Write as much as the socket accepts; return whether nothing is left."""
        if self._protocol.closed is not None:
            return True
        self._unsent, done = write_some(self._socket, self._protocol, self._unsent)
        return done


def epoll_of_run() -> object:
    """Return the epoll of the present run; None if trio does not tell."""
    runner = getattr(trio._core._run.GLOBAL_RUN_CONTEXT, "runner", None)
    return getattr(getattr(runner, "io_manager", None), "_epoll", None)


class TrioTasks:
    """See `groupcomm_client.loops.Tasks`."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery

    def start(self, function: Callable[..., Awaitable[object]], *arguments: Any) -> None:
        """See `Tasks`."""
        self._nursery.start_soon(function, *arguments)


class TrioCancelScope:
    """See `groupcomm_client.loops.CancelScope`."""

    def __init__(self) -> None:
        self._scope = trio.CancelScope()

    async def open(self) -> None:
        """See `CancelScope`."""
        self._scope.__enter__()

    async def close(self, error: BaseException | None) -> bool:
        """See `CancelScope`."""
        trace = None if error is None else error.__traceback__
        kind = None if error is None else type(error)
        return bool(self._scope.__exit__(kind, error, trace))

    def cancel(self) -> None:
        """See `CancelScope`."""
        self._scope.cancel()


class TrioLoop:
    """See `groupcomm_client.loops.Loop`."""

    protocol = ClientProtocol

    def stream(self, socket_: ByteSocket, protocol: ClientProtocol) -> TrioStream:
        """See `Loop`."""
        return TrioStream(socket_, protocol)

    async def look_up(self, host: str, port: int) -> list[Target]:
        """See `Loop`."""
        found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return targets_of(found)

    async def from_disk(self, read: Callable[[], T]) -> T:
        """See `Loop`."""
        return await trio.to_thread.run_sync(read, abandon_on_cancel=True)

    async def readable(self, socket_: ByteSocket) -> None:
        """See `Loop`."""
        await trio.lowlevel.wait_readable(socket_)

    async def writable(self, socket_: ByteSocket) -> None:
        """See `Loop`."""
        await trio.lowlevel.wait_writable(socket_)

    async def sleep(self, seconds: float) -> None:
        """See `Loop`."""
        await trio.sleep(seconds)

    async def checkpoint(self) -> None:
        """See `Loop`."""
        await trio.lowlevel.checkpoint()

    async def timeout(self, seconds: float, step: Step) -> bool:
        """See `Loop`."""
        with trio.move_on_after(seconds) as scope:
            await step()
        return not scope.cancelled_caught

    async def shielded(self, seconds: float, step: Step) -> bool:
        """See `Loop`."""
        with trio.move_on_after(seconds, shield=True) as scope:
            await step()
        return not scope.cancelled_caught

    def lock(self) -> trio.Lock:
        """See `Loop`."""
        return trio.Lock()

    def thread_lock(self) -> AbstractContextManager[object]:
        """See `Loop`."""
        return nullcontext()

    def event(self) -> trio.Event:
        """See `Loop`."""
        return trio.Event()

    @asynccontextmanager
    async def tasks(self) -> AsyncIterator[TrioTasks]:
        """See `Loop`."""
        try:
            async with trio.open_nursery() as nursery:
                yield TrioTasks(nursery)
                nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            single = single_of(group)
            raise single from single.__cause__

    def cancel_scope(self) -> TrioCancelScope:
        """See `Loop`."""
        return TrioCancelScope()


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
    """Open a connection for the length of a block, and end it in order.

    ::

        async with connect(user="ann") as connection, connection.group("chat"):
            await connection.multicast("chat", b"hello")
            async for message in connection.messages():
                print(message.sender, message.data)

    Args:
        address: the address of the daemon: the path of its socket, ``host:port``, or
            ``tls://host:port``; several, with commas between them, are tried in turn; None for
            the address in ``GROUPCOMM_ADDRESS``, else the daemon of this user on this host.
        user: the name of the session, unique at the daemon; None for a random one.
        reconnect: open another session whenever one ends: with the same user, in the same groups.
            An event of class `Reconnected` stands where something may be missing.
        resume: with `reconnect`, what was missed in the joined groups, or in those that are named
            here, comes from their archives behind `Reconnected`; see docs/history.md.
        exactly_once: with `reconnect`, the daemons deliver each message of this connection once,
            whatever ends: what was not delivered is sent again in the next session. It needs a
            majority of the daemons; see docs/exactly-once.md.
        views: False to read all groups: see `Connection.join`.
        options: the options of the session; see `ConnectOptions`.
        tls: the authorities to trust and the program's credentials, for ``tls://``; None for those
            of the environment. See `TlsOptions`.

    Raises:
        CannotConnect: there is no daemon, it does not admit this session in time, or one side
            does not trust the other.
        SessionEnded: the daemon refuses it; the code tells why.
        LocalProtocolError: the name of the user or of a filter is invalid, there is a token without
            TLS, or the program does not run under trio.
        ConfigError: no trace can be written there, or a file for TLS cannot be used.
    """
    if not trio.lowlevel.in_trio_run():
        raise LocalProtocolError(
            "this program does not run under trio, which groupcomm_client.connect is "
            "for: use connect of groupcomm_client.aio for asyncio, of "
            "groupcomm_client.blocking for threads"
        )
    options = with_views(options, views=views)
    how = (reconnect, resume, exactly_once)
    async with connection_block(TrioLoop(), address, user, how, options, tls) as connection:
        yield connection


def run(main: Callable[[*Ts], Awaitable[T]], *arguments: *Ts) -> T:
    """Run a program: call `trio.run`, and end in order at an error of groupcomm, or at ^C.

    ::

        async def main(user): ...

        gc.run(main, "ann")

    An error is one line on standard error that says what happened and what to do; with ``python -X
    dev`` it is a traceback. Errors of other classes pass unchanged: they are faults of the program.

    Args:
        main: the async function of the program.
        arguments: its arguments.

    Returns:
        The result of the function.

    Raises:
        SystemExit: a `GroupCommError` has ended the function, alone or in a group of errors of
            several tasks: status 3 for `CannotConnect`, 2 for `ConfigError` and
            `LocalProtocolError`, else 1. Or ^C has: status 130.
    """
    with as_program():
        return trio.run(main, *arguments)


async def input_lines() -> AsyncIterator[str]:
    """Yield the lines of standard input, without their ends, as they come.

    ::

        async for line in gc.input_lines():
            await connection.multicast("room", line.encode())

    The wait can be cancelled, also by ^C, unlike that of `trio.wrap_file`. Nothing else may read
    standard input meanwhile, and what follows the last yielded line may have been read already.

    Raises:
        UnicodeDecodeError: a line is not in the encoding of standard input.
    """
    async for line in read_lines(trio.lowlevel.wait_readable, trio.lowlevel.checkpoint):
        yield line
