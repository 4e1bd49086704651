"""Junk at the ports of daemons: its effect on the view, and on the delays of the load.

    python -m tests.verification.campaigns junk --rate 100000 --half-open 10000 --duration-s 20

Three sealed daemons and a modest load of AGREED messages. In each round they are left alone
(quiet), then get junk datagrams and half-open connections (junk), and then share the host with a
process that has nothing to do with them and uses as much of the processors as the junk did, at both
of its ends (burner). So the comparison is not between a busy host and an idle one.

Checked: no view changes, no message is lost, the rate was kept, and the 95th percentile of the
delays under junk is at most BAR times that beside the burner, by the median of the rounds.
"""

import json
import statistics
from argparse import Namespace
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from groupcomm_client import ConnectOptions, connect
from groupcomm_tools.bench.figures import Figures
from groupcomm_tools.bench.plan import Plan
from groupcomm_tools.bench.runs import cpu_s, measure
from groupcomm_tools.local_cluster import LocalCluster
from groupcomm_tools.terminal import say
from groupcommd.config.config_file import read_addresses
from tests.verification.campaigns.junk_made import Address, capture, write_captured
from tests.verification.campaigns.programs import PATIENCE_S, Program, until
from tests.verification.campaigns.runner import Found, campaign, option

BAR: Final = 1.5
RATE_KEPT: Final = 0.95
"""The share of the requested junk that must have been sent."""

NAMES: Final = ("alfa", "bravo", "charlie")
PHASES: Final = ("quiet", "junk", "burner")
LOAD: Final = 200.0
"""Messages a second."""

CAPTURED: Final = 200
"""Datagrams for each daemon, to copy and to change."""


@attrs.frozen(kw_only=True)
class Phase:
    """The results of one phase of one round.

    Attributes:
        figures: the figures of the load.
        views, causes: the views that daemons have installed, and their causes.
        cpu_daemons, cpu_others: the use of processors, in units of one; the latter by the
            disturbers.
        received, rejected: the datagrams at the daemons, the latter by reason.
        dropped: datagrams that the system had no room for, or filtered.
        told: the reports of the disturbers.
        seconds: the time that it took, with its start and end.
    """

    figures: Figures
    views: int
    causes: dict[str, int]
    cpu_daemons: float
    cpu_others: float
    received: int
    rejected: dict[str, int]
    dropped: int
    told: dict[str, Any]
    seconds: float


Round = dict[str, Phase]


@attrs.frozen(kw_only=True)
class Seen:
    """Counters of all daemons, as they are at one time; see `Phase`."""

    views: int = 0
    causes: Counter[str] = attrs.field(factory=Counter)
    received: int = 0
    rejected: Counter[str] = attrs.field(factory=Counter)
    dropped: int = 0


