"""What happens to the network as a whole: partitions, one-way loss, paths that come and go."""

from random import Random
from typing import Any, Final

from groupcomm.sim.cuts import Cuts
from groupcomm.sim.faults import Faults
from groupcomm.sim.loop import Loop, microseconds
from groupcomm.sim.network import Network, Pair
from groupcomm.sim.partitions import Sides, draw_partition

SHORTEST_CUT_S: Final = 0.05
LONGEST_FLAPPING_S: Final = 4.0
SHORTEST_LOSS_S: Final = 0.5
LONGEST_LOSS_S: Final = 4.0
FOR_EVER_SHARE: Final = 0.2
"""In so many runs the first path to lose most does so until all faults end."""


class Disruptions:
    """Cuts and mends paths.

    Args:
        loop: virtual time.
        rng: this run's source for when and whom.
        faults: how strong.
        network: whose paths.
        cuts: of these paths.
        sites: per host the site it is in.
    """

    def __init__(
        self,
        loop: Loop,
        rng: Random,
        faults: Faults,
        network: Network,
        cuts: Cuts,
        sites: Sides,
    ) -> None:
        self._loop = loop
        self._rng = rng
        self._faults = faults
        self._network = network
        self._cuts = cuts
        self._sites = sites
        self._thinned: Pair | None = None
        self._for_ever: bool | None = None  # whether that lasts; None before the first time
        self._running = True

    def end(self) -> None:
        """Disturb nothing any more; what is cut is for `cuts` to mend."""
        self._running = False
        self._thin(None)

    # ---- what can happen ----

    def part(self) -> None:
        """The network falls apart for a while, whatever else is cut."""
        longest = self._faults.partition_s
        lasts = self._rng.choice(
            (self._rng.uniform(SHORTEST_CUT_S, 1.0), self._rng.uniform(SHORTEST_CUT_S, longest))
        )
        self._cuts.cut(draw_partition(self._rng, self._sites), microseconds(lasts))

    def lose_one_way(self) -> None:
        """One path loses most of what is sent on it, for a while or for ever."""
        if self._for_ever:
            return
        self._for_ever = self._for_ever is None and self._rng.random() < FOR_EVER_SHARE
        self._thin(self._rng.choice(sorted(self._network.paths)))
        if not self._for_ever:
            lasts = microseconds(self._rng.uniform(SHORTEST_LOSS_S, LONGEST_LOSS_S))
            self._loop.at(self._loop.now + lasts, self._end_thin, self._thinned)

    def _end_thin(self, pair: Any) -> None:
        if self._thinned is pair:
            self._thin(None)

    def _thin(self, pair: Pair | None) -> None:
        if self._thinned is not None:
            self._network.paths[self._thinned].thin(0.0)
        self._thinned = pair
        if pair is not None:
            self._network.paths[pair].thin(self._faults.directed_loss)

    def flap(self) -> None:
        """Paths are cut for half a period, whole for half a period, and so on for a while."""
        period = microseconds(self._faults.flap_s)
        lasts = microseconds(self._rng.uniform(1.0, LONGEST_FLAPPING_S))
        if self._rng.random() < 0.5:
            one, other = self._rng.choice(sorted(self._network.paths))
            pairs: tuple[Pair, ...] = ((one, other), (other, one))
        else:
            pairs = draw_partition(self._rng, self._sites)
        self._flap((pairs, period, self._loop.now + lasts))

    def _flap(self, flapping: tuple[tuple[Pair, ...], int, int]) -> None:
        pairs, period, until = flapping
        if self._loop.now < until and self._running:
            self._cuts.cut(pairs, max(1, period // 2))
            self._loop.at(self._loop.now + max(2, period), self._flap, flapping)
