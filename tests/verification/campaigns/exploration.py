"""Explore small clusters exhaustively, one set of bounds after the other; then hunt known bugs so.

    python -m tests.verification.campaigns exploration           # the smaller sets of bounds
    python -m tests.verification.campaigns exploration --all     # all: the table of the docs
    python -m tests.verification.campaigns exploration --all --only start-3
    python -m tests.verification.campaigns exploration --bugs    # known bugs: the other table

Each set has a process of its own, so that its memory is measured; its time is processor time. Each
set that is not explored as a whole, and each finding, makes the exit status 1. A bug is looked for
in several clusters, with deviations of one kind each, up to a number of states.
"""

import json
import multiprocessing
import resource
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, Final

import attrs

from groupcomm_tools.terminal import say
from tests.verification.campaigns.runner import Found, campaign, option
from tests.verification.explore.departures import SearchByDepartures
from tests.verification.explore.scenarios import SCENARIOS, Beginning, begin
from tests.verification.explore.script import write_path
from tests.verification.explore.search import Progress, Search
from tests.verification.explore.transitions import (
    CRASH,
    CUT,
    DEFER,
    KINDS,
    LATE,
    LOSS,
    LOST,
    OLD,
    Bounds,
)
from tests.verification.mutants.catalogue import find_mutant

_KIB: Final = 1024


CHANGE_S: Final = 1.5
"""The simulated time in which what happens only while a view is sought may happen."""


@attrs.frozen
class Exploration:
    """One set of bounds.

    Attributes:
        scenario: the name of the cluster.
        deviations: the most deviations together.
        within_s: the simulated seconds in which they happen.
        kinds: their kinds.
        most_of_a_kind: the most deviations of one kind; 0 if they may all be of one.
        in_view_changes: the kinds that happen only while a view is sought, within `CHANGE_S`.
        departures: the most departures from the usual order; None for every order.
    """

    scenario: str
    deviations: int
    within_s: float
    kinds: tuple[str, ...] = KINDS
    most_of_a_kind: int = 0
    in_view_changes: tuple[str, ...] = ()
    departures: int | None = None

    def run(
        self, *, most_states: int, seed: int | None = None, **options: Any
    ) -> tuple[Progress, Beginning]:
        """Explore; return how far it has come, and where it began.

        Args:
            most_states: the most states.
            seed: that of the order of what is tried; None for the order in which it is listed.
            options: others of the search.
        """
        most = {
            kind: self.kinds.count(kind) * self.most_of_a_kind or self.deviations
            for kind in self.kinds
        }
        bounds = Bounds(
            most=most,
            in_all=self.deviations,
            within_s=self.within_s,
            in_view_changes=dict.fromkeys(self.in_view_changes, CHANGE_S),
        )
        beginning = begin(SCENARIOS[self.scenario], bounds)
        search: Search | SearchByDepartures
        if self.departures is None:
            search = Search(beginning, most_states=most_states, shuffle=seed, **options)
        else:
            search = SearchByDepartures(
                beginning,
                most_departures=self.departures,
                most_states=most_states,
                seed=seed or 0,
                **options,
            )
        return search.run(), beginning

    def __str__(self) -> str:
        text = self.scenario
        if self.deviations:
            kinds = (
                "" if self.kinds == KINDS else f" of {', '.join(map(self._name_of, self.kinds))}"
            )
            text += f", {self.deviations}{kinds} within {self.within_s * 1000:g} ms"
        if self.departures is not None:
            text += f", {self.departures} departures"
        return text

    def _name_of(self, kind: str) -> str:
        return f"{kind} in a view change" if kind in self.in_view_changes else kind


