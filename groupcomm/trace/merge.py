"""One trace out of those of several processes on one host.

Each process writes what it did and saw, with times of the host's monotonic clock, before anything
of it has an effect elsewhere. So sorted by time, causes stand before what they caused.
"""

from collections.abc import Iterator, Sequence
from heapq import merge as merge_sorted
from operator import attrgetter

import msgspec

from groupcomm.names import split_private
from groupcomm.trace.events import Ask, Fail, Left, Quiet, Release, TraceEvent
from groupcomm.wire.bundle import BundleKind

_CONNECT = int(BundleKind.CONNECT)


def merge(traces: Sequence[Sequence[TraceEvent]]) -> Iterator[TraceEvent]:
    """All events in the order of their times, up to Quiet.

    A daemon's end is told after all that its clients have read: what it wrote before its end stays
    theirs to read. Events behind Quiet, of processes that end then, are left out.

    Args:
        traces: of one process each, or of one session; each in its order.
    """
    last_reads = _last_reads(traces)
    for event in merge_sorted(*(_with_late_ends(t, last_reads) for t in traces), key=_time):
        yield event
        if isinstance(event, Quiet):
            return


_time = attrgetter("t")


def _last_reads(traces: Sequence[Sequence[TraceEvent]]) -> dict[str, int]:
    """Per start of a daemon the time of the last event of its clients.

    A client belongs to the start of its daemon that has released its connect. When it asked for
    that tells nothing: a socket takes connections before its daemon boots.
    """
    homes = {
        event.c: event.p
        for trace in traces
        for event in trace
        if isinstance(event, Release) and event.kind == _CONNECT and _is_home(event)
    }
    found: dict[str, int] = {}
    for trace in traces:
        if trace and isinstance(trace[0], Ask) and trace[0].what == "connect":  # of a session
            start = homes.get(trace[0].c)
            if start is not None:
                found[start] = max(found.get(start, 0), trace[-1].t)
    return found


def _is_home(connect: Release) -> bool:
    client = connect.c.rpartition("/")[0]
    return split_private(client)[1] == connect.p.rpartition("/")[0]


def _with_late_ends(
    trace: Sequence[TraceEvent], last_reads: dict[str, int]
) -> Sequence[TraceEvent]:
    moved = [
        msgspec.structs.replace(event, t=max(event.t, last_reads.get(event.p, 0) + 1))
        if isinstance(event, Fail | Left)
        else event
        for event in trace
    ]
    return sorted(moved, key=_time)
