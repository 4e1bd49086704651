"""The check of recorded traces: JSON lines in, violations out."""

from collections.abc import Iterable, Iterator, Mapping

import attrs

from groupcomm.sim.checkers import Checkers, Violation
from groupcomm.trace.events import Quiet, TraceEvent
from groupcomm.trace.readable import readable
from groupcomm.trace.reading import EventCheck, TraceError, merge, read_event


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


def check_trace(name: str, lines: Iterable[bytes]) -> CheckResult:
    """Check one trace; arguments and errors are those of `read_trace` and `check_events`."""
    return check_events(name, read_trace(name, lines))


def read_trace(name: str, lines: Iterable[bytes]) -> Iterator[TraceEvent]:
    """Yield the events of one trace.

    Args:
        name: its name in errors, usually that of the file.
        lines: one event a line, as bytes; an open binary file is one.

    Raises:
        TraceError: a line is broken, cut off, or makes no sense where it stands.
    """
    sense = EventCheck()
    for number, line in enumerate(lines, 1):
        yield read_event(sense, name, number, line)


def check_together(name: str, traces: Mapping[str, Iterable[bytes]]) -> CheckResult:
    """Check the traces of several processes as one; see `read_together`.

    Args:
        name: their name in the result.
        traces: lines by the name of their file.

    Raises:
        TraceError: a line is broken, or makes no sense where it stands.
    """
    return check_events(name, read_together(traces))


def read_together(traces: Mapping[str, Iterable[bytes]]) -> Iterator[TraceEvent]:
    """Yield the events of several processes as one trace; see `groupcomm.trace.reading`.

    A last line that is cut off, as a killed process may leave it, is ignored.

    Args:
        traces: lines by the name of their file.

    Raises:
        TraceError: a line is broken, or makes no sense where it stands.
    """
    sense = EventCheck()
    return merge([_events(sense, *trace) for trace in traces.items()])


def _events(sense: EventCheck, name: str, lines: Iterable[bytes]) -> list[TraceEvent]:
    whole = [line for line in lines if line.endswith(b"\n")]
    return [read_event(sense, name, number, line) for number, line in enumerate(whole, 1)]


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


def describe(event: TraceEvent) -> str:
    """Return one event as a line for people: seconds, process, text."""
    return readable(event)


__all__ = [
    "CheckResult",
    "TraceError",
    "check_events",
    "check_together",
    "check_trace",
    "describe",
    "read_together",
    "read_trace",
]
