"""The cost of a first view grows with the square of the number of daemons, and no faster.

Datagrams are counted for each receiver, from the start of all daemons until one view has all. Up to
16 daemons it grows faster in fact, as these pass joins on at once; what larger clusters do is
measured here with few daemons, too.
"""

from math import log
from typing import Final

import attrs
import pytest

from groupcomm.sim.cluster.cluster import Cluster
from tests.costs.first_views import (
    DELAY_S,
    Cost,
    counting,
    crowd,
    first_view,
    form_view,
)


def exponent(small: float, large: float, growth: float) -> float:
    """Return with which power of the number of daemons a cost has grown."""
    return log(large / small) / log(growth)


SHAPES = {"daemons": [(1, 8), (1, 16), (1, 32)], "sites": [(2, 2), (4, 2), (8, 2), (16, 2)]}


def assert_square(found: list[Cost]) -> None:
    """Assert that the costs of clusters, each of twice the daemons, grow with their square."""
    for what, most in (("datagrams", 2.1), ("bytes", 2.2)):
        figures = [getattr(each, what) for each in found]
        assert exponent(figures[0], figures[-1], 2 ** (len(found) - 1)) < most, (what, figures)
        assert exponent(figures[-2], figures[-1], 2) < most + 0.1, (what, figures)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_first_view_costs_the_square_of_the_daemons(shape: str) -> None:
    found = [first_view(*size) for size in SHAPES[shape]]
    assert_square(found)
    assert max(each.seconds for each in found) < 5 * DELAY_S


@pytest.mark.long
def test_a_first_view_of_64_daemons_costs_the_square_too() -> None:
    assert_square([first_view(1, daemons) for daemons in (16, 32, 64)])


@pytest.mark.parametrize(("sites", "daemons"), [(1, 8), (1, 16), (2, 2), (4, 2)])
def test_each_daemon_sends_another_few_messages(sites: int, daemons: int) -> None:
    cost, count = first_view(sites, daemons), sites * daemons
    joins = cost.kinds["join"] + cost.kinds["short_join"]
    commits = cost.kinds["commit"] + cost.kinds["short_commit"]
    assert joins <= 15 * count * (count - 1), cost.kinds
    assert commits <= 8 * count * (count - 1), cost.kinds
    assert cost.kinds["ask"] <= count, "who start together know whom the others name"


@pytest.mark.long
def test_16_daemons_at_each_of_three_sites_form_a_view_with_little() -> None:
    cost = first_view(3, 16)
    assert cost.datagrams <= 20_000, cost.kinds
    assert cost.bytes <= 10_000_000, cost.kinds


SAID: Final = ("join", "commit", "short_commit", "relayed", "ask")
"""The kinds of messages about views."""


def test_with_relays_what_is_said_about_views_grows_with_the_sites_and_not_with_the_daemons() -> (
    None
):
    sites = (4, 8, 16)
    found = [first_view(each, 4, relays=True) for each in sites]
    said = [
        sum(cost.kinds[kind] for kind in SAID) / (4 * each)
        for each, cost in zip(sites, found, strict=True)
    ]
    assert exponent(said[0], said[-1], 4) < 0.5, "what a daemon gets; it was the number of daemons"
    assert exponent(found[0].datagrams, found[-1].datagrams, 4) < 1.6
    assert exponent(found[0].bytes, found[-1].bytes, 4) < 1.8
    assert max(cost.seconds for cost in found) < 7 * DELAY_S
    larger = first_view(4, 8, relays=True)
    more = sum(larger.kinds[kind] for kind in SAID) / 32
    assert more < 2.2 * said[0], "twice the daemons of a site"


def test_with_relays_few_daemons_prove_to_each_other_that_they_are_there() -> None:
    """Each pair that exchanges datagrams does so once; most pairs never do."""
    sites, each = 8, 4
    costs, pairs = [], set[tuple[int, int]]()
    for suite in (0, 1):
        settings = attrs.evolve(crowd(sites, each, relays=True), suite=suite)
        cluster = Cluster(settings, start=False)
        cluster.network.observers.append(lambda source, target, *_: pairs.add((source, target)))
        costs.append(form_view(cluster).datagrams)
    within, between = sites * each * (each - 1), 2 * sites * (sites - 1)
    assert len(pairs) <= within + between
    assert costs[1] - costs[0] <= 6 * len(pairs)


def idle_second(sites: int, daemons: int) -> Cost:
    """Count a second of a view in which nothing is sent."""
    settings = crowd(sites, daemons)
    cluster = Cluster(settings)
    cluster.run(1.0)
    kinds, sizes = counting(cluster)
    cluster.run(1.0)
    return Cost(len(sizes), sum(sizes), 1.0, kinds)


def test_idle_daemons_send_the_square_of_their_number() -> None:
    assert_square([idle_second(1, daemons) for daemons in (8, 16, 32)])
