"""Threads: the event loop of programs without one, and the stream of a session's bytes.

Everything awaited here is done by the calling thread before the call returns. So coroutines that
wait only through this loop never suspend: `run` executes each from its beginning to its end. One
thread reads for all that wait; the others are notified whenever it has read something.
"""

import os
import select
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from groupcomm.host.forks import keep_own
from groupcomm_client.byte_stream import ByteSocket, is_readable, look, read_some, write_some
from groupcomm_client.client_protocol import ClientProtocol, Ready
from groupcomm_client.deadlines import (
    Interrupt,
    check_limits,
    interruptible,
    move_on_after,
    wait_for_files,
    wait_on,
)
from groupcomm_client.events import Received
from groupcomm_client.loops import Step, Target, single_of, targets_of

READER_S: Final = 0.05
"""The longest wait for another thread that reads what has arrived."""

P = ParamSpec("P")
_Value = TypeVar("_Value")


def run(coroutine: Coroutine[Any, Any, _Value]) -> _Value:
    """Run a coroutine that never suspends; return its result."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        value: _Value = end.value
        return value
    coroutine.close()
    raise AssertionError(
        "this coroutine has suspended, and no event loop can resume it: await calls of this "
        "library only"
    )


@contextmanager
def run_block(block: AbstractAsyncContextManager[_Value]) -> Iterator[_Value]:
    """Enter an async block that never suspends, for the length of a block."""
    value = run(_enter(block))
    try:
        yield value
    except BaseException as error:
        if not run(_leave(block, error)):
            raise
    else:
        run(_leave(block, None))


async def _enter(block: AbstractAsyncContextManager[_Value]) -> _Value:
    return await block.__aenter__()


async def _leave(
    block: AbstractAsyncContextManager[object], error: BaseException | None
) -> bool | None:
    trace = None if error is None else error.__traceback__
    return await block.__aexit__(None if error is None else type(error), error, trace)


def locked(
    call: Callable[Concatenate[ClientProtocol, P], _Value],
) -> Callable[Concatenate["SharedProtocol", P], _Value]:
    """Return a call of a session as one that only one thread at a time makes."""

    @wraps(call)
    def made(own: "SharedProtocol", /, *args: P.args, **kwargs: P.kwargs) -> _Value:
        with own.lock:
            return call(own, *args, **kwargs)

    return made


class SharedProtocol(ClientProtocol):
    """A session that threads share: only one thread at a time uses it.

    Attributes:
        lock: held by the thread that uses the session; notified when input has arrived.
        on_popped: set by the stream; called when events were popped, with the lock held.
    """

    join = locked(ClientProtocol.join)
    leave = locked(ClientProtocol.leave)
    request_membership = locked(ClientProtocol.request_membership)
    rekey = locked(ClientProtocol.rekey)
    set_filters = locked(ClientProtocol.set_filters)
    may_send = locked(ClientProtocol.may_send)
    send = locked(ClientProtocol.send)
    send_ordered = locked(ClientProtocol.send_ordered)  # another thread may read the place at once
    forget_order = locked(ClientProtocol.forget_order)
    send_many = locked(ClientProtocol.send_many)
    ask = locked(ClientProtocol.ask)
    stop_sending = locked(ClientProtocol.stop_sending)
    say_goodbye = locked(ClientProtocol.say_goodbye)

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Begin the session; see `ClientProtocol`."""
        self.lock = threading.Condition(threading.RLock())
        self.on_popped: Callable[[], object] = bool
        super().__init__(*arguments, **options)

    def forsake(self) -> None:
        """See `ClientProtocol`; another thread may have held the lock."""
        self.lock = threading.Condition(threading.RLock())
        super().forsake()

    def pop_event(self) -> Received | None:
        """See `ClientProtocol`."""
        with self.lock:
            event = super().pop_event()
            if not self.events:
                self.on_popped()
            return event

    def pop_events(self) -> list[Received]:
        """See `ClientProtocol`."""
        with self.lock:
            events = super().pop_events()
            self.on_popped()
            return events

    def put_before(self, events: Sequence[Received]) -> None:
        """See `ClientProtocol`."""
        with self.lock:
            super().put_before(events)
            self.on_popped()


