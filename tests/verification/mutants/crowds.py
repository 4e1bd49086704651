"""Hunt mutants of history, shared work, the mutex, lines and programs of Spread.

    python -m tests.verification.mutants.crowds [NAME ...]

Each is run by its crowd, under all faults, seed by seed, until the crowd's checks find it. Prints
the table of docs/mutants.md.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final

from groupcomm.errors import ConfigError
from tests.groupcomm_client import senders, upgraded_senders
from tests.groupcomm_client.coordination import arena, faulty_shop
from tests.groupcomm_client.history import (
    faulty,
    test_compacted_lines,
    test_cursor_lines,
    test_same_digests,
)
from tests.verification.campaigns.spread import simulated
from tests.verification.mutants import coordination, history, lines, spread, work
from tests.verification.mutants.mutant import Mutant

PLAYS: Final[dict[str, Callable[[int], object]]] = {
    "history": faulty.play,
    "cursors": lambda seed: test_cursor_lines.played(seed, test_cursor_lines.ALL),
    "digests": test_same_digests.compared,
    "compaction": test_compacted_lines.compacted,
    "work": faulty_shop.play,
    "mutex": arena.play,
    "lines": senders.play_one_way,
    "upgrades": upgraded_senders.play_one_way,
    "spread": simulated.play,
}
"""Run one seed of a crowd; raise AssertionError for what does not hold."""

CROWDS: Final[tuple[tuple[str, tuple[Mutant, ...]], ...]] = (
    ("history", history.BUGS),
    ("cursors", history.CURSOR_BUGS),
    ("digests", history.DIGEST_BUGS),
    ("compaction", history.COMPACTION_BUGS),
    ("work", work.BUGS),
    ("mutex", coordination.BUGS),
    ("lines", lines.BUGS),
    ("upgrades", lines.UPGRADE_BUGS),
    ("spread", spread.BUGS),
)

MOST_WORDS: Final = 9


def find(name: str) -> tuple[str, Mutant]:
    """Return a mutant, and its crowd.

    Raises:
        ConfigError: there is none of this name.
    """
    for crowd, bugs in CROWDS:
        for bug in bugs:
            if bug.name == name:
                return crowd, bug
    raise ConfigError(f"no mutant of a crowd is named {name!r}")


def hunt(crowd: str, bug: Mutant, seeds: Sequence[int], minutes: float) -> tuple[int, str] | None:
    """Return the first seed that finds a mutant, and how; None if none does in this time."""
    until = time.monotonic() + 60 * minutes
    for seed in seeds:
        if time.monotonic() > until:
            return None
        try:
            with bug.active():
                PLAYS[crowd](seed)
        except Exception as error:
            return seed, said(error)
    return None


def said(error: Exception) -> str:
    """Return in a few words what a check has found."""
    text = str(error).split(": ")[0].split(" on Position")[0].split(", such as")[0]
    words = " ".join(text.split()[:MOST_WORDS])
    kind = type(error).__name__
    return words if kind == "AssertionError" and words else f"{kind} {words}".strip()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Hunt mutants of history, work, the mutex, lines and Spread."
    )
    parser.add_argument("names", nargs="*", help="all without any")
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=10.0, help="for each, at most")
    options = parser.parse_args(arguments)
    every = [(crowd, bug) for crowd, bugs in CROWDS for bug in bugs]
    wanted = [find(name) for name in options.names] or every
    missed = 0
    for crowd, bug in wanted:
        found = hunt(crowd, bug, range(1, options.seeds + 1), options.minutes)
        missed += found is None
        seed, how = found or ("-", f"nothing within {options.seeds} seeds")
        print(f"| `{bug.name}` | {bug.sentence} | {crowd}: {seed} | {how} |", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
