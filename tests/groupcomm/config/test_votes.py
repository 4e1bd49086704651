"""Votes: any two sides that may act or decide, before and after a change, share a daemon."""

from collections.abc import Iterator
from itertools import chain, combinations
from typing import Final

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.config.votes import (
    MAX_VOTES,
    CountDaemon,
    LeaveDaemon,
    Policy,
    ReturnDaemon,
    SetPolicy,
    Settle,
    SetVotes,
    Share,
    Standing,
    UncountDaemon,
    VoteChange,
    Votes,
)
from groupcomm.errors import ConfigError

Side = frozenset[str]

DECIDE: Final = (Standing.MAJORITY, Standing.TIE)


def plain(names: str, policy: Policy = Policy()) -> Votes:  # noqa: B008 - frozen
    return Votes(shares={name: Share() for name in names}, policy=policy)


def sides(votes: Votes) -> list[Side]:
    names = sorted(votes.shares)
    return [frozenset(s) for n in range(len(names) + 1) for s in combinations(names, n)]


def acting(votes: Votes) -> list[Side]:
    return [side for side in sides(votes) if votes.standing(side) is Standing.MAJORITY]


def deciding(votes: Votes) -> list[Side]:
    return [side for side in sides(votes) if votes.standing(side) in DECIDE]


def asked(votes: Votes, most: int) -> Iterator[VoteChange]:
    """Yield what operators may ask for."""
    yield from (SetVotes(name, given) for name in votes.shares for given in range(most + 1))
    for breaker in ("", *votes.shares):
        yield SetPolicy(Policy(orderly=True, tie_breaker=breaker))


def own(votes: Votes, side: Side) -> Iterator[VoteChange]:
    """Yield what the daemons of a view may propose by themselves."""
    for name in side:
        for leaves in (False, True):
            change = votes.own_change(name, side, leaves=leaves)
            if change is not None:
                yield change
    step = votes.next_change(side)
    if step is not None:
        yield step


def edges(first: Votes, most: int) -> Iterator[tuple[Votes, Votes]]:
    """Yield each change of votes that can be reached, as the votes before and after it."""
    seen, left = {repr(first)}, [first]
    while left:
        votes = left.pop()
        for side in deciding(votes):
            for change in chain(asked(votes, most), own(votes, side)):
                try:
                    made = votes.changed(change)
                except ConfigError:
                    continue
                yield votes, made
                if repr(made) not in seen:
                    seen.add(repr(made))
                    left.append(made)


def what_counts(votes: Votes) -> Votes:
    """Return votes with nothing but what says who may act and decide."""
    shares = {name: Share(held=share.held) for name, share in votes.shares.items()}
    return attrs.evolve(votes, shares=shares)


@pytest.mark.parametrize(("names", "most"), [("ab", 2), ("abc", 1)])
def test_at_most_one_side_acts_whatever_changes(names: str, most: int) -> None:
    """All votes that can be reached, and all changes of them: the three facts of the proof.

    Two sides that decide on one roster share a daemon, so its successor is one. Who may act before
    a change shares a daemon with who may act after it, and with who may decide after it.
    """
    found = {
        (repr(before), repr(after)): (before, after)
        for before, after in (map(what_counts, edge) for edge in edges(plain(names), most))
    }
    for before, after in found.values():
        decide = deciding(before)
        assert all(one & other for one, other in combinations(decide, 2)), before
        for side in acting(before):
            for other in (*acting(after), *deciding(after)):
                assert side & other, (before, after, side, other)
    assert len(found) > 100


@given(st.data())
def test_votes_come_to_those_that_were_given_while_all_are_there(data: st.DataObject) -> None:
    """Each step keeps the majority of the view, and the last one has all votes counted."""
    names = data.draw(st.sampled_from(("a", "ab", "abc", "abcd")))
    shares = {
        name: Share(
            votes=data.draw(st.integers(0, 3)),
            held=data.draw(st.integers(0, 3)),
            away=data.draw(st.booleans()),
        )
        for name in names
    }
    breaker = data.draw(st.sampled_from(("", *names)))
    votes = Votes(
        shares={**shares, "a": Share(votes=1, held=1)}, policy=Policy(tie_breaker=breaker)
    )
    for _ in range(40):
        steps = list(own_of_all(votes, names))
        if not steps:
            break
        votes = votes.changed(steps[0])
        assert votes.standing(names) is Standing.MAJORITY
    assert {name: each.held for name, each in votes.shares.items()} == {
        name: each.votes for name, each in votes.shares.items()
    }
    assert votes.settled or not breaker or votes.total % 2


def own_of_all(votes: Votes, names: str) -> Iterator[VoteChange]:
    """Yield what a view of all daemons proposes, of which none leaves."""
    for name in names:
        change = votes.own_change(name, names, leaves=False)
        if change is not None:
            yield change
    step = votes.next_change(names)
    if step is not None:
        yield step


