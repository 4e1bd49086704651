"""What can happen in a state of a cluster, and which states are one."""

import pytest

from tests.verification.explore.node import Node
from tests.verification.explore.node_states import PassingNodes
from tests.verification.explore.scenarios import SCENARIOS, Beginning, begin
from tests.verification.explore.transitions import (
    CRASH,
    CUT,
    DISK,
    KINDS,
    LOSS,
    Bounds,
    Move,
    State,
    TransitionSystem,
)

pytestmark = pytest.mark.verification


def begin_with(kind: str, name: str = "agreed-2") -> Beginning:
    """Begin with one deviation of a kind."""
    return begin(SCENARIOS[name], Bounds(most={kind: 1}, in_all=1, within_s=0.02))


def go_on_without(beginning: Beginning, state: State, what: str) -> State:
    """Go on, but never by moves of this kind, until there is no other move."""
    system = beginning.system
    while others := [move for move in system.moves(state) if move.what != what]:
        state, _ = system.apply(state, others[0])
    return state


def test_a_daemon_that_was_killed_may_start_in_any_later_round() -> None:
    beginning = begin_with(CRASH)
    system, state = beginning.system, beginning.state
    state, _ = system.apply(state, Move("crash", 0))
    assert Move("boot", 0) in system.moves(state)
    state = go_on_without(beginning, state, "boot")
    assert system.is_at_rest(state)  # the other one has a view of its own by now
    assert system.moves(state) == [Move("boot", 0)]


def test_a_cut_ends_in_any_later_round_or_once_both_parts_have_come_to_rest() -> None:
    beginning = begin_with(CUT)
    system, state = beginning.system, beginning.state
    state, _ = system.apply(state, Move("cut", others=frozenset((0,))))
    assert Move("mend") in system.moves(state)
    state = go_on_without(beginning, state, "mend")
    members = [beginning.nodes.states[number].members for number in state.nodes]
    assert members == [("a",), ("b",)]
    assert not system.is_settled(state)
    assert system.moves(state) == [Move("mend")]


def test_a_disk_answers_in_any_later_round_or_once_the_others_have_come_to_rest() -> None:
    """The other daemon has a view by then, and the one that waits for its disk is in none."""
    beginning = begin_with(DISK, "marks-2")
    system, state = beginning.system, beginning.state
    stuck = Move("disk", 1)
    while stuck not in system.moves(state):
        state, _ = system.apply(state, system.usual(state))
    state, _ = system.apply(state, stuck)
    assert Move("store", 1) not in system.moves(state)
    state = go_on_without(beginning, state, "answer")
    assert system.is_at_rest(state)
    assert [beginning.nodes.states[number].members for number in state.nodes] == [("a",), ()]
    assert system.moves(state) == [Move("answer", 1)]
    state, _ = system.apply(state, Move("answer", 1))
    while not system.is_settled(state):
        state, _ = system.apply(state, system.usual(state))
    assert {beginning.nodes.states[number].members for number in state.nodes} == {("a", "b")}


def test_daemons_that_are_apart_are_in_one_view_and_send_each_other_nothing() -> None:
    beginning = begin_with(LOSS, "line-3")
    system, state = beginning.system, beginning.state
    met = set()
    while not system.is_at_rest(state):
        state, _ = system.apply(state, system.usual(state))
        met |= {(system.nodes.packets[packet].source, place) for place, packet in state.later}
    assert met == {("a", 1), ("b", 0), ("b", 2), ("c", 1)}
    members = {beginning.nodes.states[number].members for number in state.nodes}
    assert members == {("a", "b", "c")}


def test_the_programs_of_one_daemon_act_in_any_order() -> None:
    beginning = begin_with(LOSS, "swap-2")
    system, state = beginning.system, beginning.state
    while state.turn != 1:
        state, _ = system.apply(state, system.usual(state))
    acts = [move for move in system.moves(state) if move.what == "act"]
    assert [system.describe(move) for move in acts] == ["b acts", "b acts with program 2"]


