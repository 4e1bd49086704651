"""One start of a simulated daemon: a core, its share of the processor, its clients, its disk.

Arrived datagrams wait for the next step, as in a socket's buffer; so a slow or paused daemon
processes many datagrams at once. A step does all work that is due.
"""

import enum
from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappop, heappush
from math import inf
from typing import Final

import attrs

from groupcomm.config.roster import Roster
from groupcomm.engine import (
    CoreOver,
    DaemonCore,
    Input,
    LeaveRequested,
    MarkNotStored,
    MarkStored,
    Output,
    Segmentation,
    Store,
    StoreMark,
    StoreRoster,
    Transmission,
    WallClockRead,
    drive,
)
from groupcomm.engine import EndReason as CoreEnd
from groupcomm.engine.protection import STALE
from groupcomm.sim.cluster.connections import ConnectedProgram, Connections
from groupcomm.sim.cluster.disk import Disk, DiskRecord, KeyFiles, RosterFile
from groupcomm.sim.faults.paths import Forged
from groupcomm.sim.network.network import Network
from groupcomm.sim.virtual_time import SECOND, Clock, Loop
from groupcomm.trace.recorders import Killed, TraceProbe

STEP_US: Final = 10
"""The time of one step of a healthy daemon."""

WAKE_US: Final = 50
"""The time from an arrival to the step that processes it, with later arrivals."""

WALL_INTERVAL_US: Final = SECOND
"""The interval between two comparisons of the monotonic clock with the wall clock."""

BUFFER_DATAGRAMS: Final = 4000
"""The datagrams that a socket's buffer holds for a daemon that does not read; more are dropped."""

LINGER_US: Final = 2 * SECOND
"""The time for which a daemon that has left waits for its clients to read their output."""

LINGER_LOOK_US: Final = SECOND // 200

_NEVER: Final = 2**63
_OVER: Final = -1
"""The time of the next step if there will be none."""


