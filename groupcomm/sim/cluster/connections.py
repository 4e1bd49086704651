"""The clients' connections of one start of a daemon.

Each direction is a pipe: a reliable byte stream with bounded buffers.
"""

from collections.abc import Callable, Collection
from typing import Final, NamedTuple, Protocol

import attrs

from groupcomm.engine import (
    ClientBytes,
    ClientGone,
    ClientInput,
    ClientOpened,
    DaemonCore,
    Output,
    QuestionAnswered,
)
from groupcomm.sim.virtual_time import Loop

CAPACITY_BYTES = 64 * 1024
"""The bytes that a writer can write while the reader reads nothing, as into a socket's buffers."""

DELAY_US = 20
"""The time from a write to the reader's wake-up, on one host."""


@attrs.define(eq=False, repr=False)
class Pipe:
    """A pipe that carries bytes from a writer to a reader that may pause.

    Args:
        loop: virtual time.
        read: accepts the data that arrived; called while the reader reads.
        drained: called when a pipe that was full has room again.
        ended: called once the writer has closed it and everything was read.
    """

    _loop: Loop
    _read: Callable[[bytes], None]
    _drained: Callable[[], None]
    _ended: Callable[[], None]
    _arrived: list[bytes] = attrs.field(factory=list)
    _unread: int = 0  # bytes written and not read, in flight or arrived
    _reading: bool = True
    _was_full: bool = False
    _closing: bool = False
    _broken: bool = False
    _cut: bool = False

    @property
    def is_read(self) -> bool:
        """Return whether the reader reads all that arrives."""
        return self._reading

    def room(self) -> int:
        """Return the bytes that can be written now; if there are none, `drained` will be called."""
        if self._closing or self._broken:
            return 0
        room = CAPACITY_BYTES - self._unread
        self._was_full = self._was_full or room <= 0
        return max(room, 0)

    @property
    def is_broken(self) -> bool:
        """Return whether the reader is gone, as a writer to a socket finds out."""
        return self._broken

    def write(self, data: bytes) -> None:
        """Send bytes; a frame that begins while there is room may exceed it."""
        assert not self._closing, "written to a closed pipe"
        if not self._broken:
            self._unread += len(data)
            self._loop.at(self._loop.now + DELAY_US, self._arrive, data)

    def close(self) -> None:
        """Close the writing end: the reader sees the end after all written data."""
        if not self._closing and not self._broken:
            self._closing = True
            self._loop.at(self._loop.now + DELAY_US, self._arrive, b"")

    def break_off(self) -> None:
        """Break off the reading end: unread data is lost, and no callback is called any more."""
        self._broken = True
        self._arrived.clear()

    def set_reading(self, reading: bool) -> None:
        """Pause or resume the reader; waiting data is read at once."""
        self._reading = reading
        self._read_arrived()

    def set_cut(self, cut: bool) -> None:
        """Cut the pipe, or mend it: meanwhile nothing arrives, not even its end."""
        self._cut = cut
        self._read_arrived()

    def _read_arrived(self) -> None:
        if self._reading and not self._cut:
            waiting, self._arrived = self._arrived, []
            for data in waiting:
                self._arrive(data)

    def _arrive(self, data: bytes) -> None:
        if self._broken:
            return
        if not self._reading or self._cut:
            self._arrived.append(data)
        elif data:
            self._unread -= len(data)
            self._read(data)
            if self._was_full and not self._broken:
                self._was_full = False
                self._drained()
        else:
            self._ended()


ANSWER: Final = b"{}"
"""The answer to every query, as there is no status here."""


class ConnectedProgram(Protocol):
    """The program at the other end of a connection.

    Attributes:
        principal: the program's principal, as its daemon found out; "" if the daemon did not ask.
        alive: whether it has neither left nor crashed nor been closed.
    """

    principal: str
    alive: bool

    def attach(self, up: Pipe, down: Pipe, connection: int) -> None:
        """Accept the connection."""

    def flush(self) -> None:
        """Write again, as there is room."""

    def receive(self, data: bytes) -> None:
        """Accept bytes from the daemon."""

    def ended(self) -> None:
        """Note that the connection has ended."""