class Watch:
    """A file that `select` and similar functions can watch, across all sessions of a connection.

    It is readable when `receive` has an event to return, or when the socket of the session is.
    """

    def __init__(self) -> None:
        self._watched = select.epoll()
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._watched.register(self._bell, select.EPOLLIN)
        self._lock = threading.Lock()
        self._rings = self._kept_back = self._has_events = False
        keep_own(self)

    def forsake(self) -> None:
        """See `groupcomm.host.forks`."""
        self._lock = threading.Lock()
        self.close()

    def fileno(self) -> int:
        """Return the number of the file."""
        return self._watched.fileno()

    def add(self, socket_: ByteSocket) -> None:
        """Watch the socket of a session, until it is closed."""
        with suppress(ValueError):  # the connection was closed meanwhile
            self._watched.register(socket_, select.EPOLLIN)

    def keep_back(self, more: bool) -> None:
        """Set whether a layer above has events that it has not returned yet; then stay readable."""
        with self._lock:
            self._kept_back = more
            self._ring()

    def set_has_events(self, more: bool) -> None:
        """Stay readable, or not: there are events, or an end to report."""
        with self._lock:
            self._has_events = more
            self._ring()

    def _ring(self) -> None:
        wanted = self._has_events or self._kept_back
        if wanted != self._rings and not self._watched.closed:
            self._rings = wanted
            if wanted:
                os.eventfd_write(self._bell, 1)
            else:
                os.eventfd_read(self._bell)

    def close(self) -> None:
        """Free the files."""
        with self._lock:
            if not self._watched.closed:
                self._watched.close()
                os.close(self._bell)


