"""The cost of event loops for a lone message: bare relays with trio and without, and ours, in turn.

    python -m tests.verification.campaigns.peers.shells --daemons 1 --rounds 5
    python -m tests.verification.campaigns.peers.shells --ours old=../main --ours new=.,/bin/python3

Prints medians of all rounds, and medians of the ratios of single rounds to relays with trio; with
`--relays none` to the first of ours.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
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


def options_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Measure what event loops cost a lone message.")
    parser.add_argument("--daemons", type=int, default=3, metavar="N", help="(3)")
    parser.add_argument("--rate", type=float, default=200.0, metavar="R", help="(200)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="(3)")
    parser.add_argument("--duration-s", type=float, default=2.0, metavar="S", help="(2)")
    parser.add_argument(
        "--ours",
        action="append",
        default=[],
        metavar="NAME=FOLDER[,PYTHON]",
        help="daemons and programs of this checkout, with this interpreter; again for several",
    )
    parser.add_argument("--relays", choices=("all", "trio", "none"), default="all", help="(all)")
    parser.add_argument("--blocking", action="store_true", help="ours with blocking programs, too")
    parser.add_argument(
        "options", nargs="*", metavar="OPTION", help="behind --: of groupcomm bench, for ours"
    )
    return parser.parse_args(arguments)


def systems(options: argparse.Namespace, plan: Plan) -> dict[str, Callable[[], Measured]]:
    """Return the measurements of each round, by name."""
    found: dict[str, Callable[[], Measured]] = {}
    for name, modules in RELAYS.items():
        if options.relays == "all" or (options.relays == "trio" and name == BASE):
            found[name] = lambda modules=modules: measure_relays(plan, *modules)  # type: ignore[misc]
    for text in options.ours or ["ours=."]:
        name, _, where = text.partition("=")
        folder, _, python = where.partition(",")
        args = plan, Path(folder).resolve(), python or sys.executable, options.options
        found[name] = lambda args=args: measure_ours(*args)  # type: ignore[misc]
    if options.blocking:
        found["ours, programs: blocking"] = lambda: measure_blocking(plan)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure all in turn, and print the table."""
    options = options_of(arguments)
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
    return 0


if __name__ == "__main__":
    sys.exit(main())
