"""What happens to links between sites: they are cut, alone or several at once, and come and go."""

from collections.abc import Sequence
from random import Random
from typing import Final

from groupcomm.sim.cuts import Cuts
from groupcomm.sim.faults import Faults
from groupcomm.sim.link_shapes import SitePlan, draw_link_cut, draw_one_link
from groupcomm.sim.links import SitePair
from groupcomm.sim.loop import Loop, microseconds
from groupcomm.sim.network import Pair
from groupcomm.sim.partitions import Sides

SHORTEST_CUT_S: Final = 0.05
MOST_FLAPS: Final = 12


class LinkFaults:
    """Cuts and mends links.

    Args:
        loop: virtual time.
        rng: this run's source for when and where.
        faults: how strong.
        cuts: of the network's paths.
        sites: per host the site it is in.
        links: the pairs of neighbouring sites.
    """

    def __init__(
        self,
        loop: Loop,
        rng: Random,
        faults: Faults,
        cuts: Cuts,
        sites: Sides,
        links: Sequence[SitePair],
    ) -> None:
        self._loop = loop
        self._rng = rng
        self._faults = faults
        self._cuts = cuts
        self._plan = SitePlan(sites=sites, links=links)
        self._running = True

    def end(self) -> None:
        """Cut nothing any more."""
        self._running = False

    def cut(self) -> None:
        """One link is cut, or several, and all of them healed at once after a while."""
        lasts_s = self._rng.uniform(SHORTEST_CUT_S, self._faults.link_cut_s)
        self._cuts.cut(draw_link_cut(self._rng, self._plan), microseconds(lasts_s))

    def flap(self) -> None:
        """One link is cut for half a period, whole for half a period, and so on some times."""
        times = self._rng.randint(2, MOST_FLAPS)
        self._flap((draw_one_link(self._rng, self._plan), times))

    def _flap(self, flapping: tuple[tuple[Pair, ...], int]) -> None:
        pairs, times = flapping
        if times and self._running:
            period = microseconds(self._faults.link_flap_s)
            self._cuts.cut(pairs, period // 2)
            self._loop.at(self._loop.now + period, self._flap, (pairs, times - 1))
