"""What daemons receive until their first view, counted in virtual time."""

from collections import Counter
from typing import Final

import attrs

from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.settings import Settings, plain_settings
from groupcomm_tools.plan.kinds import kind_of

FORM_LIMIT_S = 2.0
DELAY_S = 0.02
"""One way between any two sites."""


FORMING: Final = {
    "sites of 4": ((4, 4), (8, 4), (16, 4), (24, 4)),
    "sites of 8": ((3, 8), (6, 8), (12, 8)),
}
"""Clusters that grow, each by its number of sites and the daemons of each."""


@attrs.frozen
class Cost:
    """The datagrams until one view, and their bytes."""

    datagrams: int
    bytes: int
    seconds: float
    kinds: Counter[str]


def crowd(sites: int, daemons: int, *, relays: bool = False) -> Settings:
    """Return settings with which small clusters, too, do what large ones do."""
    settings = plain_settings(daemons=[daemons] * sites, delay_s=DELAY_S)
    many = 0 if relays else settings.many_daemons
    return attrs.evolve(settings, few_daemons=0, many_daemons=many)


def counting(cluster: Cluster) -> tuple[Counter[str], list[int]]:
    """Return the kinds and the sizes of the datagrams that are sent from now on."""
    kinds: Counter[str] = Counter()
    sizes: list[int] = []

    def observe(_source: int, _target: int, datagram: bytes, _goes_on: bool) -> None:
        kinds[kind_of(datagram)] += 1
        sizes.append(len(datagram))

    cluster.network.observers.append(observe)
    return kinds, sizes


def first_view(sites: int, daemons: int, *, relays: bool = False) -> Cost:
    """Form a view of this many sites with this many daemons each."""
    return form_view(Cluster(crowd(sites, daemons, relays=relays), start=False))


def form_view(cluster: Cluster) -> Cost:
    """Start all daemons of a cluster, and count until they have one view."""
    kinds, sizes = counting(cluster)
    cluster.start(form=False)
    hosts = range(len(cluster.daemons))
    while any(host.process is None for host in cluster.daemons) or not cluster.agree(hosts):
        cluster.run(0.005)
        assert cluster.loop.now < FORM_LIMIT_S * 1e6, "no view"
    return Cost(len(sizes), sum(sizes), cluster.loop.now / 1e6, kinds)