class CoreFailure(Exception):
    """Raised if a core breaks an invariant of its own; the text names daemon, error and place.

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


class ProcessEnd(enum.Enum):
    """The way in which a start of a daemon ends."""

    KILLED = enum.auto()
    LEFT = enum.auto()  # it has left in order
    CUT_SHORT = enum.auto()  # it has left, too, but not in order in time
    REMOVED = enum.auto()  # the roster does not have it any more


@attrs.define(eq=False, repr=False)
class SimulatedProcess:
    """A driver of one core, like a shell: receive, one step, store, send, sleep until the deadline.

    Args:
        loop: virtual time.
        network: accepts the datagrams that it sends.
        index: the index of its host.
        name: its identity in traces.
        core: the protocol.
        clock: the clocks that it reads.
        disk: the disk that stores its marks.
        key_files: the files that store its keys and the evictions.
        roster_file: the file that stores its rosters.
        restarts: the restart count on the disk.
        probe: the core's probe; its fuse may kill this process in the middle of a step.
        ended: called once, when it ends.

    Attributes:
        alive: whether it runs.
        step_us: the time of each step.
        unit_us: the time of each unit of work in it besides.
        sends_left: the datagrams that it still sends before it is killed; None for no limit.
        injected: the number of datagrams without a valid seal that were given to it.
        steps: the number of its steps.
        over: the way in which its core has ended; from then on it only serves its clients. None
            before.
        may_fail: whether it may end by a failed assertion: it lies, or receives lies.
        stale: reasons for which datagrams of the cluster's daemons are dropped, too.
        join: returns a datagram that has arrived, or None if it is only a part; None for no parts.
    """

    _loop: Loop
    _network: Network
    _index: int
    name: str
    core: DaemonCore
    clock: Clock
    disk: Disk
    key_files: KeyFiles
    roster_file: RosterFile
    restarts: int
    probe: TraceProbe
    _ended: "Callable[[SimulatedProcess, ProcessEnd], None]"
    _near: list[str] | None = attrs.field(init=False)  # None: all hosts of its site
    alive: bool = True
    leaving: bool = False
    step_us: int = STEP_US
    unit_us: int = 0
    sends_left: int | None = None
    injected: int = 0
    steps: int = 0
    over: CoreOver | None = None
    may_fail: bool = False
    stale: frozenset[str] = STALE
    join: Callable[[bytes], bytes | None] | None = None
    _lookalikes: int = 0  # forged datagrams that the core took for replays or its own
    _inbox: list[tuple[int, int, bytes]] = attrs.field(factory=list)  # a heap by arrival
    _count: int = 0  # the number of datagrams ever put there
    _inputs: list[Input] = attrs.field(factory=list)
    _busy_until: int = 0
    _paused_until: int = 0
    _step_at: int = _NEVER
    _timer: float = inf  # the time of the next call, on this daemon's clock
    connections: Connections = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        loop, core = self._loop, self.core
        self._near = None if core.config.agreed is None else sorted(core.near)
        self.connections = Connections(loop, core, self._input)
        loop.at(loop.now + WALL_INTERVAL_US, self._compare_clocks)
        self._arm()

    # ---- input ----

    def put(self, arrival: int, datagram: bytes) -> None:
        """Put a datagram that comes at `arrival` into the inbox."""
        self._count += 1
        heappush(self._inbox, (arrival, self._count, datagram))
        if arrival + WAKE_US < self._step_at:
            self._wake_at(arrival + WAKE_US)

    def pop_in_flight(self) -> list[tuple[int, bytes]]:
        """Return the datagrams in flight to here, with their arrivals."""
        return [(at, datagram) for at, _, datagram in sorted(self._inbox) if at > self._loop.now]

    def accept(self, client: ConnectedProgram) -> None:
        """Accept a client that connects."""
        self.connections.accept(client)

    def _input(self, event: Input) -> None:
        if self.alive:
            self._inputs.append(event)
            self.wake()

    # ---- schedule ----

    def wake(self) -> None:
        """Have a step run soon, whatever the deadline."""
        if self._loop.now + WAKE_US < self._step_at:
            self._wake_at(self._loop.now + WAKE_US)

    def _wake_at(self, due: int) -> None:
        """Have a step run at a time, or as soon as the processor is free then."""
        due = max(due, self._busy_until, self._paused_until)
        if due < self._step_at:
            self._step_at = due
            self._loop.at(due, self._on_wake, due)

    def _on_wake(self, due: int) -> None:
        if due == self._step_at:  # otherwise an earlier step was set since, or this one has run
            self._step_at = _NEVER
            self._step()

    def _arm(self) -> None:
        """Ensure that a step runs at the core's deadline at the latest.

        A timer that is set stays set when the deadline moves away: it finds nothing to do and
        sets itself again. Deadlines move at nearly every step.
        """
        deadline = self._timer = self.core.deadline
        at = max(self.clock.when(deadline, self._loop.now), self._busy_until)
        self._loop.at(at, self._on_timer, deadline)

    def _on_timer(self, deadline: float) -> None:
        if deadline == self._timer and self.alive and self.over is None:
            self._timer = inf
            if self.core.deadline > self.clock.monotonic(self._loop.now):
                self._arm()
            else:
                self._step()

    def pause(self, until: int) -> None:
        """Pause until a time; input waits, as far as buffers hold it."""
        self._paused_until = until

    def resume(self) -> None:
        """Continue after a pause."""
        if self.paused:
            self._paused_until = 0
            self._step_at = _NEVER
            self.wake()

    @property
    def paused(self) -> bool:
        """Return whether it is paused."""
        return self._loop.now < self._paused_until

    # ---- steps ----

    def _step(self) -> None:
        """Feed the core all waiting input, and carry out its output."""
        now = self._loop.now
        if now < self._busy_until or now < self._paused_until:
            self._wake_at(now)
            return
        inbox, inputs = self._inbox, self._inputs
        datagrams: list[bytes] = []
        forged: list[bytes] = []
        while inbox and inbox[0][0] <= now:
            datagram = heappop(inbox)[2]
            whole = datagram if self.join is None else self.join(datagram)
            if whole is None:
                continue
            (datagrams if type(whole) is not Forged else forged).append(whole)
        if len(datagrams) > BUFFER_DATAGRAMS:
            del datagrams[BUFFER_DATAGRAMS:]
        self._busy_until = now + self.step_us
        self.steps += 1
        if forged:
            self._feed_forged(forged)
        if inputs:
            self._inputs = []
        if datagrams or inputs or not forged:
            self._handle(datagrams, inputs)
        if self.unit_us:
            self._busy_until += self.unit_us * self.core.sessions.work
        self._after_step()

    def _after_step(self) -> None:
        inbox = self._inbox
        if self.alive:
            if self.core.deadline < self._timer:
                self._arm()
            if inbox and inbox[0][0] + WAKE_US < self._step_at:
                self._wake_at(inbox[0][0] + WAKE_US)

    def _handle(self, datagrams: list[bytes], inputs: list[Input]) -> None:
        if not self.alive:
            return
        try:
            drive(self.core, self, self.clock.monotonic(self._loop.now), datagrams, inputs)
        except Killed:
            self.end(ProcessEnd.KILLED)
        except Exception as error:
            if not self.may_fail:
                raise CoreFailure(self.name, error) from error
            self.end(ProcessEnd.KILLED)

    # ---- duties of a step ----

    def use_roster(self, roster: Roster) -> None:
        """See Shell: the core counts by it already."""

    def use_near(self, near: frozenset[str]) -> None:
        """See Shell."""
        self._near = sorted(near)

    def use_segmentation(self, segmentation: Segmentation) -> None:
        """See Shell: no datagram is cut."""

    def store(self, wanted: Sequence[Store]) -> None:
        """See Shell."""
        for each in wanted:
            if isinstance(each, StoreRoster):
                self.roster_file.store(each, self._input)
            elif isinstance(each, StoreMark):
                record = DiskRecord(restarts=self.restarts, mark=each.mark)
                stored = partial(self._input, MarkStored(each.mark))
                self.disk.write(record, stored, lambda why: self._input(MarkNotStored(why)))
            else:
                self.key_files.store(each, self._input)

    def send(self, output: Output) -> bool:
        """See Shell; a daemon that is being killed may send only the first few datagrams."""
        datagrams = output.datagrams
        if self.sends_left is not None:
            datagrams = self._last_words(datagrams)
        for target, datagram in datagrams:
            if target is None and self._near is None:
                self._network.multicast(self._index, datagram)
            elif target is None:
                for name in self._near or ():
                    self._network.unicast(self._index, name, datagram)
            else:
                self._network.unicast(self._index, target, datagram)
        if self.sends_left == 0:
            self.end(ProcessEnd.KILLED)
        return self.alive

    def serve(self, output: Output) -> None:
        """See Shell."""
        self.connections.serve(output)

    def finish(self, over: CoreOver) -> None:
        """See Shell."""
        self.over = over
        self._step_at = _OVER
        self._linger(self._loop.now + LINGER_US)

    def _last_words(self, transmissions: list[Transmission]) -> list[Transmission]:
        assert self.sends_left is not None
        said = transmissions[: self.sends_left]
        self.sends_left -= len(said)
        return said

    def _feed_forged(self, forged: list[bytes]) -> None:
        self.injected += len(forged)
        before = self._repeated()
        self._handle([bytes(datagram) for datagram in forged], [])
        self._lookalikes += self._repeated() - before

    def _repeated(self) -> int:
        rejected = self.core.counters.rejected
        return sum(rejected[reason] for reason in self.stale)

    def bad(self) -> int:
        """Return the number of datagrams that the core dropped, except valid ones that it had
        already or sent itself.

        A forged datagram may carry a counter that makes the core take it for a replay, without a
        look at its seal. Those are counted here, because forged ones are fed apart from others.
        """
        return self.core.counters.bad - self._repeated() + self._lookalikes

    def _compare_clocks(self, _: None) -> None:
        now = self._loop.now
        if not self.alive or self.over is not None:
            return
        if not self.paused:  # the next step is early enough
            self._inputs.append(WallClockRead(self.clock.monotonic(now), self.clock.wall(now)))
        self._loop.at(now + WALL_INTERVAL_US, self._compare_clocks)

    # ---- ends ----

    def leave(self) -> None:
        """Leave in order: the core first finishes its duties."""
        if self.alive and not self.leaving:
            self.leaving = True
            self._input(LeaveRequested())

    def _linger(self, until: int) -> None:
        """Linger after the leave; clients may still read their output."""
        if self.alive and (self.connections.all_served or self._loop.now >= until):
            assert self.over is not None
            if self.over.end is CoreEnd.REMOVED:
                self.end(ProcessEnd.REMOVED)
                return
            self.end(ProcessEnd.CUT_SHORT if self.over.unfinished else ProcessEnd.LEFT)
        elif self.alive:
            self._loop.at(self._loop.now + LINGER_LOOK_US, self._linger, until)

    def end(self, how: ProcessEnd) -> None:
        """End the process; clients see their connections end."""
        if self.alive:
            self.alive = False
            self._step_at = _OVER
            self.connections.break_all()
            self._ended(self, how)
