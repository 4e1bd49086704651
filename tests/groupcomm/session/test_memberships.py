"""The groups of a session at its client: what was asked for, and what the program was told."""

import msgspec
import pytest

from groupcomm.clocks.stamp import Position
from groupcomm.errors import LocalProtocolError
from groupcomm.events import Cause, GroupView, MemberId
from groupcomm.session.memberships import Memberships
from tests.groupcomm.session.pair import VIEW

ANN, BOB = MemberId("#ann#d1", 1), MemberId("#bob#d2", 5)


def view(*members: MemberId, at: int = 1) -> GroupView:
    return GroupView(
        group="g",
        id=Position(VIEW, at, 0, 0, 0),
        members=members,
        cause=Cause.JOIN,
        changed=(),
        vs_set=(),
        own=True,
    )


def test_a_session_asks_then_is_a_member_then_asks_to_leave() -> None:
    memberships = Memberships()
    memberships.join("g")
    assert (memberships.asked, memberships.views) == ({"g"}, {})
    assert memberships.update(view(BOB, ANN), ANN)
    assert memberships.views == {"g": view(BOB, ANN)}
    memberships.leave("g")
    assert memberships.asked == set()
    assert memberships.update(view(ANN, at=2), ANN), "it is a member until it is told otherwise"
    assert memberships.views == {"g": view(ANN, at=2)}
    assert not memberships.update(view(BOB, at=3), ANN)
    assert memberships.views == {}


def test_what_was_asked_is_not_asked_again() -> None:
    memberships = Memberships()
    with pytest.raises(LocalProtocolError, match="has not joined 'g'"):
        memberships.leave("g")
    memberships.join("g")
    with pytest.raises(LocalProtocolError, match="has joined 'g' already"):
        memberships.join("g")
    memberships.leave("g")
    memberships.join("g")
    assert memberships.asked == {"g"}


def test_what_was_refused_may_be_asked_again() -> None:
    memberships = Memberships()
    memberships.join("g")
    memberships.refuse("g")
    memberships.refuse("other")
    assert memberships.asked == set()
    memberships.join("g")


def test_who_changes_to_another_kind_of_membership_waits_for_the_end_of_the_one_before() -> None:
    """Their answers could not be told apart."""
    memberships, me = Memberships(), MemberId("#ann#a", 1)
    view = GroupView(
        group="g",
        id=Position(VIEW, 1, 0, 0, 0),
        members=(me,),
        cause=Cause.JOIN,
        changed=(me,),
        vs_set=(me,),
        own=True,
    )
    memberships.join("g", views=False)
    memberships.update(view, me)
    memberships.leave("g")
    with pytest.raises(LocalProtocolError, match=r"still leaves 'g'.*with views"):
        memberships.join("g")
    memberships.join("g", views=False)
    memberships.leave("g")
    memberships.update(msgspec.structs.replace(view, members=(), cause=Cause.LEAVE), me)
    assert memberships.reads == set()
    memberships.join("g")
    memberships.update(view, me)
    memberships.leave("g")
    with pytest.raises(LocalProtocolError, match="without views"):
        memberships.join("g", views=False)


def test_who_may_not_read_a_group_does_not_read_it() -> None:
    memberships = Memberships()
    memberships.join("g", views=False)
    memberships.refuse("g")
    assert (memberships.asked, memberships.reads) == (set(), set())


def test_whether_a_group_needs_a_quorum_is_known_until_its_last_view() -> None:
    """A join with another wish must wait for the leave: the views in between are of the old one."""
    memberships, me = Memberships(), MemberId("#ann#a", 1)
    memberships.join("g", needs_quorum=True)
    memberships.update(view(me), me)
    memberships.leave("g")
    assert memberships.need_quorum == {"g"}
    with pytest.raises(LocalProtocolError, match="another `minority`"):
        memberships.join("g")
    memberships.update(view(), me)
    assert not memberships.need_quorum
    memberships.join("g")
    assert not memberships.need_quorum
