"""A daemon comes back with a disk that has forgotten its starts: how long is everybody silent?

    python -m tests.verification.campaigns outdated_disks

In virtual time. The second daemon goes away, some of the others are restarted one by one, as in a
rolling upgrade, and it comes back. Its disk is

- ``lost``: empty;
- ``old``: restored from a backup that knows its first start only;
- ``copied``: what it was when its machine was copied; the copy has run in its place meanwhile, and
  has counted as many starts;
- ``added``: empty, and the daemon was removed from the roster and added again.

Each cell has two times in seconds: the longest time for which any of the other daemons had no view
in which programs are served, and the time until all daemons are in one view, both from the start of
the daemon on. Exit status 1 if they do not meet within a minute, or later than `BOUND_S`.
"""

from argparse import Namespace
from collections.abc import Callable, Sequence
from itertools import product
from math import inf, isfinite
from typing import Final

import attrs

from groupcomm.config.roster import AddDaemon, RemoveDaemon, RosterChange, RosterRecord
from groupcomm.engine import ChangeRoster
from groupcomm.membership.states import MembershipState
from groupcomm.sim.cluster.cluster import MEETING_LIMIT_S
from groupcomm.sim.cluster.disk import DiskRecord
from groupcomm.sim.settings import plain_settings
from groupcomm.sim.virtual_time import SECOND, microseconds
from tests.verification.campaigns.runner import Found, campaign, option
from tests.verification.simulation.cluster import VerificationCluster
from tests.verification.simulation.settings import widened

DISKS: Final = ("lost", "old", "copied", "added")
SIZES: Final = (3, 4, 5, 6)
SITES: Final = (1, 2, 3)

AWAY: Final = 1
"""The index of the daemon that goes away."""

BOUND_S: Final = MEETING_LIMIT_S
"""The time by which all have to be in one view."""

LIMIT_S: Final = 60.0
"""The time after which the daemons count as never meeting."""

LOOK_S: Final = 0.01
DOWN_S: Final = 1.0
SETTLED_S: Final = 1.5
"""The time for which all have to stay in one view."""

DELAY_S: Final = 0.04
"""The one-way delay between sites."""


@attrs.frozen(kw_only=True)
class Case:
    """One return.

    Attributes:
        daemons: the number of all daemons.
        restarted: the number of others that are restarted while the daemon is away; the last ones.
        disk: one of `DISKS`.
        sites: the number of sites.
    """

    daemons: int
    restarted: int
    disk: str
    sites: int


@attrs.frozen(kw_only=True)
class Measured:
    """The effects of one return, in seconds; inf if they last longer than LIMIT_S.

    Attributes:
        silence_s: the longest time for which another daemon had no view in operation.
        meeting_s: the time until all daemons are in one view.
    """

    silence_s: float
    meeting_s: float


