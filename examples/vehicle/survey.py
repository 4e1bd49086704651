"""Runs of the vehicle in turn, several rounds, and the medians: the figures of docs/vehicle.md.

They run one after the other, round by round, so that other work of the host affects all of them
alike.
"""

import argparse
import statistics
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from examples.common.command import run
from examples.vehicle.__main__ import make_parser as make_run_parser
from examples.vehicle.__main__ import setup_of
from examples.vehicle.report import as_json
from examples.vehicle.runs import run_once

SMALL: Final = "--only vehicle_state,actuator_state,trajectory"
PACKED: Final = (
    "--daemons 2 --loss 0.05 --only actuator_state --level actuator_state=unreliable --scale 10"
)
IMAGES: Final = "--only image --packet-bytes 60000 --image-receivers 1"

TOPICS: Final[Mapping[str, Sequence[str]]] = {
    "daemons": ("--daemons 1", "--daemons 2", "--daemons 4"),
    "delay": tuple(f"{SMALL} --daemons 3 --delay-ms {ms}" for ms in ("0.001", "1", "5")),
    "loss": tuple(f"{SMALL} --daemons 3 --delay-ms 1 --loss {p}" for p in ("0", "0.01", "0.05")),
    "pieces": tuple(
        f"--daemons {count} --piece {piece}" for count in (1, 3) for piece in (1024, 32)
    ),
    "packets": tuple(f"--daemons 3 --packet-bytes {size}" for size in (1340, 8000, 60000)),
    "scale": tuple(f"--daemons 1 --scale {factor}" for factor in (1, 2, 4, 8)),
    "packing": (
        PACKED,
        f"{PACKED} --pack 8",
        f"{PACKED} --pack 8 --one-by-one",
    ),
    "images": (
        *(f"{IMAGES} --cameras {count}" for count in (1, 2, 5)),
        f"{IMAGES} --cameras 1 --packet-bytes 1340",
        *(f"{IMAGES} --cameras {count} --daemons 2" for count in (1, 5)),
        f"{IMAGES} --cameras 1 --daemons 2 --loss 0.01",
        f"{IMAGES} --cameras 1 --daemons 2 --loss 0.01 --level image=reliable",
        f"{IMAGES} --cameras 1 --daemons 2 --packet-bytes 1340",
        f"{IMAGES} --cameras 1 --daemons 2 --packet-bytes 1340 --scale 0.1",
    ),
    "receivers": tuple(
        f"{IMAGES} --cameras 1 --daemons {daemons} --image-receivers {count}"
        for daemons in (1, 2)
        for count in (1, 5)
    ),
}
"""The options of the compared runs, by topic."""

COLUMNS: Final = ("sent_per_s", "mb_per_s", "loss", "mean_run", "p50_ms", "p99_ms", "max_ms")


def medians(runs: Sequence[Mapping[str, Any]]) -> dict[str, list[float | None]]:
    """Return the medians of each column over some runs, by kind and place of the receivers."""
    found: dict[str, list[float | None]] = {}
    for name, kind in runs[0]["kinds"].items():
        found[name] = [
            _median([each["kinds"][name][column] for each in runs]) for column in COLUMNS
        ]
        parts = ("same_daemon", "other_daemon")
        for part in parts if all(kind[part]["expected"] for part in parts) else ():
            found[f"{name}, {part.replace('_', ' ')}"] = [
                _median([each["kinds"][name][part].get(column) for each in runs])
                for column in COLUMNS
            ]
    return found


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def tell(options: str, runs: Sequence[Mapping[str, Any]]) -> None:
    """Print a table in Markdown."""
    cpu = [statistics.median(sorted(each["daemon_cpu"].values())) for each in runs]
    late = _median([each["late_whole_ms"] for each in runs])
    print(f"\n`{options}`: {len(runs)} runs, a daemon used {statistics.median(cpu):.0%} of a")
    print(f"processor, newcomer's map after {late} ms, drained {[r['drained'] for r in runs]}\n")
    print(f"| kind | {' | '.join(COLUMNS)} |\n|{'---|' * (len(COLUMNS) + 1)}")
    for name, values in medians(runs).items():
        cells = ("" if value is None else f"{value:.4g}" for value in values)
        print(f"| {name} | {' | '.join(cells)} |")
    sys.stdout.flush()


async def survey(options: argparse.Namespace) -> int:
    """Run all setups of a topic, round by round."""
    cases = TOPICS[options.topic]
    found: dict[str, list[dict[str, Any]]] = {case: [] for case in cases}
    for number in range(options.rounds):
        for case in cases:
            told = [*case.split(), "--seconds", str(options.seconds), "--seed", str(number)]
            setup = setup_of(make_run_parser().parse_args(told))
            found[case].append(as_json(await run_once(setup)))
        print(f"round {number + 1} of {options.rounds} is over", file=sys.stderr, flush=True)
    for case, runs in found.items():
        tell(case, runs)
    return 0


def main() -> int:
    """Run the survey; return its exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog="example: python -m examples.vehicle.survey daemons --rounds 5"
    )
    parser.add_argument("topic", choices=TOPICS)
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="of all runs (5)")
    parser.add_argument("--seconds", type=float, default=5.0, metavar="S", help="of a run (5)")
    return run("survey", partial(survey, parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
