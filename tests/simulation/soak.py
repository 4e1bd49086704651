"""`make soak`: hunt every known bug anew, then run new seeds of the core as it is.

Everything that must survive an interruption is in ``soak/``: how far the hunt for each bug is, the
next new seed, and a file for each seed that failed. A change of the sources starts the hunt again.
"""

import argparse
import hashlib
import os
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import msgspec

from groupcomm.sim.known_bugs import KNOWN_BUGS
from groupcomm.sim.run import RunResult
from groupcomm.sim.settings import Options
from groupcomm_client.campaign import run_campaign

ROOT = Path(__file__).parent.parent.parent
HUNT_SEEDS = 1000
FIRST_NEW_SEED = 1_000_001
BATCH = 50


class Hunt(msgspec.Struct):
    """How far the hunt for one bug is."""

    tried: int = 0
    seed: int | None = None
    properties: list[str] = []


class State(msgspec.Struct):
    """What is kept between runs."""

    sources: str = ""
    hunts: dict[str, Hunt] = {}
    next_seed: int = FIRST_NEW_SEED
    failed: list[int] = []


class Soak:
    """Hunts and runs, keeping its state in a folder.

    Args:
        folder: where the state and the failures go.
        workers: processes.
        duration_s: simulated seconds for each seed.
    """

    def __init__(self, folder: Path, workers: int, duration_s: float) -> None:
        self.folder = folder
        self.workers = workers
        self.duration_s = duration_s
        folder.mkdir(exist_ok=True)
        self._file = folder / "state.json"
        self.state = State()
        if self._file.exists():
            self.state = msgspec.json.decode(self._file.read_bytes(), type=State)
        if self.state.sources != digest_of_sources():
            self.state.sources = digest_of_sources()
            self.state.hunts = {}

    def save(self) -> None:
        """Write the state, whole or not at all."""
        new = self._file.with_suffix(".new")
        new.write_bytes(msgspec.json.encode(self.state))
        new.replace(self._file)

    def hunt(self, bug: str, seeds: int) -> Hunt:
        """Run a wrong core until an oracle notices, over at most so many seeds."""
        hunt = self.state.hunts.setdefault(bug, Hunt())
        if hunt.seed is None and hunt.tried < seeds:
            options = Options(known_bug=bug, duration_s=self.duration_s)
            wanted = range(hunt.tried + 1, seeds + 1)
            with closing(run_campaign(wanted, options, workers=self.workers)) as results:
                for result in results:
                    hunt.tried += 1
                    if result.findings:
                        hunt.seed = result.settings.seed
                        hunt.properties = sorted({found.property for found in result.findings})
                        break
            self.save()
        return hunt

    def run_new_seeds(self, until: float) -> None:
        """Run seeds that were never run, until a time of the monotonic clock."""
        options = Options(duration_s=self.duration_s)
        while time.monotonic() < until:
            seeds = range(self.state.next_seed, self.state.next_seed + BATCH)
            with closing(run_campaign(seeds, options, workers=self.workers)) as results:
                for result in results:
                    self.state.next_seed = result.settings.seed + 1
                    if result.findings:
                        self._keep(result)
                    if time.monotonic() >= until:
                        break
            self.save()
            done = self.state.next_seed - FIRST_NEW_SEED
            print(f"{done} new seeds, {len(self.state.failed)} failed", flush=True)

    def _keep(self, result: RunResult) -> None:
        seed = result.settings.seed
        self.state.failed.append(seed)
        lines = [f"{found.property}: {found.text}" for found in result.findings]
        text = "\n".join([*result.last_events, "", *lines, "", str(result.settings), ""])
        (self.folder / f"seed-{seed}.txt").write_text(text)


def digest_of_sources() -> str:
    """What tells whether an earlier hunt still says something about this core."""
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted((ROOT / "groupcomm").rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def main(arguments: Sequence[str] | None = None) -> int:
    """Hunt, run, report; 1 if a bug was not found or a seed of the core as it is failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="for new seeds, after the hunt")
    parser.add_argument("--hunt-seeds", type=int, default=HUNT_SEEDS, help="at most, for each bug")
    parser.add_argument("--duration-s", type=float, default=10.0, help="simulated, for each seed")
    parser.add_argument("--folder", type=Path, default=ROOT / "soak")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    soak = Soak(options.folder, options.workers, options.duration_s)
    missed = 0
    for bug in KNOWN_BUGS:
        hunt = soak.hunt(bug.name, options.hunt_seeds)
        missed += hunt.seed is None
        found = "NOT FOUND" if hunt.seed is None else f"seed {hunt.seed}: {hunt.properties}"
        print(f"{bug.name}: {found}, {hunt.tried} seeds tried", flush=True)
    try:
        soak.run_new_seeds(time.monotonic() + 60 * options.minutes)
    except KeyboardInterrupt:
        soak.save()
        print("stopped; the next run goes on from here")
    for seed in soak.state.failed:
        print(f"seed {seed} failed, see {soak.folder / f'seed-{seed}.txt'}")
    return 1 if missed or soak.state.failed else 0


if __name__ == "__main__":
    sys.exit(main())
