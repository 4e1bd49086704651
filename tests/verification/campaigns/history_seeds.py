"""Many seeds of history, channels, cursors, shared work or Spread's programs, with faults.

    python -m tests.verification.campaigns.history_seeds 1:1000 --crowd history
    python -m tests.verification.campaigns.history_seeds 1:1000 --crowd work --minutes 30
    python -m tests.verification.campaigns.history_seeds 1:200 --crowd cursors
    python -m tests.verification.campaigns.history_seeds 1:200 --crowd channels
    python -m tests.verification.campaigns.history_seeds 1:200 --crowd spread

All is in virtual time. A failure is printed at once, with the command that repeats it. Ends with
a line of JSON.
"""

import argparse
import json
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from typing import Final, Protocol

from groupcomm.sim.virtual_time import SECOND
from tests.groupcomm_client.coordination import faulty_shop
from tests.groupcomm_client.history import faulty, test_cursor_lines, test_lines
from tests.groupcomm_client.history.lines import Lines
from tests.verification.campaigns.spread import simulated

REPORT_S: Final = 20.0


class Crowd(Protocol):
    """A run that is over."""

    @property
    def simulated_s(self) -> float:
        """Return the simulated time, in seconds."""

    def summary(self) -> dict[str, int]:
        """Return how much has happened."""


class Played:
    """A run of a crowd that has fewer faults than the others, and draws them alone."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    @property
    def simulated_s(self) -> float:
        return self._lines.cluster.loop.now / SECOND

    def summary(self) -> dict[str, int]:
        """Return how much has happened."""
        pasts = self._lines.pasts
        return {
            "events": sum(len(past.events) for past in pasts),
            "gaps": sum(past.gaps for past in pasts),
            "killed": self._lines.killed,
            "pieces": self._lines.by_channel,
            "pieces_from_files": self._lines.sent_from_files,
        }


PLAYS: Final[dict[str, Callable[[int, str, float, str], Crowd]]] = {
    "history": faulty.play,
    "work": faulty_shop.play,
    "cursors": lambda seed, _faults, duration_s, _programs: Played(
        test_cursor_lines.played(seed, test_cursor_lines.ALL, duration_s)
    ),
    "channels": lambda seed, _faults, duration_s, _programs: Played(
        test_lines.played(seed, duration_s)
    ),
    "spread": lambda seed, faults, duration_s, _programs: simulated.play(seed, faults, duration_s),
}


def where(error: BaseException) -> str:
    """Return where an error was raised, in short."""
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    return " > ".join(f"{frame.name}:{frame.lineno}" for frame in frames)


def command(seed: int, options: argparse.Namespace) -> str:
    """Return the command that runs a seed again."""
    words = [
        "python -m tests.verification.campaigns.history_seeds",
        str(seed),
        f"--crowd {options.crowd}",
    ]
    if options.faults != "all":
        words.append(f"--faults {options.faults}")
    if options.programs != "all":
        words.append(f"--programs '{options.programs}'")
    if options.duration_s != DURATION_S:
        words.append(f"--duration-s {options.duration_s}")
    return " ".join(words)


DURATION_S: Final = 6.0


def run(options: argparse.Namespace) -> dict[str, object]:
    """Run the seeds; return the results."""
    first, _, last = options.seeds.partition(":")
    began = said = time.monotonic()
    totals: Counter[str] = Counter()
    seeds, simulated_s, failed = 0, 0.0, list[int]()
    for seed in range(int(first), int(last or first) + 1):
        if options.minutes and time.monotonic() > began + 60 * options.minutes:
            break
        seeds += 1
        try:
            crowd = PLAYS[options.crowd](seed, options.faults, options.duration_s, options.programs)
            simulated_s += crowd.simulated_s
            totals += Counter(crowd.summary())
        except Exception as error:
            failed.append(seed)
            text = f"{type(error).__name__}: {error}"
            print(f"seed {seed}: {text[:500]}\n  {where(error)}\n  {command(seed, options)}")
            sys.stdout.flush()
        if time.monotonic() > said + REPORT_S:
            said = time.monotonic()
            print(f"{seeds} seeds, {len(failed)} failed, {dict(totals)}", file=sys.stderr)
    wall_s = round(time.monotonic() - began, 1)
    return {
        "crowd": options.crowd,
        "seeds": seeds,
        "failed": failed,
        **totals,
        "simulated_s": round(simulated_s),
        "wall_s": wall_s,
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("seeds", metavar="FIRST[:LAST]")
    parser.add_argument("--crowd", choices=sorted(PLAYS), required=True)
    parser.add_argument("--minutes", type=float, help="begin no seed after this time")
    parser.add_argument("--faults", default="all", help="as of groupcomm simulate")
    parser.add_argument("--programs", default="all", help="faults of programs: all, none, or names")
    parser.add_argument("--duration-s", type=float, default=DURATION_S, help="with faults")
    found = run(parser.parse_args(arguments))
    print(json.dumps(found))
    return 1 if found["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
