"""The three forms of programs behind one face: scenes are written once, with awaited calls.

A blocking call is made where it is awaited, or entered as a block. Scenes wait only through their
`Loop`, so threads run them to their ends, too.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
)
from types import ModuleType
from typing import Any, Final

import attrs
import trio

import groupcomm_client
from groupcomm_client import aio, blocking, coordination
from groupcomm_client.aio import AsyncioLoop
from groupcomm_client.block import AsyncBlock, Raised
from groupcomm_client.coordination import blocking as blocking_coordination
from groupcomm_client.loops import Loop
from groupcomm_client.thread_loop import ThreadLoop
from groupcomm_client.thread_loop import run as complete
from groupcomm_client.trio_loop import TrioLoop

_NAMES: Final = {"aclose": "close"}


class Facade:
    """A blocking object or module, whose calls are awaited."""

    def __init__(self, made: Any) -> None:
        self.made = made

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.made, _NAMES.get(name, name))
        if not callable(found) or isinstance(found, type):
            return found

        def later(*given: Any, **options: Any) -> _Later:
            return _Later(found, given, options)

        return later

    async def __aenter__(self) -> Any:
        return _faced(self.made.__enter__())

    async def __aexit__(self, *raised: *Raised) -> bool | None:
        found: bool | None = self.made.__exit__(*raised)
        return found


class _Later(Facade):
    """A blocking call that is made when it is awaited, or entered."""

    def __init__(
        self, call: Callable[..., Any], given: tuple[Any, ...], options: dict[str, Any]
    ) -> None:
        def made() -> Any:
            return call(*map(_bare, given), **options)

        self._call: Callable[[], Any] = made

    def __await__(self) -> Generator[Any, Any, Any]:
        return _faced(self._call())
        yield

    async def __aenter__(self) -> Any:
        self.made = self._call()
        return await super().__aenter__()


def _bare(given: Any) -> Any:
    return given.made if isinstance(given, Facade) else given


def _faced(found: Any) -> Any:
    if isinstance(found, list):
        return [_faced(each) for each in found]
    return Facade(found) if type(found).__name__.startswith("Blocking") else found


async def done(found: Any) -> Any:
    """Return the result of a call of any form; enter and leave what is a block."""
    if hasattr(found, "__await__") and not isinstance(found, AsyncBlock):
        found = await found
        if isinstance(found, AbstractContextManager):  # a blocking one, not entered yet
            with found:
                return None
        return found
    if hasattr(found, "__aenter__"):
        async with found:
            return None
    return found


@attrs.frozen
class Form:
    """trio, asyncio or threads.

    Attributes:
        name: its name.
        module: the module with its `connect`.
        coordination: the module with its coordination.
        make_loop: makes its loop.
        execute: runs a coroutine function to its end.
    """

    name: str
    module: ModuleType
    coordination: Any
    make_loop: Callable[[], Loop]
    execute: Callable[[Callable[[], Awaitable[Any]]], Any]

    @property
    def blocks(self) -> bool:
        """Return whether calls block."""
        return self.module is blocking

    def connect(self, address: str, **options: Any) -> AbstractAsyncContextManager[Any]:
        """Open a connection of this form."""
        made = self.module.connect(address, **options)
        return self._faced(made) if self.blocks else made

    @asynccontextmanager
    async def _faced(self, made: Any) -> AsyncIterator[Any]:
        with made as connection:
            yield Facade(connection)

    def function(self, given: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        """Return a handler as this form has it."""
        if not self.blocks:
            return given

        async def call(*arguments: Any) -> Any:
            return await given(*arguments)

        return lambda *arguments: complete(call(*arguments))

    def bare(self, connection: Any) -> Any:
        """Return a connection whose calls are awaited, for what has no form of its own."""
        return connection.made.awaited if self.blocks else connection

    def run(self, scenario: Callable[[], Awaitable[Any]], limit_s: float = 30.0) -> None:
        """Run a scenario; fail if it takes too long."""

        async def in_time() -> None:
            assert await loop.timeout(limit_s, scenario), "it takes too long"

        loop = self.make_loop()
        try:
            self.execute(in_time)
        finally:
            if isinstance(loop, ThreadLoop):
                loop.watch.close()


async def _of(scenario: Callable[[], Awaitable[Any]]) -> Any:
    return await scenario()


FORMS: Final = (
    Form("trio", groupcomm_client, coordination, TrioLoop, trio.run),
    Form("asyncio", aio, coordination, AsyncioLoop, lambda given: asyncio.run(_of(given))),
    Form(
        *("threads", blocking, Facade(blocking_coordination), ThreadLoop),
        lambda given: complete(_of(given)),
    ),
)
