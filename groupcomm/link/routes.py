"""Routes: over which links the packets of each ring reach every other ring.

The packets of each ring go along a tree of shortest paths over the links of the view, with that
ring at the root: shortest by configured delays, else by the number of links. All daemons compute
the same trees from the view, so each packet enters each ring once. Links of an agreed roster that
change while the view lasts change the trees at all daemons at the same place of the agreed order.
"""

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from math import inf
from typing import TypeAlias

from groupcomm.config.view import RING, View


class Routes:
    """The routes of packets at one daemon, by the ring that originates them.

    Attributes:
        onward: for each origin the targets of a packet that is seen here first: RING, or daemons.
        reached: for each origin, and in the order of its targets, the rings that its packets reach
            by way of each, as bits.
        upstream: per origin, the daemon that sends its packets here over a link; None if another
            daemon of this ring receives them first, or if this ring is the origin.
        depth: the most links that a packet crosses from any ring to any other.
    """

    __slots__ = ("_me", "_middle", "_shared", "_view", "depth", "onward", "reached", "upstream")

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
        self._view, self._me = view, me
        self._shared: Routes | None = None
        lengths = dict(zip(view.links, delays_us, strict=True))
        own = view.ring_of[me]
        self.onward: list[tuple[int, ...]] = []
        self.reached: list[tuple[int, ...]] = []
        self.upstream: list[int | None] = []
        self.depth, nearest = 0, inf
        near = _near(view, {pair: lengths[pair] for pair in links})
        for origin in range(len(view.rings)):
            onward: list[int] = []
            reached: list[int] = []
            upstream: int | None = None
            parents, depth, farthest = _tree(near, origin)
            self.depth = max(self.depth, depth)
            if farthest < nearest:
                nearest = farthest
                self._middle = [(min(pair), max(pair)) for _, *pair in parents.values()]
            beyond = _beyond(parents, len(view.rings))
            by_ring = beyond[own]  # by this ring: itself, and all but what is sent on from here
            for ring, (parent, there, here) in parents.items():
                if parent == own and there == me:
                    onward.append(here)
                    reached.append(beyond[ring])
                    by_ring &= ~beyond[ring]
                if ring == own and here == me:
                    upstream = there
            if upstream is not None and len(view.rings[own]) > 1:
                onward.insert(0, RING)
                reached.insert(0, by_ring)
            self.onward.append(tuple(onward))
            self.reached.append(tuple(reached))
            self.upstream.append(upstream)

    @property
    def shared(self) -> "Routes":
        """Return the routes over the links of one tree alone, which all origins share.

        It is the tree of the ring from which the farthest one is nearest, of several the first.
        """
        if self._shared is None:
            self._shared = Routes(self._view, self._me, self._middle)
        return self._shared

    @property
    def entered(self) -> frozenset[int]:
        """Return the origins whose packets enter this ring at this daemon."""
        return frozenset(o for o, neighbour in enumerate(self.upstream) if neighbour is not None)


Near: TypeAlias = Sequence[Sequence[tuple[int, int, int, int]]]
"""For each ring its links, the shortest first: length, ring beyond, daemon here, daemon there."""


def _near(view: View, usable: Mapping[tuple[int, int], int]) -> Near:
    """Return the links of each ring.

    Each link counts a microsecond more than its delay, so of two equal paths the one over fewer
    links is taken.
    """
    near: list[list[tuple[int, int, int, int]]] = [[] for _ in view.rings]
    for (one, other), delay_us in usable.items():
        near[view.ring_of[one]].append((delay_us + 1, view.ring_of[other], one, other))
        near[view.ring_of[other]].append((delay_us + 1, view.ring_of[one], other, one))
    return [sorted(links) for links in near]


def _tree(near: Near, origin: int) -> tuple[dict[int, tuple[int, int, int]], int, int]:
    """Return per ring but the root (parent ring, the daemon there, the daemon here), the nearest
    rings first; the depth; and the length of the way to the farthest ring.

    Dijkstra's algorithm. Once a way to each ring is known, links that lead farther than all of them
    are not looked at: where all rings have a link to the root, that is nearly all.
    """
    best = {origin: (0, 0, (origin, 0, 0))}  # the length, the links, and how it is reached
    parents: dict[int, tuple[int, int, int]] = {}
    edge = [(0, 0, origin)]
    depth, farthest, most = 0, 0, inf
    while edge:
        length, links, ring = heappop(edge)
        if ring in parents or (length, links) != best[ring][:2]:
            continue
        parents[ring], farthest, depth = best[ring][2], length, max(depth, links)
        for step, child, here, there in near[ring]:
            if length + step > most:
                break
            way = (length + step, links + 1, (ring, here, there))
            if child not in parents and (child not in best or way < best[child]):
                best[child] = way
                heappush(edge, (*way[:2], child))
        if most == inf and len(best) == len(near):
            most = max(each[0] for each in best.values())
    del parents[origin]
    return parents, depth, farthest


def _beyond(parents: Mapping[int, tuple[int, int, int]], rings: int) -> list[int]:
    """Return for each ring the bits of itself and of all that are reached by way of it."""
    beyond = [1 << ring for ring in range(rings)]
    for ring in reversed(list(parents)):  # the farthest first
        beyond[parents[ring][0]] |= beyond[ring]
    return beyond
