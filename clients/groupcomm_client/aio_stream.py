"""The bytes of one conversation on a socket, with asyncio.

The loop watches the socket for what comes only while somebody waits for it.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from groupcomm.host.tls import AnySocket
from groupcomm_client.conversation import Conversation, Ready
from groupcomm_client.gathering import Gathering
from groupcomm_client.stream import read_some, write_some


class AioStream(Gathering):
    """A socket and the conversation on it; see `groupcomm_client.connection.Stream`."""

    def __init__(self, socket_: AnySocket, conversation: Conversation) -> None:
        """Take over a connected non-blocking socket; in a running loop."""
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._socket = socket_
        self._conversation = conversation
        self._unsent = memoryview(b"")
        self._readers: set[asyncio.Future[None]] = set()
        self._writers: set[asyncio.Future[None]] = set()
        self._timers: set[asyncio.Timeout] = set()  # of those that wait for a time, too
        conversation.alarm = self._be_patient

    def close(self) -> None:
        """Break the connection off; what was not written yet is lost."""
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._socket.close()
            self._conversation.broken_off()
            self._conversation.feed(b"")  # who still waits learns of it
            _wake(self._readers)
            _wake(self._writers)

    async def exchange(self, ready: Ready) -> None:
        """Write all that waits, then read until something is so."""
        await self.flush()
        await self.until(ready)

    async def until(self, ready: Ready) -> None:
        """Read until something is so; raises SessionEnded if nothing follows."""
        while not ready():
            self._conversation.check_open()
            if not self._readers:
                self._loop.add_reader(self._socket, self._on_readable)
            patience_s = self._conversation.patience_s
            try:
                if patience_s is None:
                    await self._wait(self._readers)
                else:
                    await self._wait_or_wake(patience_s)
            finally:
                if not self._readers and self._socket.fileno() >= 0:
                    self._loop.remove_reader(self._socket)
            if self._conversation.unasked:
                self.write_soon()

    async def _wait_or_wake(self, patience_s: float) -> None:
        """Wait for what comes, or for the time that filters wait for."""
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s) as timer:
                self._timers.add(timer)
                try:
                    await self._wait(self._readers)
                finally:
                    self._timers.discard(timer)
        self._conversation.wake()
        _wake(self._readers)

    def _be_patient(self) -> None:
        """Filters wait for an earlier time than when these began to wait."""
        patience_s = self._conversation.patience_s
        if patience_s is not None:
            for timer in self._timers:
                timer.reschedule(self._loop.time() + patience_s)

    async def flush(self) -> None:
        """Write all that waits; what is left when that is cancelled is written all the same."""
        while not self._write():
            self._loop.add_writer(self._socket, self._on_writable)
            await self._wait(self._writers)

    def _call_soon(self, call: Callable[[], None]) -> None:
        self._loop.call_soon(call)

    def _finish(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.add_writer(self._socket, self._on_writable)

    def _write(self) -> bool:
        if self._conversation.closed is not None:
            return True
        self._unsent, done = write_some(self._socket, self._conversation, self._unsent)
        return done

    def _on_writable(self) -> None:
        if self._write():
            self._loop.remove_writer(self._socket)
        _wake(self._writers)

    def _on_readable(self) -> None:
        read_some(self._socket, self._conversation)
        _wake(self._readers)

    async def _wait(self, waiting: set[asyncio.Future[None]]) -> None:
        mine = self._loop.create_future()
        waiting.add(mine)
        try:
            await mine
        finally:
            waiting.discard(mine)


def _wake(waiting: set[asyncio.Future[None]]) -> None:
    for future in waiting:
        if not future.done():
            future.set_result(None)
