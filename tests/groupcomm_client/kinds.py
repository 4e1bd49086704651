"""The three kinds of connections behind one face, so that one suite tests all of them."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import wraps
from typing import Any, Final

import trio

import groupcomm_client
from groupcomm_client import ConnectOptions, TlsOptions, aio, blocking
from groupcomm_client.thread_loop import run

PATIENCE_S: Final = 20.0

OF_TLS: Final = frozenset(("ca", "certificate", "key", "token"))

Scenario = Callable[..., Awaitable[None]]
Call = Callable[[], Coroutine[Any, Any, object]]


async def until_accepted(kind: Any, connection: Any) -> None:
    """Wait until nothing is in doubt; the daemon says so a little later. No event may come."""
    while connection.in_doubt:
        assert await kind.receive(connection, 0.05) is None


@contextmanager
def once_sent(connection: Any, act: Callable[[], None]) -> Iterator[None]:
    """In this block, act once a message is in doubt: a daemon that stands still has it.

    A connection with a thread would otherwise notice the end of a daemon before it sends.
    """

    def wait() -> None:
        until = time.monotonic() + PATIENCE_S
        while not connection.in_doubt and time.monotonic() < until:
            time.sleep(0.001)
        act()

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def sorted_options(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a connection by their class."""
    tls = {name: value for name, value in options.items() if name in OF_TLS}
    others = {name: value for name, value in options.items() if name not in OF_TLS}
    resume, views = others.pop("resume", False), others.pop("views", True)
    exactly_once = others.pop("exactly_once", False)
    return {
        "exactly_once": exactly_once,
        "views": views,
        "resume": resume,
        "options": ConnectOptions(**others),
        "tls": TlsOptions(**tls) if tls else None,
    }


class TrioKind:
    """`groupcomm_client.connect`."""

    name = "trio"

    def run(self, scenario: Scenario, *arguments: Any) -> None:
        """Run a scenario to its end."""
        trio.run(scenario, self, *arguments)

    def connect(
        self, address: str, user: str | None = None, *, reconnect: bool = False, **options: Any
    ) -> AbstractAsyncContextManager[Any]:
        """A connection; `options` are those of both classes."""
        return groupcomm_client.connect(
            address, user=user, reconnect=reconnect, **sorted_options(options)
        )

    async def together(self, *calls: Call) -> None:
        """Do several things at once."""
        async with trio.open_nursery() as nursery:
            for call in calls:
                nursery.start_soon(call)

    def messages(self, connection: Any) -> Any:
        """The messages of a connection."""
        return connection.messages()

    async def receive(self, connection: Any, seconds: float) -> Any:
        """The next event; None if none comes in time."""
        with trio.move_on_after(seconds):
            return await connection.receive()


class AsyncioKind:
    """`groupcomm_client.aio.connect`."""

    name = "asyncio"

    def run(self, scenario: Scenario, *arguments: Any) -> None:
        """Run a scenario to its end."""

        async def whole() -> None:
            await scenario(self, *arguments)

        asyncio.run(whole())

    def connect(
        self, address: str, user: str | None = None, *, reconnect: bool = False, **options: Any
    ) -> AbstractAsyncContextManager[Any]:
        """A connection; `options` are those of both classes."""
        return aio.connect(address, user=user, reconnect=reconnect, **sorted_options(options))

    async def together(self, *calls: Call) -> None:
        """Do several things at once."""
        await asyncio.gather(*(call() for call in calls))

    def messages(self, connection: Any) -> Any:
        """The messages of a connection."""
        return connection.messages()

    async def receive(self, connection: Any, seconds: float) -> Any:
        """The next event; None if none comes in time."""
        try:
            async with asyncio.timeout(seconds):
                return await connection.receive()
        except TimeoutError:
            return None


class _AsIfAsync:
    """A blocking connection whose calls are awaited, and have been done by then."""

    def __init__(self, connection: Any) -> None:
        self.wrapped = connection

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.wrapped, name)
        if not callable(found):
            return found

        async def call(*arguments: Any, **options: Any) -> Any:
            return found(*arguments, **options)

        return call

    async def aclose(self) -> None:
        self.wrapped.close()

    def typed(self, model: Any) -> Any:
        return _AsIfAsync(self.wrapped.typed(model))

    @asynccontextmanager
    async def group(self, name: str) -> AsyncIterator[Any]:
        with self.wrapped.group(name) as view:
            yield view


class BlockingKind:
    """`groupcomm_client.blocking.connect`."""

    name = "blocking"

    def run(self, scenario: Scenario, *arguments: Any) -> None:
        """Run a scenario to its end."""
        trio.run(scenario, self, *arguments)

    @asynccontextmanager
    async def connect(
        self, address: str, user: str | None = None, *, reconnect: bool = False, **options: Any
    ) -> AsyncIterator[Any]:
        """A connection; `options` are those of both classes."""
        with blocking.connect(
            address, user=user, reconnect=reconnect, **sorted_options(options)
        ) as connection:
            yield _AsIfAsync(connection)

    async def together(self, *calls: Call) -> None:
        """Do several things at once, each in a thread."""
        failures: list[BaseException] = []

        def do(call: Call) -> None:
            try:
                run(call())
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=do, args=(call,)) for call in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]

    async def messages(self, connection: Any) -> AsyncIterator[Any]:
        """The messages of a connection."""
        for message in connection.wrapped.messages():
            yield message

    async def receive(self, connection: Any, seconds: float) -> Any:
        """The next event; None if none comes in time."""
        try:
            return connection.wrapped.receive(seconds)
        except TimeoutError:
            return None


Kind = TrioKind | AsyncioKind | BlockingKind
KINDS: tuple[Kind, ...] = (TrioKind(), AsyncioKind(), BlockingKind())


async def next_of(kind: Kind, connection: Any, wanted: type) -> Any:
    """The next event of a class."""
    while True:
        event = await kind.receive(connection, PATIENCE_S)
        assert event is not None, f"no {wanted.__name__} comes"
        if isinstance(event, wanted):
            return event


def played(scenario: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """The test that runs a scenario to its end, in each kind: the first of its arguments."""

    @wraps(scenario)
    def test(kind: Kind, **given: Any) -> None:
        kind.run(lambda kind: scenario(kind=kind, **given))

    return test
