"""Clocks of a replicated queue: the source's four runs, and two ways of asking side by side."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.clocks.vector import LARGEST_COUNT, Relation
from groupcomm.errors import LocalProtocolError
from groupcomm_lessons.algorithms.replicated_queue import (
    Asking,
    Consumer,
    Entry,
    Keeping,
    Server,
    produce,
)
from groupcomm_lessons.algorithms.restart_clock import RestartCount
from tests.groupcomm_lessons.algorithms.counterexample import example_of


def pair(keeping: Keeping) -> list[Server]:
    """Servers A and B."""
    return [Server("A", keeping), Server("B", keeping)]


def counts(entry: Entry) -> tuple[tuple[int, int], ...]:
    """The counts of a message at A and B."""
    return entry.clock["A"], entry.clock["B"]


# ---- the four runs of the source ----


def test_run_1_counters_in_the_queue_go_with_it() -> None:
    """(A:1, B:1), its time passes, and (A:1, B:1) again does not follow it."""
    servers, consumer = pair(Keeping.IN_QUEUE), Consumer()
    assert counts(produce("Hi", servers, time_to_live_s=10)) == ((0, 1), (0, 1))
    assert consumer.consume(servers) == ["Hi"]
    assert [server.advance(10) for server in servers] == [[""], [""]]
    assert counts(produce("How are you?", servers)) == ((0, 1), (0, 1))
    assert consumer.consume(servers) == []


def test_run_2_counters_in_memory_survive_the_queue_and_not_the_server() -> None:
    """(A:2, B:2) follows (A:1, B:1); A dies, and (A:1, B:3) does not follow (A:2, B:2)."""
    servers, consumer = pair(Keeping.IN_MEMORY), Consumer()
    produce("Hi", servers, time_to_live_s=10)
    assert consumer.consume(servers) == ["Hi"]
    for server in servers:
        server.advance(10)
    assert counts(produce("How are you?", servers)) == ((0, 2), (0, 2))
    assert consumer.consume(servers) == ["How are you?"]
    servers[0].restart()
    assert counts(produce("Fine", servers)) == ((0, 1), (0, 3))
    assert consumer.consume(servers) == []


def test_run_3_a_write_at_each_event_and_the_last_ones_missing() -> None:
    """Many writes; after a crash (A:1, B:3), as the last two had not reached the disk."""
    servers, consumer = pair(Keeping.EVERY_EVENT), Consumer()
    for data in ("Hi", "How are you?"):
        produce(data, servers)
    assert consumer.consume(servers) == ["Hi", "How are you?"]
    servers[0].restart(writes_missing=2)
    assert counts(produce("Fine", servers)) == ((0, 1), (0, 3))
    assert consumer.consume(servers) == []
    assert [server.writes for server in servers] == [3, 3]


def test_run_4_restarts_counted_follow_for_one_write_a_start() -> None:
    servers, consumer = pair(Keeping.COUNTED_RESTARTS), Consumer()
    assert counts(produce("Hi", servers)) == ((1, 1), (1, 1))
    assert counts(produce("How are you?", servers)) == ((1, 2), (1, 2))
    assert consumer.consume(servers) == ["Hi", "How are you?"]
    servers[0].restart(writes_missing=2)
    assert counts(produce("Fine", servers)) == ((2, 1), (1, 3))
    assert consumer.consume(servers) == ["Fine"]
    assert [server.writes for server in servers] == [2, 1]


# ---- queues: time to live, collection, one counter for several ----


def test_a_message_lives_as_long_as_it_says_and_its_queue_as_long_as_the_last_one() -> None:
    (server,) = servers = [Server("A", Keeping.IN_MEMORY)]
    produce("short", servers, time_to_live_s=5)
    produce("long", servers, time_to_live_s=9)
    assert server.advance(4.9) == []
    assert Consumer().consume(servers) == ["short", "long"]
    assert server.advance(5) == []
    assert Consumer().consume(servers) == ["long"]
    assert server.advance(9) == [""]
    assert server.queues == {}
    assert Consumer().consume(servers) == []


def test_time_to_live_counts_from_the_sending() -> None:
    servers = pair(Keeping.IN_MEMORY)
    for server in servers:
        server.advance(100)
    assert produce("m", servers, time_to_live_s=5).expires_at == 105


def test_queues_of_one_server_share_its_counter() -> None:
    """A consumer of one queue sees gaps, which follow all the same."""
    servers, consumer = pair(Keeping.IN_MEMORY), Consumer(queue="letters")
    produce("a", servers, "letters")
    assert counts(produce("1", servers, "digits")) == ((0, 2), (0, 2))
    assert counts(produce("b", servers, "letters")) == ((0, 3), (0, 3))
    assert consumer.consume(servers) == ["a", "b"]
    assert Consumer(queue="digits").consume(servers) == ["1"]
    assert Consumer(queue="nobody wrote to it").consume(servers) == []


def test_a_queue_is_collected_alone_and_the_shared_counter_stays() -> None:
    servers = pair(Keeping.IN_MEMORY)
    produce("a", servers, "letters", time_to_live_s=5)
    produce("1", servers, "digits")
    assert servers[0].advance(5) == ["letters"]
    assert list(servers[0].queues) == ["digits"]
    assert servers[0].latest("letters") == (0, 2)


def test_counters_in_queues_are_apart() -> None:
    servers = pair(Keeping.IN_QUEUE)
    produce("a", servers, "letters")
    assert counts(produce("1", servers, "digits")) == ((0, 1), (0, 1))
    assert servers[0].latest("nobody wrote to it") == (0, 0)


def test_a_counter_of_64_bits_ends() -> None:
    server = Server("A", Keeping.IN_QUEUE)
    produce("a", [server])
    server.queues[""].clock.value = RestartCount(0, LARGEST_COUNT)
    with pytest.raises(LocalProtocolError, match="64 bits hold no more"):
        produce("b", [server])
    assert Consumer().consume([server]) == ["a"]


# ---- the ways of asking ----


def after_the_crash(asking: Asking) -> list[list[str]]:
    """Return a consumer's messages before A dies with its counter, after it, and once more."""
    servers, consumer = pair(Keeping.IN_MEMORY), Consumer(asking)
    produce("1", servers)
    produce("2", servers)
    got = [consumer.consume(servers)]
    servers[0].restart()
    produce("3", servers)
    return [*got, consumer.consume(servers), consumer.consume(servers)]


