"""A simulated host: a name and an address, a disk, clocks, and one start of a daemon at a time.

A clone is a second daemon with the same name, from a copy of the disk: an operator's mistake. Both
send under one address, and datagrams to it reach both.
"""

from collections.abc import Callable
from functools import partial
from typing import ClassVar, Final, Protocol

import attrs

from groupcomm.clocks.stamp import ViewId
from groupcomm.config.core import CoreConfig
from groupcomm.config.roster import Roster
from groupcomm.config.view import DaemonId, Incarnation, Start
from groupcomm.engine import DaemonCore, ProgramSettings
from groupcomm.membership.reservation import count_start
from groupcomm.membership.states import MembershipState
from groupcomm.security.access import Access
from groupcomm.security.identity import DaemonCredentials
from groupcomm.security.keys import KeyRing
from groupcomm.security.layout import SUITE_IDENTITIES
from groupcomm.session.daemon_session import SessionLimits
from groupcomm.sim.cluster.connections import ConnectedProgram
from groupcomm.sim.cluster.disk import Damage, Disk, DiskRecord, KeyFiles, RosterFile
from groupcomm.sim.cluster.identities import daemon_names, draw_private, roll_of
from groupcomm.sim.cluster.process import STEP_US, ProcessEnd, SimulatedProcess
from groupcomm.sim.network.network import Network, Put
from groupcomm.sim.settings import Settings
from groupcomm.sim.virtual_time import SECOND, Clock, Loop, random_for
from groupcomm.trace.events import Boot, Fail, Left
from groupcomm.trace.recorders import RecordEvent, TraceProbe

MAX_FLYING: Final = 2000
"""The datagrams in flight to a host without a daemon above which old ones are dropped."""

BOOT_AGAIN_US: Final = SECOND // 10
"""The time after which a daemon whose start could not be counted is started again."""

_RING_KEY: Final = bytes(range(32))


class HostContext(Protocol):
    """The parts that all hosts of a cluster share."""

    loop: Loop
    network: Network
    config: CoreConfig
    access: Access
    identities: dict[DaemonId, str]

    @property
    def settings(self) -> Settings:
        """Has the settings of the run."""

    @property
    def record(self) -> RecordEvent:
        """Accepts the events of the trace."""


