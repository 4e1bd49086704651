"""Rosters with votes: whatever the order, two views that act one after the other share a daemon."""

import pytest

from groupcomm.config.roster import Roster
from groupcomm.config.votes import Policy, SetPolicy, SetVotes
from tests.verification.explore.rosters import Budget, World, explore, roster_of
from tests.verification.mutants.mutant import Mutant
from tests.verification.mutants.votes import (
    all_votes_at_once,
    half_acts_at_once,
    ties_before_they_are_settled,
    votes_as_they_were_given,
    witness_votes_for_both_sides,
)

TIE_A = roster_of(Policy(tie_breaker="a"), settled=True, a=1, b=1)
UNEQUAL = roster_of(Policy(tie_breaker="b"), a=2, b=1)
ORDERLY = roster_of(Policy(orderly=True), a=1, b=1)
BOTH = roster_of(Policy(orderly=True, tie_breaker="a"), settled=True, a=1, b=1)
THREE = roster_of(Policy(tie_breaker="a"), settled=True, a=2, b=1, c=1)
ALL = roster_of(Policy(orderly=True, tie_breaker="a"), a=1, b=1, c=1)
WITNESS = roster_of(Policy(), a=1, b=1, w=1)
SHRINKS = roster_of(Policy(orderly=True), a=1, b=1, w=1)
OTHER_TIE = SetPolicy(Policy(tie_breaker="b"))


def case(name: str, first: Roster, budget: Budget, *, long: bool = False) -> object:
    """Return a cluster to exhaust; a long one takes more than a second."""
    return pytest.param(first, budget, id=name, marks=[pytest.mark.long] * long)


@pytest.mark.parametrize(
    ("first", "budget"),
    [
        case("a tie", TIE_A, Budget(views=2)),
        case("a crash", TIE_A, Budget(views=3, crashes=1, starts=1, in_turn=True)),
        case("another breaker", TIE_A, Budget(views=2, changes=(OTHER_TIE,), in_turn=True)),
        case("a leaver", ORDERLY, Budget(views=1, leaves=1)),
        case("a leaver and two views", ORDERLY, Budget(views=2, leaves=1, in_turn=True)),
        case("three", THREE, Budget(views=2, in_turn=True)),
        case("a leaver and a tie", BOTH, Budget(views=2, leaves=1, in_turn=True), long=True),
        case("a leaver, a crash", ORDERLY, Budget(views=1, leaves=1, crashes=1), long=True),
        case("a disk", TIE_A, Budget(views=2, crashes=1, starts=1, losses=1), long=True),
        case("votes", UNEQUAL, Budget(views=1, changes=(SetVotes("a", 1),)), long=True),
        case("three, a leaver", ALL, Budget(views=0, leaves=1, in_turn=True), long=True),
        case("a witness", WITNESS, Budget(views=2, crashes=1, starts=1)),
        case("crashes", WITNESS, Budget(views=3, crashes=3, starts=3), long=True),
        case("a lost disk", WITNESS, Budget(views=3, crashes=2, starts=2, losses=1), long=True),
        case("four views", WITNESS, Budget(views=4, crashes=2, starts=2), long=True),
        case("a vote", WITNESS, Budget(views=0, changes=(SetVotes("w", 2),)), long=True),
        case("who leaves", SHRINKS, Budget(views=0, leaves=1), long=True),
        case("who leaves in turn", SHRINKS, Budget(views=1, leaves=1, in_turn=True), long=True),
    ],
)
def test_views_that_act_share_a_daemon(first: Roster, budget: Budget) -> None:
    states, path, is_complete = explore(World(first, budget), 200_000)
    assert (path, is_complete) == (None, True), states


@pytest.mark.parametrize(
    ("bug", "first", "budget"),
    [
        (half_acts_at_once, TIE_A, Budget(views=2, changes=(OTHER_TIE,), in_turn=True)),
        (
            ties_before_they_are_settled,
            UNEQUAL,
            Budget(views=3, changes=(SetVotes("a", 1),), in_turn=True),
        ),
        (all_votes_at_once, UNEQUAL, Budget(views=2, changes=(SetVotes("b", 3),), in_turn=True)),
        (votes_as_they_were_given, UNEQUAL, Budget(views=2, changes=(SetVotes("b", 3),))),
        (witness_votes_for_both_sides, WITNESS, Budget(views=2)),
    ],
    ids=lambda each: each.name if isinstance(each, Mutant) else "",
)
@pytest.mark.verification
def test_a_wrong_count_is_found(bug: Mutant, first: Roster, budget: Budget) -> None:
    with bug.active():
        _, path, _ = explore(World(first, budget), 100_000)
    assert path is not None