SMALL: Final = (
    *(
        Exploration(name, 0, 0.02)
        for name in ("start-2", "agreed-2", "groups-2", "levels-2", "both-2", "sites-2", "agreed-3")
    ),
    Exploration("start-3", 0, 0.02),
    Exploration("agreed-2", 1, 0.02, (DEFER, LATE, LOSS)),
    Exploration("start-2", 1, 0.02, (DEFER, LATE, LOSS)),
    Exploration("idle-2", 2, 0.3, (LOST, CRASH), departures=0),
    Exploration("idle-3", 3, 0.002, (LOST, OLD, CRASH), departures=0),
    Exploration("idle-4", 3, 0.001, (LOST, CRASH), departures=0),
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

HUNTS: Final[Mapping[str, str]] = {
    "announced-as-of-the-freeze": "groups-2 loss+cut /0",
    "announcements-but-one": "agreed-2",
    "block-off-by-one": "agreed-2, sites-2, sites-2 defer, sites-3, pair-3",
    "causal-without-agreed": "causal-3 defer, causal-3 loss, causal-3 defer+loss, sites-3 loss",
    "clock-ignores-stamps": "agreed-2, sites-2, agreed-3",
    "credit-lost-with-the-view": "again-2 cut /0",
    "delivery-before-announcements": "late-3 loss* /0, reply-3 crash 1ms /0",
    "disconnect-overtakes": "names-2 /2",
    "everybody-came-along": "agreed-2 cut /0",
    "far-end-unwatched": "sites-2 crash /0",
    "fifo-ignores-session": "levels-2, levels-2 loss, levels-2 defer",
    "fifo-on-receipt": "levels-2 loss, levels-2 defer, levels-2 defer+loss",
    "forgets-by-own-frontier": "agreed-2 loss, agreed-3 loss, agreed-2 loss+cut, sites-2 loss",
    "forgotten-by-own-site": "pair-3 loss+cut /0",
    "fragments-go-on": "slices-2 cut /0",
    "frontier-is-highest": "levels-2, safe-3, levels-2 loss, safe-3 loss",
    "frontier-of-the-sender": "pair-3 loss /0",
    "gateway-counts-at-once": "sites-2 loss, sites-2 defer, pair-3 loss",
    "ghost-in-group": "names-2",
    "headers-before-the-packet-is-everywhere": "kept-3 loss+crash 5ms /0",
    "held-far-unheard": "window-2 /0",
    "held-though-some-is-missing": "safe-3 loss, levels-2 loss, agreed-3 loss",
    "hop-in-32-bits": "hops-2 /0",
    "horizon-beyond-clock": "sites-2, pair-3, sites-2 late, agreed-2 late",
    "horizon-counts-at-once": "sites-2 loss, sites-2 defer, pair-3 loss",
    "horizon-taken-for-frontier": "pair-3 loss /0",
    "horizon-without-token": "agreed-2, agreed-2 late, pair-3, sites-2",
    "install-before-all-recovered": "agreed-3 loss+cut /0",
    "join-before-all-know": "local-3 /1",
    "join-when-asked": "groups-2",
    "link-without-probes": "sites-2 loss /0",
    "links-number-anew": "sites-3 pair /0",
    "lost-on-a-link-for-good": "sites-2 loss /0",
    "lost-tail-unnoticed": "pair-3 loss /0",
    "members-by-name-alone": "agreed-2 loss+cut, agreed-3 cut, agreed-2 cut",
    "membership-not-passed-on": "agreed-3 pair 1ms /0",
    "merge-keeps-the-lower-counter": "start-2 cut, agreed-2 cut, start-3 cut, agreed-3 cut",
    "notice-of-what-is-held": "pair-3, pair-3 loss, pair-3 defer",
    "notices-not-passed-on": "line-3 /0",
    "numbers-reused": "turns-2 loss+loss+loss 1ms /0",
    "obligations-forgotten": "agreed-3 loss+crash, agreed-3 loss+cut",
    "old-view-goes-on": "agreed-2 cut, agreed-2 loss+cut, safe-3 cut",
    "once-per-group": "both-2",
    "one-book-for-all-links": "sites-3 /0",
    "ordered-at-stamping": "safe-3, levels-2",
    "own-horizons-at-the-boundary": "pair-3 loss+crash 20ms /0",
    "private-by-name": "names-2",
    "remembers-a-start-for-ever": "idle-2 lost /0, idle-3 lost+crash /0",
    "pruned-by-the-senders-group-table": "local-3, local-3 defer",
    "reassembly-by-sender": "large-2",
    "recovery-within-the-site": "sites-3 loss+crash 2ms /0",
    "request-sent-once": "levels-2 loss /1",
    "safe-by-own-frontier": "levels-2, safe-3",
    "safe-by-own-ring": "pair-3 loss /0",
    "safe-whatever-the-frontier": "levels-2 cut, safe-3 cut, safe-3 crash, safe-3 loss+cut",
    "self-discard-ignored": "both-2",
    "stale-commits-count": "safe-3 pair 1ms /0",
    "stays-if-its-first-bundle-does": "kept-3 /0",
    "ties-by-arrival": "sites-2, sites-2 defer, sites-3",
    "token-copy-taken": "again-2 late+late 20ms /0",
    "transitional-rule-by-the-streams-holes": "agreed-2 loss+cut /0",
    "undeliverable-when-taken": "names-2",
    "unreliable-ends-others": "large-2",
    "unreliable-over-two-ways": "sites-3 pair /0",
    "unsubscribed-while-a-join-is-under-way": "swap-2 /1",
    "vector-is-prefix": "reply-3 loss+loss /0",
    "vector-is-shared": "echo-3 loss /0",
    "view-counters-forgotten": "back-2 crash 1ms /0",
    "view-stands-without-a-way": "sites-2 cut /0",
    "views-wait-for-every-disk": "marks-2 disk* /0",
    "waiting-lost-with-the-view": "agreed-2 cut, levels-2 cut, agreed-3 cut",
    "walked-twice": "agreed-2 cut, agreed-2 crash",
}
"""Where each bug is looked for that may show in these clusters: the clusters, each with a deviation
of one kind, or of each of several kinds; a kind with a star happens only while a view is sought.
A number with ``ms`` is the time in which deviations happen. With ``/1`` the search is by
departures, at most one; without, every order is tried."""


def _hunts(text: str) -> list[Exploration]:
    """Return explorations that are written as `HUNTS` writes them."""
    found = []
    for each in text.split(", "):
        what, _, departures = each.partition("/")
        scenario, *words = what.split()
        within_s = 0.1 if SCENARIOS[scenario].sites[1:] else 0.002
        if words and words[-1].endswith("ms"):
            within_s = float(words.pop().removesuffix("ms")) / 1000
        named = words[0].split("+") if words else []
        chosen = tuple(kind.rstrip("*") for kind in named)
        changes = tuple(kind.rstrip("*") for kind in named if kind.endswith("*"))
        most = int(departures) if departures else None
        found.append(Exploration(scenario, len(chosen), within_s, chosen, 1, changes, most))
    return found


def explore(each: Exploration, most_states: int, folder: Path) -> dict[str, Any]:
    """Explore within one set of bounds; return the figures, and leave the paths to findings."""
    began = time.process_time()
    progress, beginning = each.run(
        most_states=most_states,
        report=lambda p: say(f"{each}: {p.states} states, {p.ends} ends"),
    )
    for number, found in enumerate(progress.findings, 1):
        file = folder / f"{each.scenario}-{each.deviations}-{'-'.join(each.kinds)}-{number}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        comment = f"{found.property}: {found.text}"
        file.write_text(write_path(beginning, each.scenario, found.moves, comment))
        say(f"see it again with: python -m tests.verification.explore --replay {file}")
    return {
        **attrs.asdict(each),
        **attrs.asdict(progress, filter=lambda field, _: field.name != "findings"),
        "daemon_states": len(beginning.nodes.states),
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
    for order, each in enumerate(_hunts(HUNTS[name])):
        with bug.active():
            try:
                progress, beginning = each.run(
                    most_states=most_states, stop_at_first=True, seed=order
                )
            except AssertionError as error:  # no exploration can begin
                row |= {"found": True, "where": each.scenario, "property": "-", "text": str(error)}
                break
            tried += progress.states
            if progress.findings:
                found = progress.findings[0]
                folder.mkdir(parents=True, exist_ok=True)
                comment = f"{bug.name}: {found.property}: {found.text}"
                path = write_path(beginning, each.scenario, found.moves, comment)
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


@campaign(
    option("all", False, "also what takes an hour"),
    option("bugs", False, "hunt known bugs"),
    option("only", [], "these clusters, or these bugs", type=str, nargs="+"),
    option("states", type=int, text="the most states of each search"),
    option("jobs", 1, "processes at once"),
    option("folder", Path("exploration"), type=Path),
)
def run(options: Namespace) -> Found:
    """Explore or hunt, and print the table; a bug that is not found is no violation."""
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(options.jobs, mp_context=context, max_tasks_per_child=1)
    only = options.only
    with pool:
        if options.bugs:
            names = [name for name in HUNTS if not only or name in only]
            states = options.states or 3_000
            tasks = [pool.submit(hunt, name, states, options.folder) for name in names]
        else:
            chosen = [*SMALL, *LARGE] if options.all else SMALL
            chosen = [each for each in chosen if not only or each.scenario in only]
            states = options.states or 10**9
            tasks = [pool.submit(explore, each, states, options.folder) for each in chosen]
        for task in as_completed(tasks):
            say(json.dumps(task.result()))
    rows = [task.result() for task in tasks]
    print(table_of_bugs(rows) if options.bugs else table_of_bounds(rows))
    wrong = [
        f"{row['scenario']}: {row['findings'] or 'not explored as a whole'}"
        for row in rows
        if not options.bugs and (row["findings"] or not row["is_complete"])
    ]
    return {"rows": rows, "violations": wrong}
