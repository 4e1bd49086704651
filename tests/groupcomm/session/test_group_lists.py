"""Differences of views: the lists that they lead to, and those that do not fit."""

from collections.abc import Callable
from itertools import permutations

import msgspec
import pytest

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.errors import BadDatagram, Code
from groupcomm.events import Cause, Closed, GroupView, MemberId
from groupcomm.session.client_session import ClientSession
from groupcomm.session.daemon_frames import encode_view, encode_view_id
from groupcomm.session.differences import (
    Difference,
    decode_difference_untrusted,
    encode_difference,
    place_of,
)
from groupcomm.session.group_lists import UNFIT, GroupLists
from tests.groupcomm.session.pair import DAEMONS, PLENTY, VIEW, Pair

ANN, BOB, CAT, DAN = (
    MemberId(f"#{user}#{home}", 7) for user, home in zip("abcd", "1212", strict=True)
)
NEXT = ViewId(VIEW.counter + 1, "1", 9)


def at(time: int, view: ViewId = VIEW) -> Position:
    return Position(view, time, 0, 0, 0)


def whole(*members: MemberId, time: int = 1, group: str = "g", own: bool = True) -> GroupView:
    return GroupView(
        group=group,
        id=at(time),
        members=members,
        cause=Cause.JOIN,
        changed=members[-1:],
        vs_set=members[-1:],
        own=own,
    )


def difference(
    cause: Cause,
    *members: MemberId,
    time: int,
    size: int,
    before: Position,
    went: tuple[str, ...] = (),
) -> Difference:
    view = NEXT if cause is Cause.NETWORK else VIEW
    return Difference(
        group="g",
        id=at(time, view),
        before=place_of(before),
        cause=cause,
        size=size,
        went=went,
        members=members,
    )


def holding(*members: MemberId) -> GroupLists:
    lists = GroupLists()
    lists.hold(whole(*members), members[-1])
    return lists


CHAIN = (
    difference(Cause.JOIN, CAT, time=2, size=3, before=at(1)),
    difference(Cause.LEAVE, ANN, time=3, size=2, before=at(2)),
    difference(Cause.DISCONNECT, CAT, time=4, size=1, before=at(3)),
    difference(Cause.JOIN, ANN, time=5, size=2, before=at(4)),
)
"""Changes of a group of Ann and Bob, one after the other."""


def test_differences_lead_to_the_views_that_whole_lists_would_be() -> None:
    lists = holding(ANN, BOB)
    found = [lists.apply(change, BOB) for change in CHAIN]
    shown = [(view.members, view.changed, view.vs_set, view.own) for view in found]
    assert shown == [
        ((ANN, BOB, CAT), (CAT,), (ANN, BOB), False),
        ((BOB, CAT), (ANN,), (BOB, CAT), False),
        ((BOB,), (CAT,), (BOB,), False),
        ((BOB, ANN), (ANN,), (BOB,), False),
    ]
    assert [(view.id, view.cause) for view in found] == [(one.id, one.cause) for one in CHAIN]


def test_who_leaves_itself_gets_the_same_difference_as_its_last_view() -> None:
    lists, leave = holding(ANN, BOB), difference(Cause.LEAVE, BOB, time=2, size=1, before=at(1))
    view = lists.apply(leave, BOB)
    assert (view.members, view.changed, view.vs_set, view.own) == ((ANN,), (BOB,), (), True)
    with pytest.raises(BadDatagram, match=UNFIT):
        lists.apply(leave, BOB)
    seen = holding(ANN, BOB).apply(leave, ANN)
    assert (seen.members, seen.vs_set, seen.own) == ((ANN,), (ANN,), False)


def test_a_change_of_daemons_names_who_went_and_who_came_and_orders_by_daemons() -> None:
    """The lists of all daemons begin in this order, however their members joined before."""
    eve = MemberId("#e#0", 1)
    change = difference(Cause.NETWORK, eve, DAN, time=0, size=4, before=at(1), went=("2",))
    view = holding(CAT, BOB, ANN).apply(change, ANN)
    assert (view.members, view.vs_set) == ((eve, CAT, ANN, DAN), (CAT, ANN))
    assert (view.cause, view.changed, view.own) == (Cause.NETWORK, (), False)
    only_order = difference(Cause.NETWORK, time=0, size=3, before=at(1))
    view = holding(BOB, CAT, ANN).apply(only_order, ANN)
    assert view.members == view.vs_set == (CAT, ANN, BOB)


NETWORKS = {
    "as it was": (difference(Cause.NETWORK, time=0, size=3, before=at(1)), True),
    "who went had no members": (
        difference(Cause.NETWORK, time=0, size=3, before=at(1), went=("9",)),
        True,
    ),
    "one went": (difference(Cause.NETWORK, time=0, size=2, before=at(1), went=("2",)), False),
    "one went, another came": (
        difference(Cause.NETWORK, DAN, time=0, size=3, before=at(1), went=("2",)),
        False,
    ),
    "one was away meanwhile": (
        difference(Cause.NETWORK, BOB, time=0, size=3, before=at(1), went=("2",)),
        False,
    ),
}


