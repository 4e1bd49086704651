"""`groupcomm simulate`: clusters in virtual time, with faults, verified by the checkers."""

import argparse
import json
import os
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

import attrs

from groupcomm.errors import ConfigError
from groupcomm.host.option_types import natural, one_or_more, positive
from groupcomm.sim.faults.faults import FAULT_NAMES
from groupcomm.sim.run import RunResult, run_seed
from groupcomm.sim.settings import MAX_DAEMONS, Options
from groupcomm_tools.campaign import Progress, Totals, replay_command, run_campaign
from groupcomm_tools.commands.simulate_plan import (
    STOPPED,
    add_plan_options,
    refuse_for_plan,
    refuse_without_topology,
    run_plan,
)
from groupcomm_tools.terminal import say
from groupcomm_tools.traces.text import readable

EXAMPLE: Final = "groupcomm simulate --daemons 5 --seeds 1:20 --faults loss,storm"

SHOWN_FAILURES = 3


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    _add_what_runs(parser)
    _add_how_it_runs(parser)
    add_plan_options(parser)


def _add_what_runs(parser: argparse.ArgumentParser) -> None:
    faults = ", ".join(FAULT_NAMES)
    parser.add_argument(
        "--daemons",
        type=one_or_more,
        metavar="N",
        help=f"1 to {MAX_DAEMONS} in all; drawn for each seed if absent",
    )
    parser.add_argument(
        "--sites",
        "--rings",
        type=one_or_more,
        metavar="S",
        help="if absent 1 for most seeds, otherwise 2 to 4, rarely up to 8 (--rings is the older"
        " name of this option)",
    )
    parser.add_argument(
        "--seeds",
        type=parse_seeds,
        default=range(1, 2),
        metavar="A:B",
        help="the runs: seeds A to B, both included, or one seed (default: 1)",
    )
    parser.add_argument(
        "--faults",
        default="all",
        metavar="all|none|NAME,...",
        help="all: each with probability 1/2; every: the last two as well; or names:"
        f" {faults} (default: all)",
    )
    parser.add_argument(
        "--duration-s",
        type=positive,
        default=10.0,
        metavar="T",
        help="simulated seconds of load and faults for each seed (default: 10)",
    )
    parser.add_argument(
        "--suite",
        type=natural,
        metavar="N",
        help="protection of datagrams: 0 a checksum, 1 a seal, 2 a seal and identities of daemons"
        " (default: 0 or 1, drawn for each seed)",
    )


def _add_how_it_runs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trace", type=Path, metavar="FILE", help="write everything that happened as JSON lines"
    )
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    parser.add_argument(
        "--workers",
        type=one_or_more,
        default=os.cpu_count() or 1,
        metavar="N",
        help="processes that share the seeds (default: one for each processor)",
    )
    parser.add_argument(
        "--progress-s",
        type=positive,
        default=5.0,
        metavar="T",
        help="seconds between lines of progress on standard error (default: 5)",
    )


def parse_seeds(text: str) -> range:
    """Return the seeds of ``A:B`` or ``A``, both ends included."""
    first, colon, last = text.partition(":")
    try:
        seeds = range(int(first), int(last if colon else first) + 1)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form A:B, as in 1:20") from None
    if not seeds:
        raise argparse.ArgumentTypeError(f"{text!r} holds no seed: A must not be above B")
    return seeds


class RunSeed(Protocol):
    """A function that runs one seed, and writes its trace."""

    def __call__(
        self, seed: int, options: Options, write: Callable[[bytes], object] | None = None
    ) -> RunResult:
        """Run one seed."""


def run(options: argparse.Namespace) -> int:
    """Run all seeds; return 0 if every property holds in every run. With --topology, run a plan."""
    if options.topology is not None:
        refuse_for_plan(options, add_options)
        return run_plan(options)
    refuse_without_topology(options)
    return run_all(options, Options(**run_options(options)), run_seed, replay_command)


def run_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of `Options`, as they were given."""
    return {name: getattr(options, name) for name in attrs.fields_dict(Options)}


def run_all(
    options: argparse.Namespace,
    chosen: Options,
    run_one: RunSeed,
    again: Callable[[int, Options], str],
) -> int:
    """Run all seeds, and print what happened; return 0 if every property holds in every run.

    Args:
        options: which seeds, how they run, and what is printed.
        chosen: the options of all runs.
        run_one: runs a seed.
        again: returns the command that repeats the run of a seed.
    """
    if options.trace is not None and len(options.seeds) > 1:
        raise ConfigError("--trace writes the trace of one run: give one seed, as in --seeds 7")
    if options.workers < 1:
        raise ConfigError(f"--workers is {options.workers}; it must be at least 1")
    totals, started = Totals(), time.monotonic()
    stopped = False
    try:
        if options.trace is None:
            _run_all(options, chosen, totals, run_one, None)
        else:
            with options.trace.open("wb") as file:
                _run_all(options, chosen, totals, run_one, file.write)
    except KeyboardInterrupt:
        stopped = True
        say("stopped; so far:")
    for result in totals.failed[:SHOWN_FAILURES]:
        show_failure(result, again(result.settings.seed, chosen))
    _show_totals(totals, time.monotonic() - started, options.json)
    if stopped:
        return STOPPED
    return 1 if totals.failed else 0


def _run_all(
    options: argparse.Namespace,
    chosen: Options,
    totals: Totals,
    run_one: RunSeed,
    write: Callable[[bytes], object] | None,
) -> None:
    progress = Progress(len(options.seeds), options.progress_s)
    run = partial(run_one, write=write)  # with a trace there is one seed, run in this process
    results = run_campaign(options.seeds, chosen, workers=options.workers, run=run)
    with closing(results), progress:
        for result in results:
            totals.add(result)
            progress.show(totals)


def show_failure(result: RunResult, again: str) -> None:
    """Print the findings of one run on standard error, with the command that repeats it."""
    seed = result.settings.seed
    say(f"seed {seed}: {len(result.findings)} violations")
    for event in result.last_events:
        say(f"  {readable(event)}")
    for finding in result.findings:
        say(f"seed {seed} violates {finding.property}: {finding.text}")
        for event in finding.evidence:
            say(f"  {readable(event)}")
    say("see it again with: " + again)


def _show_totals(totals: Totals, wall_s: float, as_json: bool) -> None:
    figures = {
        "seeds": totals.seeds,
        "events": totals.events,
        "violations": totals.violations,
        "simulated_s": round(totals.simulated_s, 6),
        "wall_s": round(wall_s, 3),
        "events_per_s": round(totals.events / wall_s) if wall_s else 0,
        "trace_hash": totals.trace_hash(),
        "views": totals.views,
        "sent": totals.sent,
        "deliveries": totals.deliveries,
        "failed_seeds": [result.settings.seed for result in totals.failed],
    }
    if as_json:
        print(json.dumps(figures))
        return
    speed = totals.simulated_s / wall_s if wall_s else 0.0
    print(
        f"{totals.seeds} seeds, {totals.events} events, {totals.sent} messages sent,"
        f" {totals.deliveries} delivered, {totals.violations} violations"
    )
    print(f"{totals.simulated_s:.1f} s simulated in {wall_s:.1f} s ({speed:.0f} times real time)")
    print(f"trace hash {figures['trace_hash']}")
