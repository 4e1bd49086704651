"""Has it become slower? Figures by a yardstick, against the ratios that are written down.

Run by `make bench-check`, not by `make test`: it takes minutes, and checks by times. Exit status 1
if a figure is worse than its recorded spread allows, or a message was lost or wrong.
"""

import json
import statistics
from argparse import Namespace
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import trio

from groupcomm.host.option_types import whole_number
from groupcomm_tools.bench.figures import Figures, machine
from groupcomm_tools.bench.matrix import figure_of, rows_of
from groupcomm_tools.bench.plan import Plan
from groupcomm_tools.bench.runs import measure, open_daemons
from groupcomm_tools.terminal import say
from tests.verification.campaigns.guard.compare import (
    CHECK_ROUNDS,
    Verdict,
    as_json,
    compare,
    lines_of,
    too_wide,
)
from tests.verification.campaigns.guard.yardstick import chunks_per_s, datagrams_per_s, ping_us
from tests.verification.campaigns.runner import Found, campaign, option

RATIOS: Final = Path(__file__).with_name("ratios.json")
DURATION_S: Final = 1.5
RECORD_ROUNDS: Final = 7

YARDSTICKS: Final[Mapping[str, Callable[[], float]]] = {
    "three-100": partial(datagrams_per_s, 1_400),
    "three-1000": partial(datagrams_per_s, 60_000),
    "three-4000000": partial(datagrams_per_s, 60_000),
    "three-singly-100": partial(datagrams_per_s, 1_400),
    "one-unix-100": chunks_per_s,
    "delay-three-agreed": ping_us,
    "delay-one-unix-agreed": ping_us,
}
"""For each row of `groupcomm bench --matrix` its yardstick."""

DELAYS: Final = frozenset(name for name in YARDSTICKS if name.startswith("delay-"))

Ratios = dict[str, list[float]]


async def measure_ratios(names: Collection[str], rounds: int) -> tuple[Ratios, list[str]]:
    """Return the figures by their yardsticks, in rounds through all of them.

    Returns:
        Ratios of all rounds by figure, and in which runs messages were lost or wrong.
    """
    rows = {row.name: row for row in rows_of(DURATION_S)}
    ratios: Ratios = {name: [] for name in names}
    wrong = []
    for number in range(rounds):
        for name in names:
            plan, yardstick = rows[name].what, YARDSTICKS[name]
            assert isinstance(plan, Plan)
            before = await trio.to_thread.run_sync(yardstick)
            figures = await _measure(plan)
            after = await trio.to_thread.run_sync(yardstick)
            ratios[name].append(figure_of(figures) / statistics.mean((before, after)))
            told = f"round {number + 1} of {rounds}: {name} {figure_of(figures):,.0f}"
            say(f"{told}, by {(before + after) / 2:,.0f}")
            if not figures.is_right:
                wrong.append(f"{name}, round {number + 1}: messages lost, doubled or not as sent")
    return ratios, wrong


async def _measure(plan: Plan) -> Figures:
    async with open_daemons(plan) as (addresses, processes):
        return await measure(plan, addresses, processes)


def record(rounds: int) -> list[str]:
    """Measure and write the ratios down, unless messages were wrong; in which runs they were."""
    ratios, wrong = trio.run(measure_ratios, YARDSTICKS, rounds)
    if wrong:
        say("nothing was recorded")
        return wrong
    found = {
        "recorded": f"{datetime.now(UTC):%Y-%m-%d}",
        "machine": machine(),
        "ratios": {name: [float(f"{each:.4g}") for each in ratios[name]] for name in ratios},
    }
    RATIOS.write_text(json.dumps(found, indent=2) + "\n")
    if wide := too_wide(ratios):
        say(f"spread too much: {', '.join(wide)}; is the machine busy?")
    return []


def check(recorded: Mapping[str, Any], rounds: int) -> tuple[list[Verdict], list[str]]:
    """Measure and compare; measure figures that seem worse again, and check them by all their
    rounds."""
    ratios, wrong = trio.run(measure_ratios, YARDSTICKS, rounds)
    verdicts = compare(recorded["ratios"], ratios, DELAYS)
    if bad := [each.name for each in verdicts if not each.is_good]:
        say(f"again: {', '.join(bad)}")
        more, more_wrong = trio.run(measure_ratios, bad, rounds + 1)
        ratios = {name: ratios[name] + more.get(name, []) for name in ratios}
        verdicts = compare(recorded["ratios"], ratios, DELAYS)
        wrong += more_wrong
    return verdicts, wrong


@campaign(
    option("record", False, "write the ratios down instead"),
    option("rounds", type=whole_number(1), text=f"({CHECK_ROUNDS}, to record {RECORD_ROUNDS})"),
)
def run(options: Namespace) -> Found:
    """Measure, then compare and print the table, or record."""
    if options.record:
        return {"violations": record(options.rounds or RECORD_ROUNDS)}
    recorded = json.loads(RATIOS.read_text())
    verdicts, wrong = check(recorded, options.rounds or CHECK_ROUNDS)
    print(f"recorded {recorded['recorded']} on {recorded['machine']}")
    print("\n".join(lines_of(verdicts)))
    if recorded["machine"] != machine():
        say(f"this is another machine: {machine()}; record its own ratios")
    wrong += [f"{each.name} is worse, or not recorded" for each in verdicts if not each.is_good]
    told = {"machine": machine(), "recorded": recorded["recorded"]}
    return {**told, "figures": as_json(verdicts), "violations": wrong}
