"""What the daemons of a large cluster receive while nothing happens, counted in virtual time."""

from collections import Counter
from collections.abc import Iterable
from math import log
from statistics import linear_regression
from typing import Final

import attrs

from groupcomm.config.core import CoreConfig
from groupcomm.config.versions import CROWDS, SPOKEN
from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.settings import plain_settings

DELAY_S: Final = 0.02
"""One way between any two sites."""

SETTLE_S: Final = 1.0
COUNTED_S: Final = 2.4
"""Twenty intervals of beacons, and a whole number of rounds of a large ring."""

FAMILIES: Final = {
    "sites of 4": ((5, 4), (8, 4), (12, 4), (16, 4)),
    "sites of 8": ((3, 8), (5, 8), (8, 8), (12, 8)),
    "three sites": ((3, 8), (3, 16), (3, 32)),
    "one site": ((1, 20), (1, 32), (1, 64)),
}
"""Clusters that grow, each by its number of sites and the daemons of each."""


@attrs.frozen
class Idle:
    """What one daemon receives in a second.

    Attributes:
        datagrams: the datagrams, of all daemons on average.
        bytes: their bytes.
        most: the datagrams of the daemon that gets most of them.
    """

    datagrams: float
    bytes: float
    most: float


class Earlier(Cluster):
    """A cluster whose daemons send each beacon to all others."""

    def make_config(self) -> CoreConfig:
        """Return a configuration without the feature."""
        versions = attrs.evolve(SPOKEN, features=SPOKEN.features & ~CROWDS)
        return attrs.evolve(super().make_config(), versions=versions)


def idle(sites: int, each: int, *, kind: type[Cluster] = Cluster) -> Idle:
    """Count what sites of so many daemons receive, each linked to each."""
    settings = plain_settings(daemons=[each] * sites, delay_s=DELAY_S if sites > 1 else 0.0)
    cluster = kind(settings)
    cluster.run(SETTLE_S)
    got: Counter[int] = Counter()
    sizes: list[int] = []

    def observe(_source: int, target: int, datagram: bytes, _goes_on: bool) -> None:
        got[target] += 1
        sizes.append(len(datagram))

    cluster.network.observers.append(observe)
    cluster.run(COUNTED_S)
    all_s = len(cluster.daemons) * COUNTED_S
    return Idle(len(sizes) / all_s, sum(sizes) / all_s, max(got.values()) / COUNTED_S)


def exponent(sizes: Iterable[float], costs: Iterable[float]) -> float:
    """Return with which power of the sizes the costs grow: the least squares of their logarithms.

    Source: Gauss, "Theoria motus corporum coelestium", 1809, on least squares.
    """
    return linear_regression([log(size) for size in sizes], [log(cost) for cost in costs]).slope
