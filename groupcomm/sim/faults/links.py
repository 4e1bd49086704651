"""Faults of links between sites: cuts of one link or several, links that come and go.

The shapes say which paths a cut takes: one link, the middle of a chain, a site, three parts.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

import attrs

from groupcomm.sim.faults.faults import Faults
from groupcomm.sim.faults.partitions import ONE_WAY_SHARE, Cuts, Sides, between
from groupcomm.sim.network.links import SitePair, joined
from groupcomm.sim.network.network import Pair
from groupcomm.sim.virtual_time import Loop, microseconds

PARTS: Final = 3


@attrs.frozen(kw_only=True)
class SitePlan:
    """The sites of the hosts, and the pairs of neighbouring sites; two sites at least.

    Attributes:
        sites: for each host, by index, its site.
        links: pairs of sites, the lower first.
    """

    sites: Sides
    links: Sequence[SitePair]

    @property
    def all_sites(self) -> list[int]:
        """Return the sites, rising."""
        return sorted(set(self.sites))

    def over(self, near: int, far: int) -> set[Pair]:
        """Return all paths from one site to another."""
        return {
            (source, target)
            for source, here in enumerate(self.sites)
            for target, there in enumerate(self.sites)
            if (here, there) == (near, far)
        }


def draw_link_cut(rng: Random, plan: SitePlan) -> tuple[Pair, ...]:
    """Return the paths (source, target) that a random cut of links takes; sorted."""
    return tuple(sorted(rng.choice(SHAPES)(rng, plan)))


def draw_one_link(rng: Random, plan: SitePlan) -> tuple[Pair, ...]:
    """Return the paths over a random link, in both directions or only one; sorted."""
    shape = one_way if rng.random() < ONE_WAY_SHARE else one_link
    return tuple(sorted(shape(rng, plan)))


def one_link(rng: Random, plan: SitePlan) -> set[Pair]:
    """Return the paths of one link."""
    near, far = rng.choice(plan.links)
    return plan.over(near, far) | plan.over(far, near)


def one_way(rng: Random, plan: SitePlan) -> set[Pair]:
    """Return the paths of one direction of a link."""
    ways = [*plan.links, *((far, near) for near, far in plan.links)]
    return plan.over(*rng.choice(ways))


def in_the_middle(rng: Random, plan: SitePlan) -> set[Pair]:
    """Return the paths of the link whose loss leaves parts as equal as can be.

    A chain breaks in its middle.
    """
    sites = plan.all_sites

    def smaller_part(link: SitePair) -> int:
        left = joined(sites, [pair for pair in plan.links if pair != link], link[0])
        return min(len(left), len(sites) - len(left))

    most = max(map(smaller_part, plan.links))
    near, far = rng.choice([link for link in plan.links if smaller_part(link) == most])
    return plan.over(near, far) | plan.over(far, near)


def off(rng: Random, plan: SitePlan) -> set[Pair]:
    """Return the paths that cut one site off from all others."""
    alone = rng.choice(plan.all_sites)
    return between([int(site == alone) for site in plan.sites])


def three_parts(rng: Random, plan: SitePlan) -> set[Pair]:
    """Return paths between three parts of whole sites, or of hosts if there are two sites.

    The parts meet again all at once.
    """
    sites = plan.all_sites
    if len(sites) < PARTS:
        return between([rng.randrange(PARTS) for _ in plan.sites])
    rng.shuffle(sites)
    part = {
        site: place if place < PARTS else rng.randrange(PARTS) for place, site in enumerate(sites)
    }
    return between([part[site] for site in plan.sites])


def inside(rng: Random, plan: SitePlan) -> set[Pair]:
    """Return paths between two halves of a site, while both hear the neighbours they
    had."""
    large = [site for site in plan.all_sites if plan.sites.count(site) > 1]
    if not large:
        return off(rng, plan)
    split = rng.choice(large)
    hosts = [host for host, site in enumerate(plan.sites) if site == split]
    rng.shuffle(hosts)
    half = len(hosts) // 2
    return {pair for a in hosts[:half] for b in hosts[half:] for pair in ((a, b), (b, a))}


SHAPES: Final[tuple[Callable[[Random, SitePlan], set[Pair]], ...]] = (
    one_link,
    one_way,
    in_the_middle,
    off,
    three_parts,
    inside,
)
"""All shapes, each as likely as any other."""


SHORTEST_CUT_S: Final = 0.05
MOST_FLAPS: Final = 12


@attrs.define(eq=False, repr=False)
class LinkFaults:
    """Faults that cut links, and restore them.

    Args:
        loop: virtual time.
        rng: the random source of times and targets.
        faults: the strength of the faults.
        cuts: the cuts of the network's paths.
        plan: the sites and links.
    """

    _loop: Loop
    _rng: Random
    _faults: Faults
    _cuts: Cuts
    _plan: SitePlan
    _running: bool = True

    def end(self) -> None:
        """End all cuts."""
        self._running = False

    def cut(self) -> None:
        """Cut one link, or several, and heal them all at once after a while."""
        lasts_s = self._rng.uniform(SHORTEST_CUT_S, self._faults.link_cut_s)
        self._cuts.cut(draw_link_cut(self._rng, self._plan), microseconds(lasts_s))

    def flap(self) -> None:
        """Cut one link for half a period and restore it for half a period, several times."""
        times = self._rng.randint(2, MOST_FLAPS)
        self._flap((draw_one_link(self._rng, self._plan), times))

    def _flap(self, flapping: tuple[tuple[Pair, ...], int]) -> None:
        pairs, times = flapping
        if times and self._running:
            period = microseconds(self._faults.link_flap_s)
            self._cuts.cut(pairs, period // 2)
            self._loop.at(self._loop.now + period, self._flap, (pairs, times - 1))
