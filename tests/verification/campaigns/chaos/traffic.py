"""From a round's traces: the time from a kill until traffic flows again at all programs."""

from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Final

import attrs

from groupcomm.level import ServiceLevel
from groupcomm.trace.events import Deliver, Dview, Fail, decode_event_untrusted
from groupcomm_tools.topology import Topology

PATIENCE_US: Final = 5_000_000
"""A session that ends earlier after a kill, for other reasons, tells nothing about it."""


@attrs.frozen
class SessionRecord:
    """The notices of one session, with the times, microseconds.

    Attributes:
        daemon: the daemon of the session.
        begin, end: the times of the first and the last event of its trace.
        views: the ids of the daemons' views.
        came: messages of other sites: time, view and level. UNRELIABLE has no view.
    """

    daemon: str
    begin: int
    end: int
    views: list[tuple[int, str]]
    came: list[tuple[int, str, int]]

    def view_at(self, at: int) -> str:
        """Return the view it was in."""
        return next((view for told, view in reversed(self.views) if told <= at), "")

    def on_again(self, at: int, level: ServiceLevel) -> float:
        """Return when the first message of another site came in a view that began later; or
        never."""
        old = self.view_at(at)
        found = (t for t, view, its in self.came if t > at and its >= level and view != old)
        return next(found, inf)


def traffic_ms(folder: Path, topology: Topology, level: ServiceLevel) -> list[float]:
    """Return, for each killed daemon, the time until all others' programs had traffic again.

    Args:
        folder: the folder of the traces.
        topology: the sites of the daemons.
        level: the lowest level of messages that count.

    Returns:
        Milliseconds from each kill, in order; inf if some session that lived on had none.
    """
    sessions = [_read_session(path, topology) for path in sorted(folder.glob("session-*.jsonl"))]
    found = []
    for at, victim in _kills(folder):
        there = [s for s in sessions if s.begin < at < s.end and s.daemon != victim]
        times = [(s.on_again(at, level), s) for s in there]
        last = max(t for t, s in times if t < inf or s.end - at > PATIENCE_US)
        found.append((last - at) / 1000)
    return found


def _kills(folder: Path) -> Iterator[tuple[int, str]]:
    for line in (folder / "harness.jsonl").read_bytes().splitlines():
        event = decode_event_untrusted(line)
        if isinstance(event, Fail):
            yield event.t, event.p.partition("/")[0]


def _read_session(path: Path, topology: Topology) -> SessionRecord:
    lines = path.read_bytes().splitlines()
    events = [decode_event_untrusted(line) for line in lines]
    daemon = _daemon_of(getattr(events[0], "c", ""))
    own = topology.site_of(daemon)
    return SessionRecord(
        daemon,
        events[0].t,
        events[-1].t,
        [(event.t, event.view) for event in events if isinstance(event, Dview)],
        [
            (event.t, event.pos[0], event.level)
            for event in events
            if isinstance(event, Deliver)
            and event.pos is not None
            and topology.site_of(_daemon_of(event.s)) != own
        ],
    )


def _daemon_of(identity: str) -> str:
    """Return the daemon of ``#user#daemon/connection``."""
    return identity.rpartition("/")[0].rpartition("#")[2]