class ThreadStream:
    """A socket and the session on it; see `groupcomm_client.byte_stream.Stream`.

    Waits observe the limits of `groupcomm_client.deadlines`.

    Args:
        socket_: the connected non-blocking socket.
        protocol: a session that has not begun.
        watch: the watch of the connection.
    """

    def __init__(self, socket_: ByteSocket, protocol: SharedProtocol, watch: Watch) -> None:
        self._socket = socket_
        self._protocol = protocol
        self._lock = protocol.lock
        self._watch = watch
        self._reading = False  # whether a thread waits for the socket
        self._unsent = memoryview(b"")
        self._alarm = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._owes = False  # whether filters have messages that the socket has not accepted
        protocol.on_earlier_wake = self._ring_alarm
        protocol.on_popped = self._set_watch
        protocol.on_watched = self._begin_watch
        self._look_now = threading.Event()
        self._is_watching = self._is_closed = False
        watch.add(socket_)
        keep_own(self)

    def forsake(self) -> None:
        """See `groupcomm.host.forks`: another thread may have held the lock."""
        self._protocol.forsake()
        self._lock = self._protocol.lock
        self._reading = False
        if self._alarm >= 0:
            os.close(self._alarm)
            self._alarm = -1
            self._socket.close()

    def close(self) -> None:
        """Break the connection off; output that was not written yet is lost."""
        with self._lock:
            if self._socket.fileno() >= 0:
                with suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)  # wakes a thread that reads
                os.close(self._alarm)
                self._alarm = -1
                self._socket.close()
                self._protocol.break_off()
                self._is_closed = True
                self._look_now.set()
                self._set_watch()
                self._lock.notify_all()

    def _begin_watch(self) -> None:
        """Look at the session in time, from now on or earlier than planned."""
        self._look_now.set()
        if self._is_watching:
            return
        self._is_watching = True
        threading.Thread(target=self._look_on, name="groupcomm heartbeats", daemon=True).start()

    def _look_on(self) -> None:
        """Send heartbeats, and notice a silent daemon, whatever the program's threads do."""
        protocol = self._protocol
        while True:
            wait_s = protocol.look_in_s
            self._look_now.wait(min(wait_s, threading.TIMEOUT_MAX))
            self._look_now.clear()
            with self._lock:
                if self._is_closed or protocol.closed is not None:
                    return
                look(self._socket, protocol, reads=not self._reading)
                if protocol.closed is not None:
                    with suppress(OSError):
                        self._socket.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits for it
                elif protocol.pending_bytes:
                    self._unsent, _ = write_some(self._socket, protocol, self._unsent)
                self._set_watch()
                self._lock.notify_all()

    def _set_watch(self) -> None:
        protocol = self._protocol
        self._watch.set_has_events(bool(protocol.events) or protocol.closed is not None)

    # ---- in ----

    async def exchange(self, ready: Ready) -> None:
        """Write all pending output, then read until a condition holds; see `until`."""
        self.write_soon()
        await self.until(ready)

    async def until(self, ready: Ready) -> None:
        """Read until a condition holds; raise SessionEnded if the session is over first."""
        with self._lock:
            while not ready():
                self._protocol.check_open()
                if self._reading:
                    wait_on(self._lock)
                else:
                    self._read()
                if not ready():
                    check_limits()

    def _read(self) -> None:
        """Wait for input, with the lock released meanwhile, and notify the other threads."""
        self._reading = True
        wake_in_s = self._protocol.wake_in_s
        self._lock.release()
        try:
            if wake_in_s is None:
                arrived = wait_for_files({self._socket.fileno(): select.POLLIN})
            else:
                arrived = self._wait_or_wake(wake_in_s)
        finally:
            self._lock.acquire()
            self._reading = False
        if wake_in_s is not None:
            self._protocol.wake()
        if arrived:
            read_some(self._socket, self._protocol)
        self._set_watch()
        if self._alarm >= 0 and (wake_in_s is not None or self._protocol.needs_flush):
            self._write_needed()
        self._lock.notify_all()

    def _wait_or_wake(self, wake_in_s: float) -> int:
        """Wait for input, or for the time at which filters and keys need to wake.

        A thread that sends may change that time: then it wakes this one.
        """
        events = select.POLLIN | (select.POLLOUT if self._owes else 0)
        with move_on_after(wake_in_s):
            return wait_for_files({self._socket.fileno(): events, self._alarm: select.POLLIN})
        return 0

    def _write_needed(self) -> None:
        """Write messages that filters have sent themselves."""
        with suppress(BlockingIOError):
            os.eventfd_read(self._alarm)
        if self._protocol.needs_flush or self._owes:
            self._unsent, done = write_some(self._socket, self._protocol, self._unsent)
            self._owes = not done

    def _ring_alarm(self) -> None:
        if self._reading and self._alarm >= 0:
            os.eventfd_write(self._alarm, 1)

    def read_ready(self) -> None:
        """Read the bytes that have arrived already; if another thread does, let it be done."""
        with self._lock:
            if self._socket.fileno() < 0:
                return
            if not self._reading:
                read_some(self._socket, self._protocol)
                self._set_watch()
                self._lock.notify_all()
            elif is_readable(self._socket):
                self._lock.wait(READER_S)

    # ---- out ----

    async def flush(self) -> None:
        """Write all pending output."""
        self.write_soon()

    def write_soon(self) -> None:
        """Write all pending output; read meanwhile, as the daemon may wait for that."""
        while True:
            with self._lock:
                self._unsent, done = write_some(self._socket, self._protocol, self._unsent)
                if done or self._protocol.closed is not None:
                    if self._protocol.events or self._protocol.closed is not None:
                        self._set_watch()
                        self._lock.notify_all()
                    return
            check_limits()
            both = select.POLLIN | select.POLLOUT
            if wait_for_files({self._socket.fileno(): both}) & ~select.POLLOUT:
                with self._lock:
                    read_some(self._socket, self._protocol)
                    self._set_watch()
                    self._lock.notify_all()


class ThreadLock:
    """A lock among threads, with the calls of an awaited one."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._held = False

    async def __aenter__(self) -> None:
        with self._condition:
            while self._held:
                wait_on(self._condition)
                if self._held:
                    check_limits()
            self._held = True

    async def __aexit__(self, *_: object) -> None:
        with self._condition:
            self._held = False
            self._condition.notify_all()


class ThreadEvent:
    """See `groupcomm_client.loops.Event`."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._is_set = False

    def set(self) -> None:
        """See `Event`."""
        with self._condition:
            self._is_set = True
            self._condition.notify_all()

    async def wait(self) -> None:
        """See `Event`."""
        with self._condition:
            while not self._is_set:
                wait_on(self._condition)
                if not self._is_set:
                    check_limits()


