"""Some cores on a network that loses nothing but what a test cuts; time passes only in `run`."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from math import inf

import attrs

from groupcomm.config.core import CoreConfig
from groupcomm.config.roster import Roster, RosterRecord
from groupcomm.config.versions import Versions
from groupcomm.config.view import Incarnation, Start
from groupcomm.engine import (
    AccessNews,
    ClientBytes,
    ClientOpened,
    CoreOver,
    DaemonCore,
    Input,
    MarkStored,
    News,
    Output,
    ProtocolNews,
    RosterNews,
    RosterNotStored,
    RosterStored,
    Segmentation,
    Store,
    StoreMark,
    StoreRoster,
    Transmission,
    drive,
)
from groupcomm.engine.probe import NoProbe, Probe
from groupcomm.events import Event
from groupcomm.membership.states import MembershipState
from groupcomm.session.client_session import ClientSession

PLENTY = 1 << 30
DELAY_S = 0.0005


class Program:
    """A client of one core, that has read all it was told."""

    def __init__(self, core: DaemonCore, user: str, **options: bool) -> None:
        self.core = core
        self.connection = core.next_connection()
        self.session = ClientSession(user, **options)  # type: ignore[arg-type]  # only bools
        self.events: list[Event] = []

    def say(self) -> list[Input]:
        """Return the inputs for its daemon."""
        data = self.session.pop_output(PLENTY)
        return [ClientBytes(self.connection, data)] if data else []

    def read(self) -> None:
        """Take what its daemon has for it."""
        while parts := self.core.pop_output(self.connection, PLENTY):
            self.events += self.session.receive(b"".join(parts))


class Shell:
    """The shell of one daemon of a cluster.

    Attributes:
        inputs: the inputs of its next step.
        marks: the marks that the disk has not stored yet.
        rosters: the rosters that the disk has not stored yet.
        record: the rosters that the disk holds.
        news: all that its log would say.
        reports: the reports of daemons, each with its sender's name.
        over: the way in which it has ended; None while it goes on.
    """

    def __init__(self, cluster: "Cluster", name: str) -> None:
        self._cluster = cluster
        self._name = name
        self.inputs: list[Input] = []
        self.marks: list[int] = []
        self.rosters: list[RosterRecord] = []
        self.record = RosterRecord()
        self.news: list[News] = []
        self.reports: list[tuple[str, bytes]] = []
        self.over: CoreOver | None = None

    def use_segmentation(self, segmentation: Segmentation) -> None:
        """Do nothing, as no datagram is cut."""

    def store(self, wanted: Sequence[Store]) -> None:
        """Write at once, unless the test does."""
        self.marks += [each.mark for each in wanted if isinstance(each, StoreMark)]
        self.rosters += [each.record for each in wanted if isinstance(each, StoreRoster)]
        if self._cluster.stores:
            self.store_now()

    def store_now(self) -> None:
        """Tell the core that all its marks and rosters are on disk."""
        self.inputs += map(MarkStored, self.marks)
        self.marks.clear()
        for record in self.rosters:
            self.record = record
            self.inputs.append(RosterStored(record))
        self.rosters.clear()

    def fail_to_store(self) -> None:
        """Tell the core that its rosters are not on disk."""
        self.inputs += [RosterNotStored("No space left on device") for _ in self.rosters]
        self.rosters.clear()

    def use_roster(self, roster: Roster) -> None:
        """Send to its daemons: the network of the tests knows all."""

    def use_near(self, near: frozenset[str]) -> None:
        """Send what is for the site to these daemons."""
        self._cluster.near[self._name] = near

    def send(self, output: Output) -> bool:
        """Have datagrams fly."""
        self._cluster.send(self._name, output.datagrams)
        return True

    def serve(self, output: Output) -> None:
        """Programs read."""
        self.news += output.news
        self.reports += output.reports
        self._cluster.read(self._name)

    def lines(self, kind: type[AccessNews] | type[ProtocolNews] | type[RosterNews]) -> list[str]:
        """Return the log's news about access, and about daemons that break the protocol."""
        return [each.text for each in self.news if isinstance(each, kind)]

    def finish(self, over: CoreOver) -> None:
        """Remember how it ended."""
        self.over = over


