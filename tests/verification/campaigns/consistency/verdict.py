"""The verdict on a record of operations: what was promised for each kind of object.

    python -m tests.verification.campaigns.consistency.verdict FILE...

Registers are linearizable, transactions on lists strictly serializable, one program at a time has
the lock, and of jobs that had their place in the order of a majority none is lost.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs

from tests.verification.campaigns.consistency.linearizable import GaveUp, check_registers
from tests.verification.campaigns.consistency.list_append import check_lists
from tests.verification.campaigns.consistency.locks_and_queues import check_locks, check_queue
from tests.verification.campaigns.consistency.operations import (
    Operation,
    of_object,
    read_operations,
)

CHECKS: dict[str, Callable[[Sequence[Operation]], Sequence[object]]] = {
    "register": check_registers,
    "list": check_lists,
    "lock": check_locks,
    "queue": check_queue,
}


@attrs.frozen
class Verdict:
    """The verdict on one record.

    Attributes:
        counts: operations by object and outcome.
        broken: what does not hold, by object.
        undecided: objects whose record has too many possible orders.
    """

    counts: dict[str, dict[str, int]]
    broken: dict[str, list[str]]
    undecided: list[str]

    @property
    def holds(self) -> bool:
        """Return whether everything was decided and holds."""
        return not self.broken and not self.undecided

    def text(self) -> str:
        """Return one line: the operations of each object, and whether its promise held."""
        return "; ".join(
            f"{kind} {'BROKEN' if kind in self.broken else 'holds'}"
            f" ({counts.get('ok', 0)} ok, {counts.get('unknown', 0)} unknown)"
            for kind, counts in self.counts.items()
        )


def verify(operations: Sequence[Operation]) -> Verdict:
    """Check all objects of a record."""
    counts, broken, undecided = dict[str, dict[str, int]](), dict[str, list[str]](), list[str]()
    for kind, check in CHECKS.items():
        concerned = of_object(operations, kind)
        counts[kind] = dict(Counter(str(each.outcome) for each in concerned))
        try:
            found = check(concerned)
        except GaveUp as error:
            undecided.append(f"{kind}: {error}")
            continue
        if texts := [str(each) for each in found]:
            broken[kind] = texts
    return Verdict(counts, broken, undecided)


def lost_jobs(operations: Sequence[Operation]) -> int:
    """Return the number of jobs that should have been done and were not yet."""
    return sum("was lost" in text for text in check_queue(of_object(operations, "queue")))


def main(arguments: Sequence[str] | None = None) -> int:
    """Check records again; return 0 if everything holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("records", nargs="+", type=Path)
    verdicts = {
        path: verify(read_operations(path)) for path in parser.parse_args(arguments).records
    }
    for path, verdict in verdicts.items():
        print(json.dumps({"record": str(path), "holds": verdict.holds, **attrs.asdict(verdict)}))
    return 0 if all(verdict.holds for verdict in verdicts.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
