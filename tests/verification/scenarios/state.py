"""The state of a scenario: its cluster, programs, changed paths, and the checkers' verdict.

The participants are read from the line that begins with ``daemons``.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from string import ascii_lowercase
from typing import Any, Final

import attrs

from groupcomm.config.core import CounterStarts
from groupcomm.config.view import MAX_RINGS
from groupcomm.level import ServiceLevel
from groupcomm.membership.states import GatherReason
from groupcomm.sim.checkers import Checkers
from groupcomm.sim.cluster.clients import SimulatedClient
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.cluster.disk import REMEMBERED
from groupcomm.sim.cluster.host import SimulatedHost
from groupcomm.sim.cluster.process import SimulatedProcess
from groupcomm.sim.network.links import equal_links
from groupcomm.sim.network.network import Pair
from groupcomm.sim.settings import Settings
from groupcomm.sim.virtual_time import SECOND, Clock, random_for
from groupcomm.trace.events import TraceEvent
from groupcomm_tools.traces.text import readable
from tests.verification.scenarios.script import Words
from tests.verification.scenarios.transcript import LOAD, PADDING, Transcript
from tests.verification.simulation.rules import Rule, RuledPath


@attrs.frozen(kw_only=True)
class Participants:
    """The daemons of a scenario.

    Attributes:
        sites: their indices, by site.
        apart_us: the one-way delay between sites, in microseconds.
        counters: the value at which all counters start.
        reader_cap_bytes: the output that may wait for a program; 0 for the usual cap.
        absent: the daemons that are not started.
        most_rings: the most rings of a view.
    """

    sites: tuple[tuple[int, ...], ...]
    apart_us: int = 50_000
    counters: int = 0
    reader_cap_bytes: int = 0
    absent: tuple[int, ...] = ()
    most_rings: int = MAX_RINGS

    def settings(self) -> Settings:
        """Return the settings of the cluster, without faults of its own."""
        settings = Settings(
            seed=1,
            sites=self.sites,
            links=equal_links(len(self.sites), self.apart_us / SECOND),
            starts=CounterStarts(**dict.fromkeys(attrs.fields_dict(CounterStarts), self.counters)),
            start_message=self.counters,
            most_rings=self.most_rings,
        )
        if self.reader_cap_bytes:
            settings = attrs.evolve(settings, session_cap_bytes=self.reader_cap_bytes)
        return settings


def read_participants(words: Words) -> Participants:
    """Read ``daemons a b | c d, apart 40ms, counters 2^31-5, cap 100000 bytes, without c``."""
    letters: list[str] = []
    sites: list[tuple[int, ...]] = []
    while True:
        start = len(letters)
        while len(letters) < len(ascii_lowercase) and words.got(ascii_lowercase[len(letters)]):
            letters.append(ascii_lowercase[len(letters)])
        if len(letters) == start:
            words.fail(f"daemon {ascii_lowercase[start]}; they are called a, b, c and so on")
        sites.append(tuple(range(start, len(letters))))
        if not words.got("|"):
            break
    words.know(len(letters))
    return attrs.evolve(Participants(sites=tuple(sites)), **_read_options(words))


def _read_options(words: Words) -> dict[str, Any]:
    """Read the options of a line ``daemons``; return them as `Participants` has them."""
    found: dict[str, Any] = {}
    while words.got(","):
        match words.one_of(("apart", "counters", "cap", "rings", "without")):
            case "apart":
                found["apart_us"] = words.duration()
            case "counters":
                found["counters"] = words.power()
            case "cap":
                found["reader_cap_bytes"] = words.number("a number of bytes")
                words.got("bytes")
            case "rings":
                found["most_rings"] = words.number("the most rings of a view")
            case "without":
                found["absent"] = words.daemons()
            case other:
                raise AssertionError(f"{other} is an option that nothing reads")
    if words.more:
        words.fail("the next daemon's letter, '|', or ', ' and an option")
    return found


LOOK_US: Final = SECOND // 1000
"""The interval between two checks for an awaited view."""


PATIENCE_US: Final = 3 * SECOND
"""The longest wait, unless a command says otherwise."""


class ScenarioFailed(Exception):
    """Raised if a command cannot be carried out, or an awaited event does not come."""


class SettableClock(Clock):
    """A clock whose wall clock is set by commands."""

    __slots__ = ()

    def shift(self, microseconds: int) -> None:
        """Set the wall clock forward or back."""
        self._wall += microseconds / SECOND


class ScenarioState:
    """One cluster, and everything that commands have done to it.

    Attributes:
        story: the events that were not reported yet.
        cluster: the daemons.
        core: the daemons that must agree in the end; None for those that run then.
        healed: whether the network is whole at the end.
        reasons_shown: the reasons to gather of each daemon, as far as they were shown.
        clocks: the clocks of the hosts.
        paths: the paths, by source and target.
    """

    def __init__(self, participants: Participants) -> None:
        self.transcript = Transcript(self.label)
        self._checkers = Checkers()
        self.cluster = Cluster(participants.settings(), self._record, start=False)
        self.core: tuple[int, ...] | None = None
        self.reasons_shown: dict[str, Counter[GatherReason]] = {}
        self.healed = True
        self._clients: dict[str, SimulatedClient] = {}
        self._labels: dict[str, str] = {}
        self._sessions: dict[str, int] = {}
        self._cuts: list[Pair] = []
        self._loads: dict[str, tuple[tuple[str, ...], ServiceLevel, int]] = {}
        self._loaded: dict[str, int] = {}
        self.clocks: list[SettableClock] = []
        for host in self.cluster.daemons:
            clock = SettableClock(random_for(1, f"clock {host.index}"), 0.0)
            self.clocks.append(clock)
            host.clock = clock
        self.paths: dict[Pair, RuledPath] = {}
        for pair, path in self.cluster.network.paths.items():
            self.paths[pair] = path.faults = RuledPath(self.cluster.loop, path.transfer)
        present = [host for host in self.cluster.daemons if host.index not in participants.absent]
        for host in present:
            host.boot()
        self.cluster.form([host.index for host in present])

    def _record(self, event: TraceEvent) -> None:
        self.transcript.record(event)
        self._checkers.feed(event)

    # ---- time ----

    def run(self, lasts_us: int) -> None:
        """Let time pass."""
        self.cluster.run(lasts_us / SECOND)

    def await_views(self, sides: Sequence[Sequence[int]], limit_us: int) -> None:
        """Run until each of these sets of daemons has a view of its own."""
        wanted = " | ".join(" ".join(ascii_lowercase[i] for i in side) for side in sides)
        self._await(lambda: all(map(self._agree, sides)), f"no view of {wanted}", limit_us)

    def _await(self, there: Callable[[], bool], text: str, limit_us: int = PATIENCE_US) -> None:
        until = self.cluster.loop.now + limit_us
        while not there():
            if self.cluster.loop.now >= until:
                raise ScenarioFailed(f"{text} after {limit_us // 1000} ms")
            self.run(min(LOOK_US, until - self.cluster.loop.now))

    def _agree(self, side: Sequence[int]) -> bool:
        up = all(self.cluster.daemons[index].process is not None for index in side)
        return up and self.cluster.agree(side)

    # ---- daemons ----

    def host(self, index: int) -> SimulatedHost:
        """Return a host with a daemon that runs."""
        host = self.cluster.daemons[index]
        if host.process is None:
            raise ScenarioFailed(f"{ascii_lowercase[index]} is down")
        return host

    def process(self, index: int) -> SimulatedProcess:
        """Return the daemon that runs on a host."""
        process = self.host(index).process
        assert process is not None
        return process

    def start(self, index: int, disk: str) -> None:
        """Start a daemon where none runs; its disk may be lost, or from before its last start."""
        host = self.cluster.daemons[index]
        if not host.is_idle:
            raise ScenarioFailed(f"{ascii_lowercase[index]} runs already")
        if disk == "lost":
            host.disk.lose()
        elif disk:
            for _ in range(REMEMBERED):
                if host.disk.record.restarts == host.most_restarts:
                    host.disk.roll_back()
        host.boot()

    def pause(self, index: int, lasts_us: int) -> None:
        """Let a daemon stand still."""
        self.process(index).pause(self.cluster.loop.now + lasts_us)

    # ---- files ----

    def set_config(self, index: int, **changes: Any) -> None:
        """Change a host's file, or without changes make it like all others, for later starts."""
        config = attrs.evolve(self.cluster.config, **changes)
        self.cluster.daemons[index].other_config = config if changes else None

    def list_only(self, index: int, listed: Sequence[int]) -> None:
        """Have a host's file list only these daemons."""
        names = {self.cluster.daemons[each].name for each in listed}
        sites = [tuple(n for n in site if n in names) for site in self.cluster.config.sites]
        self.set_config(index, sites=tuple(filter(None, sites)), link_delays_us=())

    def set_timeout(self, index: int, timeout_s: float) -> None:
        """Set the time in a host's file after which a token is lost."""
        timing = attrs.evolve(self.cluster.config.timing, token_timeout_s=timeout_s)
        self.set_config(index, timing=timing)

    # ---- programs ----

    def label(self, identity: str) -> str:
        """Return a program's name in scenarios, by its identity."""
        return self._labels.get(identity, identity)

    def connect(self, user: str, daemon: int) -> None:
        """Start a program."""
        self.host(daemon)
        if user in self._clients and self._clients[user].alive:
            raise ScenarioFailed(f"{user} is connected already")
        count = self._sessions[user] = self._sessions.get(user, 0) + 1
        label = user if count == 1 else f"{user}/{count}"
        client = self._clients[user] = self.cluster.connect(user, daemon)
        self._labels[client.identity] = label
        self.transcript.enter(label)
        client.on_event = partial(self.transcript.add_event, label)

    def enter(self, user: str, daemon: int, group: str) -> None:
        """Start a program and have it join a group; done once it is a member."""
        self.connect(user, daemon)
        self._await(lambda: self.client(user).connected, f"{user} is not admitted")
        self.client(user).join(group)
        self._await(lambda: group in self.client(user).groups, f"{user} is not in {group}")

    def client(self, user: str) -> SimulatedClient:
        """Return a connected program."""
        client = self._clients.get(user)
        if client is None or not client.alive:
            raise ScenarioFailed(f"{user} is not connected")
        return client

    def ask(self, user: str, group: str, *, join: bool) -> None:
        """Have a program join or leave a group."""
        client = self.client(user)
        if join:
            client.join(group)
        else:
            client.leave(group)

    def send(
        self,
        user: str,
        groups: Sequence[str],
        level: ServiceLevel,
        text: str,
        *,
        size: int = 0,
        padding: str = PADDING,
        ordered: bool = False,
        discard: bool = False,
    ) -> None:
        """Have a program send a text, padded to a size."""
        client = self.client(user)
        if not client.connected:
            raise ScenarioFailed(f"{user} is not admitted yet")
        data = text.ljust(size, padding).encode()
        targets = [self.client(to[1:]).name if to[0] == "#" else to for to in groups]
        number = client.multicast(targets, data, level=level, ordered=ordered, self_discard=discard)
        self.transcript.texts[self._labels[client.identity], number] = text

    def load(self, user: str, groups: tuple[str, ...], level: ServiceLevel, every_us: int) -> None:
        """Have a program send again and again, until `end_loads` or its end."""
        self.client(user)
        self._loads[user] = (groups, level, every_us)
        self._send_load(user)

    def end_loads(self) -> None:
        """End the loads."""
        self._loads.clear()

    def _send_load(self, user: str) -> None:
        if user not in self._loads or not self._clients[user].alive:
            return
        groups, level, every_us = self._loads[user]
        if self._clients[user].writable:
            number = self._loaded[user] = self._loaded.get(user, 0) + 1
            self.send(user, groups, level, f"{LOAD}{number}")
        self.cluster.loop.at(self.cluster.loop.now + every_us, self._send_load, user)

    # ---- paths ----

    def cut(self, pairs: Sequence[Pair]) -> None:
        """Cut paths, once more if they are."""
        self._cuts += pairs
        self.cluster.network.cut(pairs)

    def mend(self, pairs: Sequence[Pair]) -> None:
        """Mend paths, however often they were cut."""
        mended = [pair for pair in self._cuts if pair in pairs]
        self._cuts = [pair for pair in self._cuts if pair not in pairs]
        self.cluster.network.mend(mended)

    def split(self, sides: Sequence[Sequence[int]]) -> None:
        """Cut all paths from one of these sets to another."""
        for one, other in combinations(sides, 2):
            self.cut([pair for a in one for b in other for pair in ((a, b), (b, a))])

    def rule(self, pairs: Sequence[Pair], rule: Rule) -> None:
        """Apply a rule to paths, to each of them on its own."""
        for pair in pairs:
            self.paths[pair].rules.append(attrs.evolve(rule))

    def mend_all(self) -> None:
        """Mend all paths, end all rules except those that hold packets back."""
        self.mend(list(self._cuts))
        for path in self.paths.values():
            path.end()

    # ---- the end ----

    def close(self) -> list[str]:
        """End all faults, settle, and check; return the violations."""
        cluster = self.cluster
        self.end_loads()
        core = self.core
        if core is None:
            core = tuple(host.index for host in cluster.daemons if host.process is not None)
        if self.healed and core:
            self._calm()
            cluster.heal(core)
            cluster.settle()
        self._checkers.finish()
        return [
            f"{found.property}: {found.text}"
            + "".join(f"\n    {readable(e)}" for e in found.events)
            for found in self._checkers.violations
        ]

    def _calm(self) -> None:
        self.mend_all()
        self.cluster.network.end_faults()
        for host in self.cluster.daemons:
            host.kill_clone()
            if host.process is not None:
                host.process.resume()
                host.process.probe.fuse = None
                host.process.sends_left = None
        for client in self._clients.values():
            if client.alive:
                client.set_reading(True)