class SimulatedHost:
    """One machine of a cluster.

    Args:
        cluster: the parts that all hosts share.
        index: its place among the hosts, which are sorted by name.
        name: the name of its daemons.
        site: the index of its site.

    Attributes:
        clock: its clocks, which run whatever happens to daemons.
        disk: the disk of its daemons.
        other_config: the configuration of daemons that start here from now on; None for the common
            one.
        process: the running daemon; None while none runs.
        clone: a second daemon with the same name; nearly always None.
        starts: the number of daemons that have started here.
        on_end: called with the way in which a daemon ended.
        put: accepts a datagram for this address, and its time of arrival.
        keys: the keys that a daemon finds here when it starts; None in suite 0.
        credentials: the identity and the roll that it finds in suite 2; None in others.
        is_spare: the roster does not have it, and no daemon starts here.
    """

    PROCESS: ClassVar[type[SimulatedProcess]] = SimulatedProcess

    def __init__(self, cluster: HostContext, index: int, name: str, site: int) -> None:
        self._cluster = cluster
        self._loop = cluster.loop
        self._settings = cluster.settings
        self.index = index
        self.name = name
        self.site = site
        seed = cluster.settings.seed
        rng = random_for(seed, f"clock {index}")
        self.clock = Clock(rng, self._settings.faults.clock_rate, self._settings.clock_error_s)
        self._incarnations = random_for(seed, f"incarnations {index}")
        restarts = self._incarnations.randint(0, 8)
        disk_rng = random_for(seed, f"disk {index}")
        self.disk = Disk(self._loop, disk_rng, DiskRecord(restarts=restarts))
        self.other_config: CoreConfig | None = None
        self.is_spare = False
        self.process: SimulatedProcess | None = None
        self.clone: SimulatedProcess | None = None
        self.starts = 0
        self._all_restarts: list[int] = []  # restart counts of all starts
        self.on_end: Callable[[SimulatedHost, ProcessEnd], None] = lambda host, end: None
        self._boots = 0  # counts attempts; an interrupted one must not continue
        self._booting = False
        self._clones = 0
        self._clone_hears = True
        self._counter = 0  # the counter of the latest view of any daemon that has ended here
        self._flying: list[tuple[int, bytes]] = []
        self.put: Put = self._put
        self.keys = KeyRing({1: _RING_KEY}, 1) if self._settings.suite else None
        self.credentials = self._credentials() if self._settings.suite == SUITE_IDENTITIES else None

    def _credentials(self) -> DaemonCredentials:
        # Spare daemons too: the roll has each daemon that any roster may have.
        seed, names = self._settings.seed, daemon_names(self._settings.daemons)
        entropy = random_for(seed, f"secrets {self.index}").randbytes
        return DaemonCredentials(draw_private(seed, self.name), roll_of(seed, names), entropy)

    # ---- state, for tests and faults ----

    @property
    def core(self) -> DaemonCore:
        """Return the core of the daemon that runs here."""
        assert self.process is not None, f"{self.name} is down"
        return self.process.core

    @property
    def is_up(self) -> bool:
        """Return whether a daemon runs here that accepts clients."""
        return self.process is not None and not self.process.leaving

    @property
    def is_idle(self) -> bool:
        """Return whether no daemon runs here and none is about to."""
        return self.process is None and not self._booting

    @property
    def completed(self) -> ViewId | None:
        """Return the last view whose group table is complete at the daemon that runs here."""
        return None if self.process is None else self.process.probe.completed

    @property
    def is_gateway(self) -> bool:
        """Return whether the daemon that runs here is at the end of a link of its view."""
        view = None if self.process is None else self.process.core.view
        if view is None:
            return False
        return any(self.name in (view.daemons[a].name, view.daemons[b].name) for a, b in view.links)

    @property
    def differs(self) -> bool:
        """Return whether a daemon runs here whose settings differ from the common ones."""
        return self.process is not None and self.process.core.config != self._cluster.config

    @property
    def most_restarts(self) -> int:
        """Return the highest restart count that any daemon here had."""
        return max(self._all_restarts, default=0)

    @property
    def is_outdated(self) -> bool:
        """Return whether others may know another start with at least as many restarts as this
        one."""
        mine = 0 if self.process is None else self.process.restarts
        return sum(restarts >= mine for restarts in self._all_restarts) > 1

    # ---- starts ----

    def boot(self) -> None:
        """Start a daemon: it counts its start on disk before it does anything else."""
        agreed = self.disk.rosters.agreed
        if self.is_idle and agreed is not None and agreed.entry(self.name) is None:
            self.is_spare = True  # it was killed between learning that and ending
        if self.is_idle and not self.is_spare:
            self._booting = True
            self._boots += 1
            start, new = self._count(self.disk)
            self.disk.write(
                new,
                partial(self._counted, self._boots, start, self._loop.now),
                partial(self._not_counted, self._boots),
            )

    def _not_counted(self, boot: int, _: str) -> None:
        """Try again later, as the disk did not store the record."""

        def boot_again(_: object) -> None:
            if boot == self._boots and self._booting:
                self._booting = False
                self.boot()

        self._loop.at(self._loop.now + BOOT_AGAIN_US, boot_again)

    def _count(self, disk: Disk) -> tuple[Start, DiskRecord]:
        """Return the next start from a disk, and the record that has to be on it first."""
        incarnation = Incarnation(disk.record.restarts + 1, self._incarnations.getrandbits(64))
        reading = int(self.clock.wall(self._loop.now) * SECOND)
        used, mark = count_start(disk.record.mark, reading, incarnation.random_id)
        start = Start(name=self.name, incarnation=incarnation, counter=used, mark=mark)
        return start, DiskRecord(restarts=incarnation.restarts, mark=mark)

    def boot_now(self, _: object = None) -> None:
        """Start a daemon; the loop calls this."""
        self.boot()

    def _counted(self, boot: int, start: Start, begun: int) -> None:
        """Run the daemon, whose start is on disk, and give it the datagrams in flight."""
        if boot == self._boots and self._booting:
            self._booting = False
            write_s = (self._loop.now - begun) / SECOND
            self.process = self.start_process(self.disk, attrs.evolve(start, write_s=write_s))
            self._listen()
            flying, self._flying = self._flying, []
            for arrival, datagram in flying:
                if arrival > self._loop.now:
                    self.process.put(arrival, datagram)

    def start_clone(self, *, hears: bool = True) -> None:
        """Start a second daemon from a copy of the disk, unless there is one.

        Args:
            hears: whether it has the address of the original, so that datagrams reach both. At
                another address nobody sends to it, but it is heard.
        """
        if self.clone is None and self.process is not None:
            disk, self._clone_hears = self.disk.copy(), hears
            start, new = self._count(disk)
            self._clones += 1
            # A new disk is healthy, so no write on it fails.
            disk.write(new, partial(self._cloned, self._clones, disk, start), lambda _: None)

    def _cloned(self, clone: int, disk: Disk, start: Start) -> None:
        if clone == self._clones and self.clone is None:
            self.clone = self.start_process(disk, start)
            self._listen()

    def replace_by_clone(self) -> None:
        """Have the clone, if there is one, and its disk go on here; the original ends for good.

        Only if its disk has the same rosters: the others rely on what the original has promised
        since it was copied (docs/roster.md).
        """
        original, clone = self.process, self.clone
        if clone is None or original is None or clone.disk.rosters != original.disk.rosters:
            return
        self.process, self.clone = clone, original
        self.disk = clone.disk
        self._clone_hears = True
        self._listen()
        self.kill_clone()

    def start_process(self, disk: Disk, start: Start) -> SimulatedProcess:
        """Start a daemon with a disk; its start is counted there."""
        cluster, settings, now = self._cluster, self._settings, self._loop.now
        incarnation = start.incarnation
        self.starts += 1
        self._all_restarts.append(incarnation.restarts)
        name = f"{self.name}/{self.starts}"
        cluster.identities[start.daemon] = name
        cluster.record(Boot(now, name, f"{incarnation.restarts}.{incarnation.random_id:x}"))
        probe = self.make_probe(name)
        core = DaemonCore(
            self.config_of(name, disk.rosters.agreed),
            start,
            rosters=disk.rosters,
            keys=self.keys,
            credentials=self.credentials,
            now=self.clock.monotonic(now),
            wall=self.clock.wall(now),
            settings=ProgramSettings(
                access=cluster.access,
                limits=SessionLimits(
                    unreliable_drop_bytes=settings.session_cap_bytes // 4,
                    output_cap_bytes=settings.session_cap_bytes,
                    backlog_cap_bytes=settings.backlog_cap_bytes,
                    session_timeout_s=settings.session_timeout_s,
                ),
            ),
            probe=probe,
        )
        process = self.PROCESS(
            self._loop,
            cluster.network,
            self.index,
            name,
            core,
            self.clock,
            disk,
            KeyFiles(self._loop, self, random_for(settings.seed, f"key files {name}")),
            RosterFile(self._loop, disk, random_for(settings.seed, f"rosters {name}")),
            incarnation.restarts,
            probe,
            self._ended,
        )
        process.unit_us = settings.unit_us
        return process

    def config_of(self, name: str, agreed: Roster | None) -> CoreConfig:
        """Return the configuration of a start, with the roster that its disk holds."""
        config = self.other_config or self._cluster.config
        return config if agreed is None else config.with_roster(agreed)

    def make_probe(self, name: str) -> TraceProbe:
        """Return the probe of a start."""
        return TraceProbe(self._loop, self._cluster.record, name, self._cluster.identities)

    def is_forming_since(self, time: int) -> bool:
        """Return whether its daemon looks for a view, and has done so since before a time."""
        if self.process is None:
            return False
        membership = self.process.core.membership
        begun = membership.gathered_at <= self.clock.monotonic(time)
        return membership.state is not MembershipState.OPERATIONAL and begun

    # ---- ends ----

    def kill(self) -> None:
        """Kill the daemon that runs or starts here at once, but not a clone."""
        if self._booting:
            self._booting = False
            self.disk.crash()
            self.on_end(self, ProcessEnd.KILLED)
        elif self.process is not None:
            self.process.end(ProcessEnd.KILLED)

    def damage_disk(self, damage: Damage) -> None:
        """Damage the disk while no daemon runs: it is lost, or holds what it held earlier.

        Then only the wall clock can show that there were views before, so it is not behind them.
        Where counters are far ahead of all clocks the restart count shows it to other daemons: to
        those of its site, if it meets them at once. Without them (seed 7129 with three sites, seed
        963282 in a partition) nothing would, and its next view may be below its last one:
        docs/faults.md has this exclusion.
        """
        assert self.process is None
        settings, faults = self._settings, self._settings.faults
        ahead = bool(faults.ahead_s) and len(settings.sites) == 1 and not faults.keep_apart
        if damage is Damage.LOST:
            self.disk.lose()
        else:
            self.disk.roll_back(starts=ahead or damage is Damage.OLD_START)
        if not ahead:
            self.clock.set_ahead_of(self._counter / SECOND, self._loop.now)

    def kill_clone(self) -> None:
        """End the clone, also one that is about to start."""
        self._clones += 1
        if self.clone is not None:
            self.clone.end(ProcessEnd.KILLED)

    def _ended(self, process: SimulatedProcess, how: ProcessEnd) -> None:
        now, name = self._loop.now, process.name
        in_order = how is ProcessEnd.LEFT or (
            how is ProcessEnd.REMOVED and process.over is not None and not process.over.unfinished
        )
        self._cluster.record(Left(now, name) if in_order else Fail(now, name))
        process.disk.crash()
        process.key_files.crash()
        process.roster_file.crash()
        self._counter = max(self._counter, process.probe.counter)
        if process is self.clone:
            self.clone = None
            self._listen()
            return
        self._flying = process.pop_in_flight()
        self.process = None
        self._listen()
        if how is ProcessEnd.REMOVED:
            self.is_spare = True  # its disk goes on only to a roster that has it again
        self.on_end(self, how)

    # ---- acts of daemons and clients ----

    def _listen(self) -> None:
        """Route arriving datagrams to the daemons that run now, or to the next one."""
        if self.process is None or self.clone is not None:
            self.put = self._put
        else:
            self.put = self.process.put

    def _put(self, arrival: int, datagram: bytes) -> None:
        if self.process is not None:
            self.process.put(arrival, datagram)
        else:
            self._flying.append((arrival, datagram))
            if len(self._flying) > MAX_FLYING:
                self._flying = [late for late in self._flying if late[0] > self._loop.now]
        if self.clone is not None and self._clone_hears:
            self.clone.put(arrival, datagram)

    def accept(self, client: ConnectedProgram) -> None:
        """Connect a client to the daemon that runs here."""
        assert self.process is not None, f"{self.name} is down"
        self.process.accept(client)

    def set_step(self, factor: int) -> None:
        """Make each step take this many times as long as usual."""
        if self.process is not None:
            self.process.step_us = STEP_US * factor
