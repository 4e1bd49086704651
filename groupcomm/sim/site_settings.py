"""Over which sites a run's daemons are spread, and what lies between them."""

from collections.abc import Iterable, Sequence
from itertools import count, islice, pairwise
from random import Random
from typing import Final, TypeAlias

import attrs

from groupcomm.sim.faults import Faults
from groupcomm.sim.links import TOPOLOGIES, USUAL_JITTER, Link, SitePair, joined, longest_way_s

Sites: TypeAlias = tuple[tuple[int, ...], ...]
"""Per site the indices of its daemons."""

FEW_SITES: Final = (2, 4)
MOST_DAEMONS: Final = 9
"""Of a run with few sites, however they are spread."""

MANY_SHARE: Final = 1 / 12
"""Of runs with several sites; these are one in eight of all."""

MANY_SITES: Final = (5, 8)
MOST_IN_A_SITE: Final = 9

SHORTEST_LINK_S: Final = 0.005
LONGEST_LINK_S: Final = 0.08
LONGEST_WAY_S: Final = 0.12
"""One-way delays of a link, and over all links of the longest way: with twice as much daemons that
have failed to agree again and again wait so long in between that the 3 s of L1 are too short."""

LEAST_BYTES_PER_S: Final = 1_000_000
"""Enough for each link to carry what nine daemons send when views change under load."""


def split_evenly(daemons: int, sites: int) -> Sites:
    """Share `daemons` among `sites` as evenly as possible, in order."""
    bounds = [daemons * site // sites for site in range(sites + 1)]
    return in_order([last - first for first, last in pairwise(bounds)])


def in_order(sizes: Iterable[int]) -> Sites:
    """Sites of these sizes; the first ones have the first daemons."""
    daemons = count()
    return tuple(tuple(islice(daemons, size)) for size in sizes)


def draw_sites(rng: Random, sites: int | None, daemons: int | None) -> Sites:
    """Draw how many there are, unless that is fixed, and how large each of several sites is.

    Args:
        rng: this run's source for that.
        sites: how many; None to draw 2 to 4 or, in some runs without fixed daemons, up to 8.
        daemons: how many in all; None to draw.
    """
    many = rng.random() < MANY_SHARE
    if sites is None and daemons is None and many:
        most = [rng.randint(1, MOST_IN_A_SITE) for _ in range(rng.randint(*MANY_SITES))]
        return in_order([rng.randint(1, size) for size in most])  # small sites more often
    few = rng.randint(*FEW_SITES)
    sites = sites or min(few, daemons or few)
    daemons = daemons or rng.randint(sites, max(MOST_DAEMONS, sites))
    bounds = sorted(rng.sample(range(1, daemons), sites - 1))
    return in_order([last - first for first, last in pairwise((0, *bounds, daemons))])


def draw_links(rng: Random, sites: int, daemons: int, faults: Faults) -> tuple[Link, ...]:
    """Draw who is whose neighbour, and what each link is like."""
    names = list(range(sites))
    rng.shuffle(names)  # so that any of them is in the middle of a star
    pairs = TOPOLOGIES[rng.choice(sorted(TOPOLOGIES))](sites)
    found = sorted((min(names[a], names[b]), max(names[a], names[b])) for a, b in pairs)
    lengths = [rng.uniform(SHORTEST_LINK_S, LONGEST_LINK_S) for _ in found]
    links = [
        _draw_link(rng, pair, delay_s, daemons, faults)
        for pair, delay_s in zip(found, lengths, strict=True)
    ]
    shorter = min(1.0, LONGEST_WAY_S / longest_way_s(sites, links))
    return tuple(
        attrs.evolve(link, delay_s=link.delay_s * shorter, jitter_s=link.jitter_s * shorter)
        for link in links
    )


def _draw_link(rng: Random, pair: SitePair, delay_s: float, daemons: int, faults: Faults) -> Link:
    jitter, loss, load = rng.random(), rng.random(), rng.random()
    # All daemons tell all others what they know when views change, so that grows by the square.
    least = LEAST_BYTES_PER_S * max(1.0, (daemons / MOST_DAEMONS) ** 2)
    return Link(
        sites=pair,
        delay_s=delay_s,
        jitter_s=delay_s * max(USUAL_JITTER, jitter * faults.link_jitter),
        loss=loss * faults.link_loss,
        bytes_per_s=least * faults.link_load**load if faults.link_load else None,
    )


def reachable_core(core: tuple[int, ...], sites: Sites, links: Sequence[Link]) -> tuple[int, ...]:
    """The daemons of `core` that reach its first one when all others are cut off from it.

    Over a site without a daemon of the core nothing is passed on.
    """
    site_of = {daemon: site for site, members in enumerate(sites) for daemon in members}
    among = {site_of[daemon] for daemon in core}
    there = joined(among, [link.sites for link in links], site_of[core[0]])
    return tuple(daemon for daemon in core if site_of[daemon] in there)
