"""bus1's queues and multicasts: each test is named after the rule that it holds the bus to."""

from math import log2
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.clocks.vector import LARGEST_COUNT
from groupcomm.errors import LocalProtocolError
from groupcomm_lessons.algorithms.bus1.multicast import Blocking, Multicast, State, Step, What
from groupcomm_lessons.algorithms.bus1.naive import FifoQueue, HastyMulticast, plain
from groupcomm_lessons.algorithms.bus1.queue import Queue, Stamp
from groupcomm_lessons.algorithms.process import Message, Order
from tests.groupcomm_lessons.algorithms.bus import PEERS, Run, play, schedules
from tests.groupcomm_lessons.algorithms.counterexample import example_of

Events = list[tuple[int, int, int]]


# ---- queues ----


def test_a_clock_only_rises() -> None:
    queue: Queue[str] = Queue(1, clock=5)
    assert queue.tick() == 6
    assert queue.synchronise(3) == 6
    assert queue.synchronise(9) == 9


def test_a_clock_of_64_bits_ends() -> None:
    queue: Queue[str] = Queue(1, clock=LARGEST_COUNT - 1)
    assert queue.tick() == LARGEST_COUNT
    with pytest.raises(LocalProtocolError, match="64 bits hold no more"):
        queue.tick()
    assert queue.clock == LARGEST_COUNT


def test_equal_values_are_decided_by_the_queue_that_sent() -> None:
    queue: Queue[str] = Queue(1, clock=9)
    for stamp in (Stamp(9, 2), Stamp(9, 1), Stamp(8, 3)):
        queue.put(stamp, f"{stamp.queue}")
    assert [queue.pop() for _ in range(4)] == [
        *(((8, 3), "3"), ((9, 1), "1"), ((9, 2), "2")),
        None,
    ]


def test_nothing_behind_a_block_can_be_taken_out() -> None:
    queue: Queue[str] = Queue(1, clock=4)
    block = queue.block()
    queue.synchronise(6)
    queue.put(Stamp(6, 2), "behind")
    queue.put(Stamp(4, 2), "before")
    assert queue.pop() == ((4, 2), "before")
    assert queue.pop() is None
    queue.put(Stamp(5, 3), "blocker", block)
    assert queue.pop() == ((5, 3), "blocker")
    assert queue.pop() == ((6, 2), "behind")
    assert queue.pop() is None
    assert len(queue) == 0


def test_a_message_needs_a_synchronised_queue_and_a_stamp_above_its_block() -> None:
    queue: Queue[str] = Queue(1, clock=4)
    with pytest.raises(LocalProtocolError, match="queue 1 is at 4; synchronise it to 5 first"):
        queue.put(Stamp(5, 2), "m")
    with pytest.raises(LocalProtocolError, match="stamp 4 is not above its block 4"):
        queue.put(Stamp(4, 2), "m", queue.block())


@given(values=st.lists(st.integers(1, 50), max_size=30), blocks=st.sets(st.integers(0, 30)))
def test_what_comes_out_is_sorted_and_all_of_it(values: list[int], blocks: set[int]) -> None:
    """A block at an earlier clock hides all above it, and nothing else; lifted it hides nothing."""
    queue: Queue[int] = Queue(0)
    held = {at: queue.block(at) for at in sorted(blocks)}
    queue.synchronise(100)
    for number, value in enumerate(values):
        queue.put(Stamp(value, number), number)
    lowest = min(blocks, default=100)
    taken = [stamp.value for stamp, _ in iter(queue.pop, None)]
    assert taken == sorted(value for value in values if value <= lowest)
    for number, at in enumerate(held):
        queue.put(Stamp(100, 1000 + number), 0, held[at])
    taken = [stamp.value for stamp, _ in iter(queue.pop, None)]
    assert taken == sorted(value for value in values if value > lowest) + [100] * len(held)


# ---- the demands ----


@given(schedules, st.sampled_from([Blocking.AT_CLOCK, Blocking.AT_ESTIMATE]))
def test_consistency(events: Events, blocking: Blocking) -> None:
    """Two who both receive two multicasts receive them in one order; indeed all have one order."""
    run = play(events, blocking=blocking)
    assert not run.history.missing
    assert not run.history.twice
    assert not run.history.broken(Order.TOTAL)
    run.one_order()


@given(schedules, st.sampled_from([Blocking.AT_CLOCK, Blocking.AT_ESTIMATE]))
def test_causality_by_whatever_means(events: Events, blocking: Blocking) -> None:
    """All that was taken, or sent to its end, anywhere before a sending comes before it."""
    assert not play(events, blocking=blocking).history.broken(Order.CAUSAL)


