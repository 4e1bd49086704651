"""Orders in the recorded steps of algorithms, checked from sendings and deliveries alone.

The history knows no stamps, so an algorithm that stamps wrongly is found by its wrong deliveries.
Steps of filters on a connection (their process is a member, ``#user#daemon/7``) are left
out: a session has messages of all levels, and most of them promise no causal order.
"""

from collections.abc import Iterable

from groupcomm.trace.steps import Given, MessageId, StampedSent
from groupcomm_lessons.algorithms.history import Broken, History
from groupcomm_lessons.algorithms.process import Message


class StepOrders:
    """A builder of a history from steps.

    Attributes:
        history: the history so far.
        given: the deliveries, by process and message.
    """

    def __init__(self) -> None:
        self.history = History()
        self.given: dict[tuple[str, MessageId], Given] = {}
        self._sent: dict[MessageId, Message] = {}

    def feed(self, event: object) -> None:
        """Process the next event of a trace, if it is a sending or a delivery."""
        if isinstance(event, StampedSent):
            self._send(event)
        elif isinstance(event, Given):
            message = self._sent.get((event.s, event.m))
            if message is not None:
                self.history.deliver(event.p, message)
                self.given[event.p, message.id] = event

    def _send(self, event: StampedSent) -> None:
        if (event.s, event.m) not in self._sent and not event.p.startswith("#"):
            message = self._sent[event.s, event.m] = Message(event.s, event.m, event.to, b"")
            self.history.send(message)

    def proof(self, broken: Broken) -> tuple[Given, ...]:
        """Return the two deliveries of a broken promise, the later one first."""
        pair = (broken.second, broken.first)
        return tuple(self.given[broken.process, message.id] for message in pair)


def orders_of(events: Iterable[object]) -> StepOrders:
    """Return the history of a whole trace."""
    orders = StepOrders()
    for event in events:
        orders.feed(event)
    return orders
