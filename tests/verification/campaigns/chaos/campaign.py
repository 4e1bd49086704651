"""Chaos: real daemons and programs under load, with kills, stops and partitions, checked.

In rounds, each with a new cluster. All acts of daemons and programs are traced, and each round's
traces are verified by the checkers of the simulator. `make chaos` runs it.
"""

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

import attrs
import trio

from groupcomm.errors import GroupCommError
from groupcomm_tools.relay import Line
from groupcomm_tools.terminal import say
from groupcomm_tools.topology import Topology
from tests.verification.campaigns.chaos.disasters import DISASTERS, Disaster, Outcome, in_turn
from tests.verification.campaigns.chaos.folder_disasters import FOLDER_DISASTERS
from tests.verification.campaigns.chaos.host_disasters import CLOCKS, HOST_DISASTERS
from tests.verification.campaigns.chaos.hosts import INSTALL, find_faketime
from tests.verification.campaigns.chaos.operator_disasters import OPERATOR_DISASTERS
from tests.verification.campaigns.chaos.programs import Load
from tests.verification.campaigns.chaos.sites import (
    MAX_DAEMONS,
    SITES_IN_TURN,
    describe,
    draw_topology,
)
from tests.verification.campaigns.chaos.stage import Stage, open_stage
from tests.verification.campaigns.chaos.totals import Totals
from tests.verification.campaigns.consistency.operations import write_operations
from tests.verification.campaigns.consistency.programs import open_programs
from tests.verification.campaigns.runner import Found, NotHere, campaign, option


@attrs.define
class Figures:
    """The results of all rounds so far."""

    outcomes: list[Outcome] = attrs.field(factory=list)
    failures: list[str] = attrs.field(factory=list)
    sent: int = 0
    deliveries: int = 0
    events: int = 0
    operations: int = 0
    violations: int = 0
    loaded_s: float = 0.0
    checked_s: float = 0.0

    def since(self, before: "Figures") -> dict[str, Any]:
        """Return what has come since earlier figures, as JSON."""
        outcomes = self.outcomes[len(before.outcomes) :]
        return {
            "disasters": len(outcomes),
            "kinds": dict(Counter(outcome.kind for outcome in outcomes)),
            "events": self.events - before.events,
            "deliveries": self.deliveries - before.deliveries,
            "operations": self.operations - before.operations,
            "violations": self.violations - before.violations,
            "failures": self.failures[len(before.failures) :],
        }

    def found(self) -> Found:
        """Return them, times in milliseconds."""
        views, heals = defaultdict(list), defaultdict(list)
        for outcome in self.outcomes:
            if outcome.view_ms is not None:
                views[outcome.kind].append(outcome.view_ms)
            if outcome.heal_ms is not None:
                heals[outcome.kind].append(outcome.heal_ms)
        wrong = [f"{self.violations} properties did not hold"] * bool(self.violations)
        wrong += self.failures
        return {
            "disasters": len(self.outcomes),
            "violations": wrong,
            "sent": self.sent,
            "sent_per_s": round(self.sent / self.loaded_s) if self.loaded_s else 0,
            "deliveries": self.deliveries,
            "events": self.events,
            "operations": self.operations,
            "view_ms": {kind: spread(found) for kind, found in sorted(views.items())},
            "heal_ms": {kind: spread(found) for kind, found in sorted(heals.items())},
            "loaded_s": round(self.loaded_s, 1),
            "checked_s": round(self.checked_s, 1),
        }


