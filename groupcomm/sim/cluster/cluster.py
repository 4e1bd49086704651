"""A cluster in virtual time: real cores, a simulated network, real sessions of programs.

::

    cluster = Cluster(plain_settings(daemons=3))
    anna = cluster.connect("anna", daemon=0)
    cluster.run(0.1)
    anna.join("room")
    cluster.run(0.1)
    anna.multicast(["room"], b"hello")
    cluster.run(0.1)
    print(anna.events)
"""

from collections.abc import Collection, Sequence
from random import Random
from typing import ClassVar, Protocol

import attrs

from groupcomm.config.core import CoreConfig, Timing
from groupcomm.config.view import DaemonId, View
from groupcomm.membership.gather import longest_silence_s
from groupcomm.membership.pace import paced
from groupcomm.membership.states import MembershipState
from groupcomm.security.access import Access
from groupcomm.sim.checkers.report import Violation
from groupcomm.sim.cluster.clients import SimulatedClient
from groupcomm.sim.cluster.host import SimulatedHost
from groupcomm.sim.cluster.identities import daemon_names
from groupcomm.sim.faults.configurations import is_alike, other_configs
from groupcomm.sim.faults.faults import Faults
from groupcomm.sim.faults.keyless import KeylessAttacker
from groupcomm.sim.faults.schedule import FaultSchedule
from groupcomm.sim.network.links import longest_way_s
from groupcomm.sim.network.network import Network
from groupcomm.sim.settings import Settings, reachable_core
from groupcomm.sim.virtual_time import SECOND, Loop, microseconds, random_for
from groupcomm.trace.events import Heal, Quiet, Rejects, TraceEvent
from groupcomm.trace.recorders import RecordEvent

FORM_LIMIT_S = 30.0
"""The time by which a cluster without faults has a common view, unless there is a bug."""

LOOK_S = 0.01
"""The interval between two checks for an awaited event."""

SETTLED_S = 1.0
"""A cluster has settled when no client and no stream saw anything new for this time."""

SETTLE_LIMIT_S = 60.0
"""The time after which an unsettled cluster is stopped; the checkers report what is missing."""

AGREE_LIMIT_S = 5.0
"""The time by which a core agrees on a view, if it ever does in time."""

MEETING_LIMIT_S = 4.0
"""The time after all faults by which daemons meet although a disk was lost, is old or was copied:
so long may it take until each knows which start of the others counts (L6), and some attempts."""

BOOT_LIMIT_S = 0.1
"""The time by which a starting daemon runs."""


def ignore(event: TraceEvent) -> None:
    """Record nothing."""


class Act(Protocol):
    """Something that happens again and again, from its making on."""

    def stop(self) -> None:
        """Do nothing more."""


class NoAgreement(Exception):
    """Daemons do not agree after all faults.

    Attributes:
        property: the id of the property that does not hold.
    """

    property = ""


class NoMeeting(NoAgreement):
    """Daemons do not meet after all faults, as they know different starts of each other.

    Args:
        starts: the running starts.
        limit_s: the time after all faults, in seconds.
    """

    property = "L6"

    def __init__(self, starts: Sequence[str], limit_s: float) -> None:
        super().__init__(
            f"{', '.join(starts)} have no common view {limit_s:g} s after all faults; a disk of"
            " theirs was lost, old or copied"
        )


