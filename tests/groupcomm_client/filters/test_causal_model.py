"""The causal filter over any order that FIFO allows, with joins, leaves and merges."""

import math
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm_client.filters import Factory, causal
from tests.examples import examples
from tests.groupcomm_client.filters.model import Member, Net

ACTIONS = (*["send"] * 6, *["deliver"] * 12, *["rank"] * 4, "ask")
MERGES = (*ACTIONS, "split")

Schedule = list[tuple[str, int, int]]


def schedules(actions: tuple[str, ...]) -> st.SearchStrategy[Schedule]:
    place = st.integers(0, 3)
    return st.lists(st.tuples(st.sampled_from(actions), place, place), min_size=40, max_size=120)


def run(schedule: Schedule) -> Net:
    """Play a schedule with three members, which a fourth may join; return the network."""
    net = Net("abcd", [partial(causal, math.inf)])
    for one in net.members[:3]:
        net.ask(one)
    for action, first, second in schedule:
        one, other = net.members[first], net.members[second]
        if action == "send" and one.member in one.members and one.asked:
            net.send(one)
        elif action == "deliver":
            net.deliver(one, other)
        elif action == "rank":
            net.rank(one)
        elif action == "ask":
            net.ask(one)
        elif action == "split":
            net.split(one, other)
    net.settle()
    return net


def misplaced(net: Net, one: Member) -> list[str]:
    """Return a program's deliveries after one that they may have caused: the order's definition.

    Its own messages it has had when it sent them, whenever they come back to it.
    """
    found = []
    place = {key: at for at, key in enumerate(one.given)}
    for key, at in place.items():
        if key not in one.loose and key[0] != one.member:
            causes = (c for c in net.causes[key] if c[0] != one.member)
            late = [cause for cause in causes if place.get(cause, 0) > at]
            found += [f"{one.member}: {key} before its cause {cause}" for cause in late]
    return found


def check(net: Net) -> None:
    """Each program got what came while it was a member, once, each sender's in its order."""
    for one in net.members:
        assert len(set(one.given)) == len(one.given)
        assert set(one.given) == set(one.arrived) - one.lost, "nothing waits for ever"
        for sender in net.items:
            numbers = [number for who, number in one.given if who == sender]
            assert numbers == sorted(numbers), "FIFO"


@given(schedules(ACTIONS))
@examples(60)
def test_causes_come_first_while_members_join_and_leave(schedule: Schedule) -> None:
    net = run(schedule)
    check(net)
    assert [late for one in net.members for late in misplaced(net, one)] == []


@given(schedules(MERGES))
@examples(30)
def test_nothing_is_lost_or_stuck_when_sides_merge(schedule: Schedule) -> None:
    check(run(schedule))


@pytest.mark.parametrize(("filters", "order"), [([causal], "ab"), ([], "ba")])
def test_an_effect_comes_first_only_without_the_filter(filters: list[Factory], order: str) -> None:
    net = Net("abc", filters)
    ann, bob, cal = net.members
    for one in net.members:
        net.ask(one)
    net.settle()
    net.send(ann)
    net.deliver(ann, bob)
    net.send(bob)
    net.deliver(bob, cal)
    net.settle()
    assert [who.name[1] for who, _ in cal.given] == list(order)


def test_messages_of_who_has_gone_are_still_waited_for_where_its_end_is_not_known_yet() -> None:
    net = Net("abc", [causal])
    ann, bob, cal = net.members
    for one in net.members:
        net.ask(one)
    net.settle()
    net.send(cal)
    net.deliver(cal, ann)
    net.ask(cal)
    net.rank(cal)
    net.deliver(cal, ann)
    assert cal.member not in ann.members
    net.send(ann)
    net.deliver(ann, bob)
    assert bob.given == []
    net.settle()
    assert [who.name[1] for who, _ in bob.given] == ["c", "a"]


def test_what_waits_of_a_member_still_waits_when_it_leaves_and_comes_again() -> None:
    net = Net("abc", [partial(causal, math.inf)])
    ann, bob, cal = net.members
    net.ask(bob)
    for one in (bob, ann, cal):
        if one is not bob:
            net.ask(one)
        net.rank(one)
    for receiver in (bob, ann):
        net.deliver(bob, receiver)
    net.send(bob)
    for sender in (ann, bob):
        net.deliver(sender, ann)
    net.rank(ann)
    net.send(ann)
    for _ in range(2):
        net.ask(ann)
        net.rank(ann)
    for sender in (bob, ann, cal, ann, ann, ann, ann):
        net.deliver(sender, cal)
    assert cal.given == []
    net.settle()
    assert [who.name[1] for who, _ in cal.given] == ["b", "a"]