class ThreadTasks:
    """See `groupcomm_client.loops.Tasks`: each task has a thread."""

    def __init__(self, block: Interrupt) -> None:
        """Begin without tasks.

        Args:
            block: ends the waits of the block; set when a task fails.
        """
        self._block = block
        self._lock = threading.Lock()
        self._running: dict[threading.Thread, Interrupt] = {}
        self.failures: list[BaseException] = []
        keep_own(self)

    def forsake(self) -> None:
        """See `groupcomm.host.forks`: only the thread that has forked goes on."""
        self._lock = threading.Lock()
        self._running.clear()

    def start(self, function: Callable[..., Awaitable[object]], *arguments: Any) -> None:
        """See `Tasks`."""
        interrupt = Interrupt()

        async def call() -> None:
            await function(*arguments)

        def work() -> None:
            try:
                with interruptible(interrupt):
                    run(call())
            except BaseException as error:  # the block of the scope raises it
                self.failures.append(error)
                self._block.set()
            finally:
                with self._lock:
                    self._running.pop(threading.current_thread(), None)

        thread = threading.Thread(target=work, daemon=True)
        with self._lock:
            self._running[thread] = interrupt
        thread.start()

    def stop(self) -> None:
        """Interrupt all tasks, and wait until they have ended."""
        while True:
            with self._lock:
                running = dict(self._running)
            if not running:
                return
            for interrupt in running.values():
                interrupt.set()
            for thread in running:
                thread.join()


class ThreadCancelScope:
    """See `groupcomm_client.loops.CancelScope`.

    It ends the calls of the block to this library; other work of a thread cannot be ended.
    """

    def __init__(self) -> None:
        self._interrupt = Interrupt()
        self._block = interruptible(self._interrupt)

    async def open(self) -> None:
        """See `CancelScope`."""
        self._block.__enter__()

    async def close(self, error: BaseException | None) -> bool:
        """See `CancelScope`."""
        trace = None if error is None else error.__traceback__
        return bool(self._block.__exit__(None if error is None else type(error), error, trace))

    def cancel(self) -> None:
        """See `CancelScope`."""
        self._interrupt.set()


class ThreadLoop:
    """See `groupcomm_client.loops.Loop`; each connection has its own.

    Attributes:
        watch: the file that `select` can watch.
    """

    protocol = SharedProtocol

    def __init__(self) -> None:
        self.watch = Watch()
        self._locks: list[Any] = []
        keep_own(self)

    def forsake(self) -> None:
        """See `groupcomm.host.forks`: another thread may have held a lock."""
        for lock in self._locks:
            lock._at_fork_reinit()  # as the standard library does with its own

    def stream(self, socket_: ByteSocket, protocol: ClientProtocol) -> ThreadStream:
        """See `Loop`."""
        assert isinstance(protocol, SharedProtocol), "made by this loop"
        return ThreadStream(socket_, protocol, self.watch)

    async def look_up(self, host: str, port: int) -> list[Target]:
        """See `Loop`."""
        return targets_of(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))

    async def from_disk(self, read: Callable[[], _Value]) -> _Value:
        """See `Loop`."""
        return read()

    async def readable(self, socket_: ByteSocket) -> None:
        """See `Loop`."""
        while not wait_for_files({socket_.fileno(): select.POLLIN}):
            check_limits()

    async def writable(self, socket_: ByteSocket) -> None:
        """See `Loop`."""
        while not wait_for_files({socket_.fileno(): select.POLLOUT}):
            check_limits()

    async def sleep(self, seconds: float) -> None:
        """See `Loop`."""
        end = time.monotonic() + seconds
        with move_on_after(seconds):
            while time.monotonic() < end:
                wait_for_files({})
                check_limits()
        check_limits()

    async def checkpoint(self) -> None:
        """See `Loop`."""

    async def timeout(self, seconds: float, step: Step) -> bool:
        """See `Loop`."""
        with move_on_after(seconds):
            await step()
            return True
        return False

    async def shielded(self, seconds: float, step: Step) -> bool:
        """See `Loop`."""
        with move_on_after(seconds, shield=True):
            await step()
            return True
        return False

    def lock(self) -> ThreadLock:
        """See `Loop`."""
        return ThreadLock()

    def thread_lock(self) -> AbstractContextManager[object]:
        """See `Loop`."""
        lock = threading.RLock()
        self._locks.append(lock)
        return lock

    def event(self) -> ThreadEvent:
        """See `Loop`."""
        return ThreadEvent()

    @asynccontextmanager
    async def tasks(self) -> AsyncIterator[ThreadTasks]:
        """See `Loop`."""
        block = Interrupt()
        tasks = ThreadTasks(block)
        try:
            with interruptible(block):
                yield tasks
        finally:
            tasks.stop()
            if tasks.failures:
                raise single_of(BaseExceptionGroup("tasks have failed", tasks.failures))

    def cancel_scope(self) -> ThreadCancelScope:
        """See `Loop`."""
        return ThreadCancelScope()
