"""Faults of the network as a whole: partitions, one-way loss, paths that come and go.

Cuts last a while; the shapes say which hosts no longer receive from which others.
"""

from collections.abc import Callable, Sequence
from itertools import permutations
from random import Random
from typing import Any, Final, TypeAlias

import attrs

from groupcomm.sim.faults.faults import Faults
from groupcomm.sim.network.network import Network, Pair
from groupcomm.sim.virtual_time import Loop, microseconds


class Cuts:
    """Cuts of paths that last a while; cuts of the same path add up.

    Args:
        loop: virtual time.
        network: the network with the paths.
    """

    def __init__(self, loop: Loop, network: Network) -> None:
        self._loop = loop
        self._network = network
        self._cuts: dict[int, tuple[Pair, ...]] = {}
        self._count = 0

    def cut(self, pairs: tuple[Pair, ...], lasts_us: int) -> None:
        """Cut these paths for some time."""
        self._count += 1
        self._cuts[self._count] = pairs
        self._network.cut(pairs)
        self._loop.at(self._loop.now + lasts_us, self._mend, self._count)

    def _mend(self, cut: int) -> None:
        pairs = self._cuts.pop(cut, None)
        if pairs is not None:
            self._network.mend(pairs)

    def end(self) -> None:
        """Restore all cut paths now."""
        for pairs in self._cuts.values():
            self._network.mend(pairs)
        self._cuts.clear()


ONE_WAY_SHARE: Final = 0.3
"""Share of partitions in which one direction still works."""

Sides: TypeAlias = Sequence[int]
"""The side of each host, by index."""


def draw_partition(rng: Random, sites: Sides) -> tuple[Pair, ...]:
    """Return the paths (source, target) that a random partition cuts; sorted.

    Args:
        rng: the source.
        sites: for each host, by index, its site; two hosts at least.
    """
    shape = rng.choice(SHAPES)
    pairs, sides = shape(rng, sites)
    if rng.random() < ONE_WAY_SHARE:
        order = sorted(set(sides))
        rng.shuffle(order)
        place = {side: at for at, side in enumerate(order)}
        pairs = {(one, other) for one, other in pairs if place[sides[one]] < place[sides[other]]}
    return tuple(sorted(pairs))


def between(sides: Sides) -> set[Pair]:
    """Return all paths from one side to another."""
    return {(a, b) for a, b in permutations(range(len(sides)), 2) if sides[a] != sides[b]}


def isolate(rng: Random, sites: Sides) -> tuple[set[Pair], Sides]:
    """Return the sides of a partition in which one host is alone."""
    alone = rng.randrange(len(sites))
    sides = [int(host == alone) for host in range(len(sites))]
    return between(sides), sides


def halves(rng: Random, sites: Sides) -> tuple[set[Pair], Sides]:
    """Return two parts of about the same size."""
    hosts = list(range(len(sites)))
    rng.shuffle(hosts)
    first = set(hosts[: len(hosts) // 2])
    sides = [int(host in first) for host in range(len(sites))]
    return between(sides), sides


def sets(rng: Random, sites: Sides) -> tuple[set[Pair], Sides]:
    """Return two to four parts of any size."""
    parts = rng.randint(2, 4)
    sides = [rng.randrange(parts) for _ in sites]
    return between(sides), sides


def overlapping(rng: Random, sites: Sides) -> tuple[set[Pair], Sides]:
    """Return circular sides: each host hears only its neighbours, so no two hear the same."""
    hosts = list(range(len(sites)))
    rng.shuffle(hosts)
    place = {host: at for at, host in enumerate(hosts)}
    count = len(hosts)
    far = {
        (a, b)
        for a, b in permutations(hosts, 2)
        if (place[a] - place[b]) % count not in (1, count - 1)
    }
    return far, hosts


def apart(rng: Random, sites: Sides) -> tuple[set[Pair], Sides]:
    """Return the sites as sides that do not hear each other; with one site, halves."""
    return (between(sites), sites) if len(set(sites)) > 1 else halves(rng, sites)


def joined_by_one(rng: Random, sites: Sides) -> tuple[set[Pair], Sides]:
    """Return the sides of `apart`, except that one host and all others still hear each other."""
    pairs, sides = apart(rng, sites)
    bridge = rng.randrange(len(sites))
    return {pair for pair in pairs if bridge not in pair}, sides


SHAPES: Final[tuple[Callable[[Random, Sides], tuple[set[Pair], Sides]], ...]] = (
    isolate,
    halves,
    sets,
    overlapping,
    apart,
    joined_by_one,
)
"""All shapes, each as likely as any other."""


SHORTEST_CUT_S: Final = 0.05
LONGEST_FLAPPING_S: Final = 4.0
SHORTEST_LOSS_S: Final = 0.5
LONGEST_LOSS_S: Final = 4.0
FOR_EVER_SHARE: Final = 0.2
"""The share of runs in which the first lossy path stays so until all faults end."""


@attrs.define(eq=False, repr=False)
class Disruptions:
    """Faults that cut paths, and restore them.

    Args:
        loop: virtual time.
        rng: the random source of times and victims.
        faults: the strength of the faults.
        network: the network with the paths.
        cuts: the cuts of these paths.
        sites: the site of each host.
    """

    _loop: Loop
    _rng: Random
    _faults: Faults
    _network: Network
    _cuts: Cuts
    _sites: Sides
    _thinned: Pair | None = None
    _cards: dict[Pair, float] = attrs.field(factory=dict)  # with a bad card; what they passed
    _for_ever: bool | None = None  # whether the cut lasts; None before the first one
    _running: bool = True

    def end(self) -> None:
        """Cause no more disruptions; `cuts` restores the cut paths."""
        self._running = False
        self._thin(None)
        self._mend_card()

    # ---- possible acts ----

    def part(self) -> None:
        """Partition the network for a while, whatever else is cut."""
        longest = self._faults.partition_s
        lasts = self._rng.choice(
            (self._rng.uniform(SHORTEST_CUT_S, 1.0), self._rng.uniform(SHORTEST_CUT_S, longest))
        )
        self._cuts.cut(draw_partition(self._rng, self._sites), microseconds(lasts))

    def lose_one_way(self) -> None:
        """Make one path lose most datagrams, for a while or for ever."""
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

    def spoil_card(self) -> None:
        """Have a card lose long datagrams: to a host, from it, or on one path; one at a time."""
        if self._cards:
            return
        rng, paths = self._rng, self._network.paths
        host, end = rng.randrange(len(self._sites)), rng.choice((0, 1, None))
        pairs = [pair for pair in sorted(paths) if end is not None and pair[end] == host]
        self._cards = {
            pair: paths[pair].largest_bytes for pair in pairs or [rng.choice(sorted(paths))]
        }
        self._network.narrow(self._cards, self._faults.card_bytes)
        lasts = microseconds(rng.uniform(SHORTEST_LOSS_S, LONGEST_LOSS_S))
        self._loop.at(self._loop.now + lasts, self._mend_card)

    def _mend_card(self, _: Any = None) -> None:
        for pair, largest_bytes in self._cards.items():
            self._network.narrow([pair], largest_bytes)
        self._cards = {}

    def flap(self) -> None:
        """Cut paths for half a period and restore them for half a period, for a while."""
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
