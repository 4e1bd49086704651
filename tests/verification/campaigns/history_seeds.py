"""Many seeds of history, channels, cursors, work, lines or Spread's programs, with faults.

    python -m tests.verification.campaigns history_seeds --seeds 1:1000 --crowd history
    python -m tests.verification.campaigns history_seeds --seeds 1:1000 --crowd work --minutes 30
    python -m tests.verification.campaigns history_seeds --seeds 1:200 --crowd cursors
    python -m tests.verification.campaigns history_seeds --seeds 1:200 --crowd channels
    python -m tests.verification.campaigns history_seeds --seeds 1:200 --crowd spread
    python -m tests.verification.campaigns history_seeds --seeds 1:1000 --crowd lines
    python -m tests.verification.campaigns history_seeds --seeds 1:200 --crowd upgrades

All is in virtual time. A failure is printed at once, with the command that repeats it. Ends with
a line of JSON.
"""

import time
import traceback
from argparse import Namespace
from collections import Counter
from collections.abc import Callable
from typing import Final, Protocol

from groupcomm.sim.virtual_time import SECOND
from groupcomm_tools.terminal import say
from tests.groupcomm_client import senders, upgraded_senders
from tests.groupcomm_client.coordination import faulty_shop
from tests.groupcomm_client.history import faulty, test_cursor_lines, test_lines
from tests.groupcomm_client.history.lines import Lines
from tests.verification.campaigns.runner import COMMAND, Found, campaign, option
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
    "lines": lambda seed, faults, duration_s, _programs: senders.play(seed, faults, duration_s),
    "upgrades": lambda seed, _faults, _duration_s, _programs: upgraded_senders.play_one_way(seed),
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


def command(seed: int, options: Namespace) -> str:
    """Return the command that runs a seed again."""
    words = [
        f"{COMMAND} history_seeds --seeds {seed}",
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


@campaign(
    option("seeds", "1:200", "the first one, and the last one"),
    option("crowd", "history", choices=sorted(PLAYS)),
    option("minutes", type=float, text="begin no seed after this time"),
    option("faults", "all", "as of groupcomm simulate"),
    option("programs", "all", "faults of programs: all, none, or names"),
    option("duration_s", DURATION_S, "with faults"),
)
def run(options: Namespace) -> Found:
    """Run the seeds; return the results."""
    first, _, last = options.seeds.partition(":")
    began = said = time.monotonic()
    totals: Counter[str] = Counter()
    seeds, simulated_s, failed = 0, 0.0, list[str]()
    for seed in range(int(first), int(last or first) + 1):
        if options.minutes and time.monotonic() > began + 60 * options.minutes:
            break
        seeds += 1
        try:
            crowd = PLAYS[options.crowd](seed, options.faults, options.duration_s, options.programs)
            simulated_s += crowd.simulated_s
            totals += Counter(crowd.summary())
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            failed.append(
                f"seed {seed}: {text[:500]}\n  {where(error)}\n  {command(seed, options)}"
            )
            say(failed[-1])
        if time.monotonic() > said + REPORT_S:
            said = time.monotonic()
            say(f"{seeds} seeds, {len(failed)} failed, {dict(totals)}")
    return {
        "seeds": seeds,
        **totals,
        "simulated_s": round(simulated_s),
        "violations": failed,
    }
