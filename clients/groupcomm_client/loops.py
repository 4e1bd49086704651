"""What this library needs of an event loop.

trio (`trio_loop`), asyncio (`asyncio_loop`) and threads (`thread_loop`) each have a `Loop`.
Everything above is written once, as coroutines that wait for nothing but what is here.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Protocol

from groupcomm_client.byte_stream import ByteSocket, Stream
from groupcomm_client.client_protocol import ClientProtocol

Step = Callable[[], Awaitable[object]]
"""Something to be done, and to be waited for."""

Target = tuple[int, Any]
"""The family of a socket, and the address that it is to be connected to."""


class Event(Protocol):
    """Something that happens once, and that several tasks may wait for."""

    def set(self) -> None:
        """Let those that wait go on."""

    async def wait(self) -> object:
        """Wait until it is set."""


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
            error: that has ended the block, if any has.
        """

    def cancel(self) -> None:
        """End what the block waits for, and let it wait for nothing else."""


class Loop(Protocol):
    """The ways in which one kind of programs waits.

    Attributes:
        protocol: the class of a session's client side: threads share theirs.
    """

    @property
    def protocol(self) -> type[ClientProtocol]:
        """The class of a session's client side; threads need one that they can share."""

    def stream(self, socket_: ByteSocket, protocol: ClientProtocol) -> Stream:
        """Return a stream on a connected non-blocking socket, before anything was sent on it."""

    async def look_up(self, host: str, port: int) -> list[Target]:
        """Return the addresses of a host, the best first; raise OSError if there is none."""

    async def readable(self, socket_: ByteSocket) -> None:
        """Wait until a socket is readable."""

    async def writable(self, socket_: ByteSocket) -> None:
        """Wait until a socket is writable."""

    async def sleep(self, seconds: float) -> None:
        """Wait for some seconds."""

    async def checkpoint(self) -> None:
        """Let other tasks run."""

    async def timeout(self, seconds: float, step: Step) -> bool:
        """Do something for so many seconds at most; return whether it was done."""

    async def shielded(self, seconds: float, step: Step) -> None:
        """Do something for so many seconds at most, even in a task that is being cancelled."""

    def lock(self) -> AbstractAsyncContextManager[object]:
        """Return a new lock among tasks."""

    def thread_lock(self) -> AbstractContextManager[object]:
        """Return a new lock of state that is changed without waiting; only threads need one."""

    def event(self) -> Event:
        """Return a new event."""

    def tasks(self) -> AbstractAsyncContextManager[Tasks]:
        """Return a new group of tasks; they are cancelled when its block ends.

        An exception of one of them, or of the block, ends the others and comes out as it is.
        """

    def cancel_scope(self) -> CancelScope:
        """Return a new cancel scope."""


def targets_of(found: list[Any]) -> list[Target]:
    """Return what sockets need of a result of `getaddrinfo`, without repetitions."""
    return list(dict.fromkeys((entry[0], entry[4]) for entry in found))


def single_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the exception of a group that has only one, else the group."""
    return group.exceptions[0] if len(group.exceptions) == 1 else group
