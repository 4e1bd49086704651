"""The shell of every coordination machine: passes events to it, and sends its messages.

It works for trio, asyncio and threads. A machine has a connection of its own, and receives all of
its events.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from groupcomm.errors import LocalProtocolError, SessionEnded
from groupcomm.level import ServiceLevel
from groupcomm_client.connection import Connection, Destinations
from groupcomm_client.events import Received
from groupcomm_client.loops import CancelScope


class Driver:
    """The driver of one machine, active inside `driving`.

    Attributes:
        connection: the connection whose events the machine gets.
        loop: the event loop of the program.
        group: the group that the machine has joined.
        thread_lock: held by the thread that uses the machine.
        ended: the error that ended the session; None while it lasts.
    """

    def __init__(
        self,
        connection: Connection,
        group: str,
        accept: Callable[[Received], None],
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare the driver; nothing happens yet.

        Args:
            connection: a connection for the machine alone.
            group: the group to join.
            accept: is called with every event.
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
        """Queue a message, by default to the group, behind those that already wait."""
        self._outgoing.append((to or self.group, data, level))
        self._has_outgoing.set()

    async def until(self, ready: Callable[[], bool]) -> None:
        """Wait until a condition holds; it is checked only after events.

        Raises:
            SessionEnded: the session is over, and the condition does not hold.
        """
        await self.loop.checkpoint()
        while True:
            wake = self._wake  # first, as a thread may notify as soon as `ready` has looked
            with self.thread_lock:
                if ready():
                    return
            if self.ended is not None:
                raise SessionEnded(self.ended.code, str(self.ended))
            await wake.wait()

    async def run_receiver(self) -> None:
        """Pass events to the machine until the session ends."""
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
        """Send waiting messages, in a task of its own: receiving continues while the daemon is
        full."""
        try:
            while True:
                await self._has_outgoing.wait()
                self._has_outgoing = self.loop.event()
                while self._outgoing:
                    to, data, level = self._outgoing.popleft()
                    await self.connection.multicast(to, data, level=level)
        except SessionEnded:
            return  # the receiver reports the end
        except LocalProtocolError:
            if self.connection.protocol.is_open:
                raise
            # The program has closed the connection meanwhile, and the receiver reports that.

    def notify(self) -> None:
        """Have waiting tasks check their conditions again."""
        with self.thread_lock:
            self._changed()
            wake, self._wake = self._wake, self.loop.event()
        wake.set()


@asynccontextmanager
async def running(driver: Driver) -> AsyncIterator[None]:
    """Run the machine for the length of a block."""
    async with driver.loop.tasks() as tasks:
        tasks.start(driver.run_receiver)
        tasks.start(driver.run_sender)
        yield


@asynccontextmanager
async def driving(driver: Driver) -> AsyncIterator[None]:
    """Be a member of the group, and run the machine, for the length of a block.

    Raises:
        LocalProtocolError: the name of the group is invalid.
        SessionEnded: the session is over.
    """
    async with driver.connection.group(driver.group), running(driver):
        yield


class Tenure:
    """A block that lasts only while something is held: `lose` cancels the block's waits.

    The same task begins and ends it, with blocks in between properly nested. In a thread, `lose`
    ends the calls to this library only.
    """

    def __init__(self, scope: CancelScope) -> None:
        self._scope = scope
        self._lost = False

    async def begin(self) -> None:
        """Begin the tenure in the running task."""
        await self._scope.open()

    def lose(self) -> None:
        """Note that the tenure is lost, and cancel the waits of its block."""
        self._lost = True
        self._scope.cancel()

    async def end(self, error: BaseException | None, lost: Exception) -> bool:
        """End the tenure; return whether the exception that ended the block is its cancellation.

        Args:
            error: the exception that ended the block, if any.
            lost: the exception to raise if the tenure was lost before its end.
        """
        silenced = await self._scope.close(error)
        if self._lost and (error is None or silenced):
            raise lost from None
        return silenced