def test_after_the_crash_after_loses_and_not_covered_gives_twice() -> None:
    """(A:1, B:3) and (A:2, B:2) are concurrent: each is not covered by the other."""
    assert after_the_crash(Asking.AFTER) == [["1", "2"], [], []]
    assert after_the_crash(Asking.NOT_COVERED) == [["1", "2"], ["3"], ["2"]]
    assert after_the_crash(Asking.NOT_COVERED_BY_MAXIMUM) == [["1", "2"], ["3"], []]


def test_the_maximum_loses_what_the_reset_counter_counts_again() -> None:
    """A alone is written after the crash: its counts are below what the consumer has of it."""
    a, b = servers = pair(Keeping.IN_MEMORY)
    for asking in (Asking.NOT_COVERED, Asking.NOT_COVERED_BY_MAXIMUM):
        consumer = Consumer(asking)
        produce("1", servers)
        produce("2", servers)
        consumer.consume(servers)
        a.restart()
        produce("3", [a])
        assert consumer.consume([a, b]) == []


def quorums(asking: Asking) -> list[list[str]]:
    """Return the messages of a consumer of three servers, each at two of them; restarts count."""
    x, y, z = (Server(name, Keeping.COUNTED_RESTARTS) for name in "xyz")
    consumer = Consumer(asking)
    produce("1", [x, y])
    got = [consumer.consume([x, z])]
    produce("2", [y, z])
    return [*got, consumer.consume([y, x]), consumer.consume([y, x])]


def test_over_quorums_after_loses_and_not_covered_gives_twice() -> None:
    assert quorums(Asking.AFTER) == [["1"], [], []]
    assert quorums(Asking.NOT_COVERED) == [["1"], ["2"], ["1"]]
    assert quorums(Asking.NOT_COVERED_BY_MAXIMUM) == [["1"], ["2"], []]


def test_producers_write_to_different_quorums() -> None:
    x, y, z = (Server(name, Keeping.COUNTED_RESTARTS) for name in "xyz")
    first, second = produce("a", [x, y]), produce("b", [y, z])
    third, fourth = produce("c", [x, z]), produce("d", [x, y])
    assert first.clock.compare(second.clock) is Relation.CONCURRENT
    assert first.clock.compare(fourth.clock) is Relation.BEFORE
    assert third.clock["z"] > second.clock["z"]
    consumer = Consumer(Asking.NOT_COVERED_BY_MAXIMUM)
    assert sorted(consumer.consume([x, z])) == ["a", "b", "c", "d"]


def test_answers_are_merged_when_all_of_a_quorum_have_answered() -> None:
    """Else what only the second server has is lost: a higher clock was merged before it."""
    x, y = (Server(name, Keeping.COUNTED_RESTARTS) for name in "xy")
    produce("a", [y])
    produce("b", [x, y])
    hasty, patient = (Consumer(Asking.NOT_COVERED_BY_MAXIMUM) for _ in range(2))
    assert hasty.consume([x]) + hasty.consume([y]) == ["b"]
    assert sorted(patient.consume([x, y])) == ["a", "b"]


# ---- any runs ----

QUORUMS = st.sets(st.sampled_from("xyz"), min_size=2)
STEPS = st.lists(
    st.tuples(st.sampled_from(["produce", "consume", "restart", "expire"]), QUORUMS), max_size=30
)
Steps = list[tuple[str, set[str]]]


def wrong(keeping: Keeping, asking: Asking, steps: Steps) -> list[str]:
    """Return the messages that a consumer misses or gets twice; consumed messages expire.

    Producers write to a quorum if the consumer asks by the maximum, else to all servers.
    """
    servers = {name: Server(name, keeping) for name in "xyz"}
    consumer, new, found = Consumer(asking), list[str](), list[str]()
    quorums = asking is Asking.NOT_COVERED_BY_MAXIMUM
    for number, (step, names) in enumerate([*steps, ("consume", {"x", "y"})]):
        some = [servers[name] for name in sorted(names)]
        if step == "produce":
            produce(str(number), some if quorums else servers.values(), time_to_live_s=1)
            new.append(str(number))
        elif step == "restart":
            for server in some:
                server.restart(writes_missing=2)
        elif step == "consume" or new:
            found += set(consumer.consume(some)) ^ set(new)
            new.clear()
        else:
            for server in servers.values():
                server.advance(server.now + 1)
    return found


@pytest.mark.parametrize("asking", [Asking.AFTER, Asking.NOT_COVERED_BY_MAXIMUM])
@given(steps=STEPS)
def test_counted_restarts_lose_nothing_and_repeat_nothing(steps: Steps, asking: Asking) -> None:
    assert wrong(Keeping.COUNTED_RESTARTS, asking, steps) == []


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
    asking = Asking.NOT_COVERED_BY_MAXIMUM
    steps = example_of(some, lambda steps: bool(wrong(keeping, asking, steps)))
    assert way in {step for step, _ in steps}
