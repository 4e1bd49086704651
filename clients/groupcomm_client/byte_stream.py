"""The bytes of one session on a socket: what the streams of all event loops have in common."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, Protocol

from groupcomm_client.client_protocol import ClientProtocol, Ready

READ_BYTES: Final = 65_536
MAX_READS: Final = 4
"""Reads of one turn, so that many messages cost few turns."""

WRITE_BYTES: Final = 256 * 1024

COALESCE_S: Final = 0.0001
"""A message that is sent this soon after a write waits for those that its task sends next."""


class ByteSocket(Protocol):
    """A connected non-blocking socket, with TLS or without."""

    def fileno(self) -> int:
        """Return the number of its file; -1 once it is closed."""

    def recv(self, size: int, /) -> bytes:
        """Return what has arrived, b"" at the end; raise BlockingIOError if nothing has."""

    def send(self, data: memoryview, /) -> int:
        """Send some bytes; return how many, raise BlockingIOError if it accepts none."""

    def shutdown(self, how: int, /) -> None:
        """End the connection in one direction or both."""

    def close(self) -> None:
        """Close it."""


class Stream(Protocol):
    """Moves the bytes of one session; each event loop has its own."""

    async def exchange(self, ready: Ready) -> None:
        """Write everything that waits, then read until something is so."""

    async def until(self, ready: Ready) -> None:
        """Read until something is so; raise SessionEnded if the session is over first."""

    async def flush(self) -> None:
        """Write everything that waits; the rest is written even if this call is cancelled."""

    def write_soon(self) -> None:
        """Write what waits: at once, or with what else this task sends before it waits."""

    def read_ready(self) -> None:
        """Read what has arrived already, without waiting."""

    def close(self) -> None:
        """Break the connection off; what was not written yet is lost."""


class CoalescingStream(ABC):
    """Write coalescing: small messages that a task sends in a row leave in one write."""

    def __init__(self) -> None:
        self._coalescing = False
        self._wrote_at = 0.0

    def write_soon(self) -> None:
        """Write what waits: at once, or with what else this task sends before it waits."""
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
        """Have the loop call something once the running task waits."""

    @abstractmethod
    def _write(self) -> bool:
        """Write what the socket takes; return whether nothing is left."""

    @abstractmethod
    def _finish(self) -> None:
        """Have the rest written once the socket takes it."""


def read_some(socket_: ByteSocket, protocol: ClientProtocol) -> bool:
    """Give a session the bytes that have arrived; return whether there were any. Never waits."""
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


def write_some(
    socket_: ByteSocket, protocol: ClientProtocol, unsent: memoryview
) -> tuple[memoryview, bool]:
    """Write what a socket takes.

    Args:
        socket_: non-blocking.
        protocol: of the session.
        unsent: what an earlier call has left.

    Returns:
        What this call leaves, and whether nothing waits to be written.
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
        # The daemon accepts nothing more: what it has still said tells why.
        while protocol.closed is None and read_some(socket_, protocol):
            continue
        return memoryview(b""), True
