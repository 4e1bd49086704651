"""Compare checkers and reference checker over many generated histories, whole and broken.

    python tests/groupcomm/sim/compare_checkers.py --seeds 400 --kinds 40

Both must find nothing in a valid history, and the same in each mutation of it. The program prints a
line for each difference, with the `--kind` and `--first` that show it again alone, and at the end
the number of violations of each property. Some hundred seeds take minutes.
"""

import argparse
import time
from collections import Counter
from collections.abc import Sequence
from random import Random

import attrs

from groupcomm.sim.checkers import Checkers
from groupcomm.trace.events import TraceEvent
from tests.verification.generators import make_changing_history, make_history
from tests.verification.mutations import CHANGE_MUTATIONS, MUTATIONS, mutate
from tests.verification.reference import reference_check

History = Sequence[TraceEvent]


def fast(events: History) -> Checkers:
    """Return the checkers after a whole trace."""
    checkers = Checkers()
    for event in events:
        checkers.feed(event)
    checkers.finish()
    return checkers


def break_history(history: History, kind: str, seed: int) -> list[TraceEvent] | None:
    """Return a mutation of a history; None if the history has nothing of the kind, or stays the
    same."""
    trace = mutate(Random(f"{kind} {seed}"), history, kind)
    return None if trace == list(history) else trace


@attrs.define
class Comparison:
    """The results.

    Attributes:
        traces: the number of checked traces, by kind of mutation; valid ones under "".
        noticed: the number of traces among them with a violation.
        found: the number of traces that violate each property.
        differences: the number of traces on which checkers and reference checker differ.
        alarms: the number of valid histories with a violation.
    """

    traces: Counter[str] = attrs.Factory(Counter)
    noticed: Counter[str] = attrs.Factory(Counter)
    found: Counter[str] = attrs.Factory(Counter)
    differences: int = 0
    alarms: int = 0

    def check(self, trace: History, kind: str, seed: int) -> None:
        """Let both check one trace."""
        quick, slow = fast(trace).ids, reference_check(list(trace))
        self.traces[kind] += 1
        self.noticed[kind] += bool(slow)
        self.found.update(slow)
        if not kind and (quick or slow):
            self.alarms += 1
            print(
                f"seed {seed} is valid: checkers {sorted(quick)}, reference {sorted(slow)}",
                flush=True,
            )
        elif quick != slow:
            self.differences += 1
            only = (
                f"only checkers {sorted(quick - slow)}, only the reference {sorted(slow - quick)}"
            )
            print(f'--kind "{kind}" --first {seed}: {only}', flush=True)


def compare(options: argparse.Namespace) -> Comparison:
    """Check all histories that are asked for."""
    every = sorted(MUTATIONS if options.fixed else MUTATIONS | CHANGE_MUTATIONS)
    make = make_history if options.fixed else make_changing_history
    comparison = Comparison()
    for seed in range(options.first, options.first + options.seeds):
        history = make(seed)
        comparison.check(history, "", seed)
        some = Random(seed).sample(every, min(options.kinds, len(every)))
        for kind in [options.kind] if options.kind else some:
            trace = break_history(history, kind, seed)
            if trace is not None:
                comparison.check(trace, kind, seed)
    return comparison


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare and print; return 1 if they differ anywhere."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=40, help="how many")
    parser.add_argument("--kinds", type=int, default=1000, help="mutations of each, by chance")
    parser.add_argument("--kind", default="", help="this mutation only")
    parser.add_argument("--fixed", action="store_true", help="one view that does not change")
    options = parser.parse_args(arguments)
    started = time.process_time()
    comparison = compare(options)
    whole = comparison.traces.pop("", 0)
    broken, noticed = comparison.traces.total(), comparison.noticed.total()
    print(f"{whole} whole histories, {comparison.alarms} false alarms")
    print(f"{broken} broken in {len(comparison.traces)} ways, {noticed} noticed,")
    print(f"{comparison.differences} differences, {time.process_time() - started:.0f} s")
    print(", ".join(f"{id_} {count}" for id_, count in sorted(comparison.found.items())))
    return 1 if comparison.differences or comparison.alarms else 0


if __name__ == "__main__":
    raise SystemExit(main())
