"""Shapes of partitions: the hosts that no longer hear each other."""

from itertools import permutations
from random import Random

import pytest

from groupcomm.sim.faults.partitions import (
    ONE_WAY_SHARE,
    Sides,
    apart,
    draw_partition,
    halves,
    isolate,
    joined_by_one,
    overlapping,
    sets,
)
from groupcomm.sim.network.network import Pair

ONE_SITE: Sides = [0] * 6
TWO_SITES: Sides = [0, 0, 0, 1, 1, 1]
SEEDS = range(30)


def hears(pairs: set[Pair], hosts: int) -> list[set[int]]:
    """Return for each host the hosts that it hears, itself included."""
    return [{b for b in range(hosts) if (b, a) not in pairs} for a in range(hosts)]


@pytest.mark.parametrize("seed", SEEDS)
def test_one_host_alone(seed: int) -> None:
    pairs, _ = isolate(Random(seed), ONE_SITE)
    assert sorted(map(len, hears(pairs, 6))) == [1, 5, 5, 5, 5, 5]


@pytest.mark.parametrize("seed", SEEDS)
def test_halves(seed: int) -> None:
    pairs, _ = halves(Random(seed), ONE_SITE)
    assert sorted(map(len, hears(pairs, 6))) == [3] * 6
    assert sorted(map(len, hears(halves(Random(seed), [0] * 5)[0], 5))) == [2, 2, 3, 3, 3]


def test_sets_of_any_size_hear_themselves_and_nobody_else() -> None:
    shapes = set()
    for seed in range(200):
        heard = hears(sets(Random(seed), ONE_SITE)[0], 6)
        assert all(heard[b] == heard[a] for a in range(6) for b in heard[a])
        shapes.add(tuple(sorted(map(len, heard))))
    assert len(shapes) > 5


@pytest.mark.parametrize("seed", SEEDS)
def test_on_a_circle_no_two_hear_the_same(seed: int) -> None:
    heard = hears(overlapping(Random(seed), ONE_SITE)[0], 6)
    assert [len(row) for row in heard] == [3] * 6
    assert len(set(map(frozenset, heard))) == 6
    assert all(a in heard[b] for a in range(6) for b in heard[a])


@pytest.mark.parametrize("seed", SEEDS)
def test_sites_apart(seed: int) -> None:
    assert hears(apart(Random(seed), TWO_SITES)[0], 6) == [{0, 1, 2}] * 3 + [{3, 4, 5}] * 3


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("sites", [ONE_SITE, TWO_SITES])
def test_sides_joined_by_one_host(seed: int, sites: Sides) -> None:
    heard = hears(joined_by_one(Random(seed), sites)[0], 6)
    assert sorted(map(len, heard)) == [3, 3, 4, 4, 4, 6]


def test_some_partitions_are_deaf_in_one_direction_only() -> None:
    one_way = 0
    for seed in range(600):
        pairs = draw_partition(Random(seed), TWO_SITES)
        assert pairs == tuple(sorted(set(pairs)))
        assert set(pairs) <= set(permutations(range(6), 2))
        one_way += bool(pairs) and not any((b, a) in pairs for a, b in pairs)
    assert 0.8 * ONE_WAY_SHARE < one_way / 600 < 1.2 * ONE_WAY_SHARE


def test_two_hosts_can_be_parted_in_every_shape() -> None:
    shapes = {draw_partition(Random(seed), [0, 0]) for seed in range(200)}
    assert shapes == {(), ((0, 1),), ((1, 0),), ((0, 1), (1, 0))}
