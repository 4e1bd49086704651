"""What all coordinated programs do: give a machine the events of a connection, send what it wants.

The shell of every machine of this package, for trio, asyncio and threads. A machine has a
connection for itself: it receives all events of it.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from groupcomm.errors import SessionEnded
from groupcomm.level import ServiceLevel
from groupcomm_client.connection import Connection, Destinations
from groupcomm_client.events import Received
from groupcomm_client.loops import CancelScope


class Driver:
    """Drives one machine while `driving` lasts.

    Attributes:
        connection: whose events the machine gets.
        loop: how its program waits.
        group: that the machine has joined.
        thread_lock: held by the thread that uses the machine.
        ended: why the session is over; None while it is not.
    """

    def __init__(
        self,
        connection: Connection,
        group: str,
        accept: Callable[[Received], None],
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare it; nothing happens yet.

        Args:
            connection: for the machine alone.
            group: to be joined.
            accept: gets every event.
            changed: is called after some events, and after the end of the session.
        """
        self.connection = connection
        self.loop = connection.loop
        self.group = group
        self.thread_lock = self.loop.thread_lock()
        self.ended: SessionEnded | None = None
        self._accept = accept
        self._changed = changed
        self._outgoing: deque[tuple[Destinations, bytes, ServiceLevel]] = deque()
        self._has_outgoing = self.loop.event()
        self._wake = self.loop.event()

    def send(
        self,
        data: bytes,
        *,
        level: ServiceLevel = ServiceLevel.AGREED,
        to: Destinations | None = None,
    ) -> None:
        """Have a message sent, to the group by default, after those that wait already."""
        self._outgoing.append((to or self.group, data, level))
        self._has_outgoing.set()

    async def until(self, ready: Callable[[], bool]) -> None:
        """Wait until something is so; it is looked at after events only.

        Raises:
            SessionEnded: the session is over, and it is not so.
        """
        await self.loop.checkpoint()
        while True:
            wake = self._wake  # first: a thread may notify as soon as `ready` has looked
            with self.thread_lock:
                if ready():
                    return
            if self.ended is not None:
                raise SessionEnded(self.ended.code, str(self.ended))
            await wake.wait()

    async def run_receiver(self) -> None:
        """Give the machine events, until the session ends."""
        try:
            while True:
                events = await self.connection.receive_batch()
                with self.thread_lock:
                    for event in events:
                        self._accept(event)
                self.notify()
        except SessionEnded as error:
            self.ended = error
            self.notify()

    async def run_sender(self) -> None:
        """Send what waits; a task of its own, so that receiving goes on when the daemon is full."""
        try:
            while True:
                await self._has_outgoing.wait()
                self._has_outgoing = self.loop.event()
                while self._outgoing:
                    to, data, level = self._outgoing.popleft()
                    await self.connection.multicast(to, data, level=level)
        except SessionEnded:
            return  # the receiver tells

    def notify(self) -> None:
        """Let those that wait look again."""
        with self.thread_lock:
            self._changed()
            wake, self._wake = self._wake, self.loop.event()
        wake.set()


@asynccontextmanager
async def running(driver: Driver) -> AsyncIterator[None]:
    """Have the machine run for the length of a block."""
    async with driver.loop.tasks() as tasks:
        tasks.start(driver.run_receiver)
        tasks.start(driver.run_sender)
        yield


@asynccontextmanager
async def driving(driver: Driver) -> AsyncIterator[None]:
    """Be in the group, and have the machine run, for the length of a block.

    Raises:
        LocalProtocolError: a bad name for a group.
        SessionEnded: the session is over.
    """
    async with driver.connection.group(driver.group), running(driver):
        yield


class Tenure:
    """A block that lasts only as long as something is held: `lose` cancels what it waits for.

    Begun and ended by the same task, with blocks in between properly nested. Of a thread `lose`
    ends what it waits for in this library.
    """

    def __init__(self, scope: CancelScope) -> None:
        self._scope = scope
        self._lost = False

    async def begin(self) -> None:
        """Begin it in the running task."""
        await self._scope.open()

    def lose(self) -> None:
        """Note that what was held is lost, and cancel what the block waits for."""
        self._lost = True
        self._scope.cancel()

    async def end(self, error: BaseException | None, lost: Exception) -> bool:
        """End it; return whether the exception that ended the block was its own cancellation.

        Args:
            error: what ended the block, if anything did.
            lost: raised if what was held was lost before the end.
        """
        silenced = await self._scope.close(error)
        if self._lost and (error is None or silenced):
            raise lost from None
        return silenced