class Watched(Queue[Message]):
    """Notes which queues are used."""

    used: list[int] = []  # noqa: RUF012 - shared: it is one list for all queues

    def __getattribute__(self, name: str) -> Any:
        if name in {"clock", "tick", "synchronise", "block", "put", "pop"}:
            Watched.used.append(object.__getattribute__(self, "id"))
        return object.__getattribute__(self, name)


@pytest.mark.parametrize("blocking", list(Blocking))
def test_locality_each_step_uses_one_queue(blocking: Blocking) -> None:
    queues = [Watched(at) for at in range(4)]
    to = queues[1:2] if blocking is Blocking.NONE else queues
    multicast = Multicast(queues[0], to, Message("a", 1, PEERS, b""), blocking)
    while ready := multicast.ready:
        Watched.used.clear()
        multicast.do(ready[-1])
        assert set(Watched.used) == {ready[-1].queue.id}


class Counted(int):
    """A clock value that counts its comparisons."""

    compared = 0

    def __lt__(self, other: int) -> bool:
        Counted.compared += 1
        return int(self) < int(other)

    __hash__ = int.__hash__


@pytest.mark.parametrize("length", [100, 1_000, 10_000])
def test_cost_of_a_queue_operation_is_logarithmic(length: int) -> None:
    queue: Queue[None] = Queue(0, clock=length + 1)
    for value in range(length, 0, -1):  # the worst order for a heap
        Counted.compared = 0
        queue.put(Stamp(Counted(value), 1), None)
        assert (value < length) <= Counted.compared <= log2(length) + 1
    while True:
        Counted.compared = 0
        if queue.pop() is None:
            break
        assert Counted.compared <= 2 * (log2(length) + 1)


def test_cost_of_a_multicast_is_two_queue_operations_a_destination() -> None:
    queues: list[Queue[str]] = [Queue(at) for at in range(10)]
    multicast, done = Multicast(queues[0], queues[1:], "m"), list[What]()
    while ready := multicast.ready:
        multicast.do(ready[0])
        done.append(ready[0].what)
    assert [done.count(what) for what in (What.BLOCK, What.SYNCHRONISE, What.QUEUE)] == [9] * 3
    assert done.count(What.SYNCHRONISE_SENDER) == done.count(What.TICK) == 1


# ---- a multicast's steps ----


def whats(multicast: Multicast[Any]) -> list[What]:
    """Return the ready messages."""
    return [step.what for step in multicast.ready]


def test_steps_of_a_multicast() -> None:
    sender, one, other = Queue[str](0, clock=2), Queue[str](1, clock=7), Queue[str](2, clock=4)
    multicast = Multicast(sender, [one, other], "m")
    assert whats(multicast) == [What.BLOCK] * 2
    multicast.do(multicast.ready[1])
    multicast.do(multicast.ready[0])
    assert whats(multicast) == [What.SYNCHRONISE_SENDER]
    multicast.do(multicast.ready[0])
    assert sender.clock == 7
    assert whats(multicast) == [What.TICK]
    multicast.do(multicast.ready[0])
    assert multicast.stamp == (8, 0)
    assert whats(multicast) == [What.SYNCHRONISE] * 2
    multicast.do(multicast.ready[0])
    assert (one.clock, other.clock) == (8, 4)
    with pytest.raises(LocalProtocolError, match="QUEUE at queue 1 is not its turn"):
        multicast.do(Step(What.QUEUE, one))
    multicast.do(multicast.ready[0])
    assert (one.clock, other.clock) == (8, 8)
    assert whats(multicast) == [What.QUEUE] * 2
    multicast.finish()
    assert one.pop() == other.pop() == ((8, 0), "m")


@pytest.mark.parametrize("destinations", [1, 2, 7])
def test_the_steps_of_a_multicast_are_bounded(destinations: int) -> None:
    for blocking, most in ((Blocking.AT_CLOCK, 3), (Blocking.AT_ESTIMATE, 4)):
        queues: list[Queue[str]] = [Queue(at, clock=at) for at in range(destinations)]
        multicast = Multicast(Queue(99), queues, "m", blocking)
        steps = 0
        while ready := multicast.ready:
            multicast.do(ready[0])
            steps += 1
        assert steps <= most * destinations + (2 if blocking is Blocking.AT_CLOCK else 3)


@given(events=schedules)
def test_a_message_waits_only_for_what_was_under_way_when_its_queue_was_synchronised(
    events: Events,
) -> None:
    run = Run(clocks=(0, 5, 2))
    waits: dict[tuple[Message, str], set[Message]] = {}
    queued: set[tuple[Message, str]] = set()
    names = {queue: name for name, queue in run.queues.items()}
    for what, which, to in events:
        if what < 2:
            run.start(PEERS[which % 3], [name for at, name in enumerate(PEERS) if to >> at & 1])
        elif run.under_way:
            message = list(run.under_way)[which % len(run.under_way)]
            for _ in range(to):
                if message in run.under_way:
                    step = run.step(message, which)
                    place = message, names[step.queue]
                    if step.what is What.SYNCHRONISE:
                        waits[place] = set(run.under_way) - {message}
                    elif step.what is What.QUEUE:
                        queued.add(place)
    for message, name in queued:
        for other in waits[message, name]:
            run.finish(other)
        run.take_all()
        assert message in run.history.delivered[name]


