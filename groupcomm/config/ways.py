"""Ways over links: how far places are apart that are joined by some of them.

Floyd and Warshall's algorithm, as sites are few.
"""

from collections.abc import Collection, Hashable, Mapping
from itertools import product
from math import inf
from typing import TypeVar

Place = TypeVar("Place", bound=Hashable)


def shortest_ways(
    places: Collection[Place], links: Mapping[tuple[Place, Place], float]
) -> dict[tuple[Place, Place], float]:
    """The length of the shortest way from each place to each other one; inf if none leads there.

    Args:
        places: all of them.
        links: lengths, at least 0, by the two places that a link joins; they lead both ways.
    """
    ways = {(near, far): 0.0 if near == far else inf for near, far in product(places, repeat=2)}
    for (one, other), length in links.items():
        ways[one, other] = ways[other, one] = length
    for over, near, far in product(places, repeat=3):
        ways[near, far] = min(ways[near, far], ways[near, over] + ways[over, far])
    return {(near, far): way for (near, far), way in ways.items() if near != far}
