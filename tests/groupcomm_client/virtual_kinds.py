"""Connections of trio and asyncio on virtual time, whose calls are cancelled at a chosen point.

The clock of the event loop jumps whenever all wait for it. A call is driven step by step: each time
it suspends is counted, and at one of them it is cancelled.
"""

import asyncio
import selectors
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, closing
from typing import Any, Final

import attrs
import trio
import trio.testing

from groupcomm_client.aio import AsyncioLoop
from groupcomm_client.basic_connection import Session
from groupcomm_client.client_protocol import ClientProtocol
from groupcomm_client.connection import Connection
from groupcomm_client.loops import Loop
from groupcomm_client.trio_loop import TrioLoop
from tests.groupcomm_client.scripted_daemon import ScriptedDaemon

STEP_S: Final = 0.001
LIMIT_S: Final = 60.0
BUFFER_BYTES: Final = 4096

Call = Callable[[], Coroutine[Any, Any, Any]]


class Attempt:
    """A call that is awaited through this, and told to a function when it suspends.

    Args:
        call: a coroutine.
        on_suspension: called with the number of the suspension, from 1, and the awaited event.
    """

    def __init__(
        self, call: Coroutine[Any, Any, Any], on_suspension: Callable[[int, Any], None]
    ) -> None:
        self._call = call
        self._on_suspension = on_suspension

    def __await__(self) -> Generator[Any, Any, Any]:
        go_on, argument, count = self._call.send, None, 0
        while True:
            try:
                waited_for = go_on(argument)
            except StopIteration as end:
                return end.value
            count += 1
            self._on_suspension(count, waited_for)
            try:
                go_on, argument = self._call.send, (yield waited_for)
            except BaseException as error:  # the call gets any exception
                go_on, argument = self._call.throw, error


@attrs.frozen
class Outcome:
    """The result of a call.

    Attributes:
        done: it was not cancelled.
        value: its return value.
    """

    done: bool
    value: Any = None


class TrioTime:
    """trio, whose tasks are cancelled as they suspend, or while they have been suspended."""

    name = "trio"
    ways = ("at once", "later")
    loop: Loop = TrioLoop()

    def run(self, scenario: Callable[[], Awaitable[None]]) -> None:
        """Run a scenario on virtual time."""

        async def in_time() -> None:
            with trio.fail_after(LIMIT_S):
                await scenario()

        trio.run(in_time, clock=trio.testing.MockClock(autojump_threshold=0))

    def now(self) -> float:
        """Return the virtual time, in seconds."""
        return trio.current_time()

    async def attempt(self, call: Coroutine[Any, Any, Any], at: int, way: str) -> Outcome:
        """Cancel a call when it suspends for the `at`-th time."""
        with trio.CancelScope() as scope:

            def on_suspension(count: int, _: object) -> None:
                if count == at:
                    scope.deadline = trio.current_time() + (STEP_S / 2 if way == "later" else 0)

            return Outcome(True, await Attempt(call, on_suspension))
        return Outcome(False)

    @asynccontextmanager
    async def meanwhile(self, *calls: Call) -> AsyncIterator[None]:
        """Do these things until the end of the block."""
        async with trio.open_nursery() as nursery:
            for call in calls:
                nursery.start_soon(call)
            yield
            nursery.cancel_scope.cancel()


class _Jumping(selectors.DefaultSelector):
    """Moves a clock instead of waiting."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0)
        if not found and timeout != 0:
            assert timeout is not None, "nothing will ever happen"
            self.now += timeout
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on virtual time."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Seconds since it was made."""
        return self._jumping.now


class AsyncioTime:
    """asyncio, whose tasks are cancelled as they suspend, or as they are about to go on."""

    name = "asyncio"
    ways = ("at once", "later", "woken")
    loop: Loop = AsyncioLoop()

    def run(self, scenario: Callable[[], Awaitable[None]]) -> None:
        """Run a scenario on virtual time."""

        async def in_time() -> None:
            async with asyncio.timeout(LIMIT_S):
                await scenario()

        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(in_time())

    def now(self) -> float:
        """Return the virtual time, in seconds."""
        return asyncio.get_running_loop().time()

    async def attempt(self, call: Coroutine[Any, Any, Any], at: int, way: str) -> Outcome:
        """Cancel a call when it suspends for the `at`-th time."""

        def on_suspension(count: int, waited_for: asyncio.Future[Any] | None) -> None:
            if count != at:
                return
            if way == "woken" and waited_for is not None:
                waited_for.add_done_callback(lambda _: task.cancel())
            elif way == "later":
                asyncio.get_running_loop().call_later(STEP_S / 2, task.cancel)
            else:
                task.cancel()

        async def whole() -> Any:
            return await Attempt(call, on_suspension)

        task = asyncio.ensure_future(whole())
        await asyncio.wait([task])
        return Outcome(False) if task.cancelled() else Outcome(True, task.result())

    @asynccontextmanager
    async def meanwhile(self, *calls: Call) -> AsyncIterator[None]:
        """Do these things until the end of the block."""
        tasks = [asyncio.ensure_future(call()) for call in calls]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                if not isinstance(result, asyncio.CancelledError):
                    raise AssertionError(f"it has ended: {result!r}")


Time = TrioTime | AsyncioTime


@asynccontextmanager
async def talking(
    time: Time, *, seed: int, crumb_bytes: int, gulp_bytes: int = 1000
) -> AsyncIterator[tuple[Connection, ScriptedDaemon]]:
    """A connection of ann to a daemon that makes a step each millisecond."""
    here, there = socket.socketpair()
    for end in (here, there):
        end.setblocking(False)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
    daemon = ScriptedDaemon(there, seed=seed, crumb_bytes=crumb_bytes, gulp_bytes=gulp_bytes)

    async def go_on() -> None:
        while True:
            daemon.step()
            await time.loop.sleep(STEP_S)

    with closing(there):
        async with time.meanwhile(go_on):
            protocol = ClientProtocol("ann")
            session = Session(protocol, time.loop.stream(here, protocol))
            connection = Connection(session, time.loop)
            try:
                await connection.greet()
                yield connection, daemon
                await connection.aclose()
            finally:
                connection.close_socket()
