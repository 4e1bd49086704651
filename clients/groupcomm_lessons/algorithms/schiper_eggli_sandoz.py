"""Causal order for unicast and multicast: each message names earlier sendings to others.

Source: A. Schiper, J. Eggli, A. Sandoz, "A New Algorithm to Implement Causal Ordering", WDAG 1989,
LNCS 392. It keeps causal order, so FIFO order too, for any destinations over any channels. Its
stamps have at most a vector for each member.

Each process keeps its vector, and a buffer of pairs (process, vector): for each other process the
vector of the latest messages that it knows to have been sent there. The vector counts *all* events:
a process counts itself up as it sends, as it receives and as it delivers. A message carries its
sender's vector and whole buffer; after that, the vector is noted in the buffer for the message's
destinations. A receiver delivers if the received buffer has no vector for itself, or one that its
own vector has reached. Then it raises its vector and its buffer to the maximum of both, and checks
its waiting messages again.

`SchiperEggliSandozSends` counts sends only. The rule asks no more of a count than that it tells
apart the messages of its process, which a number that skips receives does as well: both deliver the
same messages at the same times. Counts of sends are smaller, and so are stamps that use few bytes
for small numbers; vectors of all events compare any two events, not only two messages.

The paper sends to one process. A multicast here is one message with one stamp for all, so a
receiver also notes that it went to the other destinations: the stamp, made before, cannot say so.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from groupcomm.clocks.vector import Relation, VectorClock
from groupcomm_lessons.algorithms.buffering import Buffering, Received
from groupcomm_lessons.algorithms.process import Name, Order, Packet, Step


class SentStamp(NamedTuple):
    """The stamp of a message.

    Attributes:
        clock: the events of each process that its sender knows, this sending included.
        sent_to: for each process, the clock that it must have reached before it delivers this
            message.
    """

    clock: VectorClock[Name]
    sent_to: Mapping[Name, VectorClock[Name]]

    def concurrent_with(self, other: "SentStamp") -> bool:
        """Return whether neither message may have caused the other."""
        return self.clock.concurrent_with(other.clock)


class SchiperEggliSandoz(Buffering):
    """A process that mixes unicast, multicast and broadcast at will; it counts all events."""

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
        if own:
            self._count_event()
        return Step(self._fan_out(message, stamp, message.destinations), own)

    def receive(self, packet: Packet) -> Step:
        """See `Buffering.receive`."""
        self._count_event()
        return super().receive(packet)

    def _count_event(self) -> None:
        """Count a receipt or a delivery."""
        self._clock.tick(self.me)

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
        self._count_event()

    def _note(self, name: Name, clock: VectorClock[Name]) -> None:
        """Raise the record of messages sent to another process; clocks in stamps never change."""
        if name == self.me:
            return  # it was delivered here: otherwise this message would not be next
        noted = clock.copy()
        if name in self._sent_to:
            noted.merge(self._sent_to[name])
        self._sent_to[name] = noted


class SchiperEggliSandozSends(SchiperEggliSandoz):
    """A process that counts sends only, so that counts are smaller."""

    def _count_event(self) -> None:
        """Leave receipts and deliveries uncounted."""
