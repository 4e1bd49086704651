"""Mutate the protocol, and see whether tests, scenarios and seeds notice.

    python -m tests.verification.mutation_testing --each 60 --draw 1      # 60 of each package
    python -m tests.verification.mutation_testing --only groupcomm/order  # all of these modules
    python -m tests.verification.mutation_testing --only groupcomm/order/order.py --number 17

Prints a line for each mutation that survives, and in the end the score by package: the share that
was found, without those that `explained.py` says change nothing. Verdicts are kept in a file: a
run that was stopped goes on, and asks again only about modules that have changed since.
"""

import argparse
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from math import inf
from pathlib import Path
from random import Random
from typing import Final

from tests.verification.mutation_testing import checks, reach, verdicts
from tests.verification.mutation_testing.explained import COSTS_ONLY, EQUIVALENT
from tests.verification.mutation_testing.operators import Mutation, count_of, mutate
from tests.verification.mutation_testing.patching import LoadedFunctions

PACKAGES: Final = ("engine", "order", "ring", "link", "membership", "groups", "session")
LEFT_OUT: Final = ("engine/status.py", "engine/reports.py", "session/spread")
"""What operators and other programs read, and no protocol."""

EVERYTHING: Final = ("groupcomm/",)


def modules_of(only: Sequence[str]) -> list[str]:
    """Return the paths of the modules to mutate: those that begin in one of these ways."""
    found = []
    for package in PACKAGES:
        for path in sorted(Path("groupcomm", package).rglob("*.py")):
            text = path.as_posix()
            if path.name != "__init__.py" and not any(part in text for part in LEFT_OUT):
                found.append(text)
    return [path for path in found if path.startswith(tuple(only))]


def draw(options: argparse.Namespace) -> list[tuple[str, int]]:
    """Return the mutations to check, each as module and number."""
    packages: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for module in modules_of(options.only):
        numbers = range(count_of(Path(module).read_text()))
        packages[_package(module)] += [(module, number) for number in numbers]
    drawn = []
    for package, places in packages.items():
        if options.number is not None:
            drawn += [each for each in places if each[1] == options.number]
        elif options.each is None:
            drawn += places
        else:
            random = Random(f"{options.draw} {package}")
            drawn += random.sample(places, min(options.each, len(places)))
    return drawn


def drawn(options: argparse.Namespace) -> list[Mutation]:
    """Return the mutations to check."""
    return [mutate(path, Path(path).read_text(), number)[0] for path, number in draw(options)]


def survivors(path: Path) -> list[Mutation]:
    """Return those that survived before, wherever they stand now; some may be gone."""
    keys, found = verdicts.survivors(path), []
    for module in modules_of(sorted({key.partition(" ")[0] for key in keys})):
        source = Path(module).read_text()
        for number in range(count_of(source)):
            mutation, _ = mutate(module, source, number)
            if mutation.key in keys:
                found.append(mutation)
    return found


def _package(module: str) -> str:
    return module.split("/")[1]


class Run:
    """One run of the command.

    Attributes:
        status: the exit status: 1 if a mutation survives that is not explained, 2 if checks fail.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._scores: dict[str, Counter[str]] = defaultdict(Counter)
        self.status = 0

    def run(self, tests: list[checks.Check]) -> None:
        """Judge the drawn mutations by these tests, and by seeds."""
        options = self._options
        everything = [*tests, *checks.seeds(options.seeds)]
        modules = modules_of(EVERYTHING)
        functions = LoadedFunctions(modules)
        kept = options.folder / "reach.jsonl"
        try:
            reached = reach.measure(everything, modules, functions, kept, options.workers)
        except reach.ChecksFail as failure:
            print(f"a check fails although nothing was changed: {failure}", file=sys.stderr)
            self.status = 2
            return
        self._judge(verdicts.Judge(everything, reached, functions, options.most_s))

    def _judge(self, judge: verdicts.Judge) -> None:
        path = self._options.folder / "verdicts.jsonl"
        known = {} if self._options.again else verdicts.read(path)
        asked = []
        for mutation in survivors(path) if self._options.again else drawn(self._options):
            verdict = known.get(
                (mutation.module, verdicts.digest(mutation.module), mutation.number)
            )
            if verdict is None:
                asked.append(mutation)
            else:
                self._count(mutation, verdict)
        for mutation, verdict in judge.judge(asked, self._options.workers):
            verdicts.write(path, mutation, verdict)
            self._count(mutation, verdict)
        self._print_scores()

    def _count(self, mutation: Mutation, verdict: verdicts.Verdict) -> None:
        score = self._scores[_package(mutation.module)]
        if verdict.is_found:
            score["found"] += 1
        elif mutation.key in EQUIVALENT:
            score["equivalent"] += 1
        elif mutation.key in COSTS_ONLY:
            score["costs only"] += 1
        else:
            score["survived"] += 1
            self.status = 1
            seen = f"run by {verdict.reached} checks, alters {verdict.altered} traces"
            seen = verdict.by or seen
            print(f"survives ({seen}): #{mutation.number} {mutation}", flush=True)

    def _print_scores(self) -> None:
        print(f"draw {self._options.draw}, {self._options.each or 'all'} of each package")
        for package, score in self._scores.items():
            total = score["found"] + score["survived"]
            share = 100 * score["found"] / total if total else 100.0
            counts = ", ".join(
                f"{score[kind]} {kind}"
                for kind in ("found", "survived", "equivalent", "costs only")
            )
            print(f"{package}: {counts}: {share:.1f} %")


def main() -> int:
    """Print survivors and scores."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--only", nargs="+", default=EVERYTHING, metavar="PATH", help="modules whose path begins so"
    )
    parser.add_argument("--number", type=int, metavar="N", help="one mutation of them")
    parser.add_argument("--each", type=int, metavar="N", help="draw N mutations of each package")
    parser.add_argument("--draw", type=int, default=1, metavar="SEED", help="the sample's seed")
    parser.add_argument("--seeds", type=int, default=100, metavar="N", help="simulated runs")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="mutations at a time")
    parser.add_argument(
        "--most-s",
        type=float,
        default=inf,
        metavar="S",
        help="the processor time for one mutation: the dearest checks are left out",
    )
    parser.add_argument("--again", action="store_true", help="only those that survived before")
    parser.add_argument(
        "--tests", nargs="+", default=checks.FOLDERS, metavar="PATH", help="the tests to run"
    )
    parser.add_argument(
        "--folder", type=Path, default=Path("mutation"), metavar="PATH", help="what is kept"
    )
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))  # its children end, too
    run = Run(options)
    return checks.with_tests(options.tests, run.run) or run.status


if __name__ == "__main__":
    sys.exit(main())
