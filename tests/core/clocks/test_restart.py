"""Clocks of a replicated queue over restarts of its nodes: three that fail, and one that works."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.clocks.restart import NOTHING, NodeClock, RestartClock, RestartCount
from groupcomm.clocks.vector import Relation

Clock = RestartClock[str]


class Node:
    """A node of the queue: keeps messages with their clocks, and counts those written to it."""

    def __init__(self, name: str, start: Callable[["Node"], NodeClock]) -> None:
        self.name = name
        self.disk = RestartCount(0, 0)
        self.writes = 0
        self.start = start
        self.clock = start(self)
        self.log: list[tuple[Clock, str]] = []

    def write(self, count: RestartCount) -> None:
        self.disk = count
        self.writes += 1

    def restart(self) -> None:
        self.clock = self.start(self)


def put(text: str, *quorum: Node) -> Clock:
    clock = Clock()
    for node in quorum:
        clock.observe(node.name, node.clock.tick())
        node.log.append((clock, text))
    return clock


def consume(seen: Clock, *quorum: Node) -> list[str]:
    """Everything after the clock that the consumer has."""
    found = {text: clock for node in quorum for clock, text in node.log if not seen.covers(clock)}
    for clock in found.values():
        seen.merge(clock)
    return sorted(found)


def kept_in_memory(_: Node) -> NodeClock:
    """64 bits that are lost with the process."""
    return NodeClock(0)


def counted_restarts(node: Node) -> NodeClock:
    """Only the restarts on disk, written before the first event."""
    node.write(RestartCount(node.disk.restarts + 1, 0))
    return NodeClock(node.disk.restarts)


def from_disk(node: Node) -> NodeClock:
    """Goes on from the count that was last written."""
    clock = NodeClock(node.disk.restarts)
    clock.value = node.disk
    return clock


def test_a_count_lost_in_a_restart_hides_the_next_message() -> None:
    node, seen = Node("n", kept_in_memory), Clock()
    put("a", node)
    put("b", node)
    assert consume(seen, node) == ["a", "b"]
    node.restart()
    put("c", node)
    assert consume(seen, node) == []


def test_a_count_that_expires_with_its_queue_hides_the_next_message() -> None:
    """The queue idles, is dropped with its clock, and is made anew for the next message."""
    queues = {"q": Node("q", kept_in_memory)}
    seen = Clock()
    put("a", queues["q"])
    assert consume(seen, queues["q"]) == ["a"]
    del queues["q"]
    queues["q"] = Node("q", kept_in_memory)
    put("b", queues["q"])
    assert consume(seen, queues["q"]) == []


def test_a_count_written_at_every_event_costs_a_write_each_and_may_miss_the_last() -> None:
    node, seen = Node("n", from_disk), Clock()
    for text in "abc":
        node.write(put(text, node)["n"])
    assert node.writes == 3
    put("d", node)  # the node fails before this write is on disk
    assert consume(seen, node) == ["a", "b", "c", "d"]
    node.restart()
    put("e", node)
    assert consume(seen, node) == []


def test_counted_restarts_hide_nothing_and_cost_one_write_a_start() -> None:
    node, seen = Node("n", counted_restarts), Clock()
    for text in "abc":
        put(text, node)
    assert consume(seen, node) == ["a", "b", "c"]
    for text in "de":
        node.restart()
        put(text, node)
    assert consume(seen, node) == ["d", "e"]
    assert node.writes == 3


QUORUMS = st.sets(st.sampled_from("xyz"), min_size=2)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), QUORUMS),
        st.tuples(st.just("restart"), QUORUMS),
        st.tuples(st.just("consume"), QUORUMS),
    ),
    max_size=30,
)


@given(steps=STEPS)
def test_a_consumer_sees_every_message_once_through_any_restarts(
    steps: list[tuple[str, set[str]]],
) -> None:
    """Messages go to quorums and are asked for at quorums; two quorums share a node."""
    nodes = {name: Node(name, counted_restarts) for name in "xyz"}
    seen, new = Clock(), list[str]()
    for number, (step, names) in enumerate(steps):
        quorum = [nodes[name] for name in sorted(names)]
        if step == "restart":
            for node in quorum:
                node.restart()
        elif step == "put":
            put(str(number), *quorum)
            new.append(str(number))
        else:
            assert consume(seen, *quorum) == sorted(new)
            new.clear()


def test_answers_are_merged_when_all_of_a_quorum_have_answered() -> None:
    """Merging at once loses a message that only the second node has, and whose clock is lower."""
    x, y = Node("x", counted_restarts), Node("y", counted_restarts)
    put("a", y)
    put("b", x, y)
    hasty, patient = Clock(), Clock()
    assert consume(hasty, x) + consume(hasty, y) == ["b"]
    assert consume(patient, x, y) == ["a", "b"]


EDGES = [2**31, 2**32, 2**63]


@pytest.mark.parametrize("edge", EDGES)
def test_restarts_decide_first_and_nothing_wraps(edge: int) -> None:
    assert RestartCount(edge, 0) > RestartCount(edge - 1, 2**64 - 1)
    assert RestartCount(2**64 - 1, 0) > RestartCount(edge, edge) > RestartCount(0, edge) > NOTHING
    clock = NodeClock(edge)
    clock.value = RestartCount(edge, edge - 1)
    assert clock.tick() == (edge, edge)
    assert clock.tick() == (edge, edge + 1)


def test_clocks_compare_and_merge_node_by_node() -> None:
    old, new, other = Clock(), Clock(), Clock()
    old.observe("n", RestartCount(1, 99))
    new.observe("n", RestartCount(2, 1))
    other.observe("m", RestartCount(1, 1))
    assert old.compare(new) is Relation.BEFORE
    assert new.compare(other) is Relation.CONCURRENT
    assert not other.covers(old)
    both = new.copy()
    both.merge(other)
    both.merge(old)  # lower counts change nothing
    assert both.covers(old)
    assert both.covers(new)
    assert both.compare(other) is Relation.AFTER
    assert (both["n"], both["m"], both["o"]) == ((2, 1), (1, 1), NOTHING)
    assert new["m"] == NOTHING