def spread(values: Sequence[float]) -> dict[str, float]:
    """Count, median and the like."""
    ordered = sorted(values)
    p95 = ordered[min(len(ordered) - 1, len(ordered) * 95 // 100)]
    return {
        "n": len(ordered),
        "p50": round(statistics.median(ordered), 1),
        "p95": round(p95, 1),
        "max": round(ordered[-1], 1),
    }


ALL_IN_TURN: Final[tuple[Disaster, ...]] = in_turn(
    DISASTERS, (*HOST_DISASTERS, *OPERATOR_DISASTERS, *FOLDER_DISASTERS)
)
"""The disasters of a cluster in one site."""

NAMES: Final = sorted({disaster.__name__ for disaster in (*SITES_IN_TURN, *ALL_IN_TURN)})


class LogsNotClear(GroupCommError):
    """A daemon has ended, or gone on, with a traceback in place of a sentence."""


class PromiseBroken(GroupCommError):
    """Shared objects did not do what is promised for them."""


class Campaign:
    """Rounds of disasters.

    Args:
        options: `disasters` in all, `round` of one cluster, `seed`, and whether to `keep` all
            traces.
        load: the load of the programs.
        kinds: the kinds of disasters, in turn.
        draw: returns the daemons of a round.
        within: the line between daemons of one site; None if they communicate directly.
        look: called with the folder of each round's traces, once they were checked.
    """

    def __init__(
        self,
        options: Namespace,
        load: Load,
        kinds: Sequence[Disaster],
        draw: Callable[[Random], Topology],
        *,
        within: Line | None = None,
        look: Callable[[Path], None] = lambda _: None,
    ) -> None:
        self._options = options
        self._load = load
        self._kinds = kinds
        self._draw = draw
        self._within = within
        self._look = look
        kind = {"seed": options.seed, "sites": getattr(options, "sites", 1)}
        path = getattr(options, "totals", None)
        self.totals = Totals(path, kind) if path is not None else None
        self.figures = Figures()

    async def run(self) -> None:
        """All rounds."""
        kinds, size = self._kinds, self._options.round
        totals = self.totals
        rounds, done = totals.done() if totals is not None else (0, 0)
        todo = [kinds[(done + n) % len(kinds)] for n in range(self._options.disasters)]
        for number, first in enumerate(range(0, len(todo), size), rounds + 1):
            before, asked = attrs.evolve(self.figures), len(todo[first : first + size])
            before.outcomes, before.failures = list(before.outcomes), list(before.failures)
            folder = Path(tempfile.mkdtemp(prefix=f"chaos-{number}-"))
            started = time.monotonic()
            try:
                await self._round(folder, number, todo[first : first + size])
            except* GroupCommError as group:
                self.figures.failures += [f"round {number}: {e}" for e in _leaves(group)]
            self.figures.loaded_s += time.monotonic() - started
            good = self._check(folder, number)
            good &= len(self.figures.failures) == len(before.failures)
            self._look(folder)
            for failure in self.figures.failures[len(before.failures) :]:
                say(failure)
            self._report(number, folder if not good else None)
            if totals is not None:
                seconds = time.monotonic() - started
                totals.add({"asked": asked, "seconds": seconds, **self.figures.since(before)})
            if good and not self._options.keep:
                shutil.rmtree(folder)

    async def _round(self, folder: Path, number: int, disasters: Sequence[Disaster]) -> None:
        seed = f"{self._options.seed} {number}"
        rng = Random(seed)
        topology = self._draw(rng)
        if topology.links:
            say(f"round {number}: {describe(topology)}")
        async with open_stage(folder, seed, self._load, topology, self._within) as stage:
            if getattr(self._options, "records", None) is None:
                await self._cause(disasters, stage, rng)
                await stage.settle()
            else:
                await self._cause_beside_objects(disasters, stage, rng, folder, seed)
        if stage.tracebacks:
            raise LogsNotClear("; ".join(stage.tracebacks))

    async def _cause(self, disasters: Sequence[Disaster], stage: Stage, rng: Random) -> None:
        for disaster in disasters:
            await stage.replicated(stage.names)
            await trio.sleep(rng.uniform(0.3, 0.8))
            self.figures.outcomes.append(await disaster(stage, rng))

    async def _cause_beside_objects(
        self, disasters: Sequence[Disaster], stage: Stage, rng: Random, folder: Path, seed: str
    ) -> None:
        """Have programs use shared objects meanwhile, and verify what they did."""
        clocks = {name: host.clock for name, host in stage.hosts.items()}
        path = self._options.records / f"seed-{seed.replace(' ', '-')}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        async with open_programs(stage.cluster.daemons, seed, clocks, folder) as programs:
            stage.objects = programs
            try:
                await self._cause(disasters, stage, rng)
                verdict = await programs.finish()
                stage.objects = None
                await stage.settle()
            finally:
                write_operations(path, programs.operations)
        self.figures.operations += len(programs.operations)
        say(f"objects: {verdict.text()}; {path}")
        if not verdict.holds:
            raise PromiseBroken(f"{verdict.broken or verdict.undecided}; see {path}")

    def _check(self, folder: Path, number: int) -> bool:
        """Have the checkers verify a round's traces; return whether everything holds."""
        started = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "groupcomm_tools.cli", "check", str(folder), "--json"],
            capture_output=True,
            text=True,
            check=False,
        )
        figures = self.figures
        figures.checked_s += time.monotonic() - started
        for path in folder.glob("session-*.jsonl"):
            text = path.read_bytes()
            figures.sent += text.count(b'{"e":"send"')
            figures.deliveries += text.count(b'{"e":"dlv"')
        if done.returncode not in (0, 1) or not done.stdout:
            figures.failures.append(f"round {number}: not checked: {done.stderr.strip()[-500:]}")
            return False
        found = json.loads(done.stdout)
        figures.events += found["events"]
        figures.violations += found["violations"]
        if not found["complete"]:
            figures.failures.append(f"round {number}: its end was not reached")
        if done.returncode:
            sys.stderr.write(done.stderr[:4000])
        return done.returncode == 0 and bool(found["complete"])

    def _report(self, number: int, kept: Path | None) -> None:
        figures = self.figures
        say(
            f"round {number}: {len(figures.outcomes)} of {self._options.disasters} disasters,"
            f" {figures.sent} messages, {figures.deliveries} deliveries,"
            f" {figures.violations} violations, {len(figures.failures)} failures"
            + (f"; traces are in {kept}" if kept else "")
        )


