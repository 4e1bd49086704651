"""Run every known bug over the same seeds, and print the table of docs/known-bugs.md.

The seed named for a bug is the first that finds it; test_known_bugs.py replays it.
"""

import argparse
from collections.abc import Sequence
from contextlib import closing

import attrs

from groupcomm.sim.known_bugs import KNOWN_BUGS
from groupcomm.sim.run import RunResult
from groupcomm.sim.settings import Options
from groupcomm.sim.variants.bug import KnownBug
from groupcomm_client.campaign import run_campaign


@attrs.define
class Count:
    """What came out of the runs of one bug.

    Attributes:
        seed: the first that found it.
        properties: what did not hold in its run.
        found: how many runs did.
        asserted: runs that an assertion of the core ended; they are not finds.
    """

    seed: int | None = None
    properties: str = ""
    found: int = 0
    asserted: int = 0

    def add(self, result: RunResult) -> None:
        """Count one run."""
        ids = {found.property for found in result.findings}
        if "assert" in ids:
            self.asserted += 1
        elif ids:
            self.found += 1
            if self.seed is None:
                self.seed = result.settings.seed
                self.properties = ", ".join(sorted(ids))


def count(bug: KnownBug, seeds: range, duration_s: float, workers: int) -> Count:
    """Run one bug over the seeds."""
    counted = Count()
    options = Options(known_bug=bug.name, duration_s=duration_s)
    with closing(run_campaign(seeds, options, workers=workers)) as results:
        for result in results:
            counted.add(result)
    return counted


def row(bug: KnownBug, counted: Count) -> str:
    """The line of one bug in the table."""
    cells = (f"`{bug.name}`", bug.sentence, counted.seed, counted.properties, counted.found)
    return f"| {' | '.join(map(str, cells))} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Count and print; 1 if a bug was not found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bugs", nargs="*", metavar="BUG", help="names; all by default")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--duration-s", type=float, default=Options().duration_s)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args(arguments)
    missed = 0
    print(f"| bug | what is wrong | seed | found by | of {options.seeds} seeds |")
    print("|---|---|---|---|---|")
    for bug in KNOWN_BUGS:
        if bug.name in (options.bugs or [bug.name]):
            seeds = range(1, options.seeds + 1)
            counted = count(bug, seeds, options.duration_s, options.workers)
            missed += not counted.found
            print(row(bug, counted), flush=True)
            if counted.asserted:
                print(f"<!-- {counted.asserted} runs ended by an assertion -->", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
