"""Starts and ends of daemons on a busy machine: is a healthy member ever parted from the others?

    python -m tests.verification.campaigns busy_starts --rounds 100 --burners 2

Real daemons run beside processes that each burn a core, at the same priority. In each round one
daemon is killed or leaves, in turn, and starts again; programs at daemons that never stop send SAFE
messages meanwhile. A member of a view that has not stopped must be in the transitional view of
every other one that comes from it: the traces of all daemons show the *partings*, the transitional
views without one. Programs at daemons that never stop must get the same SAFE messages. Ends with a
line of JSON.
"""

import os
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import attrs
import trio

from groupcomm.errors import GroupCommError
from groupcomm.host.trace_file import now_us
from groupcomm.level import ServiceLevel
from groupcomm.trace.events import Boot, Conf, TraceEvent
from groupcomm_client import Connection, connect
from groupcomm_tools.local_cluster import LocalCluster
from tests.verification.campaigns.programs import until
from tests.verification.campaigns.runner import Found, campaign, option
from tests.verification.campaigns.traces import read_event

BURNER: Final = Path(__file__).with_name("burner.py")
GROUP: Final = "g"
WITHIN_S: Final = 60.0
PAUSE_S: Final = 0.3
"""The time between two changes."""


@attrs.frozen
class Parting:
    """A transitional view that lacks a daemon which had not stopped.

    Attributes:
        at_us: its time.
        at: the daemon that installed it, by identity.
        old: the view that ended.
        lacking: the healthy daemons that are not in it.
    """

    at_us: int
    at: str
    old: str
    lacking: tuple[str, ...]


@attrs.define
class Figures:
    """The results so far; times in seconds.

    Attributes:
        rounds: how often a daemon has ended and started again.
        transitional: the number of transitional views at all daemons.
        partings: those that lack a healthy daemon.
        starts_s: from the start of a daemon, as it listens, to the view of all.
        ends_s: from the end of a daemon to the view of the others.
        sent: the SAFE messages that programs have sent.
        violations: what must not be.
    """

    rounds: int = 0
    transitional: int = 0
    partings: list[Parting] = attrs.field(factory=list)
    starts_s: list[float] = attrs.field(factory=list)
    ends_s: list[float] = attrs.field(factory=list)
    sent: int = 0
    violations: list[str] = attrs.field(factory=list)


def find_partings(
    traces: Sequence[Sequence[TraceEvent]], ended_us: Mapping[str, int]
) -> tuple[int, list[Parting]]:
    """Return the number of transitional views, and those that lack a healthy daemon.

    Args:
        traces: the events of each daemon.
        ended_us: when a start of a daemon was told to end, by its identity; others never were.
    """
    events = [event for trace in traces for event in trace if isinstance(event, Conf)]
    members = {
        event.view: {each for ring in event.rings for each in ring}
        for event in events
        if event.kind == "R"
    }
    transitional = [event for event in events if event.kind == "T"]
    partings = []
    for event in transitional:
        together = {each for ring in event.rings for each in ring}
        lacking = {
            each
            for each in members[event.old] - together
            if ended_us.get(each, event.t + 1) > event.t
        }
        if lacking and event.t < ended_us.get(event.p, event.t + 1):
            partings.append(Parting(event.t, event.p, event.old, tuple(sorted(lacking))))
    return len(transitional), partings


def read_traces(folder: Path) -> list[list[TraceEvent]]:
    """Return the events of each daemon's trace; a last line that a kill has cut off is left out."""
    found = []
    for path in sorted(folder.glob("*.jsonl")):
        lines = path.read_bytes().splitlines()
        found.append([event for event in map(read_event, lines) if event is not None])
    return found


@contextmanager
def burning(count: int) -> Iterator[None]:
    """Have processes burn a core each while the block runs."""
    with ExitStack() as stack:
        for _ in range(count):
            command = [sys.executable, str(BURNER), "1"]
            burner = stack.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
            )
            stack.callback(burner.kill)
        yield


