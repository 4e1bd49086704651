"""Two hosts, or two sites, and a witness, in virtual time: what each fault, and each two, leave.

A program at each daemon but the witness sends AGREED messages all the time. A part *goes on* if its
programs get them in a view that may act. docs/votes.md has the table that follows.
"""

from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import Final, TypeAlias

import attrs

from groupcomm.clocks.stamp import ViewId
from groupcomm.events import Connected, DaemonView, Event, Message
from groupcomm.level import ServiceLevel
from groupcomm.sim.cluster.clients import SimulatedClient
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.cluster.disk import Ailment, Damage
from groupcomm.sim.settings import plain_settings
from groupcomm.sim.virtual_time import SECOND, microseconds

PARTS: Final = ("one", "other", "witness")
HOSTS: Final = ((0,), (1,), (2,))
SITES: Final = ((0, 1), (2, 3), (4,))
"""The daemons of each part, by index."""

SEND_S: Final = 0.04
LOOK_S: Final = 0.01
CALM_S: Final = 1.0
"""The time before a fault."""

WATCHED_S: Final = 4.0
"""The time after the last fault in which it is watched who goes on."""

SLOW_STEP: Final = 500
SLOW_DISK_S: Final = 0.5
LOSSY: Final = 0.2

Where: TypeAlias = tuple[str, ...]


@attrs.frozen
class Fault:
    """A fault of one part, or of the network between two.

    Attributes:
        kind: what happens.
        where: the part, or the two.
    """

    kind: str
    where: Where

    def __str__(self) -> str:
        return f"{self.kind} {' - '.join(self.where)}"


OF_HOSTS: Final = (
    "killed",
    "stopped",
    "slow",
    "disk hung",
    "disk slow",
    "disk full",
    "disk lost",
)
OF_LINKS: Final = ("cut", "lossy")

FAULTS: Final = (
    *(Fault(kind, (part,)) for kind in OF_HOSTS for part in PARTS),
    *(Fault(kind, two) for kind in OF_LINKS for two in combinations(PARTS, 2)),
)


LOST: Final = ("killed", "stopped")
UNWRITTEN: Final = ("disk hung", "disk full")


@attrs.frozen
class Outcome:
    """What some faults have left.

    Attributes:
        going_on: the parts whose programs went on, in order.
        outage_s: how long none of their programs went on, at most.
    """

    going_on: Where
    outage_s: float


@attrs.frozen
class Row:
    """A row of the table: faults with which the same follows.

    Attributes:
        faults: which; at most.
        going_on: whose programs go on.
        hosts_s, sites_s: how long none of these do, at most.
    """

    faults: str
    going_on: str
    hosts_s: float
    sites_s: float


ROWS: Final = {
    "harmless": Row(
        "A processor is slow, a disk hangs, is slow or full, or the network between two loses 20 %:"
        " one of this, or two",
        "of all",
        0.2,
        0.2,
    ),
    "cut": Row("The network between two is cut", "of all; of two hosts by turns", 0.8, 0.8),
    "restarted": Row(
        "One is killed and starts at once, with an empty disk; or two are", "of all", 1.2, 1.2
    ),
    "restarted and cut": Row(
        "The same, and the network between two is cut",
        "of all; of two hosts by turns",
        2.2,
        2.2,
    ),
    "left out": Row(
        "One starts with an empty disk, while the disk of another hangs or is full",
        "of all; but of that other one only if a view needs nothing of its disk",
        0.8,
        0.8,
    ),
    "lost": Row("One is killed or stands still", "of the other two", 0.7, 0.7),
    "two cuts": Row(
        "Two of the three networks are cut", "of those two that hear each other", 0.8, 0.8
    ),
    "lost and cut": Row(
        "One is killed or stands still, and its network to another is cut",
        "of the other two",
        0.7,
        0.7,
    ),
    "cut apart": Row(
        "One is killed or stands still, and the other two are cut from each other",
        "nobody's",
        0.0,
        0.0,
    ),
    "two lost": Row("Two are killed or stand still", "nobody's", 0.0, 0.0),
}
"""The table, by what `row_of` returns."""


def row_of(faults: Sequence[Fault]) -> str:
    """Return the row of one fault, or of two."""
    kinds = [fault.kind for fault in faults]
    lost = [fault.where for fault in faults if fault.kind in LOST]
    cuts = [fault.where for fault in faults if fault.kind == "cut"]
    if len(lost) == 2:
        return "two lost"
    if lost and cuts:
        return "lost and cut" if lost[0][0] in cuts[0] else "cut apart"
    if lost:
        return "lost"
    if len(cuts) == 2:
        return "two cuts"
    if "disk lost" in kinds and cuts:
        return "restarted and cut"
    if "disk lost" in kinds:
        return "left out" if set(kinds) & set(UNWRITTEN) else "restarted"
    return "cut" if cuts else "harmless"


def may_be_left_out(faults: Sequence[Fault]) -> Where:
    """Return the parts that may be left out as their disks do not write."""
    if row_of(faults) != "left out":
        return ()
    return tuple(fault.where[0] for fault in faults if fault.kind in UNWRITTEN)


def those_that_go_on(faults: Sequence[Fault]) -> Where:
    """Return the parts whose programs go on, unless they are left out."""
    out = {fault.where[0] for fault in faults if fault.kind in LOST}
    cuts = [set(fault.where) for fault in faults if fault.kind == "cut"]
    there = [part for part in PARTS if part not in out]

    def hears_another(part: str) -> bool:
        return any(other != part and {part, other} not in cuts for other in there)

    return tuple(part for part in PARTS[:2] if part in there and hears_another(part))


