"""Checks of rosters: Q1 to Q4 of docs/properties.md."""

from collections.abc import Iterable
from itertools import pairwise

from groupcomm.config.roster import Roster
from groupcomm.config.view import View
from groupcomm.sim.checkers.report import Report, Violation


class RosterChecker:
    """The checks of the rosters of one run without forced changes.

    Attributes:
        changes: the number of rosters that counted anywhere, without the first one.
    """

    def __init__(self) -> None:
        self._report = Report()
        self._by_number: dict[int, Roster] = {}
        self._last: dict[str, int] = {}  # the number of the roster that counts, by process
        self._primary: dict[int, View] = {}  # views with a majority, by counter

    @property
    def changes(self) -> int:
        """Return the highest number of a roster that counted anywhere."""
        return max(self._by_number, default=0)

    def used(self, process: str, roster: Roster) -> None:
        """Check a roster that counts at a process from now on."""
        known = self._by_number.setdefault(roster.number, roster)
        if known != roster:
            self._report.add(
                "Q1",
                f"{process} uses a roster {roster.number} of {roster.names}; another daemon has"
                f" used one of {known.names}",
            )
        before = self._last.get(process, -1)
        if roster.number <= before:
            self._report.add("Q2", f"{process} uses roster {roster.number} after {before}")
        self._last[process] = roster.number

    def begun(self, process: str, view: View, *, majority: bool | None) -> None:
        """Note a view that begins at a process."""
        if not majority:
            return
        known = self._primary.setdefault(view.id.counter, view)
        if known.id != view.id:
            self._report.add(
                "Q3", f"{process}: views {known.id} and {view.id} both have a majority"
            )

    def finish(self, ends: Iterable[tuple[str, Roster]]) -> None:
        """Check the end of the run.

        Args:
            ends: the daemons that must agree in the end, and the roster that counts at each.
        """
        found = {name: roster.number for name, roster in ends}
        if len(set(found.values())) > 1:
            self._report.add("Q4", f"daemons have different rosters in the end: {found}")
        views = [self._primary[counter] for counter in sorted(self._primary)]
        for one, other in pairwise(views):
            if not one.numbers & other.numbers:
                self._report.add(
                    "Q3",
                    f"views {one.id} and {other.id}, one after the other, have a majority and share"
                    " no daemon",
                )

    @property
    def violations(self) -> list[Violation]:
        """Return the violations so far."""
        return self._report.violations
