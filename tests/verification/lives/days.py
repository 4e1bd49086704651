"""`make days`: simulated days of clusters that live on, as many as fit into the minutes given.

Kinds of clusters live in turn, so that each gets about the same number of simulated hours. The
totals are in ``soak/days.json``, are written after each life, and go on where they were. A life
with findings has a file there: the seed, the kind, and the shortest window of episodes that a new
cluster fails in alike.
"""

import argparse
import gc
import multiprocessing
import os
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Final

import attrs
import msgspec

from groupcomm_tools.traces.text import readable
from tests.verification.lives.draws import LifeOptions
from tests.verification.lives.life import LifeResult, live

ROOT: Final = Path(__file__).parent.parent.parent.parent
FIRST_SEED: Final = 1
SLOW: Final = 10.0
"""The pace of most kinds: a token timeout of 6 s, and beacons every 1.2 s."""

KINDS: Final = {
    "2 daemons, usual pace": LifeOptions(daemons=2, sites=1),
    "3 daemons, usual pace": LifeOptions(daemons=3, sites=1),
    "3 sites, 3 daemons, usual pace": LifeOptions(daemons=3, sites=3),
    "3 daemons": LifeOptions(daemons=3, sites=1, pace=SLOW),
    "5 daemons": LifeOptions(daemons=5, sites=1, pace=SLOW),
    "3 sites, 5 daemons": LifeOptions(daemons=5, sites=3, pace=SLOW),
    "rosters, 5 daemons": LifeOptions(daemons=5, sites=1, rosters=True, pace=SLOW),
    "rosters, 3 sites, 5 daemons": LifeOptions(daemons=5, sites=3, rosters=True, pace=SLOW),
    "releases, 4 daemons": LifeOptions(daemons=4, sites=1, versions=True, pace=SLOW),
    "identities, 3 daemons": LifeOptions(daemons=3, sites=1, suite=2, pace=SLOW),
    "aimed packets, 4 daemons": LifeOptions(daemons=4, sites=1, targets=True, pace=SLOW),
    "aimed packets, 3 sites, 3 daemons": LifeOptions(daemons=3, sites=3, targets=True, pace=SLOW),
    "bad clocks, 3 daemons": LifeOptions(daemons=3, sites=1, bad_clocks=True, pace=SLOW),
}
"""The kinds of clusters, by name."""

WINDOWS: Final = (0, 1, 3, 8)
"""The numbers of episodes before the last one with which a failing life is tried anew."""


class Totals(msgspec.Struct):
    """Sums over the lives of one kind; see `LifeResult`."""

    lives: int = 0
    simulated_s: float = 0.0
    quiet_s: float = 0.0
    processor_s: float = 0.0
    sent: int = 0
    deliveries: int = 0
    views: int = 0
    starts: int = 0
    episodes: int = 0
    rests: int = 0
    violations: int = 0
    faults: dict[str, int] = {}

    def add(self, result: LifeResult, processor_s: float) -> None:
        """Add one life."""
        self.lives += 1
        self.simulated_s += result.simulated_s
        self.quiet_s += result.quiet_s
        self.processor_s += processor_s
        self.sent += result.sent
        self.deliveries += result.deliveries
        self.views += result.views
        self.starts += result.starts
        self.episodes += result.episodes
        self.rests += result.rests
        self.violations += len(result.findings)
        self.faults = dict(Counter(self.faults) + result.faults)


class State(msgspec.Struct):
    """The state that is kept between runs: the totals by kind, and the next seed."""

    totals: dict[str, Totals] = {}
    next_seed: int = FIRST_SEED
    failed: list[str] = []


Live = Callable[[str, int, float], tuple[LifeResult, float]]
"""Lives the life of a kind and a seed until a time; returns the result and processor seconds."""


def live_until(kind: str, seed: int, until: float) -> tuple[LifeResult, float]:
    """Live one life, but not beyond a time of the monotonic clock, or an interrupt."""
    gc.set_threshold(50_000, 20, 50)  # nearly all that a simulation makes is not in cycles
    began = time.process_time()
    result = live(seed, KINDS[kind], is_over=lambda: _is_over(until))
    return result, time.process_time() - began


