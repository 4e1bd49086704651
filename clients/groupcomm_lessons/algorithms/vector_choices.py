"""Other ways to handle concurrent messages than that of Birman, Schiper and Stephenson.

Their rule (`vector`) needs no choice. These take a stricter view: deliveries form one path on which
every message may have caused the next, and arrivals are compared with the *stamp* of the last
message on it, with the process's own count. A message is then

- next, if it is one above the stamp in its sender's count, and equal in all others;
- later, if it is above in all other cases: it waits;
- concurrent, if neither is below the other: it is beside the path.

An error for it keeps every order. Delivery at once, flagged as concurrent, keeps none, since its
own causes may still be in flight; and the treatment of the stamp decides what is lost:

- The stamp is updated, to that of the concurrent message. Later messages that follow the *previous*
  ones name a count that the stamp has not, and are not processed.
- It is not updated. Later messages that follow *this* one are not processed, for the same reason.
  In both cases a later message is lost that follows the previous ones *and* this one. One that
  follows only what the stamp has left is beside the stamp again: delivered at once, and flagged.
- It advances to the maximum of both, which the source does not consider. Nothing is lost; a message
  comes before its cause all the same.

Messages carry true stamps: the process's own count, and the counts of all that it has delivered.
`vector_paths` keeps all paths.
"""

from abc import abstractmethod
from collections.abc import Iterable

from groupcomm.clocks.vector import Relation, VectorClock
from groupcomm_lessons.algorithms.buffering import Received
from groupcomm_lessons.algorithms.concurrency import ConcurrentMessage
from groupcomm_lessons.algorithms.process import Message, Name, Order, Packet, Step
from groupcomm_lessons.algorithms.vector import Vector


class VectorOrError(Vector):
    """A process that refuses a concurrent message. Its deliveries keep every order."""

    claims = frozenset(Order)

    def receive(self, packet: Packet) -> Step:
        """See `Buffering.receive`.

        Raises:
            ConcurrentMessage: the message is concurrent with one that was sent, delivered or
                buffered here.
        """
        assert packet.message is not None
        came = [self._clock, *(received.stamp for received in self._buffer)]
        if any(packet.stamp.concurrent_with(clock) for clock in came):
            self._trace.concurrent(packet.message.id)
            raise ConcurrentMessage(self.me, packet.message)
        return super().receive(packet)


class _AtOnce(Vector):
    """A process that delivers at once every message that is not later than its path.

    Attributes:
        flagged: messages that were delivered as concurrent, in the order of their delivery.
        stamp: the stamp that arrivals are compared with.
    """

    claims = frozenset[Order]()

    def __init__(self, me: Name, members: Iterable[Name]) -> None:
        super().__init__(me, members)
        self.flagged: list[Message] = []
        self.stamp = VectorClock(self.members)

    def send(self, data: bytes, destinations: Iterable[Name] | None = None) -> Step:
        """See `Vector.send`."""
        step = super().send(data, destinations)
        self.stamp.tick(self.me)
        return step

    def receive(self, packet: Packet) -> Step:
        """Deliver a message at once unless it is later, and then the next ones in the buffer."""
        assert packet.message is not None
        if packet.stamp.compare(self.stamp) is Relation.AFTER:
            return super().receive(packet)
        self._count(Received(packet.message, packet.stamp))
        return Step(deliveries=(packet.message, *self._pop_next()))

    def _is_next(self, received: Received) -> bool:
        return self.stamp.deliverable(received.stamp, received.message.sender)

    def _count(self, received: Received) -> None:
        relation: Relation = received.stamp.compare(self.stamp)
        match relation:
            case Relation.AFTER:
                self.stamp.tick(received.message.sender)
            case Relation.CONCURRENT:
                self._trace.concurrent(received.message.id)
                self.flagged.append(received.message)
                self._pass_beside(received.stamp)
            case Relation.BEFORE | Relation.EQUAL:
                pass
        self._clock.merge(received.stamp)

    @abstractmethod
    def _pass_beside(self, other: VectorClock[Name]) -> None:
        """Change the stamp, or keep it, for a concurrent message with another stamp."""


class VectorUpdating(_AtOnce):
    """A process that updates the stamp: it never processes messages that follow the previous
    ones."""

    def _pass_beside(self, other: VectorClock[Name]) -> None:
        own = self.stamp[self.me]
        self.stamp = other.copy()
        for _ in range(own - other[self.me]):
            self.stamp.tick(self.me)


class VectorNotUpdating(_AtOnce):
    """A process that keeps the stamp: it never processes messages that follow the concurrent
    one."""

    def _pass_beside(self, other: VectorClock[Name]) -> None:
        """Continue as if the message had not come."""


class VectorAdvancing(_AtOnce):
    """A process that advances the stamp to the maximum: it processes all, some before their
    causes."""

    def _pass_beside(self, other: VectorClock[Name]) -> None:
        self.stamp.merge(other)

    def _is_next(self, received: Received) -> bool:
        """Return whether a message is next, or the stamp has passed it while it was in the
        buffer."""
        later = received.stamp.compare(self.stamp) is Relation.AFTER
        return not later or super()._is_next(received)
