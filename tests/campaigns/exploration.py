"""Explore small clusters exhaustively, one set of bounds after the other; then hunt known bugs so.

    python -m tests.campaigns.exploration                       # the smaller sets of bounds
    python -m tests.campaigns.exploration --all                 # all of them: the table of the docs
    python -m tests.campaigns.exploration --all --only start-3  # those of one cluster
    python -m tests.campaigns.exploration --bugs                # known bugs: the other table

Each set has a process of its own, so that its memory is measured; its time is processor time. Each
set that is not explored as a whole, and each finding, makes the exit status 1. A bug is looked for
in several clusters, with deviations of one kind each, up to a number of states.
"""

import argparse
import json
import multiprocessing
import resource
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, Final

import attrs

from groupcomm.sim.explore.scenarios import SCENARIOS, begin
from groupcomm.sim.explore.script import write_path
from groupcomm.sim.explore.search import Progress, Search
from groupcomm.sim.explore.transitions import CRASH, CUT, DEFER, KINDS, LATE, LOSS, Bounds
from groupcomm_tools.terminal import say
from tests.mutants.catalogue import MUTANTS, find_mutant
from tests.mutants.mutant import Mutant

_KIB: Final = 1024


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
        return search.run(), len(beginning.nodes.states)

    def __str__(self) -> str:
        if not self.deviations:
            return self.scenario
        kinds = "" if self.kinds == KINDS else f" of {', '.join(self.kinds)}"
        return f"{self.scenario}, {self.deviations}{kinds} within {self.within_s * 1000:g} ms"


SMALL: Final = (
    *(
        Exploration(name, 0, 0.02)
        for name in ("start-2", "agreed-2", "groups-2", "levels-2", "both-2", "sites-2", "agreed-3")
    ),
    Exploration("start-3", 0, 0.02),
    Exploration("agreed-2", 1, 0.02, (DEFER, LATE, LOSS)),
    Exploration("start-2", 1, 0.02, (DEFER, LATE, LOSS)),
)
"""Sets of bounds that take seconds."""

LARGE: Final = (
    Exploration("names-2", 0, 0.02),
    Exploration("large-2", 0, 0.02),
    Exploration("start-2", 1, 0.02, (CUT,)),
    Exploration("start-2", 1, 0.02, (CRASH,)),
    Exploration("agreed-2", 1, 0.02, (CUT,)),
    Exploration("agreed-2", 1, 0.02, (CRASH,)),
    Exploration("start-2", 2, 0.002, (DEFER, LOSS)),
    Exploration("agreed-2", 2, 0.02, (DEFER, LOSS)),
    Exploration("agreed-3", 1, 0.02, (DEFER, LATE, LOSS)),
    Exploration("start-3", 1, 0.002, (DEFER, LOSS)),
)
"""Sets of bounds that take minutes to an hour."""

_IN_ORDER: Final = ("agreed-2", "levels-2", "groups-2", "both-2", "large-2", "names-2")
_THREE: Final = ("agreed-3", "causal-3", "safe-3")
_SITES: Final = ("sites-2", "pair-3", "local-3", "sites-3")


def _hunts(names: Iterable[str], within_s: float = 0.02) -> list[Exploration]:
    """Return where bugs are looked for in some clusters: without faults, then with more of them."""
    names = list(names)
    found = [Exploration(name, 0, within_s) for name in names]
    for kind in (LOSS, DEFER, LATE, CRASH, CUT):
        found += [Exploration(name, 1, within_s, (kind,)) for name in names]
    for kinds in ((DEFER, LOSS), (LOSS, CRASH), (LATE, CUT), (LOSS, CUT), (CRASH, CUT)):
        found += [Exploration(name, 2, within_s, kinds) for name in names]
    return found


HUNTS: Final = _hunts((*_IN_ORDER, "start-2", *_THREE, "start-3"))
HUNTS_OF_SITES: Final = _hunts(_SITES, 0.2)


def explore(each: Exploration, most_states: int, folder: Path) -> dict[str, Any]:
    """Explore within one set of bounds; return the figures, and leave the paths to findings."""
    began = time.process_time()
    progress, local = each.run(
        most_states=most_states,
        report=lambda p: say(f"{each}: {p.states} states, {p.ends} ends"),
    )
    for number, found in enumerate(progress.findings, 1):
        file = folder / f"{each.scenario}-{each.deviations}-{'-'.join(each.kinds)}-{number}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(write_path(each.scenario, found.moves, f"{found.property}: {found.text}"))
        say(f"see it again with: groupcomm explore --replay {file}")
    return {
        **attrs.asdict(each),
        **attrs.asdict(progress, filter=lambda field, _: field.name != "findings"),
        "daemon_states": local,
        "findings": [f"{found.property}: {found.text}" for found in progress.findings],
        "processor_s": round(time.process_time() - began, 1),
        "memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // _KIB,
    }


