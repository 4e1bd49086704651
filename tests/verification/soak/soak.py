"""`make soak`: hunt every mutant anew, then run new seeds of the core as it is.

It may be stopped at any moment, also by being killed: its state is in ``soak/``, and is written
after each run. It has the progress of the hunt for each bug, the next new seed, and a file for each
seed that failed. After a change of the sources the hunts start again, and earlier failures run
again first.

New seeds run all kinds of clusters in turn. A seed that fails is run with less and less until it
does not fail any more, and its file has the smallest run. Seeds that fail alike have one file.
"""

import argparse
import hashlib
import os
import re
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from pathlib import Path

import attrs
import msgspec

from groupcomm.sim.run import RunResult
from groupcomm_tools.campaign import run_campaign
from groupcomm_tools.traces.text import readable
from tests.verification.lives import days
from tests.verification.mutants import catalogue
from tests.verification.mutants.mutant import Mutant
from tests.verification.mutants.runs import MutantOptions, replay_command, run_seed
from tests.verification.simulation.settings import VerificationOptions
from tests.verification.soak.shrinking import shrink

ROOT = Path(__file__).parent.parent.parent.parent
HUNT_SEEDS = 1000
FIRST_NEW_SEED = 1_000_001
BATCH = 50
PROGRESS_S = 20.0
KINDS = (
    VerificationOptions(),
    VerificationOptions(sites=3),
    VerificationOptions(targets=True),
    VerificationOptions(rosters=True),
    VerificationOptions(rosters=True, votes=True),
    VerificationOptions(rosters=True, votes=True, minority=True),
    VerificationOptions(versions=True),
    VerificationOptions(segments=True),
    VerificationOptions(targets=True, sites=3),
    VerificationOptions(suite=2),
    VerificationOptions(rosters=True, sites=3),
    VerificationOptions(faults="every"),
)
"""The kinds of clusters that new seeds run."""
TABLE = "mutants.md"
MISSED = "nothing within"
UNHUNTED = "not hunted yet"


class Hunt(msgspec.Struct):
    """The progress of the hunt for one bug: the seeds tried, and the one that found it, if any."""

    tried: int = 0
    seed: int | None = None
    properties: list[str] = []


class Failure(msgspec.Struct):
    """A seed for which the present core, or the core of these sources, breaks properties."""

    seed: int
    options: VerificationOptions
    properties: list[str]
    sources: str
    likeness: str = ""  # what it has in common with others that fail alike
    alike: int = 0  # later seeds that do


class State(msgspec.Struct):
    """The state that is kept between runs.

    Attributes:
        sources, duration_s: the sources and the duration of the hunts.
        hunts: the hunts by bug.
        next_seed: the first seed that never ran with the present core.
        views, simulated_s: the sums over all runs of new seeds.
        failures: the failures that need attention.
    """

    sources: str = ""
    duration_s: float = 0.0
    hunts: dict[str, Hunt] = {}
    next_seed: int = FIRST_NEW_SEED
    views: int = 0
    simulated_s: float = 0.0
    failures: list[Failure] = []


Run = Callable[[Sequence[int], VerificationOptions], Generator[RunResult, None, None]]
"""Runs seeds, and yields the results in their order."""