class Days:
    """Lives of all kinds, whose totals are kept in a folder.

    Args:
        folder: the folder of the totals and of the files of lives that failed.
        kinds: the names of the kinds that live.
        say: prints a line.
    """

    def __init__(self, folder: Path, kinds: Sequence[str], say: Callable[[str], None]) -> None:
        self.folder = folder
        self._kinds = kinds
        self._say = say
        self._file = folder / "days.json"
        folder.mkdir(parents=True, exist_ok=True)
        self.state = State()
        if self._file.exists():
            self.state = msgspec.json.decode(self._file.read_bytes(), type=State)
        self._under_way: Counter[str] = Counter()

    def next_life(self) -> tuple[str, int]:
        """Return the kind and the seed of the next life: the kind that has lived least."""

        def hours(kind: str) -> float:
            lived_s = self.state.totals.get(kind, Totals()).simulated_s
            return lived_s / 3600 + KINDS[kind].hours * self._under_way[kind]

        kind, seed = min(self._kinds, key=hours), self.state.next_seed
        self.state.next_seed += 1
        self._under_way[kind] += 1
        return kind, seed

    def add(self, kind: str, result: LifeResult, processor_s: float) -> None:
        """Add a life to the totals, and write a file if it has findings."""
        self._under_way[kind] -= 1
        self.state.totals.setdefault(kind, Totals()).add(result, processor_s)
        if result.findings:
            self._fail(kind, result)
        self._save()
        hours = sum(each.simulated_s for each in self.state.totals.values()) / 3600
        self._say(
            f"{kind}, seed {result.settings.seed}: {result.simulated_s / 3600:.1f} h in"
            f" {processor_s:.0f} s of a processor; {hours:.0f} h in all"
        )

    def _fail(self, kind: str, result: LifeResult) -> None:
        seed = result.settings.seed
        window = shrink(kind, result, live)
        lines = [replay_command(kind, seed, window), ""]
        for found in result.findings:
            lines.append(f"{found.property}: {found.text}")
            lines += [f"  {readable(event)}" for event in found.evidence]
        lines += ["", "the last events:", *(f"  {readable(event)}" for event in result.last_events)]
        lines += ["", f"in episode {result.last_episode} of {kind}", str(result.settings), ""]
        (self.folder / f"life-{seed}.txt").write_text("\n".join(lines))
        names = ", ".join(sorted({found.property for found in result.findings}))
        self.state.failed.append(f"{kind}, seed {seed}: {names}; {lines[0]}")
        self._say(self.state.failed[-1])

    def _save(self) -> None:
        new = self._file.with_suffix(".new")
        new.write_bytes(msgspec.json.encode(self.state))
        new.replace(self._file)


def likeness_of(result: LifeResult) -> str:
    """Return what failures of one cause have in common; empty without findings."""
    if not result.findings:
        return ""
    found = result.findings[0]
    return found.property + ": " + re.sub(r"[0-9a-f]*\d[0-9a-f]*", "N", found.text)


def shrink(
    kind: str, result: LifeResult, run: Callable[[int, LifeOptions], LifeResult]
) -> LifeOptions:
    """Return the options of the shortest window of a failing life in which it fails alike.

    If a new cluster fails in none of the windows, they are those of the whole life.
    """
    options, last = KINDS[kind], result.last_episode
    for before in WINDOWS:
        if before >= last:
            break
        window = attrs.evolve(options, first=last - before, last=last)
        if likeness_of(run(result.settings.seed, window)) == likeness_of(result):
            return window
    return attrs.evolve(options, last=last)


def replay_command(kind: str, seed: int, options: LifeOptions) -> str:
    """Return the command that repeats a life, or a window of it."""
    return (
        f"python -m tests.verification.lives.days --kind '{kind}' --seed {seed}"
        f" --first {options.first} --last {options.last}"
    )


