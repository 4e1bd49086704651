"""Judges what daemons do of which some others lie: B1 to B3, and from a new beginning on all."""

from collections.abc import Iterable, Sequence

from groupcomm.sim.oracles.oracles import Oracles
from groupcomm.sim.oracles.report import Report, Violation
from groupcomm.sim.oracles.views import name_of
from groupcomm.trace.events import Boot, Conf, Rejects, TraceEvent


class Survivors:
    """Judge one trace of a run with liars.

    Args:
        liars: indices of their hosts.
    """

    def __init__(self, liars: Sequence[int]) -> None:
        self._report = Report()
        self._oracles: Oracles | None = None
        self._starts: dict[str, int] = {}  # not alone yet since the new beginning
        self._names: set[str] = set()

    def find(self, property_id: str, text: str) -> None:
        """Note what the run itself has found."""
        self._report.add(property_id, text)

    def begin_anew(self, starts: Iterable[tuple[str, int]]) -> None:
        """From now on judge everything of these starts, once each has been alone.

        Args:
            starts: identity and restart count of each.
        """
        self._oracles = Oracles()
        self._starts = dict(starts)
        self._names = {name_of(identity) for identity in self._starts}

    def feed(self, event: TraceEvent) -> None:
        """Take the next event."""
        oracles = self._oracles
        if oracles is None:
            return
        process = getattr(event, "p", None)
        if self._is_of_others(event) or isinstance(event, Rejects):  # which are since the start
            return
        if process in self._starts:
            alone = isinstance(event, Conf) and event.kind == "R" and event.rings == ((process,),)
            if not alone:
                return
            oracles.feed(Boot(event.t, process, f"{self._starts.pop(process)}.0"))
        oracles.feed(event)

    def _is_of_others(self, event: TraceEvent) -> bool:
        """Whether a liar that was cut off, or one of its programs, does this."""
        identity = getattr(event, "p", None) or getattr(event, "c", None)
        if identity is None:
            return False
        name = identity.rpartition("/")[0]
        return name.rpartition("#")[2] not in self._names

    def finish(self) -> None:
        """The trace ends here."""
        if self._oracles is not None:
            self._oracles.finish()

    @property
    def violations(self) -> list[Violation]:
        """What was found so far."""
        found = self._oracles.violations if self._oracles is not None else []
        return self._report.violations + found