def hunt(name: str, most_states: int, folder: Path) -> dict[str, Any]:
    """Look for a known bug; return where it was found, if it was."""
    bug = find_mutant(name)
    began = time.process_time()
    tried = 0
    row: dict[str, Any] = {"bug": bug.name, "found": False}
    for order, each in enumerate(HUNTS if bug.sites is None else HUNTS_OF_SITES):
        with bug.active():
            try:
                progress, _ = each.run(most_states=most_states, stop_at_first=True, shuffle=order)
            except AssertionError as error:  # no exploration can begin
                row |= {"found": True, "where": each.scenario, "property": "-", "text": str(error)}
                break
            tried += progress.states
            if progress.findings:
                found = progress.findings[0]
                folder.mkdir(parents=True, exist_ok=True)
                path = write_path(each.scenario, found.moves, f"{found.property}: {found.text}")
                (folder / f"{bug.name}.txt").write_text(path)
                row |= {"found": True, "where": str(each), "states": progress.states}
                row |= {"property": found.property, "text": found.text, "spent": found.deviations}
                break
    row |= {"tried": tried, "processor_s": round(time.process_time() - began, 1)}
    return row


def table_of_bounds(rows: Sequence[dict[str, Any]]) -> str:
    """Return the table of what was explored."""
    head = "| cluster | deviations | states | moves | ends | daemon states | time | memory |"
    lines = [head, "|---|---|---|---|---|---|---|---|"]
    for row in rows:
        kinds = "any kind" if row["kinds"] == KINDS else ", ".join(row["kinds"])
        number = row["deviations"]
        what = f"{number}: {kinds}; {row['within_s'] * 1000:g} ms" if number else "none"
        more = "" if row["is_complete"] else "more than "
        lines.append(
            f"| `{row['scenario']}` | {what} | {more}{row['states']:,} | {row['transitions']:,} |"
            f" {row['ends']:,} | {row['daemon_states']:,} | {row['processor_s']:,.0f} s |"
            f" {row['memory_mib']:,} MiB |"
        )
    return "\n".join(lines)


def table_of_bugs(rows: Sequence[dict[str, Any]]) -> str:
    """Return the table of known bugs."""
    lines = ["| bug | found in | states | by |", "|---|---|---|---|"]
    for row in sorted(rows, key=lambda row: row["bug"]):
        where = row.get("where", "-")
        states, by = row.get("states", row["tried"]), row.get("property", "-")
        lines.append(f"| `{row['bug']}` | {where} | {states:,} | {by} |")
    return "\n".join(lines)


def fits(bug: Mutant) -> bool:
    """Return whether a bug can show in the clusters that are explored: with one roster, release."""
    return not (bug.rosters or bug.versions)


def main() -> int:
    """Explore or hunt; return 1 if something was found where nothing should be."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--all", action="store_true", help="also what takes an hour")
    parser.add_argument("--bugs", action="store_true", help="hunt known bugs")
    parser.add_argument("--only", metavar="NAME", nargs="+", help="these clusters, or these bugs")
    parser.add_argument("--states", type=int, metavar="N", help="the most states of each search")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes at once")
    parser.add_argument("--folder", type=Path, default=Path("exploration"), metavar="DIR")
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(options.jobs, mp_context=context, max_tasks_per_child=1)
    only = options.only
    with pool:
        if options.bugs:
            names = [bug.name for bug in MUTANTS if fits(bug) and (not only or bug.name in only)]
            states = options.states or 1_500
            tasks = [pool.submit(hunt, name, states, options.folder) for name in names]
        else:
            chosen = [*SMALL, *LARGE] if options.all else SMALL
            chosen = [each for each in chosen if not only or each.scenario in only]
            states = options.states or 10**9
            tasks = [pool.submit(explore, each, states, options.folder) for each in chosen]
        for task in as_completed(tasks):
            print(json.dumps(task.result()), flush=True)
    rows = [task.result() for task in tasks]
    print(table_of_bugs(rows) if options.bugs else table_of_bounds(rows))
    if options.bugs:
        return 0
    return 0 if all(row["is_complete"] and not row["findings"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
