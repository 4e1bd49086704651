"""One run of the vehicle: daemons, all modules as programs, and the results."""

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from examples.common.stage import Network, Program, open_daemons, program
from examples.vehicle.measure import Figures, Heard, figures
from examples.vehicle.table import BULK_MAP, LATE, Kind, Load, choose
from groupcomm_tools.local_cluster import LocalCluster, LocalDaemon

WARM_UP_S: Final = 1.0
SAME, OTHER = "same daemon", "other daemon"


Beside = Callable[[Mapping[str, str], list[str]], AbstractAsyncContextManager[None]]


@attrs.frozen(kw_only=True)
class Setup:
    """The setup of a run.

    Attributes:
        daemons: the number of daemons; modules are distributed over them in turn.
        network: the network between them.
        seconds: the seconds that count, after a second of warm-up.
        load: arguments of `table.choose`.
        beside: entered with the addresses of the daemons, by name, and the groups that there are;
            what else there is to be while the modules run. None for nothing.
    """

    daemons: int
    network: Network
    seconds: float
    load: Mapping[str, Any]
    beside: Beside | None = None


@attrs.frozen(kw_only=True)
class Row:
    """The results of one kind of message.

    Attributes:
        kind: its line of the table, as it was run.
        sent: messages, of all its senders.
        bytes: the bytes of these messages.
        skipped: periods that its senders came too late for.
        all: its figures.
        parts: the same for receivers at their sender's daemon, and at others.
    """

    kind: Kind
    sent: int
    bytes: int
    skipped: int
    all: Figures
    parts: dict[str, Figures]


@attrs.frozen(kw_only=True)
class Result:
    """The result of a run.

    Attributes:
        setup: what was run.
        rows: the rows in the order of the table.
        daemon_cpu: share of one processor that each daemon used, by name.
        maps_equal: whether all copies of the map are the map in the end, as far as they are whole;
            None without a map.
        maps_whole: how many are.
        late_whole_ms: from a newcomer's join until it had the map; None if nobody came.
        drained: whether all modules had got the last word of all senders.
    """

    setup: Setup
    rows: list[Row]
    daemon_cpu: dict[str, float]
    maps_equal: bool | None
    maps_whole: int
    late_whole_ms: float | None
    drained: bool


async def run_once(setup: Setup) -> Result:
    """Run a setup once.

    Raises:
        ConfigError: the setup cannot be run.
        ClusterError: the daemons do not start.
        ProgramEnded: a module has failed.
    """
    load = choose(**setup.load)
    async with open_daemons(setup.daemons, setup.network) as cluster:
        daemons = list(cluster.daemons.values())
        places = {name: daemons[i % len(daemons)] for i, name in enumerate(load.modules)}
        async with AsyncExitStack() as stack:
            if setup.beside is not None:
                addresses = {daemon.name: str(daemon.unix) for daemon in daemons}
                groups = sorted({kind.group for kind in load.kinds})
                await stack.enter_async_context(setup.beside(addresses, groups))
            programs = {
                name: await stack.enter_async_context(_module(name, daemon, setup))
                for name, daemon in places.items()
            }
            for each in programs.values():
                await each.told()
            cpu_s = await _measure_cpu(cluster, programs, setup)
            reports = {name: await each.told() for name, each in programs.items()}
    share = {name: used / setup.seconds for name, used in cpu_s.items()}
    return evaluate(setup, load, {n: d.name for n, d in places.items()}, reports, share)


def _module(name: str, daemon: LocalDaemon, setup: Setup) -> AbstractAsyncContextManager[Program]:
    return program(
        "examples.vehicle.modules",
        name,
        *("--address", str(daemon.unix), "--load", json.dumps(dict(setup.load))),
    )


async def _measure_cpu(
    cluster: LocalCluster, programs: Mapping[str, Program], setup: Setup
) -> dict[str, float]:
    """Run the programs; return the processor seconds of each daemon in the counted time."""
    now_ns = time.monotonic_ns()
    start_ns = now_ns + round(WARM_UP_S * 1e9)
    window = {
        "start_ns": start_ns,
        "end_ns": start_ns + round(setup.seconds * 1e9),
        "offset_ns": time.time_ns() - now_ns,
    }
    for each in programs.values():
        await each.tell(window)
    await trio.sleep(WARM_UP_S)
    before = {name: cpu_s(daemon.pid) for name, daemon in cluster.daemons.items()}
    await trio.sleep(setup.seconds)
    return {name: cpu_s(d.pid) - before[name] for name, d in cluster.daemons.items()}


def cpu_s(pid: int) -> float:
    """Return the processor seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# ---- results ----


def evaluate(
    setup: Setup,
    load: Load,
    places: Mapping[str, str],
    reports: Mapping[str, Any],
    daemon_cpu: dict[str, float],
) -> Result:
    """Combine the modules' reports.

    Args:
        setup: what was run.
        load: the kinds.
        places: the daemon of each module.
        reports: the report of each module.
        daemon_cpu: shares of a processor.
    """
    maps = [report["map"] for report in reports.values() if "map" in report]
    copies = [report["copy"] for report in reports.values() if report.get("copy")]
    late = [r["late_whole_ms"] for r in reports.values() if "late_whole_ms" in r]
    return Result(
        setup=setup,
        rows=[_row(kind, places, reports) for kind in load.kinds],
        daemon_cpu=daemon_cpu,
        maps_equal=all(copy == maps[0] for copy in copies) if maps else None,
        maps_whole=len(copies),
        late_whole_ms=late[0] if late else None,
        drained=all(report["drained"] for report in reports.values()),
    )


def _row(kind: Kind, places: Mapping[str, str], reports: Mapping[str, Any]) -> Row:
    heard: dict[str, list[Heard]] = {SAME: [], OTHER: []}
    sent = [reports[sender]["sent"][kind.name] for sender in kind.senders]
    for sender, told in zip(kind.senders, sent, strict=True):
        for receiver in kind.receivers:
            pairs = reports[receiver]["received"].get(kind.name, {}).get(sender, [])
            where = SAME if places[sender] == places[receiver] else OTHER
            heard[where].append(_heard(kind, receiver, told, dict(pairs)))
    return Row(
        kind=kind,
        sent=sum(told["last"] - told["first"] + 1 for told in sent),
        bytes=sum(told["bytes"] for told in sent),
        skipped=sum(told.get("skipped", 0) for told in sent),
        all=figures([*heard[SAME], *heard[OTHER]]),
        parts={where: figures(parts) for where, parts in heard.items()},
    )


def _heard(kind: Kind, receiver: str, told: Mapping[str, int], delays: dict[int, int]) -> Heard:
    """Return the messages of a receiver; for a latecomer, from the first message on."""
    first, last = told["first"], told["last"]
    if (receiver, kind.group) == (LATE, BULK_MAP):
        first = max(first, min(delays, default=last + 1))
    return Heard(first=first, last=last, delays_us=delays)
