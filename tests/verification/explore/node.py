"""One daemon of an explored cluster, with its program and its disk."""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from types import MappingProxyType
from typing import Final, TypeAlias

import attrs
import msgspec

from groupcomm.clocks.ring_clock import PhysicalClock
from groupcomm.config.core import CoreConfig
from groupcomm.config.roster import Roster
from groupcomm.config.view import DaemonId, Incarnation, Start
from groupcomm.engine import (
    CoreOver,
    DaemonCore,
    Input,
    MarkStored,
    Output,
    ProgramSettings,
    Segmentation,
    Store,
    StoreMark,
    drive,
)
from groupcomm.membership.reservation import count_start
from groupcomm.names import cluster_number, daemon_number
from groupcomm.security.plain import PlainSealer
from groupcomm.session.daemon_session import SessionLimits
from groupcomm.trace.events import Boot, Fail, TraceEvent
from groupcomm.trace.recorders import TraceProbe
from tests.verification.explore.canonical import EPOCH
from tests.verification.explore.program import Act, Program

MOST_STARTS: Final = 4
BETWEEN_STARTS_US: Final = 2_400_000
"""More than a mark is ahead, and with all starts less than makes a number far ahead of time."""

_MOST_AT_ONCE: Final = 50


class FrozenClock(PhysicalClock):
    """A clock that stands still: stamps count events, so equal states have equal stamps."""

    __slots__ = ()

    def read(self, now: float) -> int:
        """Return the time at which exploration began."""
        return int(EPOCH)


@attrs.frozen
class Packet:
    """The content of a datagram.

    Attributes:
        source: the name of the daemon that sent it.
        start: the number of its start.
        restarts: the number of starts that it has counted.
        target: the name of the daemon that it is for; "" if it is for all others.
        for_one: whether it was sealed for one daemon.
        content: the packet.
    """

    source: str
    start: int
    restarts: int
    target: str
    for_one: bool
    content: bytes


@attrs.frozen
class Receive:
    """A datagram arrives."""

    packet: Packet


@attrs.frozen
class Wake:
    """The deadline is reached."""


@attrs.frozen
class DoAct:
    """A program does its next act.

    Attributes:
        program: its index at its daemon.
    """

    program: int


@attrs.frozen
class DiskStores:
    """The disk has stored what it was asked to."""


@attrs.frozen
class Crash:
    """The daemon is killed.

    Attributes:
        is_stored: whether the write that is under way has lasted.
        disk: "" if the disk keeps what it holds; "lost" if it is empty, "old" if it is as it was
            before the last start.
    """

    is_stored: bool
    disk: str = ""


@attrs.frozen
class Boots:
    """The daemon starts."""


NodeEvent: TypeAlias = Receive | Wake | DoAct | DiskStores | Crash | Boots


class Journal:
    """The clock and the events of one daemon."""

    def __init__(self) -> None:
        self.now = 0
        self.events: list[TraceEvent] = []
        self.history = b""

    def record(self, event: TraceEvent) -> None:
        """Record an event."""
        self.events.append(event)

    def pop(self) -> tuple[TraceEvent, ...]:
        """Remove and return the events, which the digest of the history then covers."""
        events, self.events = tuple(self.events), []
        if events:
            self.history = blake2b(
                self.history + msgspec.msgpack.encode(events), digest_size=16
            ).digest()
        return events


@attrs.frozen
class DiskContent:
    """The content of a daemon's disk.

    Attributes:
        restarts: the number of its starts.
        mark: the view counters that are reserved.
    """

    restarts: int = 0
    mark: int = 0


