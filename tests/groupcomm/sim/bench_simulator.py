"""`make figures`: the speed of the simulator, the delays of each level, the speed of the checkers.

    python tests/groupcomm/sim/bench_simulator.py [--json FILE]

Delays are virtual and exact, the same on every machine. Speeds are in time of the processor, the
median of three. Exit status 1 says that a required figure is missed.
"""

import argparse
import os
import platform
import statistics
import sys
import time
from itertools import cycle
from pathlib import Path
from random import Random

import attrs
import msgspec

from groupcomm.level import LEVELS
from groupcomm.sim.settings import plain_settings
from tests.groupcomm.sim import bench_checkers
from tests.groupcomm.sim.checked_cluster import CheckedCluster
from tests.groupcomm.sim.stopwatch import BOUNDS, FIRST_BOUND, delays_after_silence, delays_of

RUNS = 3
LEAST_SPEED = 100.0
SIMULATED_S = 30.0
MULTICASTS_PER_S = 10
DELAYED_MESSAGES = 300
SEEDS = (1, 2, 3)
JUDGED_EVENTS = 100_000


@attrs.frozen
class Figure:
    """One measured number.

    Attributes:
        name: the measured quantity.
        value: its value.
        unit: the unit of value and bounds.
        least: the lower bound, or None.
        most: the upper bound, or None.
    """

    name: str
    value: float
    unit: str
    least: float | None = None
    most: float | None = None

    @property
    def missed(self) -> bool:
        """Return whether the figure is outside of its bounds."""
        too_low = self.least is not None and self.value < self.least
        too_high = self.most is not None and self.value > self.most
        return too_low or too_high

    def __str__(self) -> str:
        required = ""
        if self.least is not None:
            required = f"  required: at least {self.least:g}"
        elif self.most is not None:
            required = f"  required: at most {self.most:g}"
        return f"{self.name:40} {self.value:12,.3f} {self.unit:16}{required}" + (
            "  MISSED" if self.missed else ""
        )


def speed() -> float:
    """Simulated seconds per second of the processor: five daemons, light load, checked."""
    checked = CheckedCluster(plain_settings(daemons=5))
    cluster = checked.cluster
    members = checked.connect(5)
    for member in members:
        member.join("g")
    cluster.run(1.0)
    rng, levels = Random(1), cycle(LEVELS)
    started = time.process_time()
    for _ in range(int(SIMULATED_S * MULTICASTS_PER_S)):
        rng.choice(members).multicast(["g"], bytes(100), level=next(levels))
        cluster.run(1 / MULTICASTS_PER_S)
    took = time.process_time() - started
    checked.finish()
    return SIMULATED_S / took


def checking_speed() -> float:
    """Trace events checked per second of the processor."""
    events, took = bench_checkers.measure(JUDGED_EVENTS)
    return events / took


def speed_figures() -> list[Figure]:
    """Return the speed of the simulation of clusters, and of the checks of their traces."""
    return [
        Figure(
            "simulation, 5 daemons, 10 multicasts/s",
            statistics.median(speed() for _ in range(RUNS)),
            "x real time",
            least=LEAST_SPEED,
        ),
        Figure("checkers", statistics.median(checking_speed() for _ in range(RUNS)), "events/s"),
    ]


def delay_figures() -> list[Figure]:
    """Median and 99th percentile of every level, and the first AGREED message after silence."""
    figures: list[Figure] = []
    for level in LEVELS:
        delays = sorted(
            delay for seed in SEEDS for delay in delays_of(level, DELAYED_MESSAGES, seed)
        )
        name = f"{level.name} between rings"
        most = BOUNDS.get(level)
        figures.append(
            Figure(f"{name}, p50", statistics.median(delays), "one-way delays", most=most)
        )
        figures.append(Figure(f"{name}, p99", delays[len(delays) * 99 // 100], "one-way delays"))
    first = max(delay for seed in SEEDS for delay in delays_after_silence(seed))
    figures.append(
        Figure("first AGREED after silence, longest", first, "one-way delays", most=FIRST_BOUND)
    )
    return figures


def main() -> int:
    """Measure, print, and write if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    target: Path | None = parser.parse_args().json
    machine = (
        f"{platform.python_implementation()} {platform.python_version()}, {os.cpu_count()} cores"
    )
    print(machine)
    figures: list[Figure] = []
    for measure in (speed_figures, delay_figures):
        for figure in measure():
            print(figure, flush=True)
            figures.append(figure)
    if target is not None:
        report = {"machine": machine, "figures": [attrs.asdict(figure) for figure in figures]}
        target.write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    return int(any(figure.missed for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
