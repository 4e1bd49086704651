"""The check of traces as JSON lines: bytes in, violations out."""

from collections.abc import Collection, Iterable, Mapping

from groupcomm.sim.check import CheckResult
from groupcomm_lessons.algorithms.process import Order
from groupcomm_lessons.check import PROMISED, check_events
from groupcomm_tools.traces.reading import read_together, read_trace


def check_trace(
    name: str, lines: Iterable[bytes], orders: Collection[Order] = PROMISED
) -> CheckResult:
    """Check one trace; arguments and errors are those of `read_trace` and `check_events`."""
    return check_events(name, read_trace(name, lines), orders)


def check_together(name: str, traces: Mapping[str, Iterable[bytes]]) -> CheckResult:
    """Check the traces of several processes as one; see `read_together`.

    Args:
        name: their name in the result.
        traces: lines by the name of their file.

    Raises:
        TraceError: a line is broken, or makes no sense where it stands.
    """
    return check_events(name, read_together(traces))
