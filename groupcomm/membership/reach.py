"""Reachability: from who hears whom to the rings and links of a view.

Only pairs that hear each other count (FAULTS: asymmetric links). Rings are sets of daemons of one
site that all hear each other; between rings lead links. A view is a connected component, so one
pair that does not hear each other neither keeps a view from forming nor splits it again and again.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from groupcomm.config.view import View

Mutual: TypeAlias = Sequence[frozenset[int]]
"""Per daemon, by index, the others that it hears and that hear it."""


def mutual_pairs(heard: Mapping[int, frozenset[int]]) -> dict[int, frozenset[int]]:
    """Per daemon whom it hears that also hears it; daemons by any numbers."""
    return {
        daemon: frozenset(other for other in row if daemon in heard.get(other, ()))
        for daemon, row in heard.items()
    }


def component(mutual: Mapping[int, frozenset[int]], start: int) -> frozenset[int]:
    """All daemons that `start` reaches over pairs that hear each other."""
    found = {start}
    edge = [start]
    while edge:
        for other in mutual[edge.pop()]:
            if other not in found:
                found.add(other)
                edge.append(other)
    return frozenset(found)


def split_into_rings(sites: Sequence[int], mutual: Mutual) -> tuple[tuple[int, ...], ...]:
    """Share daemons among rings.

    Args:
        sites: per daemon, by index, its site.
        mutual: whom each hears both ways.

    Returns:
        Rings, each of one site, rising and sorted by their lowest daemon; in each all hear each
        other. The lowest daemons choose first, so the same input gives the same rings everywhere.
    """
    rings: list[list[int]] = []
    for daemon, site in enumerate(sites):
        for ring in rings:
            if sites[ring[0]] == site and mutual[daemon].issuperset(ring):
                ring.append(daemon)
                break
        else:
            rings.append([daemon])
    return tuple(map(tuple, rings))


def find_links(rings: Sequence[Sequence[int]], mutual: Mutual) -> tuple[tuple[int, int], ...]:
    """For each two rings the lowest pair that hears each other, if there is one; sorted."""
    links: list[tuple[int, int]] = []
    for place, ring in enumerate(rings):
        for other in rings[place + 1 :]:
            pairs = ((one, far) for one in ring for far in other if far in mutual[one])
            pair = min(pairs, default=None)
            if pair is not None:
                links.append((min(pair), max(pair)))
    return tuple(sorted(links))


def joins_all(view: View, links: Sequence[tuple[int, int]]) -> bool:
    """Whether these links, of the view's own, still join all its rings."""
    detector: dict[int, set[int]] = {ring: set() for ring in range(len(view.rings))}
    for one, other in links:
        detector[view.ring_of[one]].add(view.ring_of[other])
        detector[view.ring_of[other]].add(view.ring_of[one])
    reached = component({ring: frozenset(near) for ring, near in detector.items()}, 0)
    return len(reached) == len(view.rings)