class Node:
    """One daemon of an explored cluster; a shell of its core.

    Args:
        name: the daemon.
        acts: the acts of each of its programs, by user: the first ones, and those after each
            further start of the daemon.
        mark: the view counters that its disk has reserved.
    """

    def __init__(
        self, name: str, acts: Mapping[str, tuple[Sequence[Act], Sequence[Act]]], mark: int
    ) -> None:
        self.name = name
        self.core: DaemonCore | None = None
        self.journal = Journal()
        self.programs = [
            Program(user, name, first, again, self.journal, self.journal.record)
            for user, (first, again) in acts.items()
        ]
        self.starts = 0
        self.disk = DiskContent(0, mark)
        self.before = self.disk  # what the disk held before the last start
        self.has_forgotten = False
        self.to_store: int | None = None
        self._given: dict[tuple[str, int], int] = {}  # datagrams, by sender and start
        self._sent: list[tuple[str | None, bytes]] = []
        self._inputs: list[Input] = []

    def step(
        self, event: NodeEvent, now: float, constants: "Constants"
    ) -> list[tuple[str | None, bytes]]:
        """Take one step; return the datagrams that are sent."""
        core = self.core
        match event:
            case Boots():
                self._boot(now, constants)
            case Crash(is_stored, disk):
                self._crash(disk, is_stored=is_stored)
            case Receive(packet):
                self._drive(now, [self._seal(packet, constants)])
            case Wake():
                self._drive(now, [])
            case DoAct(program):
                assert core is not None
                self._inputs += self.programs[program].act(core)
                self._drive(now, [])
            case DiskStores():
                assert self.to_store is not None
                self.disk = attrs.evolve(self.disk, mark=self.to_store)
                self.to_store = None
                self._inputs.append(MarkStored(self.disk.mark))
                self._drive(now, [])
        sent, self._sent = self._sent, []
        return sent

    def _seal(self, packet: Packet, constants: "Constants") -> bytes:
        """Return the datagram with a packet, and a counter that was not used."""
        start = packet.source, packet.start
        self._given[start] = self._given.get(start, 0) + 1
        source = constants.daemon(*start, packet.restarts)
        sealer = PlainSealer(
            constants.cluster, source.number, source.incarnation, self._given[start]
        )
        return sealer.seal(packet.content, daemon_number(self.name) if packet.for_one else None)

    def _boot(self, now: float, constants: "Constants") -> None:
        self.starts += 1
        self.before, restarts = self.disk, self.disk.restarts + 1
        incarnation = constants.daemon(self.name, self.starts, restarts).incarnation
        # Time stands still here, but between two starts some time has passed.
        reading = int(EPOCH) + (self.starts * BETWEEN_STARTS_US if self.has_forgotten else 0)
        used, mark = count_start(self.disk.mark, reading, incarnation.random_id)
        self.disk = DiskContent(restarts, mark)
        start = Start(name=self.name, incarnation=incarnation, counter=used, mark=mark)
        process = f"{self.name}/{self.starts}"
        text = f"{incarnation.restarts}.{incarnation.random_id:x}"
        self.journal.record(Boot(0, process, text))
        self._given = {}
        core = DaemonCore(
            constants.config,
            start,
            keys=None,
            now=now,
            wall=0.0,
            settings=constants.settings,
            probe=TraceProbe(self.journal, self.journal.record, process, constants.identities),
        )
        core.physical.__class__ = FrozenClock
        self.core = core

    def _crash(self, disk: str, *, is_stored: bool) -> None:
        self.journal.record(Fail(0, f"{self.name}/{self.starts}"))
        for program in self.programs:
            program.end()
        self.core = None
        if self.to_store is not None and is_stored:
            self.disk = attrs.evolve(self.disk, mark=self.to_store)
        self.to_store = None
        if disk:
            self.disk = self.before if disk == "old" else DiskContent()
            self.has_forgotten = True

    def _drive(self, now: float, datagrams: list[bytes]) -> None:
        core = self.core
        assert core is not None
        for _ in range(_MOST_AT_ONCE):
            inputs, self._inputs = self._inputs, []
            drive(core, self, now, datagrams, inputs)
            datagrams = []
            if not self._inputs and core.deadline > now:
                return
        raise AssertionError(f"{self.name} does not come to rest")

    # ---- duties of a step ----

    def use_roster(self, roster: Roster) -> None:
        """See Shell."""

    def use_near(self, near: frozenset[str]) -> None:
        """See Shell."""

    def use_segmentation(self, segmentation: Segmentation) -> None:
        """See Shell."""

    def store(self, wanted: Sequence[Store]) -> None:
        """See Shell."""
        for each in wanted:
            assert isinstance(each, StoreMark)
            self.to_store = each.mark

    def send(self, output: Output) -> bool:
        """See Shell."""
        self._sent += output.datagrams
        return True

    def serve(self, output: Output) -> None:
        """See Shell."""
        assert self.core is not None
        for program in self.programs:
            self._inputs += program.serve(self.core, output)

    def finish(self, over: CoreOver) -> None:
        """See Shell."""
        raise AssertionError(f"{self.name} ends: {over}")


class Constants:
    """What is the same in all states.

    Attributes:
        config: the configuration of all daemons.
        settings: the limits of all programs.
        apart: the pairs of daemons that never hear each other, by their places, the lower one
            first.
        names: the daemons.
        identities: the identities of all their starts.
        cluster: the number of the cluster.
        names_of: the names of these objects, by their id.
    """

    def __init__(
        self,
        config: CoreConfig,
        limits: SessionLimits,
        apart: Iterable[tuple[str, str]],
    ) -> None:
        self.config = config
        self.settings = ProgramSettings(limits=limits)
        places = {name: place for place, name in enumerate(config.daemons)}
        self.apart = frozenset((places[low], places[high]) for low, high in apart)
        self.names = config.daemons
        self._daemons = {
            (name, start, restarts): DaemonId(name, Incarnation(restarts, 1000 * place + start))
            for place, name in enumerate(self.names)
            for start in range(1, MOST_STARTS + 1)
            for restarts in range(1, start + 1)
        }
        self.identities = MappingProxyType(
            {daemon: f"{name}/{start}" for (name, start, _), daemon in self._daemons.items()}
        )
        self.cluster = cluster_number(config.cluster)
        self.objects: dict[str, object] = {
            "config": config,
            "limits": limits,
            "timing": config.timing,
            "windows": config.windows,
            "rekeying": config.rekeying,
            "starts": config.starts,
            "identities": self.identities,
            **{f"daemon {key}": daemon for key, daemon in self._daemons.items()},
        }
        self.names_of = {id(each): name for name, each in self.objects.items()}

    def daemon(self, name: str, start: int, restarts: int) -> DaemonId:
        """Return the identity of a start that has counted so many of them."""
        return self._daemons[name, start, restarts]
