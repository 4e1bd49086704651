"""The interface of an event loop, as this library needs it.

trio (`trio_loop`), asyncio (`aio`) and threads (`thread_loop`) each have a `Loop`. Everything above
is written once, as coroutines that wait only through this interface.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Protocol, TypeVar

from groupcomm_client.byte_stream import ByteSocket, Stream
from groupcomm_client.client_protocol import ClientProtocol

Found = TypeVar("Found")

Step = Callable[[], Awaitable[object]]
"""A coroutine function to run."""

Target = tuple[int, Any]
"""The family of a socket, and the address to connect it to."""


class Event(Protocol):
    """An event that happens once, and for which several tasks may wait."""

    def set(self) -> None:
        """Let waiting tasks continue."""

    async def wait(self) -> object:
        """Wait until the event is set."""


class Tasks(Protocol):
    """Tasks that run while a block lasts."""

    def start(self, function: Callable[..., Awaitable[object]], *arguments: Any) -> None:
        """Run a function in a task of its own, until it returns or the block ends."""


class CancelScope(Protocol):
    """A block whose waits can be ended from outside it."""

    async def open(self) -> None:
        """Begin the block, in the running task."""

    async def close(self, error: BaseException | None) -> bool:
        """End the block; return whether the error is its own cancellation.

        Args:
            error: the exception that has ended the block, if any.
        """

    def cancel(self) -> None:
        """End the waits of the block, and let it wait for nothing else."""


class Loop(Protocol):
    """The ways in which one kind of program waits.

    Attributes:
        protocol: the class of a session's client side; threads share one.
    """

    @property
    def protocol(self) -> type[ClientProtocol]:
        """Return the class of a session's client side; threads need a class that they can share."""

    def stream(self, socket_: ByteSocket, protocol: ClientProtocol) -> Stream:
        """Return a stream on a connected non-blocking socket on which nothing was sent yet."""

    async def look_up(self, host: str, port: int) -> list[Target]:
        """Return the addresses of a host, the best first; raise OSError if there is none."""

    async def from_disk(self, read: Callable[[], Found]) -> Found:
        """Return the result of a function that may wait for a disk; other tasks go on meanwhile."""

    async def readable(self, socket_: ByteSocket) -> None:
        """Wait until a socket is readable."""

    async def writable(self, socket_: ByteSocket) -> None:
        """Wait until a socket is writable."""

    async def sleep(self, seconds: float) -> None:
        """Wait for some seconds."""

    async def checkpoint(self) -> None:
        """Let other tasks run."""

    async def timeout(self, seconds: float, step: Step) -> bool:
        """Run a coroutine for `seconds` at most; return whether it has ended."""

    async def shielded(self, seconds: float, step: Step) -> bool:
        """Run a coroutine for `seconds` at most, even in a task that is being cancelled; return
        whether it has ended."""

    def lock(self) -> AbstractAsyncContextManager[object]:
        """Return a new lock among tasks."""

    def thread_lock(self) -> AbstractContextManager[object]:
        """Return a new lock of state that is changed without waiting; only threads need one."""

    def event(self) -> Event:
        """Return a new event."""

    def tasks(self) -> AbstractAsyncContextManager[Tasks]:
        """Return a new group of tasks; they are cancelled when its block ends.

        An exception of one of them, or of the block, ends the others and is raised unchanged.
        """

    def cancel_scope(self) -> CancelScope:
        """Return a new cancel scope."""


def targets_of(found: list[Any]) -> list[Target]:
    """Return the distinct targets in a result of `getaddrinfo`."""
    return list(dict.fromkeys((entry[0], entry[4]) for entry in found))


def single_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the exception of a group that has only one, else the group."""
    return group.exceptions[0] if len(group.exceptions) == 1 else group
