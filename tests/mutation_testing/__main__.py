"""Mutate the protocol, and see whether tests, scenarios and seeds notice.

    python -m tests.mutation_testing --sample 200 --draw 1       # 200 mutations, drawn by a seed
    python -m tests.mutation_testing --only groupcomm/order      # all mutations of these modules
    python -m tests.mutation_testing --only groupcomm/order/order.py --number 17

Prints a line of JSON for each mutation, those that survive with their place, and in the end the
score by package: the share that was found, without those that EXPLAINED says change nothing.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Final

import attrs

from tests.mutation_testing.checks import Verdict, check
from tests.mutation_testing.explained import EXPLAINED
from tests.mutation_testing.operators import Mutation, count_of, mutate

PACKAGES: Final = ("engine", "order", "ring", "link", "membership", "groups", "session")
LEFT_OUT: Final = ("engine/status.py", "engine/reports.py", "session/spread")
"""What operators and other programs read, and no protocol."""


def modules_of(only: str | None) -> list[str]:
    """Return the paths of the modules to mutate."""
    found = []
    for package in PACKAGES:
        for path in sorted(Path("groupcomm", package).rglob("*.py")):
            text = path.as_posix()
            if path.name != "__init__.py" and not any(part in text for part in LEFT_OUT):
                found.append(text)
    return [path for path in found if only is None or path.startswith(only)]


def draw(options: argparse.Namespace) -> list[tuple[str, int]]:
    """Return the mutations to check, each as module and number."""
    every = [
        (module, number)
        for module in modules_of(options.only)
        for number in range(count_of(Path(module).read_text()))
    ]
    if options.number is not None:
        return [each for each in every if each[1] == options.number]
    if options.sample is None:
        return every
    return Random(options.draw).sample(every, min(options.sample, len(every)))


def verdicts(options: argparse.Namespace) -> Iterator[tuple[Mutation, Verdict]]:
    """Check all drawn mutations, several at a time."""

    def one(place: tuple[str, int]) -> tuple[Mutation, Verdict]:
        module, number = place
        mutation, _ = mutate(module, Path(module).read_text(), number)
        return mutation, check(module, number, options.seeds)

    with ThreadPoolExecutor(options.workers) as pool:
        yield from pool.map(one, draw(options))


def main() -> int:
    """Print verdicts and scores; return 1 if a mutation survives that is not explained."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", metavar="PATH", help="modules whose path begins so")
    parser.add_argument("--number", type=int, metavar="N", help="one mutation of them")
    parser.add_argument("--sample", type=int, metavar="N", help="draw N mutations")
    parser.add_argument("--draw", type=int, default=1, metavar="SEED", help="the sample's seed")
    parser.add_argument("--seeds", type=int, default=100, metavar="N", help="simulated runs")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="checks at a time")
    options = parser.parse_args()
    unchanged = check(modules_of(None)[0], -1, options.seeds)
    if unchanged.is_found:
        print(f"the checks fail although nothing was changed: {unchanged.by}", file=sys.stderr)
        return 2
    found: Counter[str] = Counter()
    survived: Counter[str] = Counter()
    for mutation, verdict in verdicts(options):
        package = mutation.module.split("/")[1]
        reason = EXPLAINED.get((mutation.module, mutation.function, mutation.text))
        print(json.dumps(attrs.asdict(mutation) | attrs.asdict(verdict)), flush=True)
        if verdict.is_found:
            found[package] += 1
        elif reason is None:
            survived[package] += 1
            print(f"survives: {mutation}", file=sys.stderr, flush=True)
    for package in sorted(found | survived):
        total = found[package] + survived[package]
        print(f"{package}: {found[package]} of {total} found", file=sys.stderr)
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
