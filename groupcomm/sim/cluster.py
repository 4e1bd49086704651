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

from random import Random

from groupcomm.clocks.stamp import ViewId
from groupcomm.config.core import CoreConfig
from groupcomm.config.view import DaemonId, Incarnation, View
from groupcomm.core import DaemonCore
from groupcomm.security.keys import KeyRing
from groupcomm.session.daemon import SessionLimits
from groupcomm.sim.attacker import Attacker
from groupcomm.sim.clients import Client
from groupcomm.sim.clock import Clock
from groupcomm.sim.fault_schedule import FaultSchedule
from groupcomm.sim.loop import Loop, microseconds, random_for
from groupcomm.sim.network import Network
from groupcomm.sim.probe import Record, TraceProbe
from groupcomm.sim.process import Daemon
from groupcomm.sim.settings import Settings
from groupcomm.sim.trace import Conf, Quiet, Rejects, TraceEvent

NAMES = tuple(
    """
    alfa bravo charlie delta echo foxtrot golf hotel india juliett kilo lima mike november oscar
    papa quebec romeo sierra tango uniform victor whiskey xray yankee zulu
    able baker cast dog easy fox george how item jig king love nan
    """.split()  # noqa: SIM905 - words read better than so many quoted lines
)
"""The daemons' names: today's spelling alphabet, then words of an older one."""

SETTLED_S = 1.0
"""A cluster in which no client and no stream saw anything new for so long has settled."""

SETTLE_LIMIT_S = 60.0
"""A cluster that has not settled by then is stopped as it is; the oracles see what is missing."""

_RING_KEY = bytes(range(32))


def ignore(event: TraceEvent) -> None:
    """Record nothing."""


class Cluster:
    """Daemons that form one view for the whole run, and programs connected to them.

    Args:
        settings: of the run.
        record: takes the trace.

    Attributes:
        loop: virtual time.
        view: the daemons' view.
        daemons: by their index in the view.
        network: what connects them.
        clients: all that were ever connected.
    """

    def __init__(self, settings: Settings, record: Record = ignore) -> None:
        self.settings = settings
        self.loop = Loop()
        self.view = make_view(settings)
        self.clients: list[Client] = []
        self._record = record
        self.daemons = [self._make_daemon(index) for index in range(settings.daemons)]
        self.network = Network(
            self.loop,
            settings.seed,
            settings.rings,
            settings.ring_delays_s,
            [daemon.arrive for daemon in self.daemons],
        )
        for daemon in self.daemons:
            daemon.network = self.network
        self._schedule = FaultSchedule(
            self.loop, self._random("fault times"), settings.faults, self.network, self.daemons
        )
        self._attacker: Attacker | None = None
        if settings.faults.attacker:
            targets = [daemon.arrive for daemon in self.daemons]
            self._attacker = Attacker(self.loop, self._random("attacker"), targets)
            self.network.observers.append(self._attacker.observe)

    def connect(self, user: str, daemon: int) -> Client:
        """Start a program that connects to a daemon at once; `user` must be free there."""
        name = self.view.daemons[daemon].name
        client = Client(self.loop, self._record, user, daemon, name, self.settings.start_message)
        self.clients.append(client)
        self.daemons[daemon].accept(client)
        return client

    def run(self, seconds: float) -> None:
        """Let virtual time pass."""
        self.loop.run(self.loop.now + microseconds(seconds))

    def end_faults(self) -> None:
        """From now on nothing goes wrong."""
        self._schedule.end()
        if self._attacker is not None:
            self._attacker.stop()

    def settle(self) -> None:
        """Run until nothing new happens any more, then record that nothing may be missing."""
        limit = self.loop.now + microseconds(SETTLE_LIMIT_S)
        before = None
        while self.loop.now < limit and before != (before := self._progress()):
            self.run(SETTLED_S)
        for daemon in self.daemons:
            self._record(Rejects(self.loop.now, daemon.process, daemon.bad(), daemon.injected))
        self._record(Quiet(self.loop.now))

    def _progress(self) -> tuple[int, ...]:
        """What changes when a client is told something or a packet is held."""
        held = (stream.held for daemon in self.daemons for stream in daemon.core.streams)
        return (sum(client.told for client in self.clients), *held)

    def _random(self, purpose: str) -> Random:
        return random_for(self.settings.seed, purpose)

    def _make_daemon(self, index: int) -> Daemon:
        settings, view = self.settings, self.view
        process = process_name(view.daemons[index])
        rng = self._random(f"clock {index}")
        clock = Clock(rng, settings.faults.clock_rate, settings.clock_error_s)
        core = DaemonCore(
            CoreConfig(suite=settings.suite, starts=settings.starts),
            view,
            index,
            keys=KeyRing({1: _RING_KEY}, 1) if settings.suite else None,
            now=clock.monotonic(0),
            wall=clock.wall(0),
            limits=SessionLimits(
                unreliable_drop_bytes=settings.session_cap_bytes // 16,
                output_cap_bytes=settings.session_cap_bytes,
            ),
            probe=TraceProbe(self.loop, self._record, process, str(view.id)),
        )
        rings = tuple(
            tuple(process_name(view.daemons[member]) for member in ring) for ring in view.rings
        )
        self._record(Conf(0, process, "R", str(view.id), rings))
        return Daemon(self.loop, index, process, core, clock)


def process_name(daemon: DaemonId) -> str:
    """A daemon's identity in traces."""
    return f"{daemon.name}/{daemon.incarnation.restarts}"


def make_view(settings: Settings) -> View:
    """The one view of a run."""
    rng = random_for(settings.seed, "incarnations")
    daemons = tuple(
        DaemonId(name, Incarnation(rng.randint(1, 9), rng.getrandbits(64)))
        for name in sorted(NAMES[: settings.daemons])
    )
    return View(
        id=ViewId(1, daemons[0].name, daemons[0].incarnation.random_id),
        daemons=daemons,
        rings=settings.rings,
        packet_limit=settings.packet_limit,
        longest_delay_s=max(map(max, settings.ring_delays_s)),
    )