# ---- giving up ----


def test_a_multicast_that_is_given_up_blocks_nobody() -> None:
    for steps in range(6):  # steps up to the last one before the first message is queued
        run = Run()
        lost = run.start("a", "bc")
        for _ in range(steps):
            run.step(lost)
        later = run.send("a", "bc")
        run.abort(lost)
        run.take_all()
        assert run.history.delivered == {"b": [later], "c": [later]}
        assert [len(queue) for queue in run.queues.values()] == [0, 0, 0]


def test_without_an_abort_its_blocks_hold_back_for_ever() -> None:
    run = Run()
    lost = run.start("a", "bc")
    run.step(lost)  # one block is put, at b
    later = run.send("a", "bc")
    run.take_all()
    assert run.history.delivered == {"c": [later]}


def test_what_somebody_may_have_received_cannot_be_given_up() -> None:
    run = Run()
    message = run.start("a", "bc")
    multicast = run.under_way[message]
    while multicast.state is State.UNDER_WAY:
        run.step(message)
    states = [multicast.state]
    with pytest.raises(LocalProtocolError, match="queued at 1 of 2 queues"):
        multicast.abort()
    multicast.finish()
    states.append(multicast.state)
    assert states == [State.COMMITTED, State.FINISHED]


def test_an_interrupted_multicast_is_aborted_or_finished_if_it_has_begun_to_arrive() -> None:
    def interrupted(multicast: Multicast[str], until: State) -> None:
        with multicast:
            multicast.do(multicast.ready[0])
            while multicast.state is not until:
                multicast.do(multicast.ready[0])
            raise ZeroDivisionError

    b, c = queues = [Queue[str](1), Queue[str](2)]
    multicast = Multicast(Queue(0), queues, "never")
    with pytest.raises(ZeroDivisionError):
        interrupted(multicast, State.UNDER_WAY)
    assert multicast.state is State.ABORTED
    multicast = Multicast(Queue(0), queues, "begun")
    with pytest.raises(ZeroDivisionError):
        interrupted(multicast, State.COMMITTED)
    assert multicast.state is State.FINISHED
    multicast = Multicast(Queue(0), queues, "twice")
    multicast.abort()
    multicast.abort()
    assert [queue.pop() for queue in (b, c)] == [((1, 0), "begun")] * 2
    assert [queue.pop() for queue in (b, c)] == [None, None]


def test_a_multicast_needs_destinations_and_blocks() -> None:
    queue: Queue[str] = Queue(0)
    with pytest.raises(LocalProtocolError, match="a message to 0 queues with AT_CLOCK"):
        Multicast(queue, [], "m")
    with pytest.raises(LocalProtocolError, match="a message to 2 queues with NONE"):
        Multicast(queue, [queue, Queue(1)], "m", Blocking.NONE)


def test_a_unicast_without_a_block_may_come_after_a_higher_stamp() -> None:
    """It holds nothing back; nobody else gets it, so nobody sees the stamps."""
    run = Run()
    late = run.start("a", "b", Blocking.NONE)
    while run.under_way[late].ready[0].what is not What.QUEUE:
        run.step(late)
    early = run.send("c", "bc")
    assert run.take("b") == early
    run.end()
    assert run.history.delivered["b"] == [early, late]
    assert run.stamps["b"] == sorted(run.stamps["b"], reverse=True)
    assert {Order.CAUSAL, Order.TOTAL} <= run.history.held()


def test_a_block_at_the_estimate_holds_less_back() -> None:
    """The sender's clock is at 5: no stamp of its can be below 6, so nothing below need wait."""
    held_back = {}
    for blocking in (Blocking.AT_CLOCK, Blocking.AT_ESTIMATE):
        run = Run(clocks=(5, 0, 0))
        slow = run.start("a", "b", blocking)
        while run.under_way[slow].ready[0].what is not What.TICK:
            run.step(slow)
        quick = run.send("c", "b")
        held_back[blocking] = run.take("b") != quick
        run.end()
        assert run.history.delivered["b"] == [quick, slow]
    assert held_back == {Blocking.AT_CLOCK: True, Blocking.AT_ESTIMATE: False}


# ---- failures, and orders that are not promised ----