class Stage:
    """The daemons, and their disturbers."""

    def __init__(self, cluster: LocalCluster, folder: Path, options: Namespace) -> None:
        self._cluster = cluster
        self._captured = folder / "captured.json"
        self._options = options
        found = read_addresses(cluster.config)
        self._udp: list[Address] = [(found[name].host, found[name].port) for name in NAMES]
        self._daemons = [cluster[name] for name in NAMES]
        self._seen = Seen()
        self.is_root = True

    async def play(self, nursery: trio.Nursery) -> Round:
        """Return one round."""
        self._seen = await self._look()
        quiet = await self._phase([], nursery)
        junk = await self._phase(self._attackers(), nursery)
        share = junk.cpu_others + max(0.0, junk.cpu_daemons - quiet.cpu_daemons)
        return {"quiet": quiet, "junk": junk, "burner": await self._phase(burners(share), nursery)}

    def addresses(self) -> list[str]:
        """Return the addresses for the load's programs."""
        return [str(daemon.unix) for daemon in self._daemons]

    def _attackers(self) -> list[Program]:
        options, tcp = self._options, [daemon.tcp for daemon in self._daemons]
        attackers = []
        if options.rate:
            rate = options.rate / options.processes
            command = [str(rate), str(self._captured), str(options.spoofed)]
            attackers += [
                Program("tests.verification.campaigns.junk_sender", command)
                for _ in range(options.processes)
            ]
        if options.half_open:
            command = [str(options.half_open), json.dumps(tcp)]
            attackers.append(Program("tests.verification.campaigns.half_open", command))
        return attackers

    async def _phase(self, others: Sequence[Program], nursery: trio.Nursery) -> Phase:
        for other in others:
            await other.start(nursery)
            await until("it has begun", lambda other=other: bool(other.lines))  # type: ignore[misc]
        began, cpu = trio.current_time(), self._cpu(others)
        duration_s = self._options.duration_s
        plan = Plan(rate=LOAD, duration_s=duration_s, warm_up_s=min(1.0, duration_s))
        async with trio.open_nursery() as inner:
            if not others:
                inner.start_soon(self._capture)
            figures = await measure(
                plan, self.addresses(), [daemon.pid for daemon in self._daemons]
            )
        seconds = trio.current_time() - began
        used = [now - then for now, then in zip(self._cpu(others), cpu, strict=True)]
        for other in others:
            await other.end()
        before, self._seen = self._seen, await self._look()
        return Phase(
            figures=figures,
            views=self._seen.views - before.views,
            causes=dict(self._seen.causes - before.causes),
            cpu_daemons=used[0] / seconds,
            cpu_others=used[1] / seconds,
            received=self._seen.received - before.received,
            rejected=dict(self._seen.rejected - before.rejected),
            dropped=self._seen.dropped - before.dropped,
            told=reported_by(others),
            seconds=seconds,
        )

    def _cpu(self, others: Sequence[Program]) -> tuple[float, float]:
        """Return the processor seconds of daemons, and of their disturbers."""
        return sum(cpu_s(each.pid) for each in self._daemons), sum(cpu_s(o.pid) for o in others)

    async def _look(self) -> Seen:
        datagrams = []
        for daemon in self._daemons:
            async with connect(
                str(daemon.unix), options=ConnectOptions(timeout_s=PATIENCE_S)
            ) as connection:
                datagrams.append((await connection.ask("status"))["datagrams"])
        lines = [line for daemon in self._daemons for line in daemon.lines() if "daemons" in line]
        return Seen(
            views=len(lines),
            causes=Counter(cause for line in lines for cause in line["cause"]),
            received=sum(each["received"] for each in datagrams),
            rejected=sum((Counter(each["rejected"]) for each in datagrams), Counter()),
            dropped=dropped(self._udp),
        )

    async def _capture(self) -> None:
        """Capture the datagrams between daemons while the load runs."""
        try:
            found = await trio.to_thread.run_sync(capture, self._udp, CAPTURED, 10.0)
        except PermissionError:
            self.is_root = False
            found = {address: [] for address in self._udp}
        write_captured(self._captured, found)