class SimulatedConnection(NamedTuple):
    """The two directions of one client's connection, and the program at its other end."""

    up: Pipe
    down: Pipe
    client: ConnectedProgram


@attrs.define(eq=False, repr=False)
class Connections:
    """All connections of one core's clients.

    Args:
        loop: virtual time.
        core: the core with the clients' sessions.
        feed: accepts acts of clients, for the core's next step.
    """

    _loop: Loop
    _core: DaemonCore
    _feed: Callable[[ClientInput], None]
    _open: dict[int, SimulatedConnection] = attrs.field(factory=dict)
    _unread: set[int] = attrs.field(factory=set)  # the core has not accepted their new input
    _paused: set[int] = attrs.field(factory=set)  # those among these that the core does not read
    _closing: set[int] = attrs.field(factory=set)  # closed by the core; output may still wait

    def accept(self, client: ConnectedProgram) -> None:
        """Accept a client that connects."""
        number = self._core.next_connection()
        up = Pipe(
            self._loop,
            lambda data: self._on_received(number, data),
            client.flush,
            lambda: self._on_end(number),
        )
        down = Pipe(self._loop, client.receive, lambda: self._write(number), client.ended)
        self._open[number] = SimulatedConnection(up, down, client)
        self._feed(ClientOpened(number, client.principal))
        client.attach(up, down, number)

    def _on_received(self, number: int, data: bytes) -> None:
        self._unread.add(number)
        self._feed(ClientBytes(number, data))

    def _on_end(self, number: int) -> None:
        """Note that the client has closed its end."""
        self._gone(number)
        self._feed(ClientGone(number))

    def _gone(self, number: int) -> None:
        self._open.pop(number).down.break_off()
        self._unread.discard(number)
        self._paused.discard(number)
        self._closing.discard(number)

    @property
    def all_served(self) -> bool:
        """Return whether every present client has read all of its output."""
        return not any(connection.client.alive for connection in self._open.values())

    def serve(self, output: Output) -> None:
        """Serve the clients after a step, according to its output."""
        for number, _ in output.questions:  # otherwise a waiting session is never read again
            self._feed(QuestionAnswered(number, ANSWER))
        for number in output.ready:
            self._write(number)
        for number in output.ended:
            self._begin_end(number)
        if self._unread:
            self._pause_and_resume(output.readable)

    def _begin_end(self, number: int) -> None:
        connection = self._open.get(number)
        if connection is not None:
            connection.up.break_off()
            self._closing.add(number)
            self._write(number)

    def _write(self, number: int) -> None:
        """Pass a session's output to its connection, as far as there is room."""
        connection = self._open.get(number)
        if connection is None:
            return
        down, is_drained = connection.down, False
        if down.is_broken:  # the client is gone; sent but unread data is lost
            connection.up.break_off()
            self._on_end(number)
            return
        while not is_drained and (room := down.room()):
            data = b"".join(self._core.pop_output(number, room))
            is_drained = len(data) < room
            if data:
                down.write(data)
        if number in self._closing and is_drained:
            self._closing.remove(number)
            down.close()
            self._feed(ClientGone(number))

    def _pause_and_resume(self, readable: Collection[int]) -> None:
        """Read only from clients whose sessions accept more."""
        self._unread.difference_update(readable)
        for number in sorted(self._paused.symmetric_difference(self._unread)):
            self._open[number].up.set_reading(number in self._paused)
        self._paused = self._unread.copy()

    def break_all(self) -> None:
        """End every connection at once, as the daemon is gone; data in them is lost."""
        connections, self._open = self._open, {}
        for connection in connections.values():
            connection.up.break_off()
            connection.down.break_off()
            if connection.client.alive:
                connection.client.ended()