def check_outcome(faults: Sequence[Fault], outcome: Outcome, within_s: float) -> None:
    """Check who goes on, and how long nobody did."""
    wanted, spared = set(those_that_go_on(faults)), set(may_be_left_out(faults))
    assert wanted - spared <= set(outcome.going_on) <= wanted, outcome
    assert outcome.outage_s <= within_s, outcome


class Witnessed:
    """A cluster of three parts, and its programs.

    Args:
        parts: the daemons of each part.
        sites: whether each part is a site of its own.
    """

    def __init__(self, parts: Sequence[Sequence[int]], seed: int = 1) -> None:
        apart = len(parts[0]) > 1
        sizes = [len(part) for part in parts]
        settings = plain_settings(daemons=sizes if apart else sum(sizes), seed=seed, delay_s=0.005)
        self.parts = dict(zip(PARTS, parts, strict=True))
        self.cluster = Cluster(settings)
        self.times: dict[str, list[float]] = {part: [] for part in PARTS}
        self.acting: dict[ViewId, frozenset[str]] = {}
        self._may_act: dict[int, bool] = {}
        self._count = 0
        self._clients: dict[int, SimulatedClient] = {}
        for part in PARTS[:2]:
            for index in self.parts[part]:
                self._connect(index)
        self._look()

    @property
    def now_s(self) -> float:
        return self.cluster.loop.now / SECOND

    def _connect(self, index: int) -> None:
        self._count += 1
        client = self._clients[index] = self.cluster.connect(f"p{self._count}", index)
        part = next(part for part, indices in self.parts.items() if index in indices)
        name = client.user.encode()

        def on_event(event: Event) -> None:
            if isinstance(event, Connected):
                client.join("g")
                self.cluster.loop.at(self.cluster.loop.now, self._send, client)
            elif isinstance(event, DaemonView):
                self._may_act[index] = bool(event.majority)
                if event.majority:
                    self.acting.setdefault(event.id, frozenset(event.daemons))
            elif isinstance(event, Message) and event.data == name and self._may_act[index]:
                self.times[part].append(self.now_s)

        client.on_event = on_event

    def _look(self) -> None:
        """Note the views of all, as the witness has no programs; connect those of a new start."""
        for index, client in self._clients.items():
            if not client.alive and self.cluster.daemons[index].is_up:
                self._connect(index)
        for host in self.cluster.daemons:
            state = host.core.view_state if host.is_up else None
            if state is not None and state.majority:
                names = frozenset(daemon.name for daemon in state.view.daemons)
                self.acting.setdefault(state.view.id, names)
        self.cluster.loop.at(
            self.cluster.loop.now + microseconds(LOOK_S), lambda _: self._look(), None
        )

    def _send(self, client: SimulatedClient) -> None:
        if client.alive and client.writable:
            client.multicast(["g"], client.user.encode(), level=ServiceLevel.AGREED)
        if client.alive:
            self.cluster.loop.at(self.cluster.loop.now + microseconds(SEND_S), self._send, client)

    def inject(self, fault: Fault) -> None:
        """Let a fault begin."""
        if len(fault.where) == 2:
            one, other = (self.parts[part] for part in fault.where)
            pairs = [pair for a in one for b in other for pair in ((a, b), (b, a))]
            if fault.kind == "cut":
                self.cluster.network.cut(pairs)
            else:
                for source, target in pairs:
                    self.cluster.network.paths[source, target].thin(LOSSY)
            return
        for index in self.parts[fault.where[0]]:
            self._ail(index, fault.kind)

    def _ail(self, index: int, kind: str) -> None:
        host = self.cluster.daemons[index]
        match kind:
            case "killed":
                host.kill()
            case "stopped" if host.process is not None:
                host.process.pause(self.cluster.loop.now + microseconds(3600.0))
            case "slow":
                host.set_step(SLOW_STEP)
            case "disk hung":
                host.disk.ail(Ailment.HUNG)
            case "disk slow":
                host.disk.ail(Ailment.SLOW, microseconds(SLOW_DISK_S))
            case "disk full":
                host.disk.ail(Ailment.FULL)
            case _:  # it is started at once, without its disk
                host.kill()
                host.damage_disk(Damage.LOST)
                host.boot()

    def outcome(self, faults: Sequence[Fault], apart_s: float = 0.0) -> Outcome:
        """Let faults begin, one some time after the other; return who goes on then."""
        self.cluster.run(CALM_S)
        for number, fault in enumerate(faults):
            if number:
                self.cluster.run(apart_s)
            began_s = self.now_s
            self.inject(fault)
        self.cluster.run(WATCHED_S)
        late = self.now_s - WATCHED_S / 4
        going_on = tuple(p for p in PARTS if any(at > late for at in self.times[p]))
        times = sorted(at for part in going_on for at in self.times[part] if at > began_s)
        gaps = [after - before for before, after in pairwise([began_s, *times])]
        return Outcome(going_on, max(gaps, default=0.0))

    def check(self) -> None:
        """Check that each view that acted shares a daemon with the one before: never two sides did.

        Views that acted have rising counters, as `Q3` says.
        """
        for (_, one), (_, other) in pairwise(sorted(self.acting.items())):
            assert one & other, f"{sorted(one)} acted, and then {sorted(other)}"