def test_half_of_the_votes_decides_only_once_the_roster_is_settled() -> None:
    """Else b and c could still act by the votes of three, while a decides by those of two."""
    votes = plain("abc", policy=Policy(tie_breaker="a")).changed(UncountDaemon("c"))
    assert votes.standing("a") is Standing.MINORITY
    assert votes.next_change("ab") == Settle()
    settled = votes.changed(Settle())
    assert settled.standing("a") is Standing.TIE
    assert settled.standing("bc") is Standing.MINORITY
    assert settled.next_change("ac") == UncountDaemon("b")
    assert settled.changed(UncountDaemon("b")).standing("a") is Standing.MAJORITY
    assert not settled.changed(CountDaemon("c")).settled


def test_a_daemon_leaves_with_its_votes_if_the_others_cannot_go_on_without_them() -> None:
    votes = plain("abc", policy=Policy(orderly=True))
    assert votes.own_change("c", "abc", leaves=True) == LeaveDaemon("c")
    assert votes.own_change("c", "bc", leaves=True) is None, "of a and b, b is one"
    assert votes.own_change("c", "c", leaves=True) is None
    assert plain("abc").own_change("c", "abc", leaves=True) is None
    away = votes.changed(LeaveDaemon("c"))
    assert away.next_change("abc") == UncountDaemon("c")
    assert not away.may_leave("c", "abc")
    assert away.changed(UncountDaemon("c")).may_leave("c", "abc")


def test_the_last_that_is_not_about_to_leave_keeps_its_vote() -> None:
    votes = plain("ab", policy=Policy(orderly=True)).changed(LeaveDaemon("a"))
    assert votes.own_change("b", "ab", leaves=True) is None
    assert votes.may_leave("b", "ab")


def test_a_daemon_leaves_a_view_with_one_that_the_roster_does_not_have_any_more() -> None:
    votes = plain("ab", policy=Policy(orderly=True))
    assert votes.own_change("a", "abz", leaves=True) == LeaveDaemon("a")


def test_a_daemon_that_is_back_says_so_itself() -> None:
    away = plain("ab", policy=Policy(orderly=True)).changed(LeaveDaemon("b"))
    away = away.changed(UncountDaemon("b"))
    assert away.own_change("b", "b", leaves=False) is None, "nobody of a majority is there"
    assert away.next_change("ab") is None
    assert away.own_change("b", "ab", leaves=False) == ReturnDaemon("b")
    assert away.changed(ReturnDaemon("b")).next_change("ab") == CountDaemon("b")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (SetVotes("z", 1), "daemon z is not in the roster; it has a, b"),
        (SetVotes("a", MAX_VOTES + 1), "both must be 0 to 16"),
        (SetPolicy(Policy(tie_breaker="z")), "daemon z is not in the roster"),
        (UncountDaemon("a"), "daemon a holds the only vote"),
    ],
)
def test_impossible_changes_are_refused(change: VoteChange, reason: str) -> None:
    votes = plain("ab").changed(UncountDaemon("b"))
    with pytest.raises(ConfigError, match=reason):
        votes.changed(change)


def test_somebody_has_votes() -> None:
    votes = plain("ab").changed(SetVotes("b", 0))
    with pytest.raises(ConfigError, match="daemon a has the only votes"):
        votes.changed(SetVotes("a", 0))


def test_a_fixed_number_of_daemons_leaves_no_room_for_votes() -> None:
    fixed = attrs.evolve(plain("ab"), expected=4)
    assert fixed.standing("abc") is Standing.MAJORITY
    assert fixed.standing("ab") is Standing.MINORITY
    for change in (SetVotes("a", 2), SetPolicy(Policy(orderly=True))):
        with pytest.raises(ConfigError, match="expected_daemons is 4, so votes do not count"):
            fixed.changed(change)


def test_a_tie_breaker_that_is_removed_breaks_no_ties() -> None:
    votes = plain("abc", policy=Policy(tie_breaker="a")).without("a")
    assert votes.policy == Policy()


@pytest.mark.parametrize(
    ("places", "lost", "acts"),
    [
        ((1, 1, 1), (0,), True),
        ((1, 1, 1), (0, 1), False),
        ((1,) * 5, (0, 1), True),
        ((1,) * 5, (0, 1, 2), False),
        ((2, 2, 1), (0,), True),
        ((2, 2, 1), (2,), True),
        ((2, 2, 1), (0, 2), False),
        ((3, 1, 1), (0,), False),  # why both sites are to have as many
        ((2, 2, 2), (1,), True),
        ((2, 2, 2), (0, 1), False),
    ],
)
def test_the_rest_acts_as_the_page_of_choices_says(
    places: tuple[int, ...], lost: tuple[int, ...], acts: bool
) -> None:
    """Hosts or sites with so many votes each, of which some crash, at once or not."""
    shares = {str(place): Share(votes=votes, held=votes) for place, votes in enumerate(places)}
    rest = [name for name in shares if int(name) not in lost]
    assert (Votes(shares=shares).standing(rest) is Standing.MAJORITY) == acts
