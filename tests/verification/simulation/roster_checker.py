"""Checks of rosters: Q1 to Q9 of docs/properties.md.

Rosters are judged by the line of changes that made them, which this checker keeps itself: a roster
counts somewhere before anybody changes it.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from groupcomm.config.roster import Roster
from groupcomm.config.site_links import reached_from
from groupcomm.config.view import View
from groupcomm.sim.checkers.report import Report, Violation


class RosterChecker:
    """The checks of the rosters of one run.

    Attributes:
        changes: the number of rosters that counted anywhere, without the first one.
        on_first_use: called with each process that is the first to use a roster.
    """

    def __init__(self) -> None:
        self._report = Report()
        self.on_first_use: Callable[[str], None] = lambda process: None
        self._by_id: dict[bytes, Roster] = {}
        self._agreed: dict[bytes, Roster] = {}  # after a change with a majority, by what it changed
        self._last: dict[str, Roster] = {}  # the roster that counts, by process
        self._delays: dict[tuple[bytes, bytes], tuple[int, ...]] = {}  # by view and roster
        self._primary: dict[tuple[bytes, int], View] = {}  # views with a majority

    @property
    def changes(self) -> int:
        """Return the highest number of a roster that counted anywhere."""
        return max((roster.number for roster in self._by_id.values()), default=0)

    def used(self, process: str, roster: Roster, told: Sequence[str] = ()) -> None:
        """Check a roster that counts at a process from now on.

        Args:
            process: the process.
            roster: the roster.
            told: the texts about rosters in its log so far.
        """
        is_first = roster.id not in self._by_id
        self._by_id[roster.id] = roster
        if is_first:
            self._check_change(process, roster)
        before = self._last.get(process)
        if before is not None:
            if not self._beats(roster, before):
                self._report.add(
                    "Q2", f"{process} uses roster {roster.number} after {before.number}"
                )
            elif before.number and before.id not in self._line(roster):
                lost = f"roster {before.number} of this part of the cluster is replaced"
                if not any(text.startswith(lost) for text in told):
                    self._report.add("Q6", f"{process} loses roster {before.number} in silence")
        self._last[process] = roster
        if is_first:
            self.on_first_use(process)

    def _check_change(self, process: str, roster: Roster) -> None:
        if not roster.is_forced and roster.ancestors:
            known = self._agreed.setdefault(roster.ancestors[-1], roster)
            if known != roster:
                self._report.add(
                    "Q1",
                    f"{process} uses a roster {roster.number} of {roster.names}; another daemon has"
                    f" used one of {known.names}, and both have changed one roster with a majority",
                )
        before = self._by_id.get(roster.ancestors[-1]) if roster.ancestors else None
        if before is not None:
            added = [entry for entry in roster.entries if before.entry(entry.name) is None]
            early = [entry.name for entry in added if entry.counts]
            if early:
                self._report.add("Q8", f"{process} counts {early} before they were in a view")
            if not roster.is_forced:
                self._check_votes(process, before, roster)
        sites = set(roster.sites)
        pairs = [(one, other) for one, other, _ in roster.links]
        if pairs and reached_from(min(sites), pairs) != sites:
            self._report.add(
                "Q5", f"{process} uses a roster whose links {pairs} do not reach all of {sites}"
            )

    def _check_votes(self, process: str, before: Roster, roster: Roster) -> None:
        names = {*before.names, *roster.names}
        moved = sum(abs(_held(before, name) - _held(roster, name)) for name in names)
        if moved > (not roster.settled):
            self._report.add(
                "Q9",
                f"{process} uses a roster {roster.number}, settled: {roster.settled}, with {moved}"
                " votes that its predecessor does not have",
            )

    # ---- the order of rosters ----

    def _line(self, roster: Roster) -> list[bytes]:
        """Return the ids from the first roster to this one, as far as they are known."""
        found = [roster.id]
        known: Roster | None = roster
        while known is not None and known.ancestors:
            found.append(known.ancestors[-1])
            known = self._by_id.get(found[-1])
        return found[::-1]

    def _beats(self, one: Roster, other: Roster) -> bool:
        """Return whether one roster counts where both are known; they differ."""
        mine, theirs = self._line(one), self._line(other)
        if other.id in mine or one.id in theirs or mine[0] != theirs[0]:
            return one.id != other.id and one.id not in theirs
        fork = next(
            at for at, pair in enumerate(zip(mine, theirs, strict=False)) if len({*pair}) == 2
        )
        first, second = self._by_id.get(mine[fork]), self._by_id.get(theirs[fork])
        forced = [each is not None and each.is_forced for each in (first, second)]
        return (forced[0], mine[fork]) < (forced[1], theirs[fork])

    # ---- views ----

    def begun(self, process: str, view: View, roster: Roster, *, majority: bool | None) -> None:
        """Note a view that begins at a process with a roster."""
        if not majority:
            return
        known = self._primary.setdefault((self._branch(roster), view.id.counter), view)
        if known.id != view.id:
            self._report.add(
                "Q3", f"{process}: views {known.id} and {view.id} both have a majority"
            )

    def counted(self, process: str, view: View, roster: Roster, *, majority: bool | None) -> None:
        """Check the answer of a view that was agreed on with this roster."""
        total = sum(_held(roster, name) for name in roster.names)
        mine = sum(_held(roster, daemon.name) for daemon in view.daemons)
        if roster.expected is None and total and bool(majority) is not (2 * mine > total):
            self._report.add(
                "Q9",
                f"{process}: view {view.id} holds {mine} of {total} votes, and its majority is"
                f" {majority}",
            )

    def _branch(self, roster: Roster) -> bytes:
        """Return the id of the roster after the last forced change; b"" without one."""
        for each in reversed(self._line(roster)):
            known = self._by_id.get(each)
            if known is not None and known.is_forced:
                return each
        return b""

    def routed(self, process: str, view: View, roster: Roster, delays_us: tuple[int, ...]) -> None:
        """Check the delays by which a process routes packets of a view, with a roster."""
        known = self._delays.setdefault((view.key, roster.id), delays_us)
        if known != delays_us:
            self._report.add(
                "Q7",
                f"{process} routes by the delays {delays_us} with roster {roster.number} in view"
                f" {view.id}; another daemon by {known}",
            )

    # ---- the end ----

    def finish(
        self,
        ends: Iterable[tuple[str, Roster]],
        kept: Iterable[Roster] = (),
    ) -> None:
        """Check the end of the run.

        Args:
            ends: the daemons that must agree in the end, and the roster that counts at each.
            kept: the rosters that counted at daemons, or on their disks, when all faults ended.
        """
        last = dict(ends)
        if len({roster.id for roster in last.values()}) > 1:
            found = {name: roster.number for name, roster in last.items()}
            self._report.add("Q4", f"daemons have different rosters in the end: {found}")
        for roster in kept:
            for name, end in last.items():
                if roster.id != end.id and self._beats(roster, end):
                    self._report.add(
                        "Q4",
                        f"{name} has roster {end.number} in the end, which {roster.number} beats",
                    )
                    return
        self._check_majorities()

    def _check_majorities(self) -> None:
        branches = {branch for branch, _ in self._primary}
        for branch in sorted(branches):
            places = sorted(place for place in self._primary if place[0] == branch)
            for one, other in pairwise([self._primary[place] for place in places]):
                if not one.numbers & other.numbers:
                    self._report.add(
                        "Q3",
                        f"views {one.id} and {other.id}, one after the other, have a majority and"
                        " share no daemon",
                    )

    @property
    def violations(self) -> list[Violation]:
        """Return the violations so far."""
        return self._report.violations


def _held(roster: Roster, name: str) -> int:
    """Return the votes that a daemon holds; 0 if the roster does not have it."""
    entry = roster.entry(name)
    return 0 if entry is None else entry.share.held
