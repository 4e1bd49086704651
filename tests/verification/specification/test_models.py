"""The specification, explored within small bounds: it keeps its invariants, by each of its
conditions."""

import enum

import pytest

from tests.verification.specification.bounds import SMALL
from tests.verification.specification.exhaustive import explore
from tests.verification.specification.form import Disabled
from tests.verification.specification.locality import LocalityCondition
from tests.verification.specification.order import Held, Order, OrderCondition, OrderState
from tests.verification.specification.recovery import RecoveryCondition
from tests.verification.specification.views import Join, Views, ViewsCondition, ViewsState

STATES = {
    "views: 2 daemons start, 2 attempts each": 2517,
    "views: 2 daemons of one view, 2 attempts each": 5220,
    "views: 3 daemons start, 1 attempt each": 1227,
    "order: 2 rings of 1, 2 packets, 2 promises": 7571,
    "order: the same, 1 of them SAFE": 6120,
    "order: 1 ring of 2, 2 packets, 1 SAFE": 341,
    "recovery: 2 daemons, 2 packets of one": 7225,
    "recovery: 2 daemons, 2 packets, 1 SAFE": 11269,
    "recovery: 2 daemons, 1 SAFE packet, 3 attempts": 8429,
    "locality: a member of a wide group": 1124,
    "locality: one message to both": 1046,
    "locality: the right is kept": 1936,
    "locality: 2 messages in a ring of 2, 1 SAFE": 3885,
    "locality: a member leaves the wide group": 5889,
    "locality: the last member leaves": 812,
    "locality: one sender, both lines": 8577,
    "locality: a stranger gets a right": 10692,
    "locality: the right is given back": 19118,
}

SILENT: frozenset[enum.Enum] = frozenset(
    {
        ViewsCondition.ALL_JOINS,  # what no join says cannot be agreed to by its daemon either
        OrderCondition.IS_OPEN,  # recovery needs it: what a join says must stay true
        OrderCondition.OWN_RING,  # the order does not ask who numbers, if all else holds
        OrderCondition.HORIZON_RISES,  # a lower promise promises less
        OrderCondition.IS_NEW,  # holding twice is holding
        OrderCondition.IS_HELD,  # follows from NOTHING_LOWER and HOLDS_UP_TO
        RecoveryCondition.NOTICES_ARE_TRUE,  # no promises in the models
        RecoveryCondition.OBLIGATION_IS_NAMED,  # the simple rule of drops keeps what it demands
        RecoveryCondition.MAY_AGREE,  # its counterpart in the views is needed
        RecoveryCondition.OWN_PAST,
        RecoveryCondition.ALL_PASTS,
        RecoveryCondition.KEEPS_SET,  # the boundary is found from joins here, in the code also from
        RecoveryCondition.OF_THE_SET,  # what is held
        RecoveryCondition.REGULAR_IS_WHOLE,  # early, but the same at all that go together
        RecoveryCondition.SAME_BOUNDARY,  # follows from REGULAR_IS_WHOLE and BEFORE_BOUNDARY
        RecoveryCondition.AFTER_BOUNDARY,  # follows from REGULAR_IS_WHOLE
        RecoveryCondition.SAME_REST,  # follows from DROPS; in runs it stands for it
    }
)
"""Conditions without which no invariant breaks within the small bounds, and why. The check of runs
has them all."""

LONG = frozenset(
    {
        "order: 2 rings of 1, 2 packets, 2 promises",
        "order: the same, 1 of them SAFE",
        "recovery: 2 daemons, 2 packets of one",
        "recovery: 2 daemons, 2 packets, 1 SAFE",
        "recovery: 2 daemons, 1 SAFE packet, 3 attempts",
        "views: 2 daemons of one view, 2 attempts each",
        "locality: a member leaves the wide group",
        "locality: one sender, both lines",
        "locality: a stranger gets a right",
        "locality: the right is given back",
    }
)

