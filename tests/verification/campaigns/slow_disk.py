"""Five daemons, one disk that is slow or hangs: when do the others have their view?

    python -m tests.verification.campaigns slow_disk

In virtual time, with one site and with two; each row is a disk, by the seconds of one write. Times
are those of the slowest other daemon, in milliseconds, until it is in a view with all other running
daemons: from the start of the cluster; after one of them is killed; after that one has been started
again. The last columns have the time until the daemon with the disk was in the view of all again,
in seconds, and the number of another daemon's views in the minute after that start.
"""

from argparse import Namespace
from collections.abc import Callable, Sequence
from math import inf, isfinite
from typing import Any, Final

import attrs

from groupcomm.membership.states import MembershipState
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.cluster.disk import Ailment
from groupcomm.sim.cluster.host import SimulatedHost
from groupcomm.sim.settings import Settings, plain_settings
from groupcomm.sim.virtual_time import SECOND, microseconds
from groupcomm.trace.events import Conf, TraceEvent
from tests.verification.campaigns.runner import Found, campaign

WRITES_S: Final = (0.0, 0.1, 0.5, 1.0, 2.0, 10.0, inf)
"""The seconds of one write; with 0 the disk is well, to compare."""

SICK: Final = 2
"""The daemon with the disk."""

VICTIM: Final = 4
"""The daemon that is killed and started again."""

LOOK_S: Final = 0.001
BACK_LOOK_S: Final = 0.01
PATIENCE_S: Final = 60.0
WORKS_S: Final = 30.0
"""The time for which all daemons are in one view before one is killed."""

DOWN_S: Final = 2.0


@attrs.frozen(kw_only=True)
class Measured:
    """The effects of one disk; times in seconds, inf if it did not happen in a minute.

    Attributes:
        write_s: the time of its writes.
        start_s, crash_s, again_s: the times until all other running daemons are in one view.
        back_s: the time from the start of the killed daemon until all daemons are in one view.
        views: the views of another daemon in the minute from that start.
    """

    write_s: float
    start_s: float
    crash_s: float
    again_s: float
    back_s: float
    views: int


class OneDisk:
    """A cluster in which one disk is unwell."""

    def __init__(self, settings: Settings, write_s: float) -> None:
        self._write_s = write_s
        self._views = 0
        self._cluster = Cluster(settings, self._record, start=False)
        self._hosts = self._cluster.daemons

    def _record(self, event: TraceEvent) -> None:
        if isinstance(event, Conf) and event.kind == "R":
            self._views += event.p.startswith(f"{self._hosts[0].name}/")

    def measure(self) -> Measured:
        """Start all, kill one, start it again."""
        self._spoil()
        for host in self._hosts:
            host.boot()
        start_s = self._wait(self._others_agree)
        self._heal()
        self._wait(self._all_agree, BACK_LOOK_S)
        self._spoil()
        self._cluster.run(WORKS_S)
        self._hosts[VICTIM].kill()
        crash_s = self._wait(self._others_agree_without_the_victim)
        self._cluster.run(DOWN_S)
        self._views = 0
        began = self._cluster.loop.now
        self._hosts[VICTIM].boot()
        again_s = self._wait(self._others_agree)
        back_s = again_s + self._wait(self._all_agree, BACK_LOOK_S)
        self._cluster.run(PATIENCE_S - (self._cluster.loop.now - began) / SECOND)
        return Measured(
            write_s=self._write_s,
            start_s=start_s,
            crash_s=crash_s,
            again_s=again_s,
            back_s=back_s,
            views=self._views,
        )

    def _spoil(self) -> None:
        disk = self._hosts[SICK].disk
        if not isfinite(self._write_s):
            disk.ail(Ailment.HUNG)
        elif self._write_s:
            disk.ail(Ailment.SLOW, microseconds(self._write_s))

    def _heal(self) -> None:
        """A start that is never counted has to be, so that there is a view of all to break."""
        if self._hosts[SICK].process is None:
            self._hosts[SICK].disk.recover()

    def _wait(self, there: Callable[[], bool], look_s: float = LOOK_S) -> float:
        began = self._cluster.loop.now
        while not there():
            waited_s = (self._cluster.loop.now - began) / SECOND
            if waited_s >= PATIENCE_S:
                return inf
            self._cluster.run(look_s)
        return (self._cluster.loop.now - began) / SECOND

    def _all_agree(self) -> bool:
        return _share_a_view(self._hosts, self._hosts)

    def _others_agree(self) -> bool:
        return _share_a_view(self._but(SICK), self._hosts)

    def _others_agree_without_the_victim(self) -> bool:
        return _share_a_view(self._but(SICK, VICTIM), self._but(VICTIM))

    def _but(self, *indices: int) -> list[SimulatedHost]:
        return [host for host in self._hosts if host.index not in indices]


def _share_a_view(hosts: Sequence[SimulatedHost], among: Sequence[SimulatedHost]) -> bool:
    """Return whether these hosts are in one view that is whole, with nobody but `among`."""
    first = hosts[0].completed
    if first is None or any(host.completed != first for host in hosts):
        return False
    if any(host.core.state is not MembershipState.OPERATIONAL for host in hosts):
        return False
    view = hosts[0].core.view
    assert view is not None
    members = {daemon.name for daemon in view.daemons}
    return {h.name for h in hosts} <= members <= {h.name for h in among}


def measure_all(sites: int, writes_s: Sequence[float] = WRITES_S) -> list[Measured]:
    """Return the effects of each disk in a cluster with one or two sites."""
    settings = plain_settings(daemons=5, sites=sites, delay_s=0.04)
    return [OneDisk(settings, write_s).measure() for write_s in writes_s]


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:6.0f} ms" if isfinite(seconds) else "    never"


@campaign()
def run(_: Namespace) -> Found:
    """Print the tables; the others must never be without a view."""
    rows: list[dict[str, Any]] = []
    wrong: list[str] = []
    for sites in (1, 2):
        print(f"{sites} site{'s, 40 ms apart' if sites > 1 else ''}")
        print("a write   start    crash    again      back  views")
        for row in measure_all(sites):
            told = {name: None if n == inf else n for name, n in attrs.asdict(row).items()}
            rows.append({"sites": sites, **told})
            if max(row.start_s, row.crash_s, row.again_s) == inf:
                wrong.append(f"{sites} sites, {row.write_s} s: the others have no view")
            cells = "".join(map(_milliseconds, (row.start_s, row.crash_s, row.again_s)))
            back = f"{row.back_s:8.1f} s" if isfinite(row.back_s) else "     never"
            print(f"{row.write_s:5.1f} s{cells}{back}{row.views:7d}")
        print()
    return {"rows": rows, "violations": wrong}
