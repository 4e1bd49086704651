"""The least that a plan's messages cost: their bodies alone, over the way with the fewest links."""

from collections.abc import Sequence

from groupcomm.sim.links import Link, SitePair
from groupcomm.sim.plan.topology import Topology


def bodies_per_s(plan: Topology) -> dict[SitePair, float]:
    """Bytes a second that messages' bodies alone would put on each direction of a link.

    That is the least that any protocol needs: a body goes once over each link on the ways with the
    fewest links, the shortest of these, from the sender's site to those of the members.
    """
    found = {way: 0.0 for link in plan.links for way in (link.sites, link.sites[::-1])}
    for load in plan.loads:
        before = _tree(plan.links, load.sender)
        used: set[SitePair] = set()
        for site in load.members:
            at = site
            while at != load.sender:
                used.add((before[at], at))
                at = before[at]
        for way in used:
            found[way] += load.rate * load.bytes
    return found


def _tree(links: Sequence[Link], root: int) -> dict[int, int]:
    """Per site the one before it on the way from `root`."""
    ways = {root: (0, 0.0)}
    before: dict[int, int] = {}
    again = True
    while again:
        again = False
        for link in links:
            for near, far in (link.sites, link.sites[::-1]):
                if near not in ways:
                    continue
                way = (ways[near][0] + 1, ways[near][1] + link.delay_s)
                if far not in ways or way < ways[far]:
                    ways[far], before[far], again = way, near, True
    return before
