"""The check of a trace: events in, violations out."""

from collections.abc import Iterable

import attrs

from groupcomm.sim.checkers import Checkers, Violation
from groupcomm.trace.events import Quiet, TraceEvent


@attrs.frozen(kw_only=True)
class CheckResult:
    """The result of checking one trace.

    Attributes:
        name: the name of the trace, as given.
        events: the number of events.
        complete: whether it ends with Quiet, so that missing events were checked, too.
        violations: the first properties that do not hold, in the order of the trace.
    """

    name: str
    events: int
    complete: bool
    violations: tuple[Violation, ...]

    @property
    def holds(self) -> bool:
        """Return whether there are no violations."""
        return not self.violations


def check_events(name: str, events: Iterable[TraceEvent]) -> CheckResult:
    """Check events in the order in which they happened.

    Args:
        name: the name of the trace.
        events: the events of daemons and clients. `groupcomm_lessons.check` also checks the steps
            of algorithms.
    """
    checkers = Checkers()
    count, event = 0, None
    for event in events:
        count += 1
        checkers.feed(event)
    checkers.finish()
    return CheckResult(
        name=name,
        events=count,
        complete=isinstance(event, Quiet),
        violations=tuple(checkers.violations),
    )
