"""What all coordinated programs do: feed a connection's events to a machine, send what it wants.

The shell of every machine of this package, for trio. A machine has a connection for itself: it
takes all events of it.
"""

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import trio

from groupcomm.errors import SessionEnded
from groupcomm.level import ServiceLevel
from groupcomm_client.connection import Connection
from groupcomm_client.events import Received


class Driver:
    """Drives one machine while `driving` lasts.

    Attributes:
        connection: whose events the machine takes.
        group: which it has joined.
        ended: why the session is over; None while it is not.
    """

    def __init__(
        self,
        connection: Connection,
        group: str,
        take: Callable[[Received], None],
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare it; nothing happens yet.

        Args:
            connection: for the machine alone.
            group: to be joined.
            take: gets every event.
            changed: is called after some events, and after the end of the session.
        """
        self.connection = connection
        self.group = group
        self.ended: SessionEnded | None = None
        self._take = take
        self._changed = changed
        self._outgoing: deque[tuple[str | Sequence[str], bytes, ServiceLevel]] = deque()
        self._has_outgoing = trio.Event()
        self._wake = trio.Event()

    def send(
        self,
        data: bytes,
        *,
        level: ServiceLevel = ServiceLevel.AGREED,
        to: str | Sequence[str] | None = None,
    ) -> None:
        """Have a message sent, to the group by default, after those that wait already."""
        self._outgoing.append((to or self.group, data, level))
        self._has_outgoing.set()

    async def until(self, ready: Callable[[], bool]) -> None:
        """Wait until something is so; it is looked at after events only.

        Raises:
            SessionEnded: the session is over, and it is not so.
        """
        await trio.lowlevel.checkpoint()
        while not ready():
            if self.ended is not None:
                raise SessionEnded(self.ended.code, str(self.ended))
            await self._wake.wait()

    async def run_receiver(self) -> None:
        """Feed the machine, until the session ends."""
        try:
            while True:
                for event in await self.connection.receive_batch():
                    self._take(event)
                self.notify()
        except SessionEnded as error:
            self.ended = error
            self.notify()

    async def run_sender(self) -> None:
        """Send what waits; a task of its own, so that receiving goes on when the daemon is full."""
        try:
            while True:
                await self._has_outgoing.wait()
                self._has_outgoing = trio.Event()
                while self._outgoing:
                    to, data, level = self._outgoing.popleft()
                    await self.connection.multicast(to, data, level=level)
        except SessionEnded:
            return  # the receiver tells

    def notify(self) -> None:
        """Something may be so now that was not."""
        self._changed()
        self._wake.set()
        self._wake = trio.Event()


@asynccontextmanager
async def driving(driver: Driver) -> AsyncIterator[None]:
    """Be in the group, and have the machine run, for the length of a block.

    Raises:
        LocalProtocolError: a bad name for a group.
        SessionEnded: the session is over.
    """
    running = beside(driver.run_receiver, driver.run_sender)
    async with driver.connection.group(driver.group), running:
        yield


@asynccontextmanager
async def beside(*tasks: Callable[[], Awaitable[None]]) -> AsyncIterator[trio.Nursery]:
    """Run tasks, which raise nothing, while a block lasts; its exceptions come out as they are."""
    try:
        async with trio.open_nursery() as nursery:
            for task in tasks:
                nursery.start_soon(task)
            yield nursery
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from group.exceptions[0].__cause__
        raise
