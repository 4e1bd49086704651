"""The loop on the network and on a model of it: what is predicted, and what is measured.

For each network: three daemons with a relay between them, a loop at each level, recorded at all
daemons; `groupcomm spark channel` fits a model to the logs, and the same loops run on the model in
virtual time. Then again with an estimator that tells the state at which the push will act, as the
model foresees it; and, at the level of the first column, with clocks that differ.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from examples.common.command import new_parser, run
from examples.common.stage import NAMES, Network, relayed
from examples.control.__main__ import ALL_LEVELS, level_of, numbers
from examples.control.estimator import Tuning
from examples.control.on_model import VirtualLoop
from examples.control.sweep import PROGRAMS, Outcome, median, outcome, run_loop
from groupcomm.errors import ConfigError, GroupCommError
from groupcomm.level import ServiceLevel
from groupcomm.sim.faults.faults import Faults
from groupcomm_log.channel import ChannelModel
from groupcomm_tools.local_cluster import LocalCluster
from groupcomm_tools.pages.line_chart import Axis, Panel, draw
from groupcomm_tools.recording.recorder_process import recorded

EPILOG = """\
example: python -m examples.control.compare --networks 10:0.05 --levels unreliable,fifo
exit status: 0 done, 1 failed, 2 usage, 130 stopped"""

SEEDS: Final = 9
"""Runs on the model, of which the median counts."""

WAYS_AFTER_ESTIMATE: Final = 2
"""From the estimator to the motor."""


@attrs.frozen(kw_only=True)
class Case:
    """One loop.

    Attributes:
        network: the network as text: milliseconds of delay, and the share of datagrams lost.
        level: the level of all messages.
        tuning: the tuning of the estimator.
    """

    network: str
    level: ServiceLevel
    tuning: Tuning = attrs.field(factory=Tuning)


@attrs.frozen(kw_only=True)
class Pair:
    """The figures of a loop that a model predicts, and those that are measured."""

    predicted: Outcome
    measured: Outcome


def make_parser() -> argparse.ArgumentParser:
    """Return the parser with all options."""
    parser = new_parser("control.compare", __doc__, EPILOG)
    add = parser.add_argument
    add(
        "--networks",
        default="0:0,10:0,10:0.05,40:0.05",
        metavar="MS:LOSS,...",
        help="(%(default)s)",
    )
    add("--levels", default=ALL_LEVELS, metavar="L,...", help="service levels (all six)")
    add("--clocks-ms", default="", metavar="C,...", help="the estimator's clock ahead by (none)")
    add("--ahead", action="store_true", help="again, with the state at which the push will act")
    add("--seconds", type=float, default=5.0, metavar="S", help="of each loop (5)")
    add("--rounds", type=int, default=2, metavar="N", help="of each network; medians (2)")
    add("--to", type=Path, metavar="DIR", help="keep the models here")
    add("--json", action="store_true", help="one line of JSON instead of the tables")
    add("--chart", type=Path, metavar="FILE.svg", help="write a picture")
    return parser


def parse_networks(text: str) -> dict[str, tuple[float, float]]:
    """Return delay (ms) and loss of each network, by how it is written.

    Raises:
        ConfigError: the text says something else.
    """
    found = {}
    for word in text.split(","):
        values = numbers("--networks", word.replace(":", ","))
        if len(values) != 2 or values[1] > 1:
            raise ConfigError(f"--networks has {word!r}; write MILLISECONDS:LOSS, loss 0 to 1")
        found[word] = (values[0], values[1])
    return found


def predict(model: ChannelModel, case: Case, seconds: float) -> Outcome:
    """Return the median of several runs on a model."""
    return median(
        [
            outcome(VirtualLoop(model, case.level.name, case.tuning, seed).run(seconds))
            for seed in range(SEEDS)
        ]
    )


def ahead_of(model: ChannelModel, level: ServiceLevel) -> float:
    """Return the time from an estimate to the push that it causes, as a model foresees it."""
    delays = model.channel(level.name).delays
    return 0.0 if delays is None else WAYS_AFTER_ESTIMATE * delays.at(0.0)


async def measure(
    network: tuple[float, float], cases: Sequence[Case], options: argparse.Namespace, logs: Path
) -> dict[Case, Outcome]:
    """Run loops on a network; return the medians of the rounds.

    Args:
        network: delay in milliseconds, and the share of datagrams lost.
        cases: the loops.
        options: seconds and rounds.
        logs: folder for the logs.
    """
    delay_ms, loss = network
    seen: dict[Case, list[Outcome]] = {case: [] for case in cases}
    through = Network(delay_s=delay_ms / 1000, seed=1, relayed=True)
    async with relayed(NAMES[: len(PROGRAMS)], through) as (cluster, relay):
        relay.suffer(Faults(loss=loss) if loss else None)
        addresses = {name: str(daemon.unix) for name, daemon in cluster.daemons.items()}
        groups = [f"pole-{case.level.name.lower()}" for case in cases]
        async with recorded(addresses, sorted(set(groups)), logs):
            await _rounds(cluster, seen, options)
    return {case: median(outcomes) for case, outcomes in seen.items()}


async def _rounds(
    cluster: LocalCluster, seen: Mapping[Case, list[Outcome]], options: argparse.Namespace
) -> None:
    for _ in range(options.rounds):
        for case, outcomes in seen.items():
            group = f"pole-{case.level.name.lower()}"
            report = await run_loop(
                cluster, case.level, options.seconds, group=group, tuning=case.tuning
            )
            outcomes.append(outcome(report))


async def fit(logs: Path, out: Path) -> ChannelModel:
    """Fit a model to logs, in a process of its own.

    Raises:
        GroupCommError: it has failed.
    """
    folders = [str(logs / name) for name in NAMES[: len(PROGRAMS)]]
    command = [sys.executable, "-m", "groupcomm_tools.cli", "spark", "channel", *folders]
    done = await trio.run_process(
        [*command, "--quiet", "--sent-at", "0", "--output", str(out)],
        capture_stdout=True,
        check=False,
    )
    if done.returncode:
        raise GroupCommError(f"groupcomm spark channel ended with status {done.returncode}")
    print(f"{out.stem}:\n{done.stdout.decode()}", file=sys.stderr, flush=True)
    return ChannelModel.load(out)


async def compare(options: argparse.Namespace, folder: Path) -> dict[Case, Pair]:
    """Run everything; return what is predicted and measured of each loop."""
    levels = [level_of(name) for name in options.levels.split(",")]
    clocks_s = [ms / 1000 for ms in numbers_with_sign(options.clocks_ms)]
    found: dict[Case, Pair] = {}
    for name, network in parse_networks(options.networks).items():
        plain = [Case(network=name, level=level) for level in levels]
        run_all = partial(_compare_on, network, options, folder)
        pairs, model = await run_all(plain, name)
        found |= pairs
        tuned = [attrs.evolve(plain[0], tuning=Tuning(clock_s=clock_s)) for clock_s in clocks_s]
        if options.ahead:
            tuned += [
                attrs.evolve(case, tuning=Tuning(ahead_s=round(ahead_of(model, case.level), 4)))
                for case in plain
            ]
        if tuned:
            pairs, _ = await run_all(tuned, f"{name}-tuned")
            found |= pairs
        print(as_text(found), file=sys.stderr, flush=True)
    return found


async def _compare_on(
    network: tuple[float, float],
    options: argparse.Namespace,
    folder: Path,
    cases: Sequence[Case],
    name: str,
) -> tuple[dict[Case, Pair], ChannelModel]:
    """Run loops on a network and on the model of what they met there."""
    name = name.replace(":", "-")
    measured = await measure(network, cases, options, folder / f"logs-{name}")
    model = await fit(folder / f"logs-{name}", folder / f"model-{name}.json")
    pairs = {}
    for case, value in measured.items():
        predicted = await trio.to_thread.run_sync(predict, model, case, options.seconds)
        pairs[case] = Pair(predicted=predicted, measured=value)
    return pairs, model


def numbers_with_sign(text: str) -> list[float]:
    """Return numbers with commas between them; none of an empty text.

    Raises:
        ConfigError: they are none.
    """
    try:
        return [float(each) for each in text.split(",") if each]
    except ValueError:
        raise ConfigError(
            f"--clocks-ms is {text!r}; write numbers with commas between them"
        ) from None


# ---- what is told ----


def as_text(found: Mapping[Case, Pair]) -> str:
    """Return a table in the form that documents have."""
    lines = [
        "| network, ms : loss | level | estimator | error, mrad rms: predicted | measured"
        " | age p50 / p95, ms: predicted | measured |",
        "|---" * 7 + "|",
    ]
    for case, pair in found.items():
        one, other = pair.predicted, pair.measured
        lines.append(
            f"| {case.network} | {case.level.name} | {_describe(case.tuning)}"
            f" | {one.rms_mrad:.0f} | {other.rms_mrad:.0f} | {_ages(one)} | {_ages(other)} |"
        )
    return "\n".join([*lines, ""])


def _describe(tuning: Tuning) -> str:
    if tuning.ahead_s:
        return f"{tuning.ahead_s * 1000:.0f} ms ahead"
    return f"clock {tuning.clock_s * 1000:+.0f} ms" if tuning.clock_s else "as it is"


def _ages(one: Outcome) -> str:
    return f"{one.age_p50_ms:.0f} / {one.age_p95_ms:.0f}"


def as_json(found: Mapping[Case, Pair]) -> list[dict[str, Any]]:
    """Return all figures."""
    return [
        {
            **{"network": case.network, "level": case.level.name},
            **attrs.asdict(case.tuning),
            **attrs.asdict(pair),
        }
        for case, pair in found.items()
    ]


def as_svg(found: Mapping[Case, Pair]) -> str:
    """Return a picture: predicted against measured error, and the same of the age; each level has
    its colour, a point for each network.
    """
    plain = {case: pair for case, pair in found.items() if case.tuning == Tuning()}
    return draw(
        "A loop on a model of the network, and on the network",
        [
            _panel(plain, "error (mrad rms)", "rms_mrad", 10, 1000),
            _panel(plain, "age of what is acted upon (ms, median)", "age_p50_ms", 10, 10_000),
        ],
    )


def _panel(found: Mapping[Case, Pair], title: str, name: str, low: float, high: float) -> Panel:
    lines: dict[str, list[tuple[float, float]]] = {}
    for case, pair in found.items():
        point = (getattr(pair.predicted, name), getattr(pair.measured, name))
        lines.setdefault(case.level.name, []).append(point)
    return Panel(
        title=title,
        x=Axis(label="predicted (logarithmic)", log=True, least=low, most=high),
        y=Axis(label="measured (logarithmic)", log=True, least=low, most=high),
        lines={**{k: sorted(v) for k, v in lines.items()}, "equal": [(low, low), (high, high)]},
    )


async def command(options: argparse.Namespace) -> int:
    """Run the comparison, and print its results."""
    for name in ("seconds", "rounds"):
        if getattr(options, name) <= 0:
            raise ConfigError(f"--{name} is {getattr(options, name)}; it must be above 0")
    with tempfile.TemporaryDirectory(prefix="groupcomm-") as temporary:
        found = await compare(options, Path(temporary))
        if options.to is not None:
            options.to.mkdir(parents=True, exist_ok=True)
            for model in Path(temporary).glob("model-*.json"):
                (options.to / model.name).write_bytes(model.read_bytes())
    if options.chart is not None:
        options.chart.write_text(as_svg(found))
    print(json.dumps(as_json(found)) if options.json else as_text(found), flush=True)
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison; return its exit status."""
    options = make_parser().parse_args(arguments)
    return run("control.compare", partial(command, options))


if __name__ == "__main__":
    sys.exit(main())
