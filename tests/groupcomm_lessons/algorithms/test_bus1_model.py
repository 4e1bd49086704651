"""bus1 beside a bus with one global lock: no peer can distinguish them by its messages."""

from collections import deque

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from groupcomm_lessons.algorithms.bus1.multicast import Blocking, State
from groupcomm_lessons.algorithms.process import Message, Order
from tests.groupcomm_lessons.algorithms.bus import PEERS, Run


class LockedBus:
    """The model: a lock over all queues lets one multicast through at a time."""

    def __init__(self) -> None:
        self.queues: dict[str, deque[Message]] = {name: deque() for name in PEERS}

    def send(self, message: Message) -> None:
        for name in message.destinations:
            self.queues[name].append(message)


class Bus1Machine(RuleBasedStateMachine):
    """Multicasts start, stop between any two of their steps, and go on; peers take when they like.

    At the end there must be an order in which the model, sending the same messages, gives every
    peer what it got; and no peer may get an effect before its cause.
    """

    def __init__(self) -> None:
        super().__init__()
        self.run = Run()

    @rule(
        sender=st.sampled_from(PEERS),
        to=st.sets(st.sampled_from(PEERS), min_size=1),
        unicast=st.booleans(),
        estimate=st.booleans(),
    )
    def start(self, sender: str, to: set[str], *, unicast: bool, estimate: bool) -> None:
        blocking = Blocking.AT_ESTIMATE if estimate else Blocking.AT_CLOCK
        if unicast and len(to) == 1:
            blocking = Blocking.NONE
        self.run.start(sender, sorted(to), blocking)

    @precondition(lambda self: self.run.under_way)
    @rule(data=st.data(), steps=st.integers(1, 6))
    def go_on(self, data: st.DataObject, steps: int) -> None:
        message = data.draw(st.sampled_from(list(self.run.under_way)))
        for _ in range(steps):
            if message in self.run.under_way:
                self.run.step(message, data.draw(st.integers(0, len(PEERS) - 1)))

    @precondition(lambda self: any(map(self.is_under_way, self.run.under_way)))
    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        some = [message for message in self.run.under_way if self.is_under_way(message)]
        self.run.abort(data.draw(st.sampled_from(some)))

    def is_under_way(self, message: Message) -> bool:
        return self.run.under_way[message].state is State.UNDER_WAY

    @rule(peer=st.sampled_from(PEERS))
    def take(self, peer: str) -> None:
        self.run.take(peer)

    @invariant()
    def causes_come_first(self) -> None:
        assert not self.run.history.broken(Order.CAUSAL)

    def teardown(self) -> None:
        self.run.end()
        history = self.run.history
        assert {message for _, message in history.missing} == self.run.aborted
        assert not history.twice
        assert {Order.CAUSAL, Order.TOTAL} <= history.held()
        model = LockedBus()
        for message in self.run.one_order():
            model.send(message)
        for name in PEERS:
            assert list(model.queues[name]) == history.delivered.get(name, [])


TestBus1 = Bus1Machine.TestCase
