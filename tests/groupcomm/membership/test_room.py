"""Rings that do not fit into one view: who is left out, and when a view is sought again."""

from collections.abc import Iterable
from itertools import combinations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from groupcomm.config.core import CoreConfig
from groupcomm.config.versions import CROWDS, SPOKEN, Versions
from groupcomm.config.view import MAX_RINGS, PLAIN_RINGS, Incarnation
from groupcomm.errors import RemoteProtocolError
from groupcomm.membership.agreement import Agreement
from groupcomm.membership.proposal import component, make_view, propose
from groupcomm.membership.room import Room, Separated, separate
from groupcomm.names import daemon_number
from groupcomm.wire.membership import Join
from tests.groupcomm.membership.fake_context import FakeContext
from tests.groupcomm.membership.stage import NUMBERS, Stage, in_view, join_of


def mutual_of(names: list[str], cut: set[frozenset[str]]) -> dict[int, frozenset[int]]:
    return {
        daemon_number(one): frozenset(
            daemon_number(other)
            for other in names
            if other != one and frozenset((one, other)) not in cut
        )
        for one in names
    }


def spoken(numbers: Iterable[int]) -> dict[int, Versions]:
    return dict.fromkeys(numbers, SPOKEN)


def groups_of(sites: list[str], most: int, *cut: str) -> list[str]:
    """Return the groups of daemons with names of one letter."""
    names = sorted("".join(sites))
    config = CoreConfig(sites=tuple(map(tuple, sites)), most_rings=most)
    mutual = mutual_of(names, set(map(frozenset, cut)))
    by_number = {daemon_number(name): name for name in names}
    found = Room(config).groups(set(by_number), mutual, by_number, spoken(by_number))
    return ["".join(sorted(by_number[number] for number in group)) for group in found]


@pytest.mark.parametrize(
    ("sites", "most", "cut", "groups"),
    [
        (["abc", "de"], 2, [], ["abcde"]),
        (["abc", "de"], 2, ["ac", "bc"], ["abde", "c"]),
        (["a", "b", "cd"], 3, ["cd"], ["abc", "d"]),
        (["ab", "c", "d"], 3, ["ab"], ["abc", "d"]),
        (["abcd"], 1, ["ab", "cd"], ["ac", "bd"]),
        # a comes in over d, as it does not hear the largest ring
        (["a", "bc", "de"], 3, ["ab", "ac", "ae", "de"], ["abcd", "e"]),
    ],
)
def test_the_smallest_rings_are_left_out_and_all_groups_are_connected(
    sites: list[str], most: int, cut: list[str], groups: list[str]
) -> None:
    assert groups_of(sites, most, *cut) == groups


@given(st.data())
def test_groups_are_views_that_fit_the_same_for_all_and_none_that_fits_is_split(
    data: st.DataObject,
) -> None:
    names = [f"d{number}" for number in range(data.draw(st.integers(1, 9)))]
    of = [data.draw(st.integers(0, 3)) for _ in names]
    sites = [tuple(n for n, site in zip(names, of, strict=True) if site == s) for s in range(4)]
    sites = [site for site in sites if site]
    most = data.draw(st.integers(len(sites), 5))
    pairs = [frozenset(pair) for pair in combinations(names, 2)]
    mutual = mutual_of(names, data.draw(st.sets(st.sampled_from(pairs))) if pairs else set())
    by_number = {daemon_number(name): name for name in names}
    config = CoreConfig(sites=tuple(sites), most_rings=most)
    members = component(mutual, daemon_number(names[0]))
    joins = {n: structs.replace(join_of("a", 1), name=by_number[n]) for n in members}
    groups = Room(config).groups(members, mutual, by_number, spoken(by_number))
    assert sorted(n for group in groups for n in group) == sorted(members)
    for group in groups:
        starts = {number: (Incarnation(1, number), 1) for number in group}
        view = make_view(config, propose(starts, mutual), joins)  # raises if it does not fit
        assert len(view.rings) <= most
        own, others = separate(groups, joins, min(group))
        assert own == group
        assert others.keys() == members - group
    if len(groups) > 1:
        starts = {number: (Incarnation(1, number), 1) for number in members}
        with pytest.raises(Exception, match="sites; a cluster has at most"):
            make_view(config, propose(starts, mutual), joins)


def test_one_cut_inside_one_of_the_most_sites_leaves_one_daemon_out() -> None:
    """A legal cluster: as many sites as a view has rings."""
    names = [f"d{number:03}" for number in range(MAX_RINGS + 1)]
    config = CoreConfig(sites=((names[0], names[1]), *((name,) for name in names[2:])))
    mutual = mutual_of(names, {frozenset(names[:2])})
    by_number = {daemon_number(name): name for name in names}
    room = Room(config)
    first, second = room.groups(set(by_number), mutual, by_number, spoken(by_number))
    assert [by_number[number] for number in second] == [names[-1]]
    joins = {n: structs.replace(join_of("a", 1), name=by_number[n]) for n in first}
    view = make_view(config, propose({n: (Incarnation(1, n), 1) for n in first}, mutual), joins)
    assert len(view.rings) == MAX_RINGS


def test_with_a_daemon_of_an_earlier_release_fewer_rings_fit() -> None:
    """It refuses packets with more."""
    names = [f"d{number:03}" for number in range(PLAIN_RINGS + 1)]
    room = Room(CoreConfig(sites=tuple((name,) for name in names)))
    mutual = mutual_of(names, set())
    by_number = {daemon_number(name): name for name in names}
    versions = spoken(by_number)
    assert room.groups(set(by_number), mutual, by_number, versions) == [frozenset(by_number)]
    versions[daemon_number(names[0])] = attrs.evolve(SPOKEN, features=SPOKEN.features & ~CROWDS)
    first, second = room.groups(set(by_number), mutual, by_number, versions)
    assert len(first) == PLAIN_RINGS
    assert [by_number[number] for number in second] == [names[-1]]


def test_a_proposal_of_another_daemon_with_too_many_rings_is_refused() -> None:
    stage = Stage("ab")
    stage.start("ab")
    config = CoreConfig(sites=(("a", "b"),), most_rings=1)
    joins: dict[int, Join] = {NUMBERS[name]: join_of(name, 1) for name in "ab"}
    mutual = {number: frozenset[int]() for number in joins}
    proposal = propose({NUMBERS[n]: (Incarnation(1, ord(n)), 1) for n in "ab"}, mutual)
    start, context = stage.daemons["a"].start, FakeContext()
    with pytest.raises(RemoteProtocolError, match="2 sites"):
        Agreement(config, start, context, None, proposal=proposal, joins=joins, peers={})


@pytest.mark.parametrize(
    ("is_first", "attempt", "hears", "fits"),
    [
        (True, 5, "c", False),
        (True, 6, "c", True),
        (False, 6, "c", False),
        (False, 6, "bc", True),
        (True, 5, "ac", True),
        (False, 6, "cf", False),
    ],
)
def test_who_was_left_out_is_sought_again_if_there_may_be_room(
    is_first: bool, attempt: int, hears: str, fits: bool
) -> None:
    """Members are a, b and c, of which it heard c."""
    left_out = Separated(attempt=5, heard=frozenset({NUMBERS["c"]}), is_first=is_first)
    members = {NUMBERS[name] for name in "abc"}
    assert left_out.may_fit(join_of("d", attempt, hears=hears), members) is fits


def test_who_has_room_is_never_separated() -> None:
    stage = in_view("abc")
    assert stage.daemons["a"].machine.no_room == ()
