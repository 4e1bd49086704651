"""Checks of honest daemons while others lie: B1 to B4, and all properties after a new beginning."""

from collections.abc import Iterable

from groupcomm.level import ServiceLevel
from groupcomm.sim.checkers.checkers import Checkers
from groupcomm.sim.checkers.records import (
    name_of,
)
from groupcomm.sim.checkers.report import Report, Violation
from groupcomm.trace.events import Boot, Conf, Rejects, Release, TraceEvent, view_order
from groupcomm.wire.bundle import BundleKind


class SurvivorRecord:
    """The rules for the acts of one start of a daemon that hold whatever others send it: B4."""

    __slots__ = ("_given", "_inner", "_report", "_top", "_view", "members")

    def __init__(self, report: Report) -> None:
        self._report = report
        self._view: tuple[int, str, int] | None = None
        self.members: frozenset[str] = frozenset()
        self._given: set[tuple[int, int, int]] = set()  # places released in this view
        self._inner = -1
        self._top = (0, 0, 0)  # the highest agreed place released in this view, but for inner ones

    def install(self, event: Conf) -> None:
        """Check that the views rise, hold the daemon, and bring members of the last view only."""
        members = frozenset(name for ring in event.rings for name in ring)
        if event.p not in members:
            self._find(event, f"installs {event.view} without itself")
        if event.kind != "R":
            if not members <= self.members:
                self._find(event, f"comes to {event.view} with others than it was with")
            return
        view = view_order(event.view)
        if self._view is not None and view <= self._view:
            self._find(event, f"installs {event.view} after a later view")
        self._view, self.members = view, members
        self._given, self._top = set(), (0, 0, 0)
        self._inner = -1  # the ring whose messages may be ahead of the order here
        if len(event.rings) > 1:
            self._inner = next((i for i, r in enumerate(event.rings) if event.p in r), -1)

    def release(self, event: Release) -> None:
        """Check that each place of a view is released once, in the agreed order by stamps."""
        if not event.number:
            return
        place = (event.time, event.ring, event.bundle)
        if place in self._given:
            self._find(event, f"gives {place} twice")
        self._given.add(place)
        inner = event.ring == self._inner and event.kind < BundleKind.CONNECT
        if event.level >= ServiceLevel.AGREED and not inner:
            if place < self._top:
                self._find(event, f"gives {place} after {self._top}")
            self._top = place

    def _find(self, event: Conf | Release, text: str) -> None:
        self._report.add("B4", f"{event.p} {text}", event)


class Survivors:
    """The checks of one trace of a run with liars."""

    def __init__(self) -> None:
        self._report = Report()
        self._checkers: Checkers | None = None
        self._starts: dict[str, int] = {}  # daemons that were not yet alone since the new beginning
        self._names: set[str] = set()
        self._liars: frozenset[str] = frozenset()
        self._courses: dict[str, SurvivorRecord] = {}

    def spare(self, names: Iterable[str]) -> None:
        """Exempt the daemons that lie."""
        self._liars = frozenset(names)

    def find(self, property_id: str, text: str) -> None:
        """Add a finding of the run itself."""
        self._report.add(property_id, text)

    def begin_anew(self, starts: Iterable[tuple[str, int]]) -> None:
        """Check all properties of these starts from now on, once each has been alone.

        Args:
            starts: identity and restart count of each.
        """
        self._checkers = Checkers()
        self._starts = dict(starts)
        self._names = {name_of(identity) for identity in self._starts}

    def feed(self, event: TraceEvent) -> None:
        """Process the next event."""
        if isinstance(event, Conf | Release) and name_of(event.p) not in self._liars:
            course = self._courses.setdefault(event.p, SurvivorRecord(self._report))
            if isinstance(event, Conf):
                course.install(event)
            else:
                course.release(event)
        checkers = self._checkers
        if checkers is None:
            return
        process = getattr(event, "p", None)
        if self._is_of_others(event) or isinstance(event, Rejects):  # which are since the start
            return
        if process in self._starts:
            alone = isinstance(event, Conf) and event.kind == "R" and event.rings == ((process,),)
            if not alone:
                return
            checkers.feed(Boot(event.t, process, f"{self._starts.pop(process)}.0"))
        checkers.feed(event)

    def _is_of_others(self, event: TraceEvent) -> bool:
        """Return whether the event is of a liar that was cut off, or of one of its programs."""
        identity = getattr(event, "p", None) or getattr(event, "c", None)
        if identity is None:
            return False
        name = identity.rpartition("/")[0]
        return name.rpartition("#")[2] not in self._names

    def finish(self) -> None:
        """Finish the trace."""
        if self._checkers is not None:
            self._checkers.finish()

    @property
    def violations(self) -> list[Violation]:
        """Return the violations so far."""
        found = self._checkers.violations if self._checkers is not None else []
        return self._report.violations + found
