"""Continuity: which views of one session leave room for another part with a majority."""

import pytest
from msgspec import structs

from groupcomm.clocks.stamp import ViewId
from groupcomm.events import DaemonView
from groupcomm_client.continuity import Continuity, continues


def view(
    counter: int, daemons: str, together: str | None = None, *, majority: bool | None = True
) -> DaemonView:
    return DaemonView(
        id=ViewId(counter, "a", 1),
        daemons=tuple(daemons),
        majority=majority,
        together=None if together is None else tuple(together),
    )


@pytest.mark.parametrize(
    ("before", "after", "goes_on"),
    [
        (view(7, "abc"), view(8, "abc", "a"), True),  # no counter is left for a view in between
        (view(7, "abc"), view(9, "abc", "a"), False),
        (view(7, "abc"), view(9, "abc"), False),  # an older daemon does not say who came along
        (view(7, "ab"), view(9, "abc", "ab"), True),  # nobody has left its last view
        (view(7, "abc"), view(9, "ab", "ab"), True),  # nobody has come from elsewhere
        (view(7, "abc", majority=None), view(9, "ab", "ab", majority=None), False),
        (view(7, "abc"), view(8, "a", "a", majority=False), False),
        (view(7, "a", majority=False), view(8, "abc", "a"), False),
    ],
)
def test_a_view_in_between_needs_a_counter_and_daemons(
    before: DaemonView, after: DaemonView, *, goes_on: bool
) -> None:
    assert continues(before, after) is goes_on


def test_continuity_is_broken_where_a_majority_may_have_gone_on() -> None:
    assert Continuity(view(7, "abc")).is_broken_by(view(9, "abc", "a"))
    assert Continuity(view(7, "abc")).is_broken_by(view(8, "a", "a", majority=False))
    assert Continuity(view(7, "a", majority=False)).is_broken_by(view(8, "abc", "a"))
    assert not Continuity(view(7, "abc")).is_broken_by(view(8, "abc", "a"))


def test_a_daemon_says_that_those_who_came_along_are_a_majority() -> None:
    """Of five daemons c, d and e may have gone on without a and b: of three c may not."""
    of_five = view(900, "abc", "ab")
    assert not continues(view(7, "abc"), of_five)
    of_three = structs.replace(of_five, unbroken=True)
    assert continues(view(7, "abc"), of_three)
    assert not Continuity(view(7, "abc")).is_broken_by(of_three)
    assert not continues(view(7, "ab", majority=False), of_three)


def test_where_votes_decide_few_daemons_may_have_gone_on() -> None:
    by_votes = structs.replace(view(900, "abc", "ab"), by_votes=True)
    assert Continuity(view(7, "abc")).is_broken_by(by_votes), "c may hold most of the votes"
    assert Continuity(structs.replace(view(7, "abc"), by_votes=True)).is_broken_by(
        view(900, "abc", "ab")
    )
    assert not Continuity(by_votes).is_broken_by(structs.replace(by_votes, id=ViewId(901, "a", 1)))


def test_the_first_view_breaks_nothing() -> None:
    assert not Continuity().is_broken_by(view(7, "abc"))


def test_a_daemon_that_is_back_before_the_others_have_left_it_out_breaks_nothing() -> None:
    """Its counters begin far above; alone it is no majority of those that were ever together."""
    continuity = Continuity(view(7, "abc"))
    assert not continuity.is_broken_by(view(900, "abc", "ab"))
    assert continuity.is_broken_by(view(1900, "abc", "a"))


def test_the_most_daemons_of_any_view_count_as_all() -> None:
    continuity = Continuity(view(7, "abcde"))
    assert not continuity.is_broken_by(view(8, "abc", "abc"))
    assert continuity.is_broken_by(view(900, "abc", "ab"))  # c may have been with d and e
