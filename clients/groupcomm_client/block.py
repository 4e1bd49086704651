"""What `connect` returns: a connection for the length of a block.

Used in another way, as by ``connection = connect()``, it says what to write.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Generic, NoReturn, ParamSpec, TypeVar

from groupcomm.errors import LocalProtocolError

P = ParamSpec("P")
T = TypeVar("T")
Raised = tuple[type[BaseException] | None, BaseException | None, TracebackType | None]


class NoBlock(LocalProtocolError, AttributeError):
    """A program has used `connect` without a block; the text says what to write."""

    def __init__(self, statement: str) -> None:
        super().__init__(
            "connect() opens a connection for the length of a block: write"
            f" '{statement} connect() as connection:', and use the connection in that block"
        )


class AsyncBlock(AbstractAsyncContextManager[T], Generic[T]):
    """A block of a program with an event loop."""

    def __init__(self, block: AbstractAsyncContextManager[T]) -> None:
        self._block = block

    async def __aenter__(self) -> T:
        return await self._block.__aenter__()

    async def __aexit__(self, *raised: *Raised) -> bool | None:
        return await self._block.__aexit__(*raised)

    if not TYPE_CHECKING:  # to a type checker there are no such uses

        def __getattr__(self, name: str) -> NoReturn:
            raise NoBlock("async with")

        def __await__(self) -> NoReturn:
            raise NoBlock("async with")

        def __enter__(self) -> NoReturn:
            raise NoBlock("async with")

        def __exit__(self, *_: object) -> None:
            """Be there: Python looks for it before it calls `__enter__`."""


class Block(AbstractContextManager[T], Generic[T]):
    """A block of a program whose calls wait."""

    def __init__(self, block: AbstractContextManager[T]) -> None:
        self._block = block

    def __enter__(self) -> T:
        return self._block.__enter__()

    def __exit__(self, *raised: *Raised) -> bool | None:
        return self._block.__exit__(*raised)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise NoBlock("with")


def async_block(function: Callable[P, AsyncIterator[T]]) -> Callable[P, AsyncBlock[T]]:
    """Return the function that makes a block, as `contextlib.asynccontextmanager` does."""
    make = asynccontextmanager(function)

    @wraps(function)
    def made(*args: P.args, **kwargs: P.kwargs) -> AsyncBlock[T]:
        return AsyncBlock(make(*args, **kwargs))

    return made


def block(function: Callable[P, Iterator[T]]) -> Callable[P, Block[T]]:
    """Return the function that makes a block, as `contextlib.contextmanager` does."""
    make = contextmanager(function)

    @wraps(function)
    def made(*args: P.args, **kwargs: P.kwargs) -> Block[T]:
        return Block(make(*args, **kwargs))

    return made
