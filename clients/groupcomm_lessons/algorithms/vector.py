"""Vector stamps: causal broadcast in which a message waits only for its causes.

Source: K. Birman, A. Schiper, P. Stephenson, "Lightweight Causal and Atomic Group Multicast", ACM
TOCS 9(3), 1991, section 5. It keeps causal order, so FIFO order too, over channels that keep none.

Each process counts its own broadcasts and those that it has delivered from each other. To send, it
raises its own count and attaches a copy of all. A message from p is next at q if its count of p is
one above q's and no other count is above q's. As its other counts may be below, q may
deliver concurrent messages in any order: one vector has many successors, and these are next
together. Two messages are concurrent if neither vector is below the other; `concurrent_with` of
the stamps tells. So they need no treatment here; `vector_choices` has other treatments, and their
losses.
"""

from collections.abc import Iterable

from groupcomm.clocks.vector import VectorClock
from groupcomm.trace.steps import MessageId, StepTrace
from groupcomm_lessons.algorithms.buffering import Buffering, Received
from groupcomm_lessons.algorithms.process import Name, Order, Step


class Vector(Buffering):
    """A process with the rule of Birman, Schiper and Stephenson; broadcasts only."""

    claims = frozenset({Order.FIFO, Order.CAUSAL})

    def __init__(self, me: Name, members: Iterable[Name]) -> None:
        super().__init__(me, members)
        self._clock = VectorClock(self.members)

    def watch(self, trace: StepTrace) -> None:
        """See `Process.watch`."""
        super().watch(trace)
        trace.created(dict(self._clock.items()))

    def send(self, data: bytes, destinations: Iterable[Name] | None = None) -> Step:
        """Send a message, and deliver it at once, as all its causes are here; see
        `Process.send`."""
        message = self._broadcast(data, destinations)
        self._clock.tick(self.me)
        return Step(self._fan_out(message, self._stamp(), self.members), (message,))

    def _stamp(self) -> VectorClock[Name]:
        """Return a copy of the clock, which counts on while the message is in flight."""
        return self._clock.copy()

    def _is_next(self, received: Received) -> bool:
        return self._clock.deliverable(received.stamp, received.message.sender)

    def _missing(self, received: Received) -> Iterable[MessageId]:
        sender = received.message.sender
        for name, count in received.stamp.items():
            if name not in self._clock:
                continue
            for number in range(self._clock[name] + 1, count + (name != sender)):
                yield name, number

    def _count(self, received: Received) -> None:
        self._clock.tick(received.message.sender)
