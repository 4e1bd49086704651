"""Routes: over which links the packets of each ring reach every other ring.

The packets of each ring go along a tree of shortest paths over the links of the view, with that
ring at the root: shortest by configured delays, else by the number of links. All daemons compute
the same trees from the view, so each packet enters each ring once. Links of an agreed roster that
change while the view lasts change the trees at all daemons at the same place of the agreed order.
"""

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush

from groupcomm.config.view import RING, View


class Routes:
    """The routes of packets at one daemon, by the ring that originates them.

    Attributes:
        onward: for each origin the targets of a packet that is seen here first: RING, or daemons.
        upstream: per origin, the daemon that sends its packets here over a link; None if another
            daemon of this ring receives them first, or if this ring is the origin.
        depth: the most links that a packet crosses from any ring to any other.
    """

    __slots__ = ("depth", "onward", "upstream")

    def __init__(
        self,
        view: View,
        me: int,
        links: Sequence[tuple[int, int]] | None = None,
        delays_us: Sequence[int] | None = None,
    ) -> None:
        """Compute the trees.

        Args:
            view: the view.
            me: the index of this daemon.
            links: the links of the view that are used, which join all its rings; None: all.
            delays_us: the delays of all links of the view, or none; None: those of the view.
        """
        links = view.links if links is None else links
        delays_us = (view.delays_us if delays_us is None else delays_us) or (0,) * len(view.links)
        lengths = dict(zip(view.links, delays_us, strict=True))
        own = view.ring_of[me]
        self.onward: list[tuple[int, ...]] = []
        self.upstream: list[int | None] = []
        self.depth = 0
        for origin in range(len(view.rings)):
            onward: list[int] = []
            upstream: int | None = None
            parents, depth = _tree(view, {pair: lengths[pair] for pair in links}, origin)
            self.depth = max(self.depth, depth)
            for ring, (parent, near, here) in parents.items():
                if parent == own and near == me:
                    onward.append(here)
                if ring == own and here == me:
                    upstream = near
                    if len(view.rings[own]) > 1:
                        onward.insert(0, RING)
            self.onward.append(tuple(onward))
            self.upstream.append(upstream)

    @property
    def entered(self) -> frozenset[int]:
        """Return the origins whose packets enter this ring at this daemon."""
        return frozenset(o for o, neighbour in enumerate(self.upstream) if neighbour is not None)


def _tree(
    view: View, usable: Mapping[tuple[int, int], int], origin: int
) -> tuple[dict[int, tuple[int, int, int]], int]:
    """Return per ring but the root (parent ring, the daemon there, the daemon here); the depth.

    Dijkstra's algorithm. Each link counts a microsecond more than its delay, so of two equal paths
    the one over fewer links is taken.
    """
    near: dict[int, list[tuple[int, int, int, int]]] = {r: [] for r in range(len(view.rings))}
    for (one, other), delay_us in usable.items():
        length = delay_us + 1
        near[view.ring_of[one]].append((view.ring_of[other], one, other, length))
        near[view.ring_of[other]].append((view.ring_of[one], other, one, length))
    depths: dict[int, int] = {}
    parents: dict[int, tuple[int, int, int]] = {}
    edge = [(0, 0, origin, (origin, 0, 0))]  # (length, depth, ring, how it is reached)
    while edge:
        length, depth, ring, parent = heappop(edge)
        if ring in depths:
            continue
        depths[ring], parents[ring] = depth, parent
        for child, here, there, step in near[ring]:
            if child not in depths:
                heappush(edge, (length + step, depth + 1, child, (ring, here, there)))
    del parents[origin]
    return parents, max(depths.values())