def test_a_program_does_its_part_again_after_its_daemon_was_killed() -> None:
    beginning = begin_with(CRASH, "back-2")
    system, state = beginning.system, beginning.state
    state, _ = system.apply(state, Move("crash", 0))
    state = go_on_without(beginning, state, "boot")
    state, _ = system.apply(state, Move("boot", 0))
    acts = 0
    while not system.is_at_rest(state):
        move = system.moves(state)[0]
        acts += move == Move("act", 0)
        state, _ = system.apply(state, move)
    assert acts == len(SCENARIOS["back-2"].again["a"])


def test_a_cluster_is_not_at_rest_while_a_daemon_does_not_read_what_a_program_sends() -> None:
    beginning = begin_with(LOSS, "again-2")
    system, state = beginning.system, beginning.state
    while not system.is_at_rest(state):
        state, _ = system.apply(state, system.usual(state))

    def hold_back(node: Node) -> None:
        node.programs[0].is_read = False

    held = beginning.nodes.change(state.nodes[1], hold_back)
    state = state._replace(nodes=(state.nodes[0], held))
    assert system.is_settled(state)
    assert not system.is_at_rest(state)


def test_a_view_change_lasts_until_all_know_the_groups() -> None:
    """Else what goes wrong while daemons announce them would be no part of it."""
    beginning = begin_with(LOSS, "late-3")
    system, state = beginning.system, beginning.state
    state, _ = system.apply(state, Move("boot", 2))
    seen = set()
    while not system.is_at_rest(state):
        state, _ = system.apply(state, system.moves(state)[0])
        node = beginning.nodes.states[state.nodes[0]]
        seen.add((bool(node.view), node.has_groups))
    assert seen == {(True, True), (False, False), (True, False)}


def test_a_cluster_is_not_at_rest_while_packets_count() -> None:
    """Else what the last notices of the ring do would not be explored."""
    beginning = begin_with(LOSS)
    system, state = beginning.system, beginning.state
    while not system.is_settled(state):
        state, _ = system.apply(state, system.usual(state))
    assert not system.is_at_rest(state)
    while not system.is_at_rest(state):
        state, _ = system.apply(state, system.usual(state))
    assert system.is_settled(state)


def test_what_went_wrong_and_when_does_not_count_once_nothing_can() -> None:
    system = begin_with(LOSS).system
    state = begin_with(LOSS).state
    late = state._replace(elapsed=1000)
    assert system.key(late) != system.key(state)
    after = state._replace(spent=(0, 0, 1, 0, 0, 0, 0))
    assert system.key(after) != system.key(state)
    assert system.key(after._replace(elapsed=1000)) == system.key(after)
    assert system.key(late._replace(elapsed=2**40)) == system.key(after)


def test_kinds_with_one_bound_are_counted_together() -> None:
    most = {LOSS: 2, CRASH: 2}
    beginning = begin(SCENARIOS["agreed-2"], Bounds(most=most, in_all=2, within_s=0.02))
    lost = beginning.state._replace(spent=tuple(int(kind == LOSS) for kind in KINDS))
    killed = beginning.state._replace(spent=tuple(int(kind == CRASH) for kind in KINDS))
    assert beginning.system.key(lost) == beginning.system.key(killed)
    bounds = Bounds(most={LOSS: 2, CRASH: 1}, in_all=2, within_s=0.02)
    system = TransitionSystem(beginning.nodes, bounds)
    assert system.key(lost) != system.key(killed)


@pytest.mark.parametrize("name", ["agreed-2", pytest.param("names-2", marks=pytest.mark.long)])
def test_daemons_that_are_not_kept_do_the_same(name: str) -> None:
    beginning = begin_with(LOSS, name)
    nodes, kept = beginning.nodes, beginning.state
    passing = TransitionSystem(PassingNodes(nodes, kept.nodes), Bounds())
    state = kept
    for _ in range(150):
        move = beginning.system.usual(kept)
        assert passing.usual(state) == move
        kept, step = beginning.system.apply(kept, move)
        state, other = passing.apply(state, move)
        assert (step and (step.sent, step.events)) == (other and (other.sent, other.events))
        assert state[1:] == kept[1:]