class Cluster:
    """A cluster: hosts with daemons, which agree on views, and programs connected to them.

    Args:
        settings: the settings of the run.
        record: accepts each event of the trace.
        start: start the daemons, and let them agree on a view before any fault begins; else
            `start` has to be called.

    Attributes:
        loop: virtual time.
        daemons: the hosts, sorted by name; `core` of each is that of the daemon that runs there.
        network: the network that connects the hosts.
        clients: all clients that were ever connected.
        identities: the identities of all starts of all daemons, as traces name them.
        config: the configuration of all cores, unless a host has another one.
        core: indices of the hosts whose daemons must agree in the end.
        aside: indices of the hosts whose disks stay unwell then; they may be in the view, but need
            not.
        access: the rules of all daemons.
        principal: the principal of its programs, by which the rules know them.
    """

    SETTINGS: ClassVar[type[Settings]] = Settings

    def __init__(
        self,
        settings: Settings,
        record: RecordEvent = ignore,
        *,
        start: bool = True,
    ) -> None:
        assert type(settings) is self.SETTINGS, f"this cluster would ignore some of {settings}"
        self.settings = settings
        self.record = record
        self.loop = Loop()
        self.config = self.make_config()
        self.access, self.principal = Access(), ""
        self.identities: dict[DaemonId, str] = {}
        self.clients: list[SimulatedClient] = []
        names, sites = daemon_names(settings.daemons), sites_by_host(settings)
        self.core: tuple[int, ...] = tuple(range(len(names)))
        self.aside: tuple[int, ...] = ()
        self.daemons: Sequence[SimulatedHost] = [
            self.make_host(index, name, sites[index]) for index, name in enumerate(names)
        ]
        self.network = Network(
            self.loop,
            settings.seed,
            names,
            settings.sites,
            settings.links,
            self.daemons,
        )
        self._other_configs = other_configs(self._random("files"), self.config)
        self._schedule: FaultSchedule | None = None
        self._attacker: KeylessAttacker | None = None
        if start:
            self.start()

    def make_config(self) -> CoreConfig:
        """Return the common part of the configurations of all cores."""
        return make_config(self.settings)

    def make_host(self, index: int, name: str, site: int) -> SimulatedHost:
        """Return a host."""
        return SimulatedHost(self, index, name, site)

    def start(self, *, form: bool = True, faults: bool = True) -> None:
        """Start all daemons, and the faults.

        Args:
            form: the faults begin once all daemons agree on a view; else they begin at once, and
                so do the daemons, each at a time of its own.
            faults: whether faults begin.
        """
        settings = self.settings
        if form:
            self._boot(0)
            self.form(limit_s=FORM_LIMIT_S * settings.pace)
            if faults:
                self._start_faults(settings)
        else:
            self._start_faults(settings)
            self._boot(microseconds(settings.faults.cold_s))

    def _boot(self, within_us: int) -> None:
        rng = self._random("boots")
        for host in self.daemons:
            at = self.loop.now + int(rng.random() * within_us)
            self.loop.at(at, host.boot_now)

    def _start_faults(
        self, settings: Settings, part: str = "", spared: Collection[int] = ()
    ) -> None:
        if settings.faults == Faults():
            return
        self._schedule = FaultSchedule(
            self.loop,
            self._random(f"fault times{part}"),
            settings,
            self.network,
            self.daemons,
            self._other_configs,
            spared,
            part,
        )
        if settings.faults.attacker:
            rng = self._random(f"attacker{part}")
            self._attacker = KeylessAttacker(self.loop, rng, self.daemons)
            self.network.observers.append(self._attacker.observe)

    def _random(self, purpose: str) -> Random:
        return random_for(self.settings.seed, purpose)

    # ---- programs ----

    def up(self) -> list[int]:
        """Return the indices of the hosts that a program can connect to."""
        return [host.index for host in self.daemons if host.is_up]

    def connect(
        self,
        user: str,
        daemon: int,
        *,
        causes: bool = False,
        origins: bool = False,
        daemon_timeout_s: float | None = None,
    ) -> SimulatedClient:
        """Start a program that connects to a daemon at once; see `SimulatedClient`.

        Its user must be free there.
        """
        host = self.daemons[daemon]
        client = SimulatedClient(
            self.loop,
            self.record,
            user,
            daemon,
            host.name,
            self.settings.start_message,
            causes=causes,
            origins=origins,
            daemon_timeout_s=daemon_timeout_s,
        )
        client.principal = self.principal
        self.clients.append(client)
        host.accept(client)
        return client

    def further_acts(self) -> list[Act]:
        """Begin and return what programs do besides the load: nothing."""
        return []

    # ---- time and views ----

    def run(self, seconds: float) -> None:
        """Let virtual time pass."""
        self.loop.run(self.loop.now + microseconds(seconds))

    @property
    def view(self) -> View:
        """Return the view that the first daemon of `core` is in."""
        view = self.daemons[self.core[0]].core.view
        assert view is not None, "no view yet"
        return view

    def agree(self, hosts: Collection[int]) -> bool:
        """Return whether the daemons of these hosts have completed one view, only with those
        aside."""
        daemons = [self.daemons[index] for index in hosts]
        first = daemons[0].completed
        if first is None or any(host.completed != first for host in daemons):
            return False
        if any(host.core.state is not MembershipState.OPERATIONAL for host in daemons):
            return False  # the daemons are about to form another view
        names = {host.name for host in daemons}
        aside = {self.daemons[index].name for index in self.aside}
        view = daemons[0].core.view
        if view is None or view.id != first:
            return False
        return names <= {daemon.name for daemon in view.daemons} <= names | aside

    def form(self, hosts: Sequence[int] = (), limit_s: float = FORM_LIMIT_S) -> float:
        """Run until these hosts, or all, agree on one view; return the seconds that it took.

        Raises:
            AssertionError: they did not agree within the limit.
        """
        hosts = hosts or self.core
        began = self.loop.now
        while not self.agree(hosts):
            waited_s = (self.loop.now - began) / microseconds(1.0)
            assert waited_s < limit_s, f"no view of {hosts} in {limit_s} s"
            self.run(LOOK_S)
        return (self.loop.now - began) / microseconds(1.0)

    # ---- the end ----

    def end_faults(self) -> None:
        """End all faults; all daemons run."""
        self.heal(range(len(self.daemons)))

    def heal(self, core: Collection[int], *, sick_share: float = 0.0) -> None:
        """End all faults in `core`; its daemons run with one configuration.

        Others are dead, cut off or, with the fault ``files``, run with another configuration. This
        begins once everything that was sent to the core before has arrived, as late datagrams delay
        the following ones, and once attempts begun before are over: time passes until then.

        Args:
            core: indices of hosts.
            sick_share: the share of sick disks that stay sick; their daemons are not of
                the core then, but run and hear it.
        """
        self.aside = self._stay_sick(sorted(core), sick_share)
        self.core = tuple(index for index in sorted(core) if index not in self.aside)
        for index in self.core:
            self.daemons[index].disk.recover()
        inside = {*self.core, *self.aside}
        self._end_schedule()
        self._end_attacker()
        outside = [host for host in self.daemons if host.index not in inside]
        self._cut_off(outside, inside)
        self._bring_back(inside)
        self.record(Heal(self.loop.now, self._running(self.core), self._running(self.aside)))

    def _bring_back(self, inside: set[int]) -> None:
        """Have the daemons of the core run, and run until all earlier faults are without effect.

        Args:
            inside: the hosts of the core, and those aside.
        """
        paths = [path for (_, target), path in self.network.paths.items() if target in inside]
        until = max((path.under_way_until for path in paths), default=0)
        hosts = [self.daemons[index] for index in self.core]
        for index in inside:
            self.daemons[index].on_end = lambda host, end: None
        for host in hosts:
            host.other_config = None
            if host.differs or not host.is_up:
                host.kill()
                host.boot()
        self.run(max(0, until - self.loop.now) / SECOND)
        self.run(LOOK_S / 10)  # so that the last arrivals are processed
        self._end_attempts(hosts, self.loop.now)
        limit = self.loop.now + microseconds(BOOT_LIMIT_S)
        while any(host.process is None for host in hosts):
            assert self.loop.now < limit, "a daemon does not start"
            self.run(LOOK_S / 10)
        if any(host.is_outdated for host in hosts):
            self._meet()

    def _meet(self) -> None:
        """Run until the core has a view: what its disks have forgotten, daemons learn on their own.

        Raises:
            NoMeeting: it has none within the limit.
        """
        limit_s = MEETING_LIMIT_S * self.settings.pace
        limit = self.loop.now + microseconds(limit_s)
        while not self.agree(self.core):
            if self.loop.now >= limit:
                raise NoMeeting(self._running(self.core), limit_s)
            self.run(LOOK_S)

    def _end_schedule(self) -> None:
        if self._schedule is not None:
            self._schedule.end()

    def _end_attacker(self) -> None:
        if self._attacker is not None:
            self._attacker.stop()
            self.network.observers.remove(self._attacker.observe)
            self._attacker = None

    def _running(self, hosts: Sequence[int]) -> tuple[str, ...]:
        """Return the names of the processes that run on these hosts."""
        processes = [self.daemons[index].process for index in hosts]
        return tuple(process.name for process in processes if process is not None)

    def _stay_sick(self, core: Sequence[int], share: float) -> tuple[int, ...]:
        """Return some hosts whose disks stay unwell; all other hosts of the core reach each
        other."""
        rng, aside = self._random("sick"), list[int]()
        for index in core:
            host = self.daemons[index]
            if host.disk.ailment is None or rng.random() >= share:
                continue
            if host.is_outdated or host.differs or not host.is_up:
                continue  # a daemon that has to be started needs its disk
            rest = tuple(other for other in core if other not in (index, *aside))
            if rest and reachable_core(rest, self.settings.sites, self.settings.links) == rest:
                aside.append(index)
        return tuple(aside)

    def _end_attempts(self, hosts: Sequence[SimulatedHost], since: int) -> None:
        """Run until all attempts begun before a time are over, as earlier faults may fail them.

        Attempts show in no trace: a frozen view looks like a lasting one. A daemon gathers for some
        time, and then waits in silence for those that it has agreed with (seed 973143).
        """
        limit = self.loop.now + microseconds(2 * longest_silence_s(paced(self.config)))
        while self.loop.now < limit and any(host.is_forming_since(since) for host in hosts):
            self.run(LOOK_S / 10)

    def _cut_off(self, outside: list[SimulatedHost], inside: Collection[int]) -> None:
        """Make all other daemons dead, unheard inside the core, or configured differently."""
        rng, files = self._random("outside"), self.settings.faults.files
        for host in outside:
            host.on_end = lambda host, end: None
            if files and self._set_apart(host, rng):
                continue
            if rng.random() < 0.5:
                host.kill()
            for index in inside:
                self.network.cut([(host.index, index), (index, host.index)])

    def _set_apart(self, host: SimulatedHost, rng: Random) -> bool:
        """Run a daemon with a configuration that keeps it out of the view of the core."""
        apart = [
            config
            for config in self._other_configs
            if host.name in config.daemons and not is_alike(config, self.config)
        ]
        if not apart or rng.random() < 0.5:
            return False
        host.kill()
        host.other_config = rng.choice(apart)
        host.boot()
        return True

    def settle(self) -> None:
        """Run until nothing new happens, then record that no event may be missing."""
        began, before = self.loop.now, None
        pace = self.settings.pace
        while before != (before := self._progress()) or not self.agree(self.core):
            limit_s = SETTLE_LIMIT_S if self.agree(self.core) else AGREE_LIMIT_S
            if self.loop.now >= began + microseconds(limit_s * pace):
                break
            self.run(SETTLED_S * pace)
        self.record(self.end_of_events())

    def violations(self) -> Sequence[Violation]:
        """Return what checks found that need more than the trace."""
        return ()

    def end_of_events(self) -> Quiet:
        """Record the datagrams that daemons rejected so far; return the moment of rest."""
        for host in self.daemons:
            process = host.process
            if process is not None:
                name = process.name
                self.record(Rejects(self.loop.now, name, process.bad(), process.injected))
        return Quiet(self.loop.now)

    def _progress(self) -> tuple[object, ...]:
        """Return a value that changes when a client of the core gets an event, or a packet is held
        there, and while a daemon there has more to deliver, be it to an attacker's clients."""
        hosts = [self.daemons[index] for index in self.core]
        states = [state for host in hosts if (state := host.core.view_state) is not None]
        streams = [stream for state in states for stream in state.streams]
        held = ((stream.held, len(stream.packets)) for stream in streams)  # and above a gap
        views = (host.completed for host in hosts)
        core = set(self.core)
        told = sum(client.notified for client in self.clients if client.daemon in core)
        is_busy = any(state.delivery.unfinished for state in states)
        return (object() if is_busy else None, told, *views, *held)


