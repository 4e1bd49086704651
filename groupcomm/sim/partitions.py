"""The shapes in which a network falls apart: who no longer hears whom."""

from collections.abc import Callable, Sequence
from itertools import permutations
from random import Random
from typing import Final, TypeAlias

from groupcomm.sim.network import Pair

ONE_WAY_SHARE: Final = 0.3
"""Share of partitions in which one direction still works."""

Sides: TypeAlias = Sequence[int]
"""Per host, by index, on which side it is."""


def draw_partition(rng: Random, sites: Sides) -> tuple[Pair, ...]:
    """The paths (source, target) that a random partition cuts; sorted.

    Args:
        rng: the source.
        sites: per host, by index, its site; two hosts at least.
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
    """All paths from one side to another."""
    return {(a, b) for a, b in permutations(range(len(sides)), 2) if sides[a] != sides[b]}


def isolate(rng: Random, sites: Sides) -> tuple[set[Pair], Sides]:
    """One host is alone."""
    alone = rng.randrange(len(sites))
    sides = [int(host == alone) for host in range(len(sites))]
    return between(sides), sides


def halves(rng: Random, sites: Sides) -> tuple[set[Pair], Sides]:
    """Two parts of about the same size."""
    hosts = list(range(len(sites)))
    rng.shuffle(hosts)
    first = set(hosts[: len(hosts) // 2])
    sides = [int(host in first) for host in range(len(sites))]
    return between(sides), sides


def sets(rng: Random, sites: Sides) -> tuple[set[Pair], Sides]:
    """Two to four parts of any size."""
    parts = rng.randint(2, 4)
    sides = [rng.randrange(parts) for _ in sites]
    return between(sides), sides


def overlapping(rng: Random, sites: Sides) -> tuple[set[Pair], Sides]:
    """On a circle each hears its neighbours only: no two hear the same."""
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
    """Sites do not hear each other; with one site, halves."""
    return (between(sites), sites) if len(set(sites)) > 1 else halves(rng, sites)


def joined_by_one(rng: Random, sites: Sides) -> tuple[set[Pair], Sides]:
    """As `apart`, but one host still hears everybody, and is heard."""
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
