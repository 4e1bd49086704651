"""One simulated daemon: a core, its clocks, its share of the processor, and its clients.

A datagram that arrives while the daemon is busy waits with others for its next step, as in a
socket's buffer; so a slow daemon takes many at once.
"""

from math import inf
from typing import NamedTuple

from groupcomm.config.view import RING
from groupcomm.core import ClientBytes, ClientGone, ClientInput, ClientOpened, DaemonCore
from groupcomm.sim.clients import Client
from groupcomm.sim.clock import Clock
from groupcomm.sim.loop import SECOND, Loop
from groupcomm.sim.network import Network
from groupcomm.sim.path_faults import Forged
from groupcomm.sim.pipe import Pipe

STEP_US = 10
"""How long one step of a healthy daemon takes."""

WAKE_US = 30
"""From the arrival of something to the step that takes it, and whatever has come meanwhile."""

WALL_INTERVAL_US = SECOND
"""How often a daemon compares its monotonic clock with the wall clock."""


class CoreFailure(Exception):
    """A core broke one of its own invariants; the text names the daemon, the error and its place.

    The place is that of the innermost frame: a file below ``groupcomm/`` and a line.
    """

    def __init__(self, process: str, error: Exception) -> None:
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = "nowhere"
        if trace is not None:
            file = trace.tb_frame.f_code.co_filename.rpartition("groupcomm/")[2]
            place = f"{file}:{trace.tb_lineno}"
        super().__init__(f"{process}: {type(error).__name__}: {error} (in {place})")


class Pipes(NamedTuple):
    """The two directions of one client's connection."""

    up: Pipe
    down: Pipe