def make_config(settings: Settings) -> CoreConfig:
    """Return the common part of the configurations of all cores of a run."""
    names = daemon_names(settings.daemons)
    return CoreConfig(
        suite=settings.suite,
        sites=tuple(tuple(names[index] for index in site) for site in settings.sites),
        link_delays_us=tuple((*link.sites, microseconds(link.delay_s)) for link in settings.links),
        packet_limit=settings.packet_limit,
        most_rings=settings.most_rings,
        few_daemons=settings.few_daemons,
        many_daemons=settings.many_daemons,
        token_bytes=settings.token_bytes,
        rights=settings.rights,
        starts=settings.starts,
        windows=settings.windows,
        leave_timeout_s=settings.leave_timeout_s,
        timing=attrs.evolve(
            Timing(),
            token_timeout_s=Timing().token_timeout_s * settings.pace,
            beacon_interval_s=Timing().beacon_interval_s * settings.pace,
            longest_delay_s=longest_way_s(len(settings.sites), settings.links),
            horizon_interval_min_s=settings.notice_interval_s,
            linger_s=settings.linger_s,
        ),
    )


def sites_by_host(settings: Settings) -> list[int]:
    """Return the index of each host's site."""
    places = {host: site for site, hosts in enumerate(settings.sites) for host in hosts}
    return [places[host] for host in range(settings.daemons)]
