"""Each role of the simulator's attacker, in each suite in which it can be held against.

    python -m tests.campaigns.attackers --seeds 500

A row is a role in a suite: seeds with faults, and seeds without, in which there must be as many
views as without the attacker. An eviction brings one of its own, so its runs judge that themselves.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import closing
from typing import Final

import attrs

from groupcomm.sim.roles.names import EVICTED, FOR_SUITE_2, ROLES
from groupcomm.sim.settings import Options
from groupcomm_client.campaign import Totals, replay_command, run_campaign

PLAYED: Final = tuple(
    (role, suite) for role in ROLES for suite in (1, 2) if suite == 2 or role not in FOR_SUITE_2
)


@attrs.frozen(kw_only=True)
class Row:
    """What came of one role in one suite.

    Attributes:
        role, suite: which.
        seeds: how many runs, with faults and without.
        views: of the runs without faults, with the attacker.
        without: of the same runs without the attacker; None where it brings one itself.
        failed: commands that show again what was found.
    """

    role: str
    suite: int
    seeds: int
    views: int
    without: int | None
    failed: tuple[str, ...]

    @property
    def is_well(self) -> bool:
        """Whether nothing was found, and no view came of the attacker."""
        return not self.failed and self.without in (None, self.views)

    def __str__(self) -> str:
        without = "-" if self.without is None else self.without
        told = f"{self.role:9} {self.suite:5} {self.seeds:6} {self.views:6} {without:>8}"
        return f"{told} {len(self.failed):7}"


def run_role(role: str, suite: int, seeds: Sequence[int], duration_s: float, workers: int) -> Row:
    """Run a role with faults, without, and without the role."""
    quiet = Options(suite=suite, faults="none", duration_s=duration_s)
    calm = attrs.evolve(quiet, attackers=(role,))
    rough = attrs.evolve(calm, faults="all")
    failed: list[str] = []
    sums: list[Totals] = []
    for options in (rough, calm, *([] if role == EVICTED else [quiet])):
        totals = Totals()
        with closing(run_campaign(seeds, options, workers=workers)) as results:
            for result in results:
                totals.add(result)
        failed += [replay_command(each.settings.seed, options) for each in totals.failed]
        sums.append(totals)
    return Row(
        role=role,
        suite=suite,
        seeds=sums[0].seeds + sums[1].seeds,
        views=sums[1].views,
        without=None if role == EVICTED else sums[2].views,
        failed=tuple(failed),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each role and suite; return 1 if anything was found, else 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seeds", type=int, default=500, help="of each kind of run")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--duration-s", type=float, default=10.0, help="simulated, of each run")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes")
    options = parser.parse_args(arguments)
    seeds = range(options.first, options.first + options.seeds)
    all_well = True
    print("role      suite  seeds  views  without  failed", flush=True)
    for role, suite in PLAYED:
        row = run_role(role, suite, seeds, options.duration_s, options.workers)
        all_well &= row.is_well
        print("\n".join([str(row), *row.failed]), flush=True)
    return 0 if all_well else 1


if __name__ == "__main__":
    sys.exit(main())