class Daemon:
    """Drives one core as a shell would: receive, one step, send, sleep until the deadline.

    Args:
        loop: virtual time.
        index: of this daemon in the view.
        process: its identity in traces.
        core: the protocol.
        clock: what it reads as time.

    Attributes:
        network: takes what it sends; set once all daemons exist.
        step_us: how long each step takes.
        injected: datagrams without a valid seal that were put before this daemon.
    """

    def __init__(
        self,
        loop: Loop,
        index: int,
        process: str,
        core: DaemonCore,
        clock: Clock,
    ) -> None:
        self._loop = loop
        self.index = index
        self.process = process
        self.core = core
        self.clock = clock
        self.network: Network
        self.step_us = STEP_US
        self.injected = 0
        self._lookalikes = 0  # forged ones that the core took for replays or its own
        self._datagrams: list[bytes] = []
        self._forged: list[bytes] = []
        self._inputs: list[ClientInput] = []
        self._pipes: dict[int, Pipes] = {}
        self._paused: set[int] = set()
        self._closing: set[int] = set()  # the core is done, output may still wait
        self._busy_until = 0
        self._step_waits = False
        self._timer = inf  # the deadline that a call is due for, on this daemon's clock
        loop.at(loop.now + WALL_INTERVAL_US, self._compare_clocks)
        self._arm()

    # ---- what comes in ----

    def arrive(self, datagram: bytes) -> None:
        """A datagram has come."""
        if type(datagram) is Forged:
            self._forged.append(datagram)
        else:
            self._datagrams.append(datagram)
        if not self._step_waits:
            self._wake()

    def accept(self, client: Client) -> None:
        """A client connects."""
        number = self.core.desk.open()
        up = Pipe(
            self._loop,
            lambda data: self._input(ClientBytes(number, data)),
            client.flush,
            lambda: self._on_end(number),
        )
        down = Pipe(self._loop, client.receive, lambda: self._write(number), client.ended)
        self._pipes[number] = Pipes(up, down)
        self._input(ClientOpened(number))
        client.attach(up, down, number)

    def _input(self, event: ClientInput) -> None:
        self._inputs.append(event)
        if not self._step_waits:
            self._wake()

    def _on_end(self, number: int) -> None:
        self._pipes[number].down.break_off()
        self._input(ClientGone(number))

    # ---- steps ----

    def _wake(self) -> None:
        self._step_waits = True
        self._loop.at(max(self._busy_until, self._loop.now + WAKE_US), self._step)

    def _step(self, _: None = None) -> None:
        """Feed the core all that waits, carry out what it gives back."""
        self._step_waits = False
        self._busy_until = self._loop.now + self.step_us
        if self._forged:
            self._feed_forged()
        datagrams, self._datagrams = self._datagrams, []
        inputs, self._inputs = self._inputs, []
        self._handle(datagrams, inputs)
        desk = self.core.desk
        if desk.ready or desk.closed:
            self._serve()
        if inputs or self._paused:
            self._pause_and_resume(inputs)
        self._arm()

    def _handle(self, datagrams: list[bytes], inputs: list[ClientInput]) -> None:
        now = self.clock.monotonic(self._loop.now)
        try:
            transmissions = self.core.handle(now, datagrams, inputs)
        except Exception as error:
            raise CoreFailure(self.process, error) from error
        for target, datagram in transmissions:
            if target == RING:
                self.network.multicast(self.index, datagram)
            else:
                self.network.unicast(self.index, target, datagram)

    def _feed_forged(self) -> None:
        forged, self._forged = self._forged, []
        self.injected += len(forged)
        before = self._repeated()
        self._handle([bytes(datagram) for datagram in forged], [])
        self._lookalikes += self._repeated() - before

    def _repeated(self) -> int:
        rejected = self.core.counters.rejected
        return rejected["replay"] + rejected["own"]

    def bad(self) -> int:
        """Datagrams that the core dropped, but for valid ones that it had already or sent itself.

        A forged one may carry a counter that makes the core take it for a replay without a look
        at its seal. Those are known here, because forged ones are fed apart from others.
        """
        return self.core.counters.rejected.total() - self._repeated() + self._lookalikes

    # ---- clients ----

    def _serve(self) -> None:
        desk = self.core.desk
        ready, desk.ready = desk.ready, {}
        for number in ready:
            self._write(number)
        closed, desk.closed = desk.closed, []
        for number in closed:
            self._pipes[number].up.break_off()
            self._closing.add(number)
            self._write(number)

    def _write(self, number: int) -> None:
        """Hand a session's output to its connection, as far as there is room."""
        session = self.core.desk.sessions.get(number)
        down = self._pipes[number].down
        while session is not None and session.output_bytes and (room := down.room()):
            down.write(session.take(room))
        if number in self._closing and (session is None or not session.output_bytes):
            self._closing.remove(number)
            down.close()
            self._input(ClientGone(number))

    def _pause_and_resume(self, inputs: list[ClientInput]) -> None:
        sessions = self.core.desk.sessions
        for number in sorted({event.connection for event in inputs} | self._paused):
            session = sessions.get(number)
            reading = session is None or session.reading
            if reading == (number in self._paused):
                self._paused ^= {number}
                self._pipes[number].up.set_reading(reading)

    # ---- time ----

    def _arm(self) -> None:
        """See to it that a step runs at the core's deadline at the latest.

        A timer that is set stays set when the deadline moves away: it finds nothing to do and
        sets itself again. Deadlines move at nearly every step.
        """
        deadline = self.core.deadline
        if deadline < self._timer:
            self._timer = deadline
            self._loop.at(self.clock.when(deadline, self._loop.now), self._on_timer, deadline)

    def _on_timer(self, deadline: float) -> None:
        if deadline != self._timer:
            return  # an earlier one was set since
        self._timer = inf
        if self.core.deadline > self.clock.monotonic(self._loop.now):
            self._arm()
        elif not self._step_waits:
            self._wake()

    def _compare_clocks(self, _: None) -> None:
        now = self._loop.now
        self.core.observe_wall(self.clock.monotonic(now), self.clock.wall(now))
        self._loop.at(now + WALL_INTERVAL_US, self._compare_clocks)
