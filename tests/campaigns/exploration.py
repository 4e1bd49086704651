"""Explore small clusters exhaustively, one set of bounds after the other; then hunt known bugs so.

    python -m tests.campaigns.exploration                       # all sets of bounds
    python -m tests.campaigns.exploration --only start-3        # those of one cluster
    python -m tests.campaigns.exploration --mutants --states 600

Each set that is not explored as a whole, and each finding, makes the exit status 1. With --mutants
each known bug is looked for in several clusters and orders, up to a number of states in each.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any, Final

import attrs

from groupcomm.sim.explore.scenarios import SCENARIOS, begin
from groupcomm.sim.explore.script import write_path
from groupcomm.sim.explore.search import Progress, Search
from groupcomm.sim.explore.transitions import CRASH, CUT, DEFER, KINDS, LATE, LOSS, Bounds
from groupcomm_tools.terminal import say
from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import Mutant


@attrs.frozen
class Exploration:
    """One set of bounds.

    Attributes:
        scenario: the name of the cluster.
        deviations: the most deviations together.
        within_s: the simulated seconds in which they happen.
        kinds: their kinds.
    """

    scenario: str
    deviations: int
    within_s: float
    kinds: tuple[str, ...] = KINDS

    def run(self, *, most_states: int, **options: Any) -> tuple[Progress, int]:
        """Explore; return how far it has come, and the number of states of daemons."""
        most = dict.fromkeys(self.kinds, self.deviations)
        bounds = Bounds(most=most, in_all=self.deviations, within_s=self.within_s)
        beginning = begin(SCENARIOS[self.scenario], bounds)
        search = Search(beginning, most_states=most_states, **options)
        return search.run(), len(beginning.system.nodes.states)


EXPLORATIONS: Final = (
    Exploration("start-2", 0, 0.02),
    Exploration("start-2", 1, 0.02),
    Exploration("start-2", 2, 0.0005),
    Exploration("agreed-2", 1, 0.02),
    Exploration("agreed-2", 2, 0.0005, (DEFER, LOSS)),
    Exploration("groups-2", 0, 0.02),
    Exploration("groups-2", 1, 0.0005),
    Exploration("levels-2", 0, 0.02),
    Exploration("sites-2", 1, 0.02),
    Exploration("start-3", 0, 0.02),
    Exploration("start-3", 1, 0.0005),
    Exploration("agreed-3", 1, 0.002),
    Exploration("safe-3", 1, 0.0005),
)
"""The sets of bounds, the smallest of each cluster first."""

HUNTS: Final = (
    Exploration("agreed-2", 0, 0.05),
    Exploration("groups-2", 0, 0.05),
    Exploration("sites-2", 0, 0.05),
    Exploration("start-3", 0, 0.01),
    Exploration("levels-2", 1, 0.05, (DEFER, LOSS)),
    Exploration("groups-2", 1, 0.05),
    Exploration("agreed-3", 1, 0.03),
    Exploration("safe-3", 2, 0.03, (DEFER, LATE, LOSS)),
    Exploration("start-2", 1, 0.03, (LOSS, CRASH, CUT)),
    Exploration("start-3", 1, 0.01, (LOSS, CRASH, CUT)),
    Exploration("sites-2", 1, 0.05),
    Exploration("agreed-2", 2, 0.5),
)
"""Where known bugs are looked for."""


def explore(each: Exploration, options: argparse.Namespace) -> bool:
    """Explore within one set of bounds; return whether all was reached and nothing is wrong."""
    began = time.monotonic()
    progress, local = each.run(
        most_states=options.states,
        report=lambda p: say(f"{each.scenario}: {p.states} states, {p.ends} ends"),
    )
    figures = {
        **attrs.asdict(each),
        **attrs.asdict(progress, filter=lambda field, _: field.name != "findings"),
        "daemon_states": local,
        "findings": [f"{found.property}: {found.text}" for found in progress.findings],
        "wall_s": round(time.monotonic() - began, 1),
    }
    print(json.dumps(figures), flush=True)
    for number, found in enumerate(progress.findings, 1):
        file = options.folder / f"{each.scenario}-{each.deviations}-{number}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(write_path(each.scenario, found.moves, f"{found.property}: {found.text}"))
        say(f"see it again with: groupcomm explore --replay {file}")
    return progress.is_complete and not progress.findings


def hunt(bug: Mutant, most_states: int) -> dict[str, Any]:
    """Look for a known bug; return where it was found, if it was."""
    row: dict[str, Any] = {"bug": bug.name, "found": False}
    began = time.monotonic()
    for order, each in enumerate(HUNTS):
        with bug.active():
            try:
                progress, _ = each.run(most_states=most_states, stop_at_first=True, shuffle=order)
            except AssertionError as error:  # no exploration can begin
                return {**row, "found": True, "scenario": each.scenario, "property": str(error)}
        if progress.findings:
            found = progress.findings[0]
            row |= attrs.asdict(each) | {"found": True, "states": progress.states}
            row |= {"property": found.property, "text": found.text, "spent": found.deviations}
            break
    return row | {"wall_s": round(time.monotonic() - began, 1)}


def main() -> int:
    """Explore or hunt; return 1 if something was found where nothing should be."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", metavar="NAME", help="one cluster, or with --mutants one bug")
    parser.add_argument("--mutants", action="store_true", help="hunt known bugs")
    parser.add_argument("--states", type=int, default=10**8, metavar="N", help="the most states")
    parser.add_argument("--folder", type=Path, default=Path("exploration"), metavar="DIR")
    options = parser.parse_args()
    if options.mutants:
        chosen = [bug for bug in MUTANTS if not (bug.rosters or bug.versions)]
        for bug in chosen:
            if options.only in (None, bug.name):
                print(json.dumps(hunt(bug, options.states)), flush=True)
        return 0
    rows = [each for each in EXPLORATIONS if options.only in (None, each.scenario)]
    held = [explore(each, options) for each in rows]  # all of them, whatever is found
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
