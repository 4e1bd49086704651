"""Clocks of a replicated queue: three that fail, each as a run, and one that works."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.algorithms.replicated_queue import Consumer, Keeping, QueueNode, produce
from groupcomm.clocks.vector import Relation
from tests.groupcomm.algorithms.counterexample import smallest_of

QUORUMS = st.sets(st.sampled_from("xyz"), min_size=2)
STEPS = st.lists(
    st.tuples(st.sampled_from(["produce", "consume", "restart", "expire"]), QUORUMS), max_size=30
)
Steps = list[tuple[str, set[str]]]


def lost(keeping: Keeping, steps: Steps) -> list[str]:
    """What a consumer does not get, or gets again; queues expire when they were consumed."""
    nodes = {name: QueueNode(name, keeping) for name in "xyz"}
    consumer, new, wrong = Consumer(), list[str](), list[str]()
    for number, (step, names) in enumerate([*steps, ("consume", {"x", "y"})]):
        quorum = [nodes[name] for name in sorted(names)]
        if step == "produce":
            produce(str(number), quorum)
            new.append(str(number))
        elif step == "restart":
            for node in quorum:
                node.restart(last_write_missing=True)
        elif step == "consume" or new:
            wrong += set(consumer.consume(quorum)) ^ set(new)
            new.clear()
        else:
            for node in nodes.values():
                node.expire()
    return wrong


def test_a_clock_kept_in_the_queue_returns_nothing_after_it_expired() -> None:
    node, consumer = QueueNode("n", Keeping.IN_QUEUE), Consumer()
    produce("a", [node])
    assert consumer.consume([node]) == ["a"]
    node.expire()
    produce("b", [node])
    assert consumer.consume([node]) == []
    assert [entry.data for entry in node.entries] == ["b"]


def test_a_clock_kept_by_the_node_survives_its_queue_and_not_its_restart() -> None:
    node, consumer = QueueNode("n", Keeping.IN_MEMORY), Consumer()
    produce("a", [node])
    produce("b", [node])
    assert consumer.consume([node]) == ["a", "b"]
    node.expire()
    produce("c", [node])
    assert consumer.consume([node]) == ["c"]
    node.restart()
    assert produce("d", [node]).clock.compare(consumer.seen) is Relation.BEFORE
    assert consumer.consume([node]) == []


def test_a_clock_written_at_every_event_costs_a_write_each_and_may_miss_the_last() -> None:
    node, consumer = QueueNode("n", Keeping.EVERY_EVENT), Consumer()
    for data in "abc":
        produce(data, [node])
    assert node.writes == 3
    node.restart()
    produce("d", [node])
    assert consumer.consume([node]) == ["a", "b", "c", "d"]
    node.restart(last_write_missing=True)
    produce("e", [node])
    assert consumer.consume([node]) == []


def test_counted_restarts_work_and_cost_one_write_a_start() -> None:
    node, consumer = QueueNode("n", Keeping.COUNTED_RESTARTS), Consumer()
    for data in "abc":
        produce(data, [node])
    assert consumer.consume([node]) == ["a", "b", "c"]
    for data in "de":
        node.restart(last_write_missing=True)
        produce(data, [node])
    assert consumer.consume([node]) == ["d", "e"]
    node.expire()
    produce("f", [node])
    assert consumer.consume([node]) == ["f"]
    assert node.writes == 3


def test_producers_write_to_different_quorums() -> None:
    x, y, z = (QueueNode(name, Keeping.COUNTED_RESTARTS) for name in "xyz")
    first, second = produce("a", [x, y]), produce("b", [y, z])
    third, fourth = produce("c", [x, z]), produce("d", [x, y])
    assert first.clock.compare(second.clock) is Relation.CONCURRENT
    assert first.clock.compare(fourth.clock) is Relation.BEFORE
    assert third.clock["z"] > second.clock["z"]
    assert sorted(Consumer().consume([x, z])) == ["a", "b", "c", "d"]


def test_answers_are_merged_when_all_of_a_quorum_have_answered() -> None:
    """Else what only the second node has is lost: a higher clock was merged before it."""
    x, y = (QueueNode(name, Keeping.COUNTED_RESTARTS) for name in "xy")
    produce("a", [y])
    produce("b", [x, y])
    hasty, patient = Consumer(), Consumer()
    assert hasty.consume([x]) + hasty.consume([y]) == ["b"]
    assert sorted(patient.consume([x, y])) == ["a", "b"]


@given(steps=STEPS)
def test_counted_restarts_lose_nothing_and_repeat_nothing(steps: Steps) -> None:
    assert lost(Keeping.COUNTED_RESTARTS, steps) == []


@pytest.mark.parametrize(
    ("keeping", "way"),
    [
        (Keeping.IN_QUEUE, "expire"),
        (Keeping.IN_MEMORY, "restart"),
        (Keeping.EVERY_EVENT, "restart"),
    ],
)
def test_runs_that_lose_a_message_are_found_for_the_others(keeping: Keeping, way: str) -> None:
    events = st.tuples(st.sampled_from(["produce", "consume", way]), QUORUMS)
    some = st.lists(events, min_size=4, max_size=6)
    steps = smallest_of(some, lambda steps: bool(lost(keeping, steps)))
    assert way in {step for step, _ in steps}
