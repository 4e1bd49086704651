"""Rings and links from who hears whom: cliques of one site, joined wherever anything is heard."""

from collections.abc import Mapping
from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from groupcomm.clocks.stamp import ViewId
from groupcomm.config.view import DaemonId, Incarnation, View
from groupcomm.membership.proposal import component, find_links, mutual_pairs, split_into_rings

Sites = list[int]
Graph = list[frozenset[int]]


@st.composite
def heard_rows(draw: st.DrawFn) -> dict[int, frozenset[int]]:
    """Return the daemons that each hears, one way or both; some of them do not run."""
    numbers = draw(st.sets(st.integers(0, 2**64 - 1), min_size=1, max_size=8))
    some = st.frozensets(st.sampled_from(sorted(numbers | {7})))
    return {number: draw(some) - {number} for number in numbers}


@st.composite
def graphs(draw: st.DrawFn, connected: bool = False) -> tuple[Sites, Graph]:
    """Sites of some daemons, and whom each hears both ways."""
    count = draw(st.integers(1, 9))
    sites = draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    pairs = list(combinations(range(count), 2))
    chosen = set(draw(st.lists(st.sampled_from(pairs)))) if pairs else set()
    if draw(st.booleans()):
        chosen = set(pairs) - chosen
    if connected:
        chosen |= {(min(pair), max(pair)) for pair in pairwise(draw(st.permutations(range(count))))}
    mutual = [
        frozenset(b if a == me else a for a, b in chosen if me in (a, b)) for me in range(count)
    ]
    return sites, mutual


@given(heard_rows())
def test_only_pairs_that_hear_each_other_count(heard: dict[int, frozenset[int]]) -> None:
    mutual = mutual_pairs(heard)
    assert mutual.keys() == heard.keys()
    for one, other in combinations(heard, 2):
        both = other in heard[one] and one in heard[other]
        assert (other in mutual[one]) == (one in mutual[other]) == both
    assert all(row <= heard.keys() for row in mutual.values())


def reached(mutual: Mapping[int, frozenset[int]], start: int) -> set[int]:
    """By brute force: as many rounds as there are daemons."""
    found = {start}
    for _ in mutual:
        found |= {other for one in found for other in mutual[one]}
    return found


@given(heard_rows())
def test_a_component_is_all_that_is_reached_and_the_same_for_its_members(
    heard: dict[int, frozenset[int]],
) -> None:
    mutual = mutual_pairs(heard)
    for start in mutual:
        members = component(mutual, start)
        assert members == reached(mutual, start)
        assert all(component(mutual, member) == members for member in members)


@given(graphs())
def test_rings_are_cliques_of_one_site_and_share_all_daemons(given: tuple[Sites, Graph]) -> None:
    sites, mutual = given
    rings = split_into_rings(sites, mutual)
    assert sorted(daemon for ring in rings for daemon in ring) == list(range(len(sites)))
    assert list(rings) == sorted(rings)
    for ring in rings:
        assert list(ring) == sorted(ring)
        assert len({sites[daemon] for daemon in ring}) == 1
        assert all(other in mutual[one] for one, other in combinations(ring, 2))


@given(graphs())
def test_nobody_is_left_out_of_a_ring_of_lower_ones_that_it_all_hears(
    given: tuple[Sites, Graph],
) -> None:
    """A site that all hear each other is then one ring, and the lowest daemons choose first."""
    sites, mutual = given
    rings = split_into_rings(sites, mutual)
    for place, ring in enumerate(rings):
        for daemon in ring:
            for earlier in rings[:place]:
                lower = [other for other in earlier if other < daemon]
                fits = sites[earlier[0]] == sites[daemon] and mutual[daemon] >= set(lower)
                assert not (lower and fits), f"{daemon} of {ring} would fit into {earlier}"


@given(graphs())
def test_there_is_a_link_for_two_rings_if_any_pair_hears_and_it_is_the_lowest(
    given: tuple[Sites, Graph],
) -> None:
    sites, mutual = given
    rings = split_into_rings(sites, mutual)
    links = find_links(rings, mutual)
    expected = []
    for ring, other in combinations(rings, 2):
        pairs = [(one, far) for one in ring for far in other if far in mutual[one]]
        if pairs:
            expected.append(tuple(sorted(min(pairs))))
    assert sorted(expected) == list(links)


@given(graphs(connected=True))
def test_links_reach_every_ring_of_a_component(given: tuple[Sites, Graph]) -> None:
    """A View checks it, and that no link stays within a ring."""
    sites, mutual = given
    rings = split_into_rings(sites, mutual)
    daemons = tuple(DaemonId(f"d{index}", Incarnation(1, 1)) for index in range(len(sites)))
    links = find_links(rings, mutual)
    assert View(id=ViewId(1, "d0", 1), daemons=daemons, rings=rings, links=links).rings == rings


def test_a_pair_that_does_not_hear_each_other_costs_one_ring_more() -> None:
    sites = [0, 0, 0, 0]
    mutual = [frozenset({1, 2, 3}), frozenset({0, 2}), frozenset({0, 1, 3}), frozenset({0, 2})]
    rings = split_into_rings(sites, mutual)
    assert rings == ((0, 1, 2), (3,))
    assert find_links(rings, mutual) == ((0, 3),)


def test_the_halves_of_a_site_may_hear_each_other_over_a_third_only() -> None:
    """Daemons 0 and 1 are of one site, 2 of another hears both."""
    mutual = [frozenset({2}), frozenset({2}), frozenset({0, 1})]
    rings = split_into_rings([0, 0, 1], mutual)
    assert rings == ((0,), (1,), (2,))
    assert find_links(rings, mutual) == ((0, 2), (1, 2))
