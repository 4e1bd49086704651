"""The three kinds of connections behind one face, so that one suite tests all of them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import trio

from groupcomm_client import aio, blocking, connecting

Scenario = Callable[..., Awaitable[None]]


class TrioKind:
    """`groupcomm_client.connect`."""

    name = "trio"

    def run(self, scenario: Scenario, *arguments: Any) -> None:
        """Run a scenario to its end."""
        trio.run(scenario, self, *arguments)

    def connect(self, address: str, user: str | None = None) -> AbstractAsyncContextManager[Any]:
        """A connection."""
        return connecting.connect(address, user=user)

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

    def connect(self, address: str, user: str | None = None) -> AbstractAsyncContextManager[Any]:
        """A connection."""
        return aio.connect(address, user=user)

    async def receive(self, connection: Any, seconds: float) -> Any:
        """The next event; None if none comes in time."""
        try:
            async with asyncio.timeout(seconds):
                return await connection.receive()
        except TimeoutError:
            return None


class _AsIfAsync:
    """A blocking connection whose calls are awaited, and have been done by then."""

    def __init__(self, connection: blocking.BlockingConnection) -> None:
        self.wrapped = connection

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.wrapped, name)
        if not callable(found):
            return found

        async def call(*arguments: Any, **options: Any) -> Any:
            return found(*arguments, **options)

        return call

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
    async def connect(self, address: str, user: str | None = None) -> AsyncIterator[Any]:
        """A connection."""
        with blocking.connect(address, user=user) as connection:
            yield _AsIfAsync(connection)

    async def receive(self, connection: Any, seconds: float) -> Any:
        """The next event; None if none comes in time."""
        return connection.wrapped.receive(seconds)


Kind = TrioKind | AsyncioKind | BlockingKind
KINDS: tuple[Kind, ...] = (TrioKind(), AsyncioKind(), BlockingKind())
