"""The clients' connections of one start of a daemon: pipes, as a shell would serve them."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from groupcomm.core import (
    ClientBytes,
    ClientGone,
    ClientInput,
    ClientOpened,
    DaemonCore,
    RulesChanged,
)
from groupcomm.core.desk import Desk
from groupcomm.sim.loop import Loop
from groupcomm.sim.pipe import Pipe

ANSWER: Final = b"{}"
"""What every query is answered: there is no status to tell of here."""


class Program(Protocol):
    """Who is at the other end of a connection.

    Attributes:
        principal: whose it is, as the daemon found out; "" if it did not ask.
        alive: it has not left, crashed or been closed.
    """

    principal: str
    alive: bool

    def attach(self, up: Pipe, down: Pipe, connection: int) -> None:
        """The connection is there."""

    def flush(self) -> None:
        """There is room again."""

    def receive(self, data: bytes) -> None:
        """Take bytes from the daemon."""

    def ended(self) -> None:
        """The connection has ended."""


class Connection(NamedTuple):
    """The two directions of one client's connection, and who is at the other end."""

    up: Pipe
    down: Pipe
    client: Program


class Connections:
    """All connections of one core's clients.

    Args:
        loop: virtual time.
        core: whose desk they are at.
        feed: takes what clients do, for the core's next step.
    """

    def __init__(self, loop: Loop, core: DaemonCore, feed: Callable[[ClientInput], None]) -> None:
        self._loop = loop
        self._core = core
        self._feed = feed
        self._open: dict[int, Connection] = {}
        self._paused: set[int] = set()
        self._closing: set[int] = set()  # the core is done, output may still wait

    def accept(self, client: Program) -> None:
        """A client connects."""
        number = self._core.desk.open()
        up = Pipe(
            self._loop,
            lambda data: self._feed(ClientBytes(number, data)),
            client.flush,
            lambda: self._on_end(number),
        )
        down = Pipe(self._loop, client.receive, lambda: self._write(number), client.ended)
        self._open[number] = Connection(up, down, client)
        self._feed(ClientOpened(number, client.principal))
        client.attach(up, down, number)

    def _on_end(self, number: int) -> None:
        """The client has closed its end."""
        self._gone(number)
        self._feed(ClientGone(number))

    def _gone(self, number: int) -> None:
        self._open.pop(number).down.break_off()
        self._paused.discard(number)
        self._closing.discard(number)

    @property
    def all_served(self) -> bool:
        """Whether every client that is still there has read all that it is to get."""
        return not any(connection.client.alive for connection in self._open.values())

    def serve(self, inputs: Sequence[ClientInput]) -> None:
        """After a step: do for its clients what the core wants; `inputs` are those of the step."""
        desk = self._core.desk
        if desk.queries:
            self._answer_queries(desk)
        if desk.ready or desk.closed:
            self._hand_on(desk)
        if inputs or self._paused:
            self._pause_and_resume(inputs)

    def _answer_queries(self, desk: Desk) -> None:
        """Answer what was asked; else a session that waits for it is never read again."""
        queries, desk.queries = desk.queries, []
        for number, _ in queries:
            if number in desk.sessions:
                desk.answer(number, ANSWER)

    def _hand_on(self, desk: Desk) -> None:
        ready, desk.ready = desk.ready, {}
        for number in ready:
            self._write(number)
        closed, desk.closed = desk.closed, []
        for number in closed:
            connection = self._open.get(number)
            if connection is not None:
                connection.up.break_off()
                self._closing.add(number)
                self._write(number)

    def _write(self, number: int) -> None:
        """Hand a session's output to its connection, as far as there is room."""
        connection = self._open.get(number)
        if connection is None:
            return
        session, down = self._core.desk.sessions.get(number), connection.down
        while session is not None and session.output_bytes and (room := down.room()):
            down.write(b"".join(session.take(room)))
        if number in self._closing and (session is None or not session.output_bytes):
            self._closing.remove(number)
            down.close()
            self._feed(ClientGone(number))

    def _pause_and_resume(self, inputs: Sequence[ClientInput]) -> None:
        """Read only from clients whose sessions take more."""
        sessions = self._core.desk.sessions
        heard = {event.connection for event in inputs if not isinstance(event, RulesChanged)}
        for number in sorted(heard | self._paused):
            session = sessions.get(number)
            reading = session is None or session.reading
            if reading == (number in self._paused):
                self._paused ^= {number}
                if number in self._open:
                    self._open[number].up.set_reading(reading)

    def break_all(self) -> None:
        """The daemon is gone: every connection ends at once, and what is in it is lost."""
        connections, self._open = self._open, {}
        for connection in connections.values():
            connection.up.break_off()
            connection.down.break_off()
            if connection.client.alive:
                connection.client.ended()
