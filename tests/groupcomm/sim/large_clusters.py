"""Large clusters at rest, in which something fails: sites of three daemons, all linked.

Each site is a ring, whose first daemon is the end of all its links.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from groupcomm.config.core import CoreConfig, Timing
from groupcomm.level import ServiceLevel
from groupcomm.sim.settings import Settings, plain_settings
from tests.groupcomm.sim.checked_cluster import CheckedCluster, with_few_notices

DELAY_S: Final = 0.02
SILENCE_S: Final = Timing().token_timeout_s
CHANGE_S: Final = 6 * DELAY_S
"""Joins there and back, twice as most have not heard each other, commits, and a look."""

SITES, EACH = 4, 3
ALL: Final = range(SITES * EACH)
FIRST, SECOND = range(EACH), range(EACH, 2 * EACH)
"""The daemons of two sites; the first of each is the end of its links."""

GATEWAY: Final = SECOND[0]
LATER: Final = SECOND[2]


def large(
    sites: int = SITES, daemons: int = EACH, *, many: int = CoreConfig().many_daemons
) -> Settings:
    """Return settings with which a small cluster does what a large one does.

    With more than `many` daemons relays pass on what is said about views.
    """
    settings = plain_settings(daemons=[daemons] * sites, delay_s=DELAY_S if sites > 1 else 0.0)
    return with_few_notices(attrs.evolve(settings, few_daemons=0, many_daemons=many))


class Checked(CheckedCluster):
    """A cluster at rest, with members at some daemons."""

    def __init__(
        self,
        settings: Settings | None = None,
        members: Sequence[int] = (),
        *,
        start: bool = True,
    ) -> None:
        super().__init__(settings or large(), start=start)
        if not start:
            return
        self.members = [self.cluster.connect(f"user{at}", at) for at in members]
        self.cluster.run(0.2)
        self.join("g", self.members)
        self.cluster.run(1.0)

    def send(self) -> None:
        """Have each member send a message at two levels."""
        for member in self.members:
            if member.connected:
                for level in (ServiceLevel.AGREED, ServiceLevel.SAFE):
                    member.multicast(["g"], b"data", level=level)

    def until_view(self, hosts: Sequence[int], limit_s: float = 5.0) -> float:
        """Run until these hosts alone have a view; return the seconds that it took."""
        began = self.cluster.loop.now
        while not self.cluster.agree(hosts):
            self.cluster.run(0.01)
            assert self.cluster.loop.now < began + limit_s * 1e6, "no view"
        return (self.cluster.loop.now - began) / 1e6

    def counters(self) -> set[int]:
        """Return the counters of the views of all running daemons."""
        cores = [each.core for each in self.cluster.daemons if each.process is not None]
        return {core.view.id.counter for core in cores if core.view is not None}

    def cut(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Lose everything on these paths."""
        self.cluster.network.cut(pairs)

    def mend(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Lose nothing on these paths any more."""
        self.cluster.network.mend(pairs)


def both_ways(one: Iterable[int], other: Iterable[int]) -> list[tuple[int, int]]:
    """Return the paths between these daemons."""
    there = [(a, b) for a in one for b in other]
    return there + [(b, a) for a, b in there]


def without(*hosts: int) -> list[int]:
    """Return all daemons but these."""
    return [at for at in ALL if at not in hosts]
