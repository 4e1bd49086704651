"""Loops over levels, losses and delays, and their results as text."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final

import attrs

from examples.common.stage import NAMES, Network, program, relayed
from examples.control.estimator import Tuning
from groupcomm.level import ServiceLevel
from groupcomm.sim.faults.faults import Faults
from groupcomm_tools.local_cluster import LocalCluster
from groupcomm_tools.pages.line_chart import Axis, Panel, draw

PROGRAMS: Final = ("plant", "estimator", "controller")
WARM_UP_S: Final = 1.0

Case = tuple[float, float, ServiceLevel]
"""A case: delay in milliseconds, loss as a share, level."""


@attrs.frozen(kw_only=True)
class Outcome:
    """The results of one loop, or the medians of several.

    Attributes:
        rms_mrad: the root of the mean square of the pole's angle from upright.
        age_p50_ms, age_p95_ms: the age of the measurement behind the command in force; infinite if
            no command came.
        at_stop_s: the time for which the pole leaned against a stop.
        views: the number of views of daemons that began in the counted time.
    """

    rms_mrad: float
    age_p50_ms: float
    age_p95_ms: float
    at_stop_s: float
    views: float


def outcome(report: Mapping[str, Any]) -> Outcome:
    """Return the results in the plant's report."""
    ages = sorted(report["ages_ms"]) or [float("inf")]
    return Outcome(
        rms_mrad=report["rms_mrad"],
        age_p50_ms=statistics.median(ages),
        age_p95_ms=ages[min(len(ages) - 1, len(ages) * 95 // 100)],
        at_stop_s=report["at_stop"] / 1000,
        views=report["views"],
    )


def median(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the median of each figure on its own."""
    rows = [attrs.asdict(each) for each in outcomes]
    return Outcome(**{name: statistics.median(row[name] for row in rows) for name in rows[0]})


@attrs.define(kw_only=True)
class Sweep:
    """A sweep over cases.

    Attributes:
        delays_ms: the one-way delays between any two daemons.
        losses: the probabilities that a datagram between two daemons is lost, 0 to 1.
        levels: the levels of all messages of a loop.
        seconds: the counted seconds of each loop.
        found: the outcomes of all rounds.
    """

    delays_ms: Sequence[float]
    losses: Sequence[float]
    levels: Sequence[ServiceLevel]
    seconds: float
    found: dict[Case, list[Outcome]] = attrs.field(factory=dict)

    async def round(self, seed: int) -> None:
        """Run every combination once.

        Args:
            seed: the seed of the losses.

        Raises:
            ConfigError: a loss or delay is out of its range.
            ClusterError: the daemons do not start.
            ProgramEnded: a program of a loop has failed.
        """
        for delay_ms in self.delays_ms:
            network = Network(delay_s=delay_ms / 1000, seed=seed, relayed=True)
            async with relayed(NAMES[: len(PROGRAMS)], network) as (cluster, relay):
                for loss in self.losses:
                    relay.suffer(Faults(loss=loss) if loss else None)
                    for level in self.levels:
                        report = await run_loop(cluster, level, self.seconds)
                        case = (delay_ms, loss, level)
                        self.found.setdefault(case, []).append(outcome(report))

    @property
    def medians(self) -> dict[Case, Outcome]:
        """Return the medians of all rounds."""
        return {case: median(outcomes) for case, outcomes in self.found.items()}


async def run_loop(
    cluster: LocalCluster,
    level: ServiceLevel,
    seconds: float,
    *,
    group: str = "",
    tuning: Tuning | None = None,
) -> Any:
    """Close the loop for some time; return the plant's report.

    Args:
        cluster: three daemons.
        level: the level of all messages.
        seconds: the seconds that count.
        group: the group of the loop; if it is empty, a new one.
        tuning: the tuning of the estimator.
    """
    group = group or f"pole-{time.monotonic_ns()}"
    tuning = tuning or Tuning()
    async with AsyncExitStack() as stack:
        programs = []
        for name, daemon in zip(PROGRAMS, cluster.daemons.values(), strict=True):
            where = ("--address", str(daemon.unix), "--group", group)
            how = (f"--ahead-s={tuning.ahead_s}", f"--clock-s={tuning.clock_s}")
            arguments = (*where, *how, "--level", level.name.lower())
            started = program("examples.control.programs", name, *arguments)
            programs.append(await stack.enter_async_context(started))
        for each in programs:
            await each.told()
        plant = programs[0]
        begin_s = time.monotonic() + WARM_UP_S
        await plant.tell((begin_s, begin_s + seconds))
        return await plant.told()


# ---- output ----


def as_text(found: Mapping[Case, Outcome]) -> str:
    """Return tables in Markdown: the error, and the age of the commands."""
    errors = table("error, mrad rms", found, lambda each: f"{each.rms_mrad:.0f}")
    ages = table(
        "age, ms: p50 / p95", found, lambda each: f"{each.age_p50_ms:.0f} / {each.age_p95_ms:.0f}"
    )
    return f"{errors}\n{ages}"


def table(title: str, found: Mapping[Case, Outcome], cell: Callable[[Outcome], str]) -> str:
    """Return a table with a row for each delay and loss, and a column for each level."""
    levels = list(dict.fromkeys(level for _, _, level in found))
    rows = dict.fromkeys((delay_ms, loss) for delay_ms, loss, _ in found)
    lines = [
        f"| {title} | loss | {' | '.join(level.name for level in levels)} |",
        "|---" * (len(levels) + 2) + "|",
    ]
    for delay_ms, loss in rows:
        cells = (cell(found[delay_ms, loss, level]) for level in levels)
        lines.append(f"| {delay_ms:g} ms | {loss:.0%} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def as_json(found: Mapping[Case, Outcome]) -> list[dict[str, Any]]:
    """Return all figures, for JSON."""
    return [
        {"delay_ms": delay_ms, "loss": loss, "level": level.name, **attrs.asdict(each)}
        for (delay_ms, loss, level), each in found.items()
    ]


def as_svg(found: Mapping[Case, Outcome]) -> str:
    """Return a chart of error against loss: a panel for each delay, a line for each level."""
    delays = sorted({delay_ms for delay_ms, _, _ in found})
    levels = sorted({level for _, _, level in found})
    panels = [
        Panel(
            title=f"{delay_ms:g} ms between daemons",
            x=Axis(label="datagrams lost (%)", least=0),
            y=Axis(label="error (mrad rms, logarithmic)", log=True, least=10, most=1000),
            lines={
                level.name: [
                    (loss * 100, each.rms_mrad)
                    for (delay, loss, its), each in sorted(found.items())
                    if (delay, its) == (delay_ms, level)
                ]
                for level in levels
            },
        )
        for delay_ms in delays
    ]
    return draw("A pole held upright over a group: error against loss, delay and level", panels)