def table_of(totals: dict[str, Totals]) -> str:
    """Return the totals as a table in Markdown."""
    rows = [
        "| configuration | hours | of these quiet | lives | messages | deliveries | views | starts"
        " of daemons | faults | moments of rest | violations | times real time |",
        "|---|" + 11 * "---:|",
    ]
    whole = Totals()
    for kind, each in totals.items():
        rows.append(_row(kind, each))
        for name in Totals.__struct_fields__[:-1]:
            setattr(whole, name, getattr(whole, name) + getattr(each, name))
        whole.faults = dict(Counter(whole.faults) + Counter(each.faults))
    faults = ", ".join(f"{name} {count:,}" for name, count in sorted(whole.faults.items()))
    return "\n".join([*rows, _row("all", whole), "", f"Faults by name: {faults}."])


def _row(name: str, each: Totals) -> str:
    speed = each.simulated_s / each.processor_s if each.processor_s else 0.0
    numbers = (
        f"{each.simulated_s / 3600:,.1f}",
        f"{each.quiet_s / 3600:,.1f}",
        f"{each.lives:,}",
        f"{each.sent:,}",
        f"{each.deliveries:,}",
        f"{each.views:,}",
        f"{each.starts:,}",
        f"{sum(each.faults.values()):,}",
        f"{each.rests:,}",
        f"{each.violations:,}",
        f"{speed:,.0f}",
    )
    return f"| {name} | {' | '.join(numbers)} |"


_stop: Final = multiprocessing.get_context("fork").Event()
"""Set by the first interrupt: lives end after their present quiet time, and count."""


def _is_over(until: float) -> bool:
    return _stop.is_set() or time.monotonic() >= until


def _end_soon(_signal: int, _frame: object) -> None:
    """End all lives after their present quiet time; the next interrupt ends at once."""
    _stop.set()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    say("ending after the present quiet times, within a minute or so")


def run_days(days: Days, until: float, workers: int) -> None:
    """Live until a time of the monotonic clock, or an interrupt, in several processes."""
    context = multiprocessing.get_context("fork")
    pending: dict[Future[tuple[LifeResult, float]], str] = {}
    with ProcessPoolExecutor(workers, context, initializer=_ignore_interrupts) as pool:
        while pending or not _is_over(until):
            while len(pending) < workers and not _is_over(until):
                kind, seed = days.next_life()
                pending[pool.submit(live_until, kind, seed, until)] = kind
            for future in wait(pending, return_when=FIRST_COMPLETED).done:
                days.add(pending.pop(future), *future.result())


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def campaign(
    folder: Path, minutes: float, workers: int, kinds: Sequence[str] = tuple(KINDS)
) -> int:
    """Live for some minutes, and print the totals; return 1 if a life had findings."""
    days = Days(folder, kinds, say)
    signal.signal(signal.SIGINT, _end_soon)
    run_days(days, time.monotonic() + 60 * minutes, workers)
    say(table_of(days.state.totals))
    for each in days.state.failed:
        say(each)
    return 1 if days.state.failed else 0


def say(text: str) -> None:
    """Print a line at once, also into a file."""
    print(text, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign; with a kind and a seed, repeat that life, or a window of its episodes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--folder", type=Path, default=ROOT / "soak")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--kind", action="append", choices=sorted(KINDS), help="repeatable")
    parser.add_argument("--seed", type=int, help="repeat one life of a kind")
    parser.add_argument("--first", type=int, default=0, help="its first episode")
    parser.add_argument("--last", type=int, help="its last episode")
    options = parser.parse_args(arguments)
    kinds = options.kind or list(KINDS)
    if options.seed is not None:
        again = attrs.evolve(KINDS[kinds[0]], first=options.first, last=options.last)
        result = live(options.seed, again)
        for found in result.findings:
            say(f"{found.property}: {found.text}")
            say("\n".join(f"  {readable(event)}" for event in found.evidence))
        say(
            "\n".join(
                [*map(readable, result.last_events), f"{result.simulated_s / 3600:.2f} h simulated"]
            )
        )
        return 1 if result.findings else 0
    return campaign(options.folder, options.minutes, options.workers, kinds)


if __name__ == "__main__":
    sys.exit(main())