class Soak:
    """Hunts and runs, keeping its state in a folder.

    Args:
        folder: the folder of the state and the failures.
        run: runs seeds.
        duration_s: the simulated seconds for each seed.

    Attributes:
        state: the state in the folder.
    """

    def __init__(self, folder: Path, run: Run, duration_s: float) -> None:
        self.folder = folder
        self._run = run
        self._duration_s = duration_s
        self._said_at = time.monotonic()
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / "state.json"
        self.state = State()
        if self._file.exists():
            self.state = msgspec.json.decode(self._file.read_bytes(), type=State)
        self._sources = digest_of_sources()
        if (self.state.sources, self.state.duration_s) != (self._sources, duration_s):
            self.state.hunts = {}
            self.state.sources, self.state.duration_s = self._sources, duration_s

    def _save(self) -> None:
        """Write the state, completely or not at all."""
        new = self._file.with_suffix(".new")
        new.write_bytes(msgspec.json.encode(self.state))
        new.replace(self._file)

    def _progress(self, text: str) -> None:
        """Report progress now and then."""
        if time.monotonic() >= self._said_at + PROGRESS_S:
            say(text)
            self._said_at = time.monotonic()

    # ---- earlier failures ----

    def retry(self) -> None:
        """After a change of the sources run earlier failures again; those that pass are removed.

        Its file stays, under another name: a run of the same seed may be another one by now.
        """
        for failure in [one for one in self.state.failures if one.sources != self._sources]:
            with closing(self._run([failure.seed], failure.options)) as results:
                (result,) = results
            self.state.failures.remove(failure)
            if result.findings:
                self._fail(result, failure.options)
            else:
                say(f"seed {failure.seed} does not fail any more")
                kept = self.file_of(failure.seed)
                if kept.exists():
                    kept.rename(kept.with_suffix(".passed"))
            self._save()

    # ---- mutants ----

    def options_for(self, bug: Mutant) -> VerificationOptions:
        """Return the options of the runs in which a bug is hunted."""
        return MutantOptions(
            mutant=bug.name,
            sites=bug.sites,
            rosters=bug.rosters,
            votes=bug.votes,
            minority=bug.minority,
            versions=bug.versions,
            segments=bug.segments,
            faults=bug.faults,
            duration_s=self._duration_s,
        )

    def hunt(self, bug: Mutant, seeds: int) -> Hunt:
        """Run a mutant until a checker notices, over at most this many seeds."""
        hunt = self.state.hunts.setdefault(bug.name, Hunt())
        if hunt.seed is None and hunt.tried < seeds:
            rest = range(hunt.tried + 1, seeds + 1)
            with closing(self._run(rest, self.options_for(bug))) as results:
                for result in results:
                    hunt.tried += 1
                    properties = properties_of(result)
                    if properties and "assert" not in properties:  # the checkers must find it
                        hunt.seed = result.settings.seed
                        hunt.properties = properties
                    self._save()
                    if hunt.seed is not None:
                        break
                    self._progress(f"{bug.name}: {hunt.tried} of {seeds} seeds tried")
        return hunt

    # ---- the present core ----

    def run_new_seeds(self, until: float) -> None:
        """Run seeds that were never run, until a time of the monotonic clock."""
        state = self.state
        while time.monotonic() < until:
            options = self.kind_of(state.next_seed)
            # A batch that was stopped goes on with the clusters that it has begun with.
            count = BATCH - (state.next_seed - FIRST_NEW_SEED) % BATCH
            seeds = range(state.next_seed, state.next_seed + count)
            with closing(self._run(seeds, options)) as results:
                for result in results:
                    state.next_seed = result.settings.seed + 1
                    state.views += result.views
                    state.simulated_s += result.simulated_s
                    if result.findings:
                        self._fail(result, options)
                    self._save()
                    self._progress(self.summary())
                    if time.monotonic() >= until:
                        break

    def kind_of(self, seed: int) -> VerificationOptions:
        """Return the options of a new seed: batches of all kinds follow each other."""
        kind = KINDS[(seed - FIRST_NEW_SEED) // BATCH % len(KINDS)]
        return attrs.evolve(kind, duration_s=self._duration_s)

    def summary(self) -> str:
        """Return one line on the new seeds of this and all earlier runs."""
        state = self.state
        return (
            f"{state.next_seed - FIRST_NEW_SEED} new seeds, {state.simulated_s / 3600:.1f} "
            f"simulated hours, {state.views} views, {len(state.failures)} failed"
        )

    def file_of(self, seed: int) -> Path:
        """Return the path of the record of a run that failed."""
        return self.folder / f"seed-{seed}.txt"

    def _fail(self, result: RunResult, options: VerificationOptions) -> None:
        seed, properties, whole = result.settings.seed, properties_of(result), options
        likeness = _likeness_of(result)
        first = next((one for one in self.state.failures if one.likeness == likeness), None)
        if first is not None:
            first.alike += 1
            say(f"seed {seed} fails like {first.seed}: {replay_command(seed, options)}")
            return
        shrunk = shrink(seed, options, result, self._run_one)
        options, result = shrunk.options, shrunk.result
        lines = [replay_command(seed, options), ""]
        for found in result.findings:
            lines.append(f"{found.property}: {found.text}")
            lines += [f"  {readable(event)}" for event in found.evidence]
        lines += ["", "the last events:", *(f"  {readable(event)}" for event in result.last_events)]
        lines += ["", f"before shrinking: {replay_command(seed, whole)}"]
        lines += ["", f"sources {self._sources}", str(options), str(result.settings), ""]
        self.file_of(seed).write_text("\n".join(lines))
        failure = Failure(seed, whole, properties, self._sources, likeness)
        self.state.failures.append(failure)
        say(f"seed {seed} violates {', '.join(properties)}: {replay_command(seed, whole)}")
        if options != whole:
            say(f"  and, with less: {replay_command(seed, options)}")

    def _run_one(self, seed: int, options: VerificationOptions) -> RunResult:
        with closing(self._run([seed], options)) as results:
            return next(results)


def _likeness_of(result: RunResult) -> str:
    """Return what failures of one cause have in common: property and sentence, without numbers."""
    found = result.findings[0]
    return found.property + ": " + re.sub(r"[0-9a-f]*\d[0-9a-f]*", "N", found.text)


def say(text: str) -> None:
    """Print a line at once, also into a file."""
    print(text, flush=True)


def properties_of(result: RunResult) -> list[str]:
    """Return the violated properties of a run, each once."""
    return sorted({found.property for found in result.findings})


def digest_of_sources() -> str:
    """Return a digest of the sources: an earlier hunt with the same digest is still valid."""
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted((ROOT / "groupcomm").rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def hunt_all(soak: Soak, bugs: Sequence[Mutant], seeds: int) -> int:
    """Hunt these bugs, and report the results; return the number of bugs not found."""
    missed = 0
    for bug in bugs:
        hunt = soak.hunt(bug, seeds)
        if hunt.seed is None:
            missed += 1
            say(f"{bug.name}: NOT FOUND, {hunt.tried} seeds tried")
        else:
            again = replay_command(hunt.seed, soak.options_for(bug))
            say(f"{bug.name}: seed {hunt.seed} violates {', '.join(hunt.properties)}: {again}")
    (soak.folder / TABLE).write_text(table_of(soak.state.hunts))
    return missed


def table_of(hunts: dict[str, Hunt]) -> str:
    """Return the table of docs/mutants.md."""
    rows = ["| bug | what is wrong | seed | found by |", "|---|---|---|---|"]
    for bug in catalogue.MUTANTS:
        hunt = hunts.get(bug.name, Hunt())
        if hunt.seed is not None:
            where = "" if bug.sites is None else f"{bug.sites} sites: "
            where += "" if bug.faults == "all" else f"{bug.faults}: "
            result = f"{where}{hunt.seed} | {', '.join(hunt.properties)}"
        elif hunt.tried:
            result = f"- | {MISSED} {hunt.tried} seeds"
        else:
            result = f"- | {UNHUNTED}"
        rows.append(f"| `{bug.name}` | {bug.sentence} | {result} |")
    return "\n".join([*rows, ""])


def main(arguments: Sequence[str] | None = None, run: Run | None = None) -> int:
    """Hunt, run, report; return 1 if a bug was not found or a seed of the core failed.

    Args:
        arguments: the arguments of the command line.
        run: runs seeds; by default in the number of processes that the command line gives.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="for new seeds, after the hunt")
    parser.add_argument("--hunt-seeds", type=int, default=HUNT_SEEDS, help="at most, for each bug")
    parser.add_argument("--bug", action="append", metavar="NAME", help="hunt this one; repeatable")
    parser.add_argument("--duration-s", type=float, default=10.0, help="simulated, for each seed")
    parser.add_argument("--days", action="store_true", help="long lives instead, see days.py")
    parser.add_argument("--folder", type=Path, default=ROOT / "soak")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)

    if options.days:
        return days.campaign(options.folder, options.minutes, options.workers)

    def run_in_workers(
        seeds: Sequence[int], chosen: VerificationOptions
    ) -> Generator[RunResult, None, None]:
        return run_campaign(seeds, chosen, workers=options.workers, run=run_seed)

    names = options.bug or [bug.name for bug in catalogue.MUTANTS]
    bugs = [catalogue.find_mutant(name) for name in names]
    soak = Soak(options.folder, run or run_in_workers, options.duration_s)
    missed = 0
    try:
        soak.retry()
        missed = hunt_all(soak, bugs, options.hunt_seeds)
        soak.run_new_seeds(time.monotonic() + 60 * options.minutes)
    except KeyboardInterrupt:
        say("stopped; the next run goes on from here")
    say(soak.summary())
    for failure in soak.state.failures:
        say(f"seed {failure.seed} failed, see {soak.file_of(failure.seed)}")
    return 1 if missed or soak.state.failures else 0


if __name__ == "__main__":
    sys.exit(main())
