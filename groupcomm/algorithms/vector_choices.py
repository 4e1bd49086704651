"""What else one can do about a concurrent message than Birman, Schiper and Stephenson do.

Their rule (`vector`) needs no choice. These take a stricter view: what is delivered is one path on
which every message may have caused the next, and the vector is that of the last message on it. A
message is then

- next, if it is one above the vector in its sender's count, and equal in all others;
- later, if it is above in all else: it waits;
- concurrent, if neither vector is below the other: it is beside the path.

An error for it keeps every order. To deliver it at once loses no message, but keeps no order: its
own causes may still be under way. If the vector then advances to both, what is sent next names both
as causes, and waits for them. If it does not, what is sent next names the path alone, and overtakes
what was beside it. `vector_paths` keeps all paths.
"""

from abc import abstractmethod

from groupcomm.algorithms.buffering import Received
from groupcomm.algorithms.concurrency import ConcurrentMessage
from groupcomm.algorithms.process import Order, Packet, Step
from groupcomm.algorithms.vector import Vector
from groupcomm.clocks.vector import Relation


class VectorOrError(Vector):
    """Refuses a concurrent message. What it delivers is in every order."""

    claims = frozenset(Order)

    def receive(self, packet: Packet) -> Step:
        """See `Buffering.receive`.

        Raises:
            ConcurrentMessage: it is concurrent with what was sent, delivered or buffered here.
        """
        assert packet.message is not None
        came = [self._clock, *(received.stamp for received in self._buffer)]
        if any(packet.stamp.concurrent_with(clock) for clock in came):
            self._trace.concurrent(packet.message.id)
            raise ConcurrentMessage(self.me, packet.message)
        return super().receive(packet)


class _AtOnce(Vector):
    """Delivers whatever is not later than its path."""

    claims = frozenset[Order]()

    def _is_next(self, received: Received) -> bool:
        later = received.stamp.compare(self._clock) is Relation.AFTER
        return not later or super()._is_next(received)

    def _count(self, received: Received) -> None:
        if received.stamp.compare(self._clock) is Relation.AFTER:
            super()._count(received)
        else:
            self._trace.concurrent(received.message.id)
            self._count_beside(received)

    @abstractmethod
    def _count_beside(self, received: Received) -> None:
        """Note that a message is delivered that is beside the path."""


class VectorStaying(_AtOnce):
    """Delivers a concurrent message at once, and does not advance."""

    def _count_beside(self, received: Received) -> None:
        """The path goes on as if it had not come."""


class VectorAdvancing(_AtOnce):
    """Delivers a concurrent message at once, and advances to what both have."""

    def _count_beside(self, received: Received) -> None:
        self._clock.merge(received.stamp)
