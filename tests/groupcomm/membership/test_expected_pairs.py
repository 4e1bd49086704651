"""The pairs of daemons that a complete proposal needs, where relays pass messages on."""

from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.membership.peer import Key, Row
from tests.examples import examples
from tests.groupcomm.membership.one_relay import SITES, OneRelay
from tests.groupcomm.membership.stage import NUMBERS

ALL = "abcdefghi"
Pair = tuple[str, str]

LINKS = {
    "none": (),
    "a chain": ((0, 1, 40_000), (1, 2, 40_000)),
    "all": tuple((one, other, 40_000) for one, other in combinations(range(3), 2)),
}


def linked(links: str, one: int, other: int) -> bool:
    """Return whether two sites have a link: all have, where none are configured."""
    pairs = {(a, b) for a, b, _ in LINKS[links]}
    return not pairs or (min(one, other), max(one, other)) in pairs


def expected(links: str, members: str) -> set[Pair]:
    """Return the pairs of daemons of which the first has to hear the second."""
    sites = [[name for name in site if name in members] for site in SITES]
    near = {pair for site in sites for pair in permutations(site, 2)}
    far = {
        (sites[one][rank], sites[other][rank])
        for one, other in permutations(range(3), 2)
        if linked(links, one, other)
        for rank in range(2)
        if len(sites[one]) > rank and len(sites[other]) > rank
    }
    return near | far


def rows(members: str, hearing: set[Pair]) -> dict[int, tuple[Row, Key]]:
    """Return of each member whom it hears, and its own entry in such rows."""
    keys = {name: (NUMBERS[name], ord(name)) for name in ALL}
    return {
        NUMBERS[name]: (frozenset(keys[b] for a, b in hearing if a == name), keys[name])
        for name in members
    }


MEMBERS = st.sets(st.sampled_from(ALL), min_size=1).map(lambda names: "".join(sorted(names)))
each_way = pytest.mark.parametrize("links", LINKS)


@each_way
@examples(100)
@given(members=MEMBERS, data=st.data())
def test_these_pairs_are_needed_and_no_others(
    links: str, members: str, data: st.DataObject
) -> None:
    relays = OneRelay("a", links=LINKS[links]).relays
    needed = expected(links, members)
    others = sorted(set(permutations(ALL, 2)) - needed)
    more = data.draw(st.sets(st.sampled_from(others))) if others else set()
    assert relays.connect(rows(members, needed | more))
    for lost in sorted(needed):
        assert not relays.connect(rows(members, (needed | more) - {lost})), lost


@each_way
@examples(100)
@given(members=MEMBERS, data=st.data())
def test_whoever_hears_whom_all_needed_pairs_decide(
    links: str, members: str, data: st.DataObject
) -> None:
    relays = OneRelay("a", links=LINKS[links]).relays
    lost = data.draw(st.sets(st.sampled_from(sorted(permutations(ALL, 2))), max_size=4))
    hearing = set(permutations(ALL, 2)) - lost
    assert relays.connect(rows(members, hearing)) == lost.isdisjoint(expected(links, members))


def test_daemons_that_are_not_listed_are_connected_to_nobody() -> None:
    relays = OneRelay("a").relays
    stranger = {NUMBERS["z"]: (frozenset[Key](), (NUMBERS["z"], 1))}
    assert not relays.connect(rows("a", set()) | stranger)


def test_another_start_of_a_daemon_is_not_the_one_that_is_heard() -> None:
    relays = OneRelay("a").relays
    there = rows("ab", {("a", "b"), ("b", "a")})
    assert relays.connect(there)
    b = NUMBERS["b"]
    assert not relays.connect(there | {b: (there[b][0], (b, 99))})
