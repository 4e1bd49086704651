"""Clients' connections: bytes between their sockets and the core's sessions.

One task reads each connection; a second one writes only while the client's socket takes no more.
Whatever a client does ends its own connection at most.
"""

import errno
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import trio

from groupcomm.core import DaemonCore
from groupcomm.core.seat import ClientBytes, ClientGone, ClientInput, ClientOpened
from groupcomm.session.daemon import State
from groupcomm.wire.raw import Raw

HELLO_S: Final = 5.0
"""A client that has not said who it is after so long is cut off."""

LINGER_S: Final = 5.0
"""A client that takes nothing any more is cut off so long after its session's end."""

MAX_GREETING: Final = 512
"""Connections that have not said hello; beyond it the oldest of them is cut off."""

READ_BYTES: Final = 65_536
MAX_READS: Final = 4
"""Of one turn; what is left makes the socket readable again at once."""

WRITE_BYTES: Final = 256 * 1024
BUFFER_BYTES: Final = 1024 * 1024
"""Asked for with unix sockets: what a client is to get goes there in few pieces."""

MAX_PARTS: Final = 1024
"""Of one write: the system takes no more (IOV_MAX)."""

ACCEPT_PAUSE_S: Final = 0.1

_NO_ROOM: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
_log = logging.getLogger("groupcommd")


class Connection:
    """One client's socket.

    Attributes:
        number: of its session.
        socket: non-blocking.
        scope: cancels the task that reads it.
        pending: parts of what was taken from the session, not yet written.
        writing: a task waits until its socket takes more.
        closing: the core is done with it; what is pending is still written.
    """

    __slots__ = ("closing", "number", "pending", "scope", "socket", "writing")

    def __init__(self, number: int, socket_: socket.socket) -> None:
        self.number = number
        self.socket = socket_
        self.scope = trio.CancelScope()
        self.pending: list[Raw] = []
        self.writing = False
        self.closing = False


