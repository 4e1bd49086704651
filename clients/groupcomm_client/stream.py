"""The bytes of one conversation on a socket, with trio.

They are read and written by whoever waits for something. One of those that wait reads for all; when
it is cancelled another takes over. Nothing is read while nobody waits, so what a program does not
read stays with its daemon. A task of its own runs only to write what nobody waits for any more.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import trio

from groupcomm.host.tls import AnySocket
from groupcomm_client.conversation import Conversation, Ready
from groupcomm_client.gathering import Gathering

READ_BYTES: Final = 65_536
MAX_READS: Final = 4
"""Of one turn, so that many messages cost few of them."""

WRITE_BYTES: Final = 256 * 1024


class SessionStream(Gathering):
    """A socket and the conversation on it.

    Args:
        socket_: connected, non-blocking.
        conversation: not greeted yet.
    """

    def __init__(self, socket_: AnySocket, conversation: Conversation) -> None:
        super().__init__()
        self._socket = socket_
        self._conversation = conversation
        self._unsent = memoryview(b"")
        self._reading = self._writing = False
        self._finishing = False
        self._patience = trio.CancelScope()  # of the one who reads
        conversation.alarm = self._be_patient
        self._readers, self._writers = trio.lowlevel.ParkingLot(), trio.lowlevel.ParkingLot()

    def close(self) -> None:
        """Break the connection off; what was not written yet is lost."""
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()
            self._conversation.broken_off()
            self._conversation.feed(b"")  # who still waits learns of it

    # ---- in ----

    async def exchange(self, ready: Ready) -> None:
        """Write all that waits, then read until something is so; see `until`."""
        await self.flush()
        await self.until(ready)

    async def until(self, ready: Ready) -> None:
        """Read until something is so, for all who wait; raises SessionEnded if nothing follows."""
        while not ready():
            self._conversation.check_open()
            if self._reading:
                await self._readers.park()
                continue
            self._reading = True
            try:
                await self._read()
            finally:
                self._reading = False
                self._readers.unpark_all()
            if self._conversation.unasked:
                self.write_soon()

    async def _read(self) -> None:
        """Read what comes, or wait for the time that filters wait for."""
        with suppress(trio.ClosedResourceError):  # then the conversation is over
            patience_s = self._conversation.patience_s
            if patience_s is None:
                await trio.lowlevel.wait_readable(self._socket)
            else:
                with trio.move_on_after(patience_s) as self._patience:
                    await trio.lowlevel.wait_readable(self._socket)
                self._conversation.wake()
            read_some(self._socket, self._conversation)

    def _be_patient(self) -> None:
        """Filters wait for an earlier time than when this began to wait."""
        patience_s = self._conversation.patience_s
        if patience_s is not None:
            self._patience.deadline = trio.current_time() + patience_s

    # ---- out ----

    async def flush(self) -> None:
        """Write all that waits; what is left when that is cancelled is written all the same."""
        try:
            await self._write_all()
        except trio.Cancelled:
            self._finish()  # half a frame would hold up all that is sent later
            raise

    def _call_soon(self, call: Callable[[], None]) -> None:
        trio.lowlevel.current_trio_token().run_sync_soon(call)

    def _finish(self) -> None:
        """Have a task write the rest, if none does."""
        if not self._writing and not self._finishing:
            self._finishing = True
            trio.lowlevel.spawn_system_task(self._write_rest)

    async def _write_rest(self) -> None:
        try:
            await self._write_all()
        finally:
            self._finishing = False

    async def _write_all(self) -> None:
        while not self._write():
            if self._writing:
                await self._writers.park()
                continue
            self._writing = True
            try:
                with suppress(trio.ClosedResourceError):  # then nothing waits
                    await trio.lowlevel.wait_writable(self._socket)
            finally:
                self._writing = False
                self._writers.unpark_all()

    def _write(self) -> bool:
        """Write what the socket takes; whether nothing is left."""
        self._unsent, done = write_some(self._socket, self._conversation, self._unsent)
        return done


def read_some(socket_: AnySocket, conversation: Conversation) -> bool:
    """Feed a conversation what has come, and say whether anything has; never waits."""
    come = False
    for _ in range(MAX_READS):
        try:
            data = socket_.recv(READ_BYTES)
        except BlockingIOError:
            break
        except OSError:
            data = b""
        conversation.feed(data)
        come = True
        if len(data) < READ_BYTES:
            break
    return come


def write_some(
    socket_: AnySocket, conversation: Conversation, unsent: memoryview
) -> tuple[memoryview, bool]:
    """Write what a socket takes; what of `unsent` is left then, and whether nothing waits."""
    try:
        while True:
            if not unsent:
                if not conversation.pending_bytes:
                    return unsent, True
                unsent = memoryview(conversation.take(WRITE_BYTES))
            unsent = unsent[socket_.send(unsent) :]
    except BlockingIOError:
        return unsent, False
    except OSError:
        # The daemon takes nothing more: what it has still said tells why.
        while conversation.closed is None and read_some(socket_, conversation):
            continue
        return memoryview(b""), True
