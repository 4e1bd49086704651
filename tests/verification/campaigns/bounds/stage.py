"""What all rows have in common: three daemons, a bystander, crowds, and what a load does."""

import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import attrs
import trio

from groupcomm.durations import quantile_s
from groupcomm_client import connect
from groupcomm_tools.bench.runs import cpu_s
from groupcomm_tools.local_cluster import LocalCluster, LocalDaemon
from tests.verification.campaigns.bounds.bystander import PATIENT, Bystander, Delays
from tests.verification.campaigns.memory import resident
from tests.verification.campaigns.programs import Program, until

NAMES: Final = "abc"
STAY: Final = "ab"
"""The daemons that no row kills; the bystander is there."""

KILLED: Final = "c"
PATIENCE_S: Final = 300.0
STEP_MS: Final = 10.0
"""The most that the p99.9 of a daemon's steps may be."""

NICE: Final = -10
"""That of groupcommd@.service."""

CALM_S: Final = 1.0
"""The time after the questions before a phase, which take a step themselves."""


@attrs.frozen(kw_only=True)
class Look:
    """One daemon at some moment.

    Attributes:
        views: the views that it has logged.
        rss: its bytes in memory.
        steps, busy_steps: the numbers of its steps, by their time, and by their work.
        long: the steps longer than 10 ms, by what took most of them.
        longest_ms, did: the longest step of late, and what it did.
    """

    views: int
    rss: int
    steps: list[int]
    busy_steps: list[int]
    long: Counter[str]
    longest_ms: float
    did: str


def prefer(daemon: LocalDaemon) -> int:
    """Have the host run a daemon before the programs, as its unit does; return its nice value.

    Only root may do that. Otherwise a step takes longer whenever a program has its processor.
    """
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, daemon.pid, NICE)
    return os.getpriority(os.PRIO_PROCESS, daemon.pid)


