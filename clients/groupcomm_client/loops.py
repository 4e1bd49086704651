"""What is needed of an event loop; trio's is here, asyncio has its own, and programs without one.

What is written once on top of it works in all three kinds of programs: finding a daemon
(`targets`), being admitted (`connecting`), staying connected (`staying`).
"""

import socket
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar

import trio

from groupcomm.host.tls import AnySocket
from groupcomm_client.connection import Connection
from groupcomm_client.conversation import Conversation
from groupcomm_client.stream import SessionStream

Step = Callable[[], Awaitable[object]]
"""Something to be done, and to be waited for."""

Target = tuple[int, Any]
"""The family of a socket, and the address that it is to be connected to."""

Made_co = TypeVar("Made_co", covariant=True)


class Loop(Protocol[Made_co]):
    """The ways in which one kind of programs waits; `Made_co` is its connection."""

    def connection(self, socket_: AnySocket, conversation: Conversation) -> Made_co:
        """A connection on a connected non-blocking socket; nothing has been said on it yet."""

    async def look_up(self, host: str, port: int) -> list[Target]:
        """The addresses of a host, the best first; raises OSError if there is none."""

    async def readable(self, socket_: AnySocket) -> None:
        """Wait until a socket is."""

    async def writable(self, socket_: AnySocket) -> None:
        """Wait until a socket is."""

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""

    async def checkpoint(self) -> None:
        """Let others run."""

    async def within(self, seconds: float, step: Step) -> bool:
        """Do something for so long at most; whether it was done."""

    async def in_spite(self, seconds: float, step: Step) -> None:
        """Do something for so long at most, also in a task that is being cancelled."""

    def lock(self) -> AbstractAsyncContextManager[object]:
        """A new lock; who enters it waits until nobody else is in it."""


def targets_of(found: list[Any]) -> list[Target]:
    """What `getaddrinfo` gives, as far as sockets need it; none twice."""
    return list(dict.fromkeys((entry[0], entry[4]) for entry in found))


class TrioLoop:
    """See `Loop`."""

    def connection(self, socket_: AnySocket, conversation: Conversation) -> Connection:
        """See `Loop`."""
        return Connection(SessionStream(socket_, conversation), conversation, self)

    async def look_up(self, host: str, port: int) -> list[Target]:
        """See `Loop`."""
        found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return targets_of(found)

    async def readable(self, socket_: AnySocket) -> None:
        """See `Loop`."""
        await trio.lowlevel.wait_readable(socket_)

    async def writable(self, socket_: AnySocket) -> None:
        """See `Loop`."""
        await trio.lowlevel.wait_writable(socket_)

    async def sleep(self, seconds: float) -> None:
        """See `Loop`."""
        await trio.sleep(seconds)

    async def checkpoint(self) -> None:
        """See `Loop`."""
        await trio.lowlevel.checkpoint()

    async def within(self, seconds: float, step: Step) -> bool:
        """See `Loop`."""
        with trio.move_on_after(seconds) as scope:
            await step()
        return not scope.cancelled_caught

    async def in_spite(self, seconds: float, step: Step) -> None:
        """See `Loop`."""
        with trio.move_on_after(seconds, shield=True):
            await step()

    def lock(self) -> trio.Lock:
        """See `Loop`."""
        return trio.Lock()
