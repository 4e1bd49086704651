"""The cost of event loops for a lone message: bare relays with trio and without, and ours, in turn.

    python -m tests.verification.campaigns peers.shells --daemons 1 --rounds 5
    python -m tests.verification.campaigns peers.shells --ours old=../main --ours new=.,/bin/python3

Prints medians of all rounds, and medians of the ratios of single rounds to relays with trio; with
`--relays none` to the first of ours.
"""

import json
import os
import shlex
import statistics
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeAlias

import trio

from groupcomm.errors import GroupCommError
from groupcomm_tools.bench.bare import MODULE as TRIO
from groupcomm_tools.bench.bare import floor_us
from groupcomm_tools.bench.figures import machine
from groupcomm_tools.bench.plan import Plan
from groupcomm_tools.bench.runs import measure_programs, open_daemons
from tests.verification.campaigns.peers.launching import Programs
from tests.verification.campaigns.peers.plain_relays import MODULE as PLAIN
from tests.verification.campaigns.runner import Found, campaign, option

RELAYS: Final = {
    "relays: trio, programs: trio": (TRIO, TRIO),
    "relays: epoll, programs: trio": (PLAIN, TRIO),
    "relays: epoll, programs: blocking": (PLAIN, PLAIN),
}
BASE: Final = "relays: trio, programs: trio"
BLOCKING: Final = "tests.verification.campaigns.peers.ours_blocking"
ROOTS: Final = (".", "clients", "daemon")

Measured: TypeAlias = tuple[float, float, float]
"""p50 and p99 in microseconds, and the processors that daemons used."""


def measure_relays(plan: Plan, relays: str, programs: str) -> Measured:
    """Measure bare relays."""
    delays = trio.run(floor_us, plan, relays, programs)
    return delays[len(delays) // 2], delays[len(delays) * 99 // 100], 0.0


def measure_ours(plan: Plan, folder: Path, python: str, options: Sequence[str]) -> Measured:
    """Measure the daemons and programs of a checkout, with an interpreter."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(str(folder / root) for root in ROOTS)}
    words = ["--daemons", str(plan.daemons), "--receivers", str(plan.receivers), *options]
    words += ["--rate", f"{plan.rate:g}", "--duration-s", f"{plan.duration_s:g}", "--json"]
    command = [*python.split(), "-m", "groupcomm_tools.cli", "bench", *words]
    done = subprocess.run(command, env=env, cwd=folder, stdout=subprocess.PIPE, check=True)
    found = json.loads(done.stdout)
    return found["delay_p50_us"], found["delay_p99_us"], found["cpu_daemons"]


async def _blocking(plan: Plan) -> Measured:
    with TemporaryDirectory(prefix="groupcomm-") as folder:
        async with open_daemons(plan) as (addresses, pids):
            programs = Programs(BLOCKING, addresses, Path(folder))
            figures = await measure_programs(plan, *programs(plan), pids)
    if not figures.is_right:
        raise GroupCommError("messages to blocking programs were lost or changed")
    assert figures.delay_p50_us is not None
    assert figures.delay_p99_us is not None
    return figures.delay_p50_us, figures.delay_p99_us, figures.cpu_daemons


def measure_blocking(plan: Plan) -> Measured:
    """Measure our daemons with programs that wait in calls."""
    return trio.run(_blocking, plan)


def table(found: Mapping[str, Sequence[Measured]]) -> str:
    """Return medians, and ratios to the relays with trio, or to the first if there are none."""
    lines = [f"{'':<36}{'p50 us':>9}{'p99 us':>9}{'daemons':>9}{'ratio':>8}  of single rounds"]
    first = next(iter(found.values()))
    for name, rounds in found.items():
        middle = [statistics.median(values) for values in zip(*rounds, strict=True)]
        pairs = zip(rounds, found.get(BASE, first), strict=True)
        ratios = [each[0] / base[0] for each, base in pairs]
        shown = " ".join(f"{ratio:.2f}" for ratio in ratios)
        figures = f"{middle[0]:>9,.0f}{middle[1]:>9,.0f}{middle[2]:>9.2f}"
        lines.append(f"{name:<36}{figures}{statistics.median(ratios):>8.2f}  {shown}")
    return "\n".join(lines)


def systems(options: Namespace, plan: Plan) -> dict[str, Callable[[], Measured]]:
    """Return the measurements of each round, by name."""
    found: dict[str, Callable[[], Measured]] = {}
    for name, modules in RELAYS.items():
        if options.relays == "all" or (options.relays == "trio" and name == BASE):
            found[name] = lambda modules=modules: measure_relays(plan, *modules)  # type: ignore[misc]
    for text in options.ours:
        name, _, where = text.partition("=")
        folder, _, python = where.partition(",")
        args = plan, Path(folder).resolve(), python or sys.executable, shlex.split(options.bench)
        found[name] = lambda args=args: measure_ours(*args)  # type: ignore[misc]
    if options.blocking:
        found["ours, programs: blocking"] = lambda: measure_blocking(plan)
    return found


@campaign(
    option("daemons", 3),
    option("rate", 200.0),
    option("rounds", 3),
    option("duration_s", 2.0),
    option(
        "ours",
        ("ours=.",),
        "NAME=FOLDER[,PYTHON]: daemons and programs of these checkouts, with this interpreter",
    ),
    option("relays", "all", choices=("all", "trio", "none")),
    option("blocking", False, "ours with blocking programs, too"),
    option("bench", "", "options of groupcomm bench, for ours, behind ="),
)
def run(options: Namespace) -> Found:
    """Measure all in turn, and print the table."""
    plan = Plan(
        daemons=options.daemons,
        receivers=options.daemons,
        rate=options.rate,
        duration_s=options.duration_s,
    )
    found: dict[str, list[Measured]] = {}
    for _ in range(options.rounds):
        for name, measure in systems(options, plan).items():
            found.setdefault(name, []).append(measure())
    print(machine())
    print(f"{plan.daemons} daemons, {plan.receivers} receivers, {plan.rate:g}/s")
    print(table(found))
    return {"machine": machine(), "rounds": found, "violations": []}