def _leaves(group: BaseExceptionGroup[GroupCommError]) -> list[GroupCommError]:
    return [
        leaf
        for error in group.exceptions
        for leaf in (_leaves(error) if isinstance(error, BaseExceptionGroup) else [error])
    ]


@campaign(
    option("disasters", 200, "in all"),
    option("round", 12, "of one cluster"),
    option("sites", 1, "that are apart"),
    option("daemons", type=int, text="in all (3; two for each of several sites)"),
    option("rate", type=float, text="messages a second (1800; 600 with several sites)"),
    option("seed", 1, "of load and disasters"),
    option("only", "", "disasters of this kind only", choices=NAMES),
    option(
        "records",
        type=Path,
        text="a folder: programs use shared objects, what they did is written there and verified",
    ),
    option(
        "totals",
        type=Path,
        text="a file: go on behind the rounds of this seed in it, add each round, tell the sums",
    ),
    option("keep", False, "keep all traces"),
)
async def run(options: Namespace) -> Found:
    """Run a campaign; return its figures."""
    if options.sites == 1 and options.only not in ("", *(d.__name__ for d in ALL_IN_TURN)):
        raise NotHere(f"--only {options.only} is for several sites; give --sites, too")
    if options.daemons is None:
        options.daemons = 3 if options.sites == 1 else 2 * options.sites
    if options.rate is None:
        options.rate = 1800.0 if options.sites == 1 else 600.0
    if not options.sites <= options.daemons <= MAX_DAEMONS:
        raise NotHere(f"{options.daemons} daemons; there are one a site to {MAX_DAEMONS}")
    if not find_faketime():
        left_out = ", ".join(disaster.__name__ for disaster in CLOCKS)
        say(f"no clock can be wrong, as faketime is missing ({INSTALL}): left out are {left_out}")
    chosen = ALL_IN_TURN if options.sites == 1 else SITES_IN_TURN
    rounds = Campaign(
        options,
        Load(rate=options.rate),
        [disaster for disaster in chosen if options.only in ("", disaster.__name__)],
        lambda rng: draw_topology(rng, options.daemons, options.sites),
        within=Line(),
    )
    await rounds.run()
    totals = {} if rounds.totals is None else {"totals": rounds.totals.summary()}
    return {**rounds.figures.found(), **totals}
