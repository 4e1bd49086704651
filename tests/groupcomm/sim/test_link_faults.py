"""Faults of links: the shapes in which they are cut, and their effects on a run's cluster."""

from itertools import pairwise, permutations
from random import Random

import attrs
import pytest

from groupcomm.sim.cluster.cluster import Cluster
from groupcomm.sim.faults.faults import Faults
from groupcomm.sim.faults.links import (
    LinkFaults,
    SitePlan,
    draw_link_cut,
    draw_one_link,
    in_the_middle,
    inside,
    off,
    one_link,
    one_way,
    three_parts,
)
from groupcomm.sim.faults.partitions import Cuts
from groupcomm.sim.faults.schedule import FaultSchedule
from groupcomm.sim.network.links import chain, equal_links, mesh
from groupcomm.sim.settings import plain_settings
from groupcomm.sim.virtual_time import random_for

SITES = [0, 0, 1, 2, 2, 2, 3]
CHAIN = SitePlan(sites=SITES, links=sorted(chain(4)))
MESH = SitePlan(sites=SITES, links=sorted(mesh(4)))
SEEDS = range(30)


def parts(pairs: set[tuple[int, int]], plan: SitePlan) -> set[frozenset[int]]:
    """Return the sets of hosts that hear each other, also over others, when these paths are cut."""
    hosts = range(len(plan.sites))
    hears = {
        (a, b)
        for a, b in permutations(hosts, 2)
        if plan.sites[a] == plan.sites[b]
        or tuple(sorted((plan.sites[a], plan.sites[b]))) in plan.links
    } - pairs
    found: set[frozenset[int]] = set()
    for host in hosts:
        there, edge = {host}, [host]
        while edge:
            at = edge.pop()
            new = {b for a, b in hears if a == at and (b, a) in hears} - there
            there |= new
            edge += new
        found.add(frozenset(there))
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_a_chain_breaks_at_any_link_or_in_its_middle(seed: int) -> None:
    assert len(parts(one_link(Random(seed), CHAIN), CHAIN)) == 2
    assert parts(in_the_middle(Random(seed), CHAIN), CHAIN) == {
        frozenset({0, 1, 2}),
        frozenset({3, 4, 5, 6}),
    }
    assert len(parts(in_the_middle(Random(seed), MESH), MESH)) == 1, "a way around is left"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_link_may_be_deaf_in_one_direction(seed: int) -> None:
    pairs = one_way(Random(seed), MESH)
    ((near, far),) = {(SITES[a], SITES[b]) for a, b in pairs}
    assert pairs == MESH.over(near, far)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_site_is_cut_off_from_all(seed: int) -> None:
    alone, others = sorted(parts(off(Random(seed), MESH), MESH), key=len)
    assert len({SITES[host] for host in alone}) == 1
    assert alone | others == set(range(7))
    assert {SITES[host] for host in alone}.isdisjoint(SITES[host] for host in others)


@pytest.mark.parametrize("seed", SEEDS)
def test_three_parts_of_whole_sites(seed: int) -> None:
    three = parts(three_parts(Random(seed), MESH), MESH)
    assert len(three) == 3
    for site in range(4):
        hosts = {host for host, where in enumerate(SITES) if where == site}
        assert sum(hosts <= part for part in three) == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_a_site_splits_inside_and_both_halves_are_heard_by_others(seed: int) -> None:
    pairs = inside(Random(seed), CHAIN)
    assert len({SITES[host] for pair in pairs for host in pair}) == 1
    assert pairs == {(b, a) for a, b in pairs}
    assert len(parts(pairs, CHAIN)) == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_two_sites_of_one_daemon_each_can_be_parted_in_every_shape(seed: int) -> None:
    plan = SitePlan(sites=[0, 1], links=[(0, 1)])
    assert set(draw_link_cut(Random(seed), plan)) <= {(0, 1), (1, 0)}
    assert draw_one_link(Random(seed), plan)


def make_cluster(faults: Faults) -> Cluster:
    settings = plain_settings(daemons=(2, 1, 2), links=equal_links(3, 0.02, chain), seed=4)
    cluster = Cluster(settings)
    cluster.settings = attrs.evolve(settings, faults=faults)
    return cluster


def lost(cluster: Cluster) -> list[bool]:
    """For each path whether nothing passes."""
    return [path.loss == 1.0 for path in cluster.network.paths.values()]


PLAN = SitePlan(sites=[0, 0, 1, 2, 2], links=sorted(chain(3)))


def test_a_cut_ends_by_itself_and_all_end_when_the_faults_do() -> None:
    cluster = make_cluster(Faults(link_cut_s=0.5))
    cuts = Cuts(cluster.loop, cluster.network)
    for _ in range(20):
        rng = random_for(1, "cuts")
        faults = LinkFaults(cluster.loop, rng, cluster.settings.faults, cuts, PLAN)
        faults.cut()
    assert any(lost(cluster))
    cluster.run(0.6)
    assert not any(lost(cluster))
    faults.cut()
    faults.cut()
    cuts.end()
    assert not any(lost(cluster))


def test_a_link_flaps_some_times() -> None:
    cluster = make_cluster(Faults(link_flap_s=0.1))
    cuts = Cuts(cluster.loop, cluster.network)
    rng = random_for(1, "flaps")
    faults = LinkFaults(cluster.loop, rng, cluster.settings.faults, cuts, PLAN)
    faults.flap()
    states: list[bool] = []
    for _ in range(200):
        states.append(any(lost(cluster)))
        cluster.run(0.01)
    falls = sum(now and not before for before, now in pairwise(states))
    assert 1 <= falls <= 12
    assert states[0]
    assert not states[-1]


def test_only_daemons_at_the_ends_of_links_are_gateways_and_die_as_such() -> None:
    cluster = make_cluster(Faults(gateways=True))
    ends = {host.name for host in cluster.daemons if host.is_gateway}
    assert ends == {"alfa", "charlie", "delta"}, "the lowest of each site"
    schedule = FaultSchedule(
        cluster.loop,
        random_for(3, "gateways"),
        attrs.evolve(cluster.settings, calm_s=0.5),
        cluster.network,
        cluster.daemons,
    )
    for _ in range(3):
        schedule.outages.crash_gateway()
        cluster.run(1.5)
    schedule.end()
    assert sum(host.starts for host in cluster.daemons) > 5, "those that died have started again"