def burners(share: float) -> list[Program]:
    """Start processes that use this much together, in units of one processor."""
    count = max(1, -int(-share // 1))
    return [
        Program("tests.verification.campaigns.burner", [str(share / count)]) for _ in range(count)
    ]


def reported_by(others: Sequence[Program]) -> dict[str, Any]:
    """Return the reports of the disturbers, with numbers of the same name added."""
    found: dict[str, Any] = {}
    for line in (line for other in others for line in other.lines):
        for name, value in line.items():
            found[name] = found[name] + value if isinstance(found.get(name), int) else value
    return found


def dropped(addresses: Sequence[Address]) -> int:
    """Datagrams that the system has dropped at sockets of these addresses."""
    ports = {port for _, port in addresses}
    lines = Path("/proc/net/udp").read_text().splitlines()[1:]
    return sum(
        int(fields[-1])
        for fields in map(str.split, lines)
        if int(fields[1].rpartition(":")[2], 16) in ports
    )


def check(rounds: Sequence[Round], rate: float) -> dict[str, Any]:
    """Return the results, and the violated expectations.

    Args:
        rounds: the rounds, at least one.
        rate: the requested junk datagrams a second.
    """
    wrong = []
    for name in PHASES:
        phases = [each[name] for each in rounds]
        if views := sum(phase.views for phase in phases):
            wrong.append(f"{name}: {views} views were installed")
        if not all(phase.figures.is_right for phase in phases):
            wrong.append(f"{name}: messages were lost, doubled or out of order")
    ratios = [p95(each["junk"]) / p95(each["burner"]) for each in rounds]
    ratio = statistics.median(ratios)
    if ratio > BAR:
        wrong.append(f"p95 under junk is {ratio:.2f} times that beside the burner: above {BAR}")
    sent = [each["junk"].told.get("sent", 0) / each["junk"].seconds for each in rounds]
    if statistics.median(sent) < RATE_KEPT * rate:
        wrong.append(f"only {statistics.median(sent):,.0f} junk datagrams a second were sent")
    return {
        "ratio_p95": round(ratio, 3),
        "ratios_p95": [round(each, 3) for each in ratios],
        "junk_per_s": round(statistics.median(sent)),
        "phases": {name: summary([each[name] for each in rounds]) for name in PHASES},
        "violations": wrong,
    }


def p95(phase: Phase) -> float:
    """Microseconds; inf if nothing came."""
    return phase.figures.delay_p95_us or float("inf")


def summary(phases: Sequence[Phase]) -> dict[str, Any]:
    """Return medians of delays and processors, sums of counts."""
    delays = ("delay_p50_us", "delay_p95_us", "delay_p99_us", "delay_max_us")
    middle = {
        name: round(statistics.median(getattr(phase.figures, name) or 0.0 for phase in phases))
        for name in delays
    }
    told: Counter[str] = Counter()
    for phase in phases:
        told.update({name: n for name, n in phase.told.items() if isinstance(n, int)})
    return {
        **middle,
        "views": sum(phase.views for phase in phases),
        "causes": dict(sum((Counter(phase.causes) for phase in phases), Counter())),
        "cpu_daemons": round(statistics.median(phase.cpu_daemons for phase in phases), 3),
        "cpu_others": round(statistics.median(phase.cpu_others for phase in phases), 3),
        "received": sum(phase.received for phase in phases),
        "rejected": dict(sum((Counter(phase.rejected) for phase in phases), Counter())),
        "dropped": sum(phase.dropped for phase in phases),
        "told": dict(told),
    }


@asynccontextmanager
async def open_stage(options: Namespace) -> AsyncIterator[Stage]:
    """Yield daemons in one view, with the timings of a network."""
    policy = 'slow_receivers = "block"'
    async with LocalCluster(NAMES, clients=policy, tcp=True) as cluster:
        await cluster.settle(NAMES)
        yield Stage(cluster, cluster.folder, options)


@campaign(
    option("rate", 100_000.0, "datagrams a second, of all"),
    option("processes", 1, "that send them"),
    option("spoofed", False, "as if daemons had sent them; root"),
    option("half_open", 10_000, "connections, of all"),
    option("duration_s", 20.0, "of each phase"),
    option("rounds", 3),
)
async def run(options: Namespace) -> Found:
    """Run it; return the results."""
    rounds: list[Round] = []
    async with open_stage(options) as stage, trio.open_nursery() as nursery:
        for number in range(options.rounds):
            rounds.append(await stage.play(nursery))
            found = check(rounds[-1:], options.rate)
            say(f"{number + 1} of {options.rounds}: p95 x {found['ratio_p95']}")
        nursery.cancel_scope.cancel()
    return {"copies": stage.is_root, **check(rounds, options.rate)}