class Crowd:
    """A process with many programs; see crowd.py.

    Attributes:
        counts: its counts in its last answer.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self.counts: dict[str, int] = {}

    async def ask(self, do: str, **what: Any) -> dict[str, float]:
        """Ask it to do something; return its answer once that is done: seconds, and others."""
        program, answered = self._program, len(self._program.lines)
        await program.say(json.dumps({"do": do, **what}))
        await until(
            f"the crowd does {do}",
            lambda: len(program.lines) > answered or not program.running,
            PATIENCE_S,
        )
        found = program.lines[answered]
        self.counts = found.pop("counts")
        return found

    async def kill(self) -> None:
        """Kill the process, if it runs: the system closes all its sockets at once."""
        if self._program.running:
            await self._program.kill()


class Stage:
    """The daemons under one row's load.

    Attributes:
        cluster: the daemons.
        quiet, load: the delays of lone messages without the load and with it.
        figures: what the row tells besides.
        bars: the figures that have a bar, and the bar, which is the most.
    """

    def __init__(self, cluster: LocalCluster, scale: float, nursery: trio.Nursery) -> None:
        self.cluster = cluster
        self._scale = scale
        self._nursery = nursery
        self._bystander = Bystander()
        self._crowd: Crowd | None = None
        self.quiet: Delays | None = None
        self.load: Delays | None = None
        self.figures: dict[str, Any] = {"load_before": os.getloadavg()[0]}
        self.bars: dict[str, tuple[float, float]] = {}

    def scaled(self, count: int) -> int:
        """Return a number of programs or groups at the scale of this run."""
        return max(3, round(count * self._scale))

    def seconds(self, full_s: float) -> float:
        """Return a time at the scale of this run, half a second at least."""
        return max(0.5, full_s * self._scale)

    def addresses(self, names: Sequence[str] = NAMES) -> list[str]:
        """Return the addresses of daemons for programs."""
        return [str(self.cluster[name].unix) for name in names]

    def spread_addresses(self) -> list[str]:
        """Return the addresses of daemons for programs of Spread."""
        return [str(self.cluster[name].spread) for name in NAMES]

    def bar(self, name: str, figure: float, most: float) -> None:
        """Note a figure that has a bar."""
        self.bars[name] = round(figure, 3), most

    async def crowd(self, kind: str, count: int, addresses: Sequence[str]) -> Crowd:
        """Start a process with so many connected programs, of kind "own" or "spread"."""
        program = Program("tests.verification.campaigns.bounds.crowd", [kind])
        await program.start(self._nursery)
        crowd = self._crowd = Crowd(program)
        await crowd.ask("connect", count=count, addresses=addresses)
        return crowd

    async def end(self) -> None:
        """End the crowd."""
        if self._crowd is not None:
            await self._crowd.kill()

    def resident(self) -> dict[str, int]:
        """Return the bytes of each daemon that are in memory."""
        return {name: resident(self.cluster[name].pid) for name in NAMES}

    # ---- phases ----

    async def stay_quiet(self, seconds: float) -> None:
        """Measure lone messages for some time in which nothing else happens."""
        if self.quiet is None:
            await self._nursery.start(self._bystander.run, self.addresses(STAY))
        await trio.sleep(CALM_S)
        self._bystander.begin()
        await trio.sleep(seconds)
        self.quiet = await self._bystander.end()

    @asynccontextmanager
    async def loaded(self, views_due: int = 0) -> AsyncIterator[None]:
        """Measure lone messages, and daemons that live on, while the block puts load on them.

        Args:
            views_due: the views of daemons that the block causes; more are lost views.
        """
        before = await self._look_at_all()
        await trio.sleep(CALM_S)
        self._bystander.begin()
        used = {pid: cpu_s(pid) for pid in before}
        yield
        self.load = await self._bystander.end()
        living = used.keys() & {each.pid for each in self._running()}
        used_s = sum(cpu_s(pid) - used[pid] for pid in living)
        after = await self._look_at_all()
        pairs = [(before[pid], found) for pid, found in after.items() if pid in before]
        worst = max(after.values(), key=lambda each: each.longest_ms)
        self.figures |= {
            "cpu_s": round(used_s, 2),  # also for the messages of the bystander
            "rss_mb": round(max(each.rss for each in after.values()) / 1e6, 1),
            "longest_ms": worst.longest_ms,
            "did": worst.did,
            "long": dict(sum((b.long - a.long for a, b in pairs), Counter())),
        }
        self.bar("views_lost", max(b.views - a.views for a, b in pairs) - views_due, 0)
        self.bar("messages_missed", self.load.missed, 0)
        for name, counts in (
            ("step_p999_ms", [(a.steps, b.steps) for a, b in pairs]),
            ("busy_p999_ms", [(a.busy_steps, b.busy_steps) for a, b in pairs]),
        ):
            grown = [
                [n - m for n, m in zip(after, before, strict=True)] for before, after in counts
            ]
            self.bar(name, max(1000 * quantile_s(each, 0.999) for each in grown), STEP_MS)

    async def _look_at_all(self) -> dict[int, Look]:
        """Return what there is to see of each daemon that runs, by the number of its process."""
        return {daemon.pid: await self._look(daemon) for daemon in self._running()}

    def _running(self) -> list[LocalDaemon]:
        return [daemon for daemon in self.cluster.daemons.values() if daemon.running]

    async def _look(self, daemon: LocalDaemon) -> Look:
        async with connect(str(daemon.unix), options=PATIENT) as connection:
            loop = (await connection.ask("status"))["loop"]
        return Look(
            views=sum("daemons" in line for line in daemon.lines()),
            rss=resident(daemon.pid),
            steps=list(loop["steps"].values()),
            busy_steps=list(loop["busy_steps"].values()),
            long=Counter(loop["long"]),
            longest_ms=loop["longest_ms"],
            did=loop["did"],
        )

    def result(self) -> dict[str, Any]:
        """Return all figures, as plain values."""
        delays = {"quiet": self.quiet, "load": self.load}
        return {
            "scale": self._scale,
            **{name: found and attrs.asdict(found) for name, found in delays.items()},
            **self.figures,
            "counts": self._crowd.counts if self._crowd else {},
            "bars": self.bars,
            "missed": [name for name, (found, most) in self.bars.items() if found > most],
        }