class Campaign:
    """One cluster, of which some daemons end and start again in turn.

    Args:
        cluster: its daemons, which run.
        options: `steady`, `rounds` and `rate`.
    """

    def __init__(self, cluster: LocalCluster, options: Namespace) -> None:
        self._cluster = cluster
        self._options = options
        names = sorted(cluster.daemons)
        self._steady, self._victims = names[: options.steady], names[options.steady :]
        self._starts = dict.fromkeys(names, 1)
        self._got: dict[str, list[bytes]] = {name: [] for name in self._steady}
        self._over = False
        self.ended_us: dict[str, int] = {}
        self.figures = Figures()

    async def run(self) -> None:
        """Do all rounds, then compare what the programs have received."""
        async with trio.open_nursery() as nursery:
            for name in self._steady:
                await nursery.start(self._program, name)
            for number in range(self._options.rounds):
                name = self._victims[number % len(self._victims)]
                await self._round(name, is_killed=number % 4 < 2)
                self.figures.rounds += 1
            self._over = True
            await trio.sleep(2 * PAUSE_S)
            await until("programs have the last messages", self._have_the_same, 10.0)
            nursery.cancel_scope.cancel()

    async def _round(self, name: str, *, is_killed: bool) -> None:
        daemon, others = self._cluster[name], sorted(self._cluster.daemons.keys() - {name})
        self.ended_us[f"{name}/{self._starts[name]}"] = now_us()
        begun = time.monotonic()
        if is_killed:
            daemon.kill()
        else:
            await daemon.leave()
        await self._cluster.settle(others, WITHIN_S)
        self.figures.ends_s.append(time.monotonic() - begun)
        await trio.sleep(PAUSE_S)
        self._starts[name] += 1
        await daemon.start(WITHIN_S)
        begun = time.monotonic()
        await self._cluster.settle([*others, name], WITHIN_S)
        self.figures.starts_s.append(time.monotonic() - begun)
        await trio.sleep(PAUSE_S)

    async def _program(self, name: str, task_status: trio.TaskStatus[None]) -> None:
        """Send SAFE messages at a daemon, and note all that come."""
        async with connect(str(self._cluster[name].unix), user=f"p{name}") as connection:
            await connection.join(GROUP)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._send, connection, name)
                task_status.started()
                async for message in connection.messages():
                    self._got[name].append(message.data)

    async def _send(self, connection: Connection, name: str) -> None:
        number = 0
        while not self._over:
            await connection.multicast(GROUP, f"{name} {number}".encode(), level=ServiceLevel.SAFE)
            number += 1
            self.figures.sent += 1
            await trio.sleep(1 / self._options.rate)

    def _have_the_same(self) -> bool:
        """Return whether all programs have the same messages since all of them have joined."""
        first = self._got[self._steady[-1]][:1]
        cut = [got[got.index(first[0]) :] for got in self._got.values() if first[0] in got]
        return len(cut) == len(self._got) and all(got == cut[0] for got in cut)


async def start_and_end(traces: Path, options: Namespace) -> Figures:
    """Run the campaign; return the results.

    Args:
        traces: an empty folder for traces.
        options: those of `run`.
    """
    names = [f"d{number}" for number in range(options.daemons)]
    async with LocalCluster(names, options=("--trace", str(traces))) as cluster:
        await cluster.settle(names, WITHIN_S)
        campaign = Campaign(cluster, options)
        figures = campaign.figures
        with burning(options.burners):
            try:
                await campaign.run()
            except* GroupCommError as errors:
                figures.violations += [str(error) for error in errors.exceptions]
        for daemon in cluster.daemons.values():
            daemon.stop()
        read = read_traces(traces)
        booted = {event.p for trace in read for event in trace if isinstance(event, Boot)}
        ended_us: dict[str, int] = {}
        for start, at_us in campaign.ended_us.items():
            found = {each for each in booted if each == start or each.startswith(f"{start}.")}
            if len(found) != 1:
                figures.violations.append(f"no one trace of {start}: {sorted(found)}")
            ended_us |= dict.fromkeys(found, at_us)
        figures.transitional, figures.partings = find_partings(read, ended_us)
    return figures


@campaign(
    option("daemons", 5),
    option("steady", 3, "daemons that never stop"),
    option("rounds", 100, "restarts"),
    option("burners", 2, "burnt cores"),
    option("rate", 20.0, "messages a second of each"),
    option("traces", text="keep the traces in this folder, which is empty"),
)
async def run(options: Namespace) -> Found:
    """Run it; no healthy member may be parted, and no message be lost."""
    with tempfile.TemporaryDirectory(prefix="busy-") as folder:
        figures = await start_and_end(Path(options.traces or folder), options)
    return {
        "rounds": figures.rounds,
        "load": round(os.getloadavg()[0], 1),
        "transitional": figures.transitional,
        "longest_start_s": round(max(figures.starts_s, default=0.0), 2),
        "longest_end_s": round(max(figures.ends_s, default=0.0), 2),
        "sent": figures.sent,
        "violations": [*figures.violations, *(f"parted: {each}" for each in figures.partings)],
    }