LONG_CONDITIONS = frozenset(
    {
        *(condition for condition in RecoveryCondition if condition is not RecoveryCondition.DROPS),
        ViewsCondition.OLD_IS_NAMED,
        OrderCondition.NOTHING_LOWER,
        OrderCondition.NONE_PASSED,
        OrderCondition.NOT_PASSED,
        OrderCondition.STAMPS_RISE,
        OrderCondition.NEXT_NUMBER,
        OrderCondition.PROMISE_KEPT,
        OrderCondition.PROMISE_IS_TRUE,
        OrderCondition.WAS_ANNOUNCED,
        OrderCondition.HOLDS_UP_TO,
        OrderCondition.ALL_CAN,
        LocalityCondition.ABOVE_MET,
        LocalityCondition.FOLLOWS_MARKS,
        LocalityCondition.HAS_RIGHT,
        LocalityCondition.IS_MARKED,
        LocalityCondition.NOBODY_ELSE,
        LocalityCondition.RING_KNOWS,
        LocalityCondition.SESSION_FIRST,
    }
)

NEEDED = [
    pytest.param(
        condition,
        marks=[pytest.mark.long] if condition in LONG_CONDITIONS else [],
        id=str(condition),
    )
    for condition in (*ViewsCondition, *OrderCondition, *RecoveryCondition, *LocalityCondition)
    if condition not in SILENT
]


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.long] if n in LONG else []) for n in SMALL]
)
def test_no_behaviour_within_the_bounds_breaks_an_invariant(name: str) -> None:
    explored = explore(SMALL[name](frozenset()))
    assert (explored.broken, explored.is_complete) == (None, True)
    assert explored.states == STATES[name]


@pytest.mark.parametrize("name", sorted(LONG))
def test_the_first_states_of_larger_bounds_break_none(name: str) -> None:
    explored = explore(SMALL[name](frozenset()), 500)
    assert (explored.broken, explored.is_complete) == (None, False)


def invariant_broken_without(condition: enum.Enum) -> str | None:
    part = type(condition).__name__.removesuffix("Condition").lower()
    for name, make in SMALL.items():
        if name.startswith(part):
            explored = explore(make(frozenset((condition,))))
            if explored.broken:
                return explored.broken
    return None


@pytest.mark.verification
@pytest.mark.parametrize("condition", NEEDED)
def test_without_a_condition_an_invariant_breaks(condition: enum.Enum) -> None:
    assert invariant_broken_without(condition)


@pytest.mark.long
@pytest.mark.parametrize("condition", sorted(SILENT, key=str), ids=str)
def test_a_condition_that_is_called_silent_is_silent(condition: enum.Enum) -> None:
    assert invariant_broken_without(condition) is None


def test_a_counterexample_is_a_shortest_path_of_actions() -> None:
    model = SMALL["order: 1 ring of 2, 2 packets, 1 SAFE"](frozenset((OrderCondition.ALL_CAN,)))
    explored = explore(model)
    assert explored.broken == "once a SAFE message is delivered all hold everything up to it"
    (state,) = model.beginnings()
    for label in explored.path:
        following = model.apply(state, label)
        assert following is not None
        assert following.key != state.key
        state = following
    assert model.broken(state) == explored.broken
    assert [label[0] for label in explored.path] == ["stamp", "stamp", "hold", "hold", "deliver"]


def test_a_search_that_is_bounded_by_states_says_that_it_is_incomplete() -> None:
    explored = explore(SMALL["views: 3 daemons start, 1 attempt each"](frozenset()), 100)
    assert not explored.is_complete
    assert explored.states >= 100


def test_a_disabled_action_names_its_condition_and_changes_nothing() -> None:
    state, views = ViewsState(), Views()
    views.gather(state, "a/1", Join(None, 3))
    before = state.key
    with pytest.raises(Disabled) as caught:
        views.install(state, "a/1")
    assert caught.value.condition is ViewsCondition.HAS_RECOVERED
    assert state.key == before


def test_a_copy_of_a_state_does_not_change_with_it() -> None:
    state, order = OrderState(), Order((("a",),))
    copy = state.copy()
    order.stamp(state, "a", (0, 1), 5)
    assert (copy.key == OrderState().key, state.key == copy.key) == (True, False)


def test_numbers_held_early_count_once_the_gap_is_closed() -> None:
    held = Held(4)
    for number in (7, 6, 9):
        held = held.with_number(number)
    assert held == Held(4, frozenset((6, 7, 9)))
    assert held.with_number(5) == Held(7, frozenset((9,)))
    assert held.united(Held(5)) == Held(7, frozenset((9,)))
    assert [number in held for number in (4, 5, 6, 10)] == [True, False, True, False]