class Cluster:
    """Cores by name, all of them in the same cluster.

    Attributes:
        cores: those that live.
        shells: the shells of the daemons.
        versions: the versions that daemons speak, by name; without an entry those of this release.
        near: the daemons to which datagrams for the site go, by sender, where that has changed.
        cut: pairs (from, to) between which everything is lost.
        lost: selects the datagrams that are lost for all receivers.
        stores: whether marks are written to disk at once; else the test does it.
        probes: makes the probe of a daemon that starts, given its name.
        log: (time, sender, target, datagram) of all that was sent.
    """

    def __init__(self, *sites: str, **settings: object) -> None:
        """One letter of `sites` a daemon, one word a site."""
        self.config = CoreConfig(
            suite=0,
            sites=tuple(map(tuple, sites)),
            **settings,  # type: ignore[arg-type]  # whatever a test wants to change
        )
        self.now = 0.0
        self.cores: dict[str, DaemonCore] = {}
        self.shells: dict[str, Shell] = {}
        self.versions: dict[str, Versions] = {}
        self.near: dict[str, frozenset[str]] = {}
        self.cut: set[tuple[str, str]] = set()
        self.lost: Callable[[bytes], bool] = lambda _: False
        self.stores = True
        self.probes: Callable[[str], Probe] = lambda _: NoProbe()
        self.programs: list[Program] = []
        self.log: list[tuple[float, str, str, bytes]] = []
        self._flying: list[tuple[float, str, bytes]] = []

    def start(
        self,
        names: str,
        restarts: int = 1,
        random_id: int = 0,
        counter: int = 0,
        ahead_s: float = 0.0,
        rosters: RosterRecord | None = None,
    ) -> None:
        """Start daemons, those that ran before anew; `counter` is the mark on their disks.

        Their wall clocks are `ahead_s` ahead of the others'. `rosters` are on their disks.
        """
        for name in names:
            incarnation = Incarnation(restarts, random_id or ord(name))
            start = Start(name=name, incarnation=incarnation, counter=counter)
            shell = self.shells[name] = Shell(self, name)
            self.near.pop(name, None)
            shell.record = record = rosters or RosterRecord()
            config, agreed = self.config, record.agreed
            if name in self.versions:
                config = attrs.evolve(config, versions=self.versions[name])
            self.cores[name] = DaemonCore(
                config if agreed is None else config.with_roster(agreed),
                start,
                rosters=record,
                keys=None,
                now=self.now,
                wall=1000 + self.now + ahead_s,
                probe=self.probes(name),
            )

    def connect(self, name: str, user: str, principal: str = "", **options: bool) -> Program:
        """A client that is admitted; `options` are those of its session."""
        program = Program(self.cores[name], user, **options)
        self.programs.append(program)
        self.step(name, [], [ClientOpened(program.connection, principal)])
        self.run(0.1)
        return program

    def isolate(self, *islands: str) -> None:
        """Only those of one word hear each other from now on."""
        daemons = self.config.daemons + tuple(set(self.cores) - set(self.config.daemons))
        self.cut = {
            (one, other)
            for one in daemons
            for other in daemons
            if not any(one in island and other in island for island in islands)
        }

    def deafen(self, one: str, other: str) -> None:
        """Cut the path from `other` to `one`, datagrams in flight included."""
        self.cut.add((other, one))
        self._flying = [flying for flying in self._flying if flying[1] != one]

    def step(self, name: str, datagrams: list[bytes], clients: Sequence[Input]) -> None:
        """Take one step of one core, now; its datagrams are then in flight."""
        shell = self.shells[name]
        inputs, shell.inputs = [*shell.inputs, *clients], []
        drive(self.cores[name], shell, self.now, datagrams, inputs)

    def send(self, name: str, datagrams: Sequence[Transmission]) -> None:
        """Put the datagrams of a daemon in flight."""
        for target, datagram in datagrams:
            for other in (target,) if target is not None else self._fellows(name):
                self.log.append((self.now, name, other, datagram))
                if other not in self.cores:
                    continue
                if (name, other) not in self.cut and not self.lost(datagram):
                    self._flying.append((self.now + DELAY_S, other, datagram))

    def read(self, name: str) -> None:
        """Programs of a daemon read what there is for them."""
        for program in self.programs:
            if program.core is self.cores[name]:
                program.read()

    def _fellows(self, name: str) -> list[str]:
        near = self.near.get(name, self.cores[name].near)
        return [other for other in sorted(near) if other in self.cores]

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds
        while True:
            said: defaultdict[str, list[Input]] = defaultdict(list)
            for name in self.cores:
                shell = self.shells[name]
                said[name], shell.inputs = shell.inputs, []
            for program in self.programs:
                said[program.core.start.name] += program.say()
            due = [core.deadline for core in self.cores.values()]
            due += [at for at, _, _ in self._flying]
            at = self.now if any(said.values()) else max(self.now, min(due, default=inf))
            if at > end:
                self.now = end
                return
            self.now = at
            self._arrive(said)

    def _arrive(self, said: dict[str, list[Input]]) -> None:
        now = self.now
        arrived: defaultdict[str, list[bytes]] = defaultdict(list)
        for at, target, datagram in self._flying:
            if at <= now:
                arrived[target].append(datagram)
        self._flying = [flying for flying in self._flying if flying[0] > now]
        for name, core in list(self.cores.items()):
            inputs = said.get(name, [])
            if name in arrived or inputs or core.deadline <= now:
                self.step(name, arrived[name], inputs)

    def members(self, name: str) -> str:
        """The daemons of a core's view, if it is in one."""
        core = self.cores[name]
        if core.state is not MembershipState.OPERATIONAL or core.view is None:
            return ""
        return "".join(daemon.name for daemon in core.view.daemons)
