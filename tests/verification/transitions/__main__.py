"""Run scenarios, seeds and tests, and print which transitions of the state machines they reach.

    python -m tests.verification.transitions --seeds 1:100

A transition that happens and is not listed in machines.py, or that is listed and is not reached,
makes the exit status 1.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from groupcomm_tools.commands.simulate import parse_seeds
from tests.verification.scenarios.run import run_scenario
from tests.verification.simulation.runs import run_seed
from tests.verification.simulation.settings import VerificationOptions
from tests.verification.transitions.machines import MACHINES
from tests.verification.transitions.recorder import Transition, recording

TESTED: Final = ("engine", "link", "membership", "ring", "session")
"""The packages whose tests are run."""


def options_of(seed: int) -> VerificationOptions:
    """Return the options of a seed: all kinds of clusters in turn."""
    kinds = (
        VerificationOptions(duration_s=5.0),
        VerificationOptions(duration_s=5.0, sites=3),
        VerificationOptions(duration_s=5.0, rosters=True),
        VerificationOptions(duration_s=5.0, versions=True),
        VerificationOptions(duration_s=5.0, suite=2),
        VerificationOptions(duration_s=5.0, faults="storm,leave,crash", targets=True),
        VerificationOptions(duration_s=5.0, targets=True, sites=3),
    )
    return kinds[seed % len(kinds)]


def run_scenarios() -> None:
    """Run all scenarios."""
    for file in sorted(Path("tests/verification/scenarios").glob("*.txt")):
        run_scenario(file.read_text(), file.name)


def run_seeds(seeds: range) -> None:
    """Run the seeds."""
    for seed in seeds:
        run_seed(seed, options_of(seed))


def run_tests() -> None:
    """Run the tests of the machines."""
    folders = [f"tests/groupcomm/{package}" for package in TESTED]
    pytest.main(["-q", "-p", "no:cacheprovider", *folders])


def reached_by(run: Callable[[], None]) -> Counter[Transition]:
    """Return the transitions that a run reaches."""
    with recording(MACHINES) as reached:
        run()
    return reached


def main() -> int:
    """Print a table of all transitions; return 1 if it is not as it should be."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=parse_seeds, default=range(1, 61), metavar="A:B")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    options = parser.parse_args()
    columns = {
        "scenarios": reached_by(run_scenarios),
        f"{len(options.seeds)} seeds": reached_by(lambda: run_seeds(options.seeds)),
        "tests": reached_by(run_tests),
    }
    listed = [each for machine in MACHINES for each in machine.transitions]
    print("| machine | from | to | " + " | ".join(columns) + " |")
    print("|---|---|---|" + "---|" * len(columns))
    for each in listed:
        counts = [str(column[each]) for column in columns.values()]
        print("| " + " | ".join((*each, *counts)) + " |")
    strange = sorted({each for column in columns.values() for each in column} - {*listed})
    missing = [each for each in listed if not any(column[each] for column in columns.values())]
    for each in strange:
        print("not listed:", *each, file=sys.stderr)
    for each in missing:
        print("not reached:", *each, file=sys.stderr)
    if options.json:
        print(json.dumps({"listed": len(listed), "strange": strange, "missing": missing}))
    return 1 if strange or missing else 0


if __name__ == "__main__":
    sys.exit(main())
