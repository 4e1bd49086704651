"""The bytes of one session on a socket: the parts that the streams of all event loops share."""

import select
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, Protocol

from groupcomm_client.client_protocol import ClientProtocol, Ready

READ_BYTES: Final = 65_536
MAX_READS: Final = 4
"""The most reads in one turn, so that many messages cost few turns."""

WRITE_BYTES: Final = 256 * 1024

COALESCE_S: Final = 0.0001
"""A message that is sent this soon after a write waits for the next messages of its task."""


class ByteSocket(Protocol):
    """A connected non-blocking socket, with TLS or without."""

    def fileno(self) -> int:
        """Return its file descriptor; -1 once it is closed."""

    def recv(self, size: int, /) -> bytes:
        """Return the bytes that have arrived, b"" at the end; raise BlockingIOError if none
        have."""

    def send(self, data: memoryview, /) -> int:
        """Send some bytes; return their number; raise BlockingIOError if the socket accepts
        none."""

    def shutdown(self, how: int, /) -> None:
        """End the connection in one direction or both."""

    def close(self) -> None:
        """Close the socket."""


class Stream(Protocol):
    """A stream that moves the bytes of one session; each event loop has its own class."""

    async def exchange(self, ready: Ready) -> None:
        """Write all pending output, then read until a condition holds."""

    async def until(self, ready: Ready) -> None:
        """Read until a condition holds; raise SessionEnded if the session is over first."""

    async def flush(self) -> None:
        """Write all pending output; the rest is written even if this call is cancelled."""

    def write_soon(self) -> None:
        """Write pending output: at once, or together with what this task sends before it waits."""

    def read_ready(self) -> None:
        """Read the bytes that have arrived already, without waiting."""

    def close(self) -> None:
        """Break the connection off; output that was not written yet is lost."""


class CoalescingStream(ABC):
    """A stream with write coalescing: small messages that a task sends in a row leave in one
    write."""

    def __init__(self) -> None:
        self._coalescing = False
        self._wrote_at = 0.0

    def write_soon(self) -> None:
        """Write pending output: at once, or together with what this task sends before it waits."""
        if self._coalescing:
            return
        if time.monotonic() - self._wrote_at < COALESCE_S:
            self._coalescing = True
            self._call_soon(self._write_coalesced)
        else:
            self._write_coalesced()

    def _write_coalesced(self) -> None:
        self._coalescing = False
        self._wrote_at = time.monotonic()
        if not self._write():
            self._finish()

    @abstractmethod
    def _call_soon(self, call: Callable[[], None]) -> None:
        """Have the loop call a function once the running task waits."""

    @abstractmethod
    def _write(self) -> bool:
        """Write as much as the socket accepts; return whether nothing is left."""

    @abstractmethod
    def _finish(self) -> None:
        """Write the rest once the socket accepts it."""


def read_some(socket_: ByteSocket, protocol: ClientProtocol) -> bool:
    """Pass the bytes that have arrived to a session; return whether there were any. Never wait."""
    arrived = False
    for _ in range(MAX_READS):
        try:
            data = socket_.recv(READ_BYTES)
        except BlockingIOError:
            break
        except OSError:
            data = b""
        protocol.receive_data(data)
        arrived = True
        if len(data) < READ_BYTES:
            break
    return arrived


def look(socket_: ByteSocket, protocol: ClientProtocol, *, reads: bool) -> None:
    """Read what has arrived, then have a session send a heartbeat, or end, if that is due.

    Args:
        socket_: the non-blocking socket.
        protocol: the session.
        reads: whether this call may read, as nobody waits for input just now.
    """
    if socket_.fileno() < 0:  # it was closed, or belongs to the process that has forked this one
        return
    if reads and protocol.may_read_ahead:
        read_some(socket_, protocol)
    protocol.look(reads=not is_readable(socket_))


def is_readable(socket_: ByteSocket) -> bool:
    """Return whether bytes, or the end of the stream, have arrived and were not read."""
    poll = select.poll()
    poll.register(socket_.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def write_some(
    socket_: ByteSocket, protocol: ClientProtocol, unsent: memoryview
) -> tuple[memoryview, bool]:
    """Write as much as a socket accepts.

    Args:
        socket_: the non-blocking socket.
        protocol: the session.
        unsent: the bytes that an earlier call has left.

    Returns:
        The bytes that this call leaves, and whether nothing waits to be written.
    """
    try:
        while True:
            if not unsent:
                if not protocol.pending_bytes:
                    return unsent, True
                unsent = memoryview(protocol.data_to_send(WRITE_BYTES))
            unsent = unsent[socket_.send(unsent) :]
    except BlockingIOError:
        return unsent, False
    except OSError:
        # The daemon accepts no more bytes: its last output, still to be read, gives the reason.
        while protocol.closed is None and read_some(socket_, protocol):
            continue
        return memoryview(b""), True