class Clients:
    """All connections of one daemon.

    Args:
        core: has the sessions.
        nursery: for one task a connection.
        turn: has the core take what was fed; never raises.

    Attributes:
        inputs: what clients did, for the core's next step.
        refused: connections that were cut off before they said hello.
    """

    def __init__(self, core: DaemonCore, nursery: trio.Nursery, turn: Callable[[], None]) -> None:
        self._core = core
        self._nursery = nursery
        self._turn = turn
        self._open: dict[int, Connection] = {}
        self._greeting: dict[int, Connection] = {}
        self._paused: dict[int, trio.Event] = {}
        self.inputs: list[ClientInput] = []
        self.refused = 0

    def __len__(self) -> int:
        return len(self._open)

    # ---- accept ----

    async def listen(self, listener: socket.socket) -> None:
        """Take connections for ever."""
        while True:
            await trio.lowlevel.wait_readable(listener)
            try:
                accepted, _ = listener.accept()
            except BlockingIOError:
                continue
            except OSError as error:
                if error.errno in _NO_ROOM:
                    _log.warning("no room for another client: %s", error.strerror)
                    await trio.sleep(ACCEPT_PAUSE_S)
                continue
            accepted.setblocking(False)
            if accepted.family == socket.AF_UNIX:
                accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
            else:
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._nursery.start_soon(self._serve, accepted)

    async def _serve(self, accepted: socket.socket) -> None:
        """Handle one connection from its begin to its end."""
        connection = Connection(self._core.desk.open(), accepted)
        number = connection.number
        self._open[number] = self._greeting[number] = connection
        self._cut_oldest()
        self.inputs.append(ClientOpened(number))
        try:
            with connection.scope:
                await self._read_hello(connection)
                await self._read(connection)
        except OSError:
            pass  # the client is gone, however that came
        except Exception:
            _log.exception("connection %d ends: an error of this daemon", number)
        finally:
            self._greeting.pop(number, None)
            self._paused.pop(number, None)
            del self._open[number]
            trio.lowlevel.notify_closing(accepted)
            accepted.close()
            self.inputs.append(ClientGone(number))
            self._turn()

    def _cut_oldest(self) -> None:
        if len(self._greeting) > MAX_GREETING:
            oldest = self._greeting.pop(next(iter(self._greeting)))
            self.refused += 1
            oldest.scope.cancel()

    # ---- read ----

    async def _read_hello(self, connection: Connection) -> None:
        sessions, number = self._core.desk.sessions, connection.number
        with trio.move_on_after(HELLO_S) as patience:
            while (session := sessions.get(number)) is None or session.state is State.NEW:
                if not await self._read_once(connection):
                    return
        self._greeting.pop(number, None)
        if patience.cancelled_caught:
            self.refused += 1
            connection.scope.cancel()

    async def _read(self, connection: Connection) -> None:
        while await self._read_once(connection):
            session = self._core.desk.sessions.get(connection.number)
            if session is not None and not session.reading and not connection.closing:
                self._paused[connection.number] = resumed = trio.Event()
                await resumed.wait()

    async def _read_once(self, connection: Connection) -> bool:
        """Feed what the client has sent; False at its end."""
        await trio.lowlevel.wait_readable(connection.socket)
        more = True
        with suppress(BlockingIOError):
            for _ in range(MAX_READS):
                data = connection.socket.recv(READ_BYTES)
                more = bool(data)
                if more and not connection.closing:  # what comes after the end is nobody's
                    self.inputs.append(ClientBytes(connection.number, data))
                if len(data) < READ_BYTES:
                    break
        if self.inputs:
            self._turn()
        return more

    # ---- write ----

    def serve(self) -> None:
        """After a step: write what sessions have, close what the core has closed, read on."""
        desk = self._core.desk
        if desk.ready:
            ready, desk.ready = desk.ready, {}
            for number in ready:
                connection = self._open.get(number)
                if connection is not None and not connection.writing:
                    self._write(connection)
        if desk.closed:
            closed, desk.closed = desk.closed, []
            for number in closed:
                connection = self._open.get(number)
                if connection is not None:
                    self._begin_end(connection)
        if self._paused:
            self._read_on()

    def _read_on(self) -> None:
        """From those whose sessions take more again."""
        for number, event in list(self._paused.items()):
            session = self._core.desk.sessions.get(number)
            if session is None or session.reading:
                del self._paused[number]
                event.set()

    def _begin_end(self, connection: Connection) -> None:
        """The core is done with a client: it gets what is its own, and some time to take it."""
        connection.closing = True
        connection.scope.deadline = trio.current_time() + LINGER_S
        if connection.number in self._paused:
            self._paused.pop(connection.number).set()
        self._shut_if_written(connection)

    def _shut_if_written(self, connection: Connection) -> None:
        """Tell a client that nothing follows; its task ends once the client closes its end, too."""
        session = self._core.desk.sessions.get(connection.number)
        written = not connection.writing and (session is None or not session.output_bytes)
        if connection.closing and written:
            with suppress(OSError):
                connection.socket.shutdown(socket.SHUT_WR)

    def _write(self, connection: Connection) -> None:
        """Write as much as the socket takes; a task does the rest."""
        session = self._core.desk.sessions.get(connection.number)
        try:
            while True:
                if not connection.pending:
                    if session is None or not session.output_bytes:
                        break
                    connection.pending = session.take(WRITE_BYTES)
                sent = connection.socket.sendmsg(connection.pending[:MAX_PARTS])
                connection.pending = _behind(connection.pending, sent)
        except BlockingIOError:
            if not connection.writing:
                connection.writing = True
                self._nursery.start_soon(self._write_later, connection)
        except OSError:
            connection.scope.cancel()

    async def _write_later(self, connection: Connection) -> None:
        with suppress(OSError, trio.ClosedResourceError):
            while connection.number in self._open:
                await trio.lowlevel.wait_writable(connection.socket)
                blocked = self._blocks(connection)
                self._write(connection)
                if blocked and not self._blocks(connection):
                    self._turn()  # senders have waited for it
                if not connection.pending:
                    break
        connection.writing = False
        self._shut_if_written(connection)

    def _blocks(self, connection: Connection) -> bool:
        session = self._core.desk.sessions.get(connection.number)
        return session is not None and session.blocks

    async def drain(self, seconds: float) -> None:
        """Let clients take what is theirs, for so long at most."""
        with trio.move_on_after(seconds):
            while any(c.writing for c in self._open.values()):
                await trio.sleep(0.01)


def _behind(parts: list[Raw], size: int) -> list[Raw]:
    """What is left of the parts behind their first `size` bytes."""
    for index, part in enumerate(parts):
        if size < len(part):
            return [memoryview(part)[size:], *parts[index + 1 :]]
        size -= len(part)
    return []
