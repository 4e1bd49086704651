"""Causal order for unicast and multicast: each message tells what others were sent before it.

Source: A. Schiper, J. Eggli, A. Sandoz, "A New Algorithm to Implement Causal Ordering", WDAG 1989,
LNCS 392. It keeps causal order, so FIFO order too, for any destinations over any channels. Its
stamps have at most a vector for each member.

Each process keeps its vector, and for each other process the vector of the latest messages that it
knows to have been sent there. A message carries both; after that, its own vector is noted for its
destinations. A receiver waits until its vector has reached the one that is noted for it, then
raises all that it keeps to what came.

The paper sends to one process. A multicast here is one message with one stamp for all, so a
receiver also notes that it went to the other destinations: the stamp, made before, cannot say so.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from groupcomm.algorithms.buffering import Buffering, Received
from groupcomm.algorithms.process import Name, Order, Step
from groupcomm.clocks.vector import Relation, VectorClock


class SentStamp(NamedTuple):
    """What a message carries.

    Attributes:
        clock: messages that were sent by each process, as its sender knows of them, this included.
        sent_to: by process, the clock that it must have reached before it delivers this message.
    """

    clock: VectorClock[Name]
    sent_to: Mapping[Name, VectorClock[Name]]

    def concurrent_with(self, other: "SentStamp") -> bool:
        """Whether neither message may have caused the other."""
        return self.clock.concurrent_with(other.clock)


class SchiperEggliSandoz(Buffering):
    """Unicast, multicast and broadcast, mixed at will."""

    claims = frozenset({Order.FIFO, Order.CAUSAL})

    def __init__(self, me: Name, members: Iterable[Name]) -> None:
        super().__init__(me, members)
        self._clock = VectorClock(self.members)
        self._sent_to: dict[Name, VectorClock[Name]] = {}

    def send(self, data: bytes, destinations: Iterable[Name] | None = None) -> Step:
        """See `Process.send`; to itself, the sender delivers at once."""
        message = self._message(data, destinations)
        self._clock.tick(self.me)
        stamp = SentStamp(self._clock.copy(), self._sent_to.copy())
        for name in message.destinations:
            self._note(name, stamp.clock)
        own = (message,) if self.me in message.destinations else ()
        return Step(self._fan_out(message, stamp, message.destinations), own)

    def _is_next(self, received: Received) -> bool:
        awaited = received.stamp.sent_to.get(self.me)
        return awaited is None or awaited.compare(self._clock) in (Relation.BEFORE, Relation.EQUAL)

    def _count(self, received: Received) -> None:
        message, stamp = received
        for name, clock in stamp.sent_to.items():
            self._note(name, clock)
        for name in message.destinations:
            self._note(name, stamp.clock)
        self._clock.merge(stamp.clock)

    def _note(self, name: Name, clock: VectorClock[Name]) -> None:
        """Raise what was sent to another process; clocks in stamps are never changed."""
        if name == self.me:
            return  # delivered here, or this would not be next
        noted = clock.copy()
        if name in self._sent_to:
            noted.merge(self._sent_to[name])
        self._sent_to[name] = noted
