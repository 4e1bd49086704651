"""Each role of the simulator's attacker, in each suite in which it can be held against.

    python -m tests.verification.campaigns attackers --seeds 500

A row is a role in a suite: seeds with faults, and seeds without, in which there must be as many
views as without the attacker. An eviction causes a view of its own, so its runs check that
themselves.
"""

import os
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Final

import attrs

from groupcomm.config.core import Rekeying
from groupcomm.sim.run import RunResult
from groupcomm.sim.settings import Options
from groupcomm_tools.campaign import Run, run_campaign
from groupcomm_tools.terminal import say
from tests.verification.campaigns.runner import COMMAND, Found, campaign, option
from tests.verification.simulation.attackers.roles import EVICTED, FOR_SUITE_2, ROLES
from tests.verification.simulation.runs import replay_command, run, run_seed
from tests.verification.simulation.settings import VerificationOptions, draw_settings

SUITES: Final = (1, 2)


def suites_of(role: str) -> tuple[int, ...]:
    """Return the suites in which a role can be held against."""
    return (2,) if role in FOR_SUITE_2 else SUITES


@attrs.frozen(kw_only=True)
class Row:
    """The results of one role in one suite.

    Attributes:
        role, suite: the role and the suite.
        seeds: the number of runs, with faults and without.
        views: the views of the runs without faults, with the attacker.
        without: the views of the same runs without the attacker; None where it causes one itself.
        failed: commands that repeat the failures.
        differing: commands of runs without faults that have another number of views than
            without the attacker.
    """

    role: str
    suite: int
    seeds: int
    views: int
    without: int | None
    failed: tuple[str, ...]
    differing: tuple[str, ...]

    def __str__(self) -> str:
        without = "-" if self.without is None else self.without
        told = f"{self.role:11} {self.suite:5} {self.seeds:6} {self.views:6} {without:>8}"
        return f"{told} {len(self.failed):7}"


def run_whole(seed: int, options: Options) -> RunResult:
    """Run one seed in which none is cut off but the evicted, and keys change as seldom as usual.

    Settings with an attacker draw epochs of half a second, too, in which daemons that are 0.1 s
    apart cannot keep a view: the comparison would be of epochs, not of attackers.
    """
    drawn = draw_settings(seed, options)
    core = () if drawn.evicted is None else drawn.core
    return run(attrs.evolve(drawn, core=core, epoch_s=Rekeying().epoch_s))


@attrs.frozen
class Campaign:
    """The way in which the runs of all rows are made."""

    seeds: Sequence[int]
    roles: Sequence[str]
    duration_s: float
    workers: int

    def run(
        self, options: VerificationOptions, run_one: Run = run_seed
    ) -> tuple[dict[int, int], list[str]]:
        """Run each seed; return the views of each, and commands that repeat what failed."""
        views: dict[int, int] = {}
        failed: list[str] = []
        with closing(
            run_campaign(self.seeds, options, workers=self.workers, run=run_one)
        ) as results:
            for result in results:
                seed = result.settings.seed
                views[seed] = result.views
                if result.findings:
                    failed.append(self.again(seed, options))
        return views, failed

    def again(self, seed: int, options: VerificationOptions) -> str:
        """Return the command that repeats one run."""
        if options.faults != "none":
            return replay_command(seed, options)
        roles = f" --roles {' '.join(options.attackers)}" if options.attackers else ""
        return (
            f"{COMMAND} attackers --first {seed} --seeds 1"
            f" --duration-s {self.duration_s:g} --suites {options.suite}{roles}"
        )

    def run_suite(self, suite: int) -> Iterator[Row]:
        """Run without an attacker, then each role with faults and without faults."""
        quiet = VerificationOptions(suite=suite, faults="none", duration_s=self.duration_s / 2)
        alone, wrong = self.run(quiet, run_whole)  # the reference for every role
        for role in self.roles:
            if suite not in suites_of(role):
                continue
            calm = attrs.evolve(quiet, attackers=(role,))
            rough = attrs.evolve(calm, faults="all", duration_s=self.duration_s)
            rough_views, failed = self.run(rough)
            views, calm_failed = self.run(calm, run_whole)
            others = [] if role == EVICTED else [n for n in self.seeds if views[n] != alone[n]]
            yield Row(
                role=role,
                suite=suite,
                seeds=len(rough_views) + len(views),
                views=sum(views.values()),
                without=None if role == EVICTED else sum(alone.values()),
                failed=(*wrong, *failed, *calm_failed),
                differing=tuple(self.again(seed, calm) for seed in others),
            )


@campaign(
    option("seeds", 500, "of each kind of run"),
    option("first", 1, "the first seed"),
    option("duration_s", 10.0, "simulated, of each run with faults; half of it without"),
    option("suites", SUITES, choices=SUITES),
    option("roles", tuple(ROLES), choices=tuple(ROLES)),
    option("workers", os.cpu_count() or 1, "processes"),
)
def attack(options: Namespace) -> Found:
    """Run each role in each suite; return a row for each."""
    seeds = range(options.first, options.first + options.seeds)
    attacks = Campaign(seeds, options.roles, options.duration_s, options.workers)
    rows: list[Row] = []
    say("role        suite  seeds  views  without  failed")
    for suite in options.suites:
        for row in attacks.run_suite(suite):
            rows.append(row)
            say("\n".join([str(row), *row.failed]))
    wrong = [command for row in rows for command in row.failed]
    text = "another number of views than without the attacker"
    wrong += [f"{text}: {command}" for row in rows for command in row.differing]
    return {"rows": [attrs.asdict(row) for row in rows], "violations": wrong}