@pytest.mark.parametrize("case", NETWORKS)
def test_a_group_that_neither_lost_nor_gained_a_member_is_unchanged(case: str) -> None:
    """In both forms of a view."""
    change, expected = NETWORKS[case]
    view = holding(CAT, BOB, ANN).apply(change, ANN)
    assert view.unchanged == expected
    plain = msgspec.structs.replace(view, unchanged=False)
    assert holding(CAT, BOB, ANN).hold(plain, ANN) == view


def test_nothing_but_a_change_of_daemons_leaves_a_group_unchanged() -> None:
    lists = holding(ANN, BOB)
    assert not any(lists.apply(change, BOB).unchanged for change in CHAIN)
    assert not lists.hold(whole(ANN, BOB), BOB).unchanged
    (found,) = lists.go_on(NEXT)
    assert found.unchanged


@pytest.mark.parametrize(
    "order", [order for size in range(1, 5) for order in permutations(range(4), size)]
)
def test_a_difference_that_was_lost_or_is_out_of_order_is_noticed(order: tuple[int, ...]) -> None:
    """All ways to lose some of four differences, and to mix up the others."""
    lists = holding(ANN, BOB)
    fits = 0
    while fits < len(order) and order[fits] == fits:
        lists.apply(CHAIN[fits], BOB)
        fits += 1
    if fits < len(order):
        with pytest.raises(BadDatagram, match=UNFIT):
            lists.apply(CHAIN[order[fits]], BOB)
    elif fits:
        with pytest.raises(BadDatagram, match=UNFIT):
            lists.apply(CHAIN[fits - 1], BOB)  # twice


@pytest.mark.parametrize(
    "change",
    [
        difference(Cause.JOIN, BOB, time=2, size=3, before=at(1)),
        difference(Cause.LEAVE, CAT, time=2, size=1, before=at(1)),
        difference(Cause.DISCONNECT, MemberId(ANN.name, 8), time=2, size=1, before=at(1)),
        difference(Cause.JOIN, CAT, time=2, size=4, before=at(1)),
        difference(Cause.NETWORK, CAT, time=0, size=2, before=at(1)),
        difference(Cause.NETWORK, BOB, time=0, size=3, before=at(1)),
        difference(Cause.JOIN, CAT, time=2, size=3, before=at(1, NEXT)),
    ],
)
def test_a_difference_that_contradicts_the_list_is_noticed(change: Difference) -> None:
    with pytest.raises(BadDatagram, match=UNFIT):
        holding(ANN, BOB).apply(change, BOB)


def open_client() -> ClientSession:
    client = Pair().client
    client.receive(encode_view_id(DAEMONS))
    return client


def test_a_session_whose_views_do_not_follow_each_other_ends_and_says_why() -> None:
    client = open_client()
    me = Pair().daemon.member
    assert me is not None
    shown = client.receive(encode_view(whole(BOB, me)) + encode_difference(CHAIN[0]))
    assert [view.members for view in shown if isinstance(view, GroupView)] == [
        (BOB, me),
        (BOB, me, CAT),
    ]
    (closed,) = client.receive(encode_difference(CHAIN[0]))
    assert isinstance(closed, Closed)
    assert closed.code == Code.NET_ERROR
    assert "views of a group do not follow each other" in closed.reason
    assert closed.reason.endswith("connect again")
    assert client.receive(encode_difference(CHAIN[1])) == []


def test_a_difference_of_a_group_that_the_session_is_not_in_ends_it() -> None:
    (closed,) = open_client().receive(encode_difference(CHAIN[0]))
    assert isinstance(closed, Closed)


def test_a_view_that_was_received_stays_as_it_is() -> None:
    """Views share their lists: later changes must not show in earlier ones."""
    lists = holding(ANN, BOB)
    found = [lists.apply(change, BOB) for change in CHAIN]
    again = holding(ANN, BOB)
    for view, change in zip(found, CHAIN, strict=True):
        expected = again.apply(change, BOB)
        assert (expected.members, expected.vs_set) == (view.members, view.vs_set)


@pytest.mark.parametrize("change", CHAIN)
def test_round_trip(change: Difference) -> None:
    frame = encode_difference(change)[4:]
    assert decode_difference_untrusted(frame, VIEW) == change
    for end in range(1, len(frame)):
        with pytest.raises(BadDatagram):
            decode_difference_untrusted(frame[:end], VIEW)
    with pytest.raises(BadDatagram):
        decode_difference_untrusted(frame + b"\0", VIEW)


@pytest.mark.parametrize(
    "broken",
    [
        lambda change: msgspec.structs.replace(change, went=("1",)),
        lambda change: msgspec.structs.replace(change, members=()),
        lambda change: msgspec.structs.replace(change, members=(ANN, BOB)),
    ],
)
def test_only_a_change_of_daemons_has_several_members(
    broken: Callable[[Difference], Difference],
) -> None:
    frame = encode_difference(broken(CHAIN[0]))[4:]
    with pytest.raises(BadDatagram):
        decode_difference_untrusted(frame, VIEW)


def test_the_hello_asks_for_differences() -> None:
    asks, does_not = (
        ClientSession("u", differences=wish).pop_output(PLENTY) for wish in (True, False)
    )
    assert asks[9] == does_not[9] | 128 != does_not[9]