class OneReturn:
    """A cluster whose second daemon goes away and comes back."""

    def __init__(self, case: Case) -> None:
        self._case = case
        settings = plain_settings(daemons=case.daemons, sites=case.sites, delay_s=DELAY_S)
        self._cluster = VerificationCluster(widened(settings, rosters=case.disk == "added"))
        self._back = self._cluster.daemons[AWAY]
        self._others = [host for host in self._cluster.daemons if host is not self._back]
        operator = self._cluster.operator
        if operator is not None:
            operator.rest()  # the changes are made here
        self._latest = self._back.core.config.roster

    def measure(self) -> Measured:
        """Play the case."""
        first = self._back.disk.record
        for _ in range(2):  # it has started more often than any other one
            self._restart(AWAY)
        copied = self._back.disk.record
        self._go_away()
        for host in self._others[len(self._others) - self._case.restarted :]:
            self._restart(host.index)
        self._come_back(first, copied)
        return self._watch()

    def _go_away(self) -> None:
        """Have the daemon go away; a copy of its machine has run in its place by then."""
        if self._case.disk == "copied":
            self._restart(AWAY)
        if self._case.disk == "added":
            self._change(RemoveDaemon(self._back.name))
            self._wait(lambda: self._back.is_idle, "it does not end")
        self._back.kill()
        self._wait_for_view()

    def _come_back(self, first: DiskRecord, copied: DiskRecord) -> None:
        back, disk = self._back, self._back.disk
        disk.lose()
        back.clock.set_ahead_of(0, self._cluster.loop.now)
        if self._case.disk == "added":
            self._change(self._addition())
            disk.rosters = RosterRecord(agreed=self._latest)
            back.is_spare = False
        elif self._case.disk != "lost":
            disk.record = first if self._case.disk == "old" else copied
        back.boot()

    def _addition(self) -> AddDaemon:
        site = str(self._back.site + 1)
        delay_us = microseconds(2 * DELAY_S)
        sites = self._latest.sites
        links = () if site in sites else tuple((other, delay_us) for other in sites)
        return AddDaemon(name=self._back.name, site=site, links=links)

    def _change(self, change: RosterChange) -> None:
        """Have the first daemon change the roster, and wait until all others use it."""
        first = self._others[0]
        before = first.core.config.roster.number
        first.core.command(ChangeRoster(change=change))
        assert first.process is not None
        first.process.wake()
        self._wait(
            lambda: all(host.core.config.roster.number > before for host in self._others),
            "the roster does not change",
        )
        self._latest = first.core.config.roster

    def _restart(self, index: int) -> None:
        host = self._cluster.daemons[index]
        host.kill()
        self._cluster.run(DOWN_S)
        host.boot()
        self._wait_for_view()

    def _wait_for_view(self) -> None:
        def agree() -> bool:
            up = [host.index for host in self._cluster.daemons if not host.is_idle]
            return self._cluster.agree(up)

        self._wait(agree, "there is no view")

    def _wait(self, there: Callable[[], bool], text: str) -> None:
        limit = self._cluster.loop.now + microseconds(LIMIT_S)
        while not there():
            assert self._cluster.loop.now < limit, text
            self._cluster.run(LOOK_S)

    def _watch(self) -> Measured:
        """Run until all have been in one view for a while; return the times."""
        cluster, began = self._cluster, self._cluster.loop.now
        every = range(len(cluster.daemons))
        served_at = dict.fromkeys((host.index for host in self._others), began)
        longest, agreed_at = 0, None
        while agreed_at is None or cluster.loop.now < agreed_at + microseconds(SETTLED_S):
            now = cluster.loop.now
            if now > began + microseconds(LIMIT_S):
                return Measured(silence_s=self._or_never(longest, began), meeting_s=inf)
            for host in self._others:
                if host.core.state is MembershipState.OPERATIONAL and host.completed is not None:
                    served_at[host.index] = now
                longest = max(longest, now - served_at[host.index])
            agreed_at = (agreed_at or now) if cluster.agree(every) else None
            cluster.run(LOOK_S)
        return Measured(silence_s=longest / SECOND, meeting_s=(agreed_at - began) / SECOND)

    @staticmethod
    def _or_never(longest: int, began: int) -> float:
        return inf if longest / SECOND > LIMIT_S / 2 else longest / SECOND


def cases(sizes: Sequence[int] = SIZES, sites: Sequence[int] = SITES) -> list[Case]:
    """Return all cases of these sizes."""
    return [
        Case(daemons=daemons, restarted=restarted, disk=disk, sites=count)
        for daemons in sizes
        for restarted in range(daemons)
        for disk, count in product(DISKS, sites)
    ]


def _cell(found: Measured) -> str:
    times = (found.silence_s, found.meeting_s)
    return " / ".join(f"{time_s:.1f}" if isfinite(time_s) else "never" for time_s in times)


def table(measured: dict[Case, Measured]) -> list[str]:
    """Return the lines of a Markdown table: a row for each number of daemons and of restarts."""
    columns = sorted(
        {(case.disk, case.sites) for case in measured},
        key=lambda column: (DISKS.index(column[0]), column[1]),
    )
    rows = sorted({(case.daemons, case.restarted) for case in measured})
    titles = [f"{disk}, {sites} site{'s' * (sites > 1)}" for disk, sites in columns]
    lines = ["| daemons | restarted | " + " | ".join(titles) + " |"]
    lines.append("|---:|---:|" + "---:|" * len(columns))
    for daemons, restarted in rows:
        found = [
            measured[Case(daemons=daemons, restarted=restarted, disk=disk, sites=sites)]
            for disk, sites in columns
        ]
        lines.append(f"| {daemons} | {restarted} | {' | '.join(map(_cell, found))} |")
    return lines


@campaign(
    option("daemons", SIZES, choices=range(2, 10)), option("sites", SITES, choices=range(1, 4))
)
def run(options: Namespace) -> Found:
    """Print the table; all daemons have to meet in time."""
    measured = {case: OneReturn(case).measure() for case in cases(options.daemons, options.sites)}
    print("\n".join(table(measured)))
    late = [case for case, found in measured.items() if found.meeting_s > BOUND_S]
    wrong = [f"they do not meet within {BOUND_S:g} s: {case}" for case in late]
    return {"cases": len(measured), "violations": wrong}
