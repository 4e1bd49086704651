"""The bytes of one session on a socket: read and written by whoever waits for something.

No task of its own runs here. One of those that wait reads for all; when it is cancelled another
takes over. Nothing is read while nobody waits, so what a program does not read stays with its
daemon.
"""

import socket
from collections.abc import Callable
from typing import Final

import trio

from groupcomm.errors import SessionEnded
from groupcomm.events import Closed, Event
from groupcomm.session.client import ClientSession
from groupcommd.trace_file import TraceFile

READ_BYTES: Final = 65_536
WRITE_BYTES: Final = 256 * 1024


class SessionStream:
    """A socket and the session that is spoken over it.

    Args:
        socket_: connected, non-blocking.
        session: not greeted yet.
        on_event: is given every event but Closed.

    Attributes:
        session: see above.
        closed: why nothing follows; None while something may.
        trace: is written before anything is sent; None for no trace.
    """

    def __init__(
        self, socket_: socket.socket, session: ClientSession, on_event: Callable[[Event], None]
    ) -> None:
        self._socket = socket_
        self._on_event = on_event
        self._unsent = memoryview(b"")
        self._reading = self._writing = False
        self._readers, self._writers = trio.lowlevel.ParkingLot(), trio.lowlevel.ParkingLot()
        self.session = session
        self.closed: Closed | None = None
        self.trace: TraceFile | None = None

    def check_open(self) -> None:
        """Raise SessionEnded if nothing follows."""
        if self.closed is not None:
            raise SessionEnded(self.closed.code, self.closed.reason)

    def close(self) -> None:
        """Break the connection off; what was not written yet is lost."""
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()

    # ---- in ----

    async def exchange(self, ready: Callable[[], bool]) -> None:
        """Write all that waits, then read until something is so; see `until`."""
        await self.flush()
        await self.until(ready)

    async def until(self, ready: Callable[[], bool]) -> None:
        """Read until something is so, for all who wait; raises SessionEnded if nothing follows."""
        while not ready():
            self.check_open()
            if self._reading:
                await self._readers.park()
                continue
            self._reading = True
            try:
                await trio.lowlevel.wait_readable(self._socket)
                self._read()
            finally:
                self._reading = False
                self._readers.unpark_all()

    def _read(self) -> bool:
        """Take what has come, and say whether anything has; never waits."""
        try:
            data = self._socket.recv(READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        events = self.session.receive(data) if data else self.session.connection_lost()
        for event in events:
            if isinstance(event, Closed):
                self.closed = event
            else:
                self._on_event(event)
        if self.trace is not None:
            self.trace.flush()
        return True

    def _read_to_the_end(self) -> None:
        """The daemon takes nothing more: what it has still said tells why."""
        while self.closed is None and self._read():
            continue

    # ---- out ----

    async def flush(self) -> None:
        """Write all that waits."""
        while not self._write():
            if self._writing:
                await self._writers.park()
                continue
            self._writing = True
            try:
                await trio.lowlevel.wait_writable(self._socket)
            finally:
                self._writing = False
                self._writers.unpark_all()

    def _write(self) -> bool:
        """Write what the socket takes; whether nothing is left."""
        if self.trace is not None:
            self.trace.flush()
        try:
            while True:
                if not self._unsent:
                    if not self.session.pending_bytes:
                        return True
                    self._unsent = memoryview(self.session.take(WRITE_BYTES))
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except BlockingIOError:
            return False
        except OSError:
            self._read_to_the_end()
            return True