def test_a_plain_fifo_is_not_consistent() -> None:
    """One multicast overtakes another one on its way round the destinations."""
    run = Run(way=plain, queue=FifoQueue)
    first, second = run.start("a", "bc"), run.start("a", "bc")
    run.step(first)
    run.finish(second)
    run.end()
    assert run.history.delivered == {"b": [first, second], "c": [second, first]}
    assert not run.history.broken(Order.CAUSAL)


def test_a_plain_fifo_is_not_causal() -> None:
    """A reaction to an early copy arrives before the second copy."""
    run = Run(way=plain, queue=FifoQueue)
    cause = run.start("a", "bc")
    run.step(cause)
    assert run.take("b") == cause
    effect = run.send("b", "c")
    run.end()
    assert run.history.delivered["c"] == [effect, cause]
    assert run.history.broken(Order.CAUSAL)


def test_queueing_before_all_are_synchronised_is_revealed_by_a_side_channel() -> None:
    """b receives, and tells c by a telephone; what c then sends to a has a low stamp at a."""
    run = Run(way=HastyMulticast, clocks=(0, 5, 0))
    cause = run.start("b", "ab")
    while run.take("b") != cause:
        run.step(cause, which=1)
    effect = run.send("c", "a")
    run.end()
    assert run.history.delivered["a"] == [effect, cause]
    assert run.history.broken(Order.CAUSAL)


@pytest.mark.parametrize("order", [Order.TOTAL, pytest.param(Order.CAUSAL, marks=pytest.mark.long)])
def test_schedules_that_break_a_plain_fifo_are_found(order: Order) -> None:
    def breaks(events: Events) -> bool:
        return bool(play(events, way=plain, queue=FifoQueue).history.broken(order))

    assert breaks(example_of(schedules, breaks))


stories = st.tuples(
    st.lists(st.sampled_from([0, 5]), min_size=3, max_size=3),  # the clocks
    st.lists(st.integers(0, 2), min_size=4, max_size=12),  # steps of a's multicast to all
    st.sampled_from(PEERS),  # the peer that then receives, and calls
    st.sampled_from(PEERS),  # the peer that is called, and sends
    st.sampled_from(PEERS),  # the destination of that message
)
Story = tuple[list[int], list[int], str, str, str]


def tell(story: Story, way: Any) -> Run:
    """Interrupt a multicast; somebody takes and tells another one, who sends."""
    clocks, steps, taker, sender, to = story
    run = Run(way=way, clocks=clocks)
    message = run.start("a", PEERS)
    for which in steps:
        if message in run.under_way:
            run.step(message, which)
    run.take(taker)
    run.send(sender, to, Blocking.NONE)
    run.end()
    return run


@pytest.mark.verification
def test_a_story_that_reveals_the_known_bug_is_found() -> None:
    def breaks(story: Story) -> bool:
        return bool(tell(story, HastyMulticast).history.broken(Order.CAUSAL))

    found = example_of(stories, breaks)
    assert breaks(found)
    assert not tell(found, Multicast).history.broken(Order.CAUSAL)


def against_time(run: Run) -> bool:
    """Whether no one order of all messages has every cause before its effects."""
    queue = {name: list(messages) for name, messages in run.history.delivered.items()}
    left = set(run.history.sent)
    while left:
        for message in left:
            first = all(message not in each or each[0] == message for each in queue.values())
            if first and not run.history.causes(message) & left:
                left.remove(message)
                queue = {name: [m for m in each if m != message] for name, each in queue.items()}
                break
        else:
            return True
    return False


def interrupted(clocks: list[int], steps: int, unicasts: list[tuple[str, str]]) -> Run:
    """d begins to send to a and b; others send from end to end, while it stands still."""
    run = Run("abcd", clocks=clocks)
    slow = run.start("d", "ab")
    for _ in range(steps):
        run.step(slow)
    for sender, to in unicasts:
        run.send(sender, to, Blocking.NONE)
    run.end()
    return run


def test_one_order_of_all_may_contradict_the_time_of_sending() -> None:
    """slow < late at a, early < slow at b; but late was sent before early. Nobody gets both.

    A global lock would not do that. bus1 promises less: causes first for those who get both.
    """
    run = interrupted([0, 0, 9, 5], 2, [("c", "a"), ("b", "b")])  # the blocks at a and at b are put
    slow, late, early = run.history.sent
    assert late in run.history.causes(early)
    assert run.history.delivered == {"a": [slow, late], "b": [early, slow]}
    assert {Order.CAUSAL, Order.TOTAL} <= run.history.held()
    assert against_time(run)


@pytest.mark.long
def test_such_a_contradiction_is_found() -> None:
    found = example_of(
        st.tuples(
            st.lists(st.integers(0, 9), min_size=4, max_size=4),
            st.integers(0, 6),
            st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("ab")), max_size=2),
        ),
        lambda found: against_time(interrupted(*found)),
    )
    assert {Order.CAUSAL, Order.TOTAL} <= interrupted(*found).history.held()
