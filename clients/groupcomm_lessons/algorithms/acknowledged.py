"""Acknowledged stamps: the order of Lamport clocks, kept until nothing earlier can come.

Source: L. Lamport, "Time, Clocks, and the Ordering of Events in a Distributed System", CACM 21(7),
1978, sections "Ordering the Events Totally" and the state machines after it. Its request queue is
here the order of all messages, with nothing to release.

Rule: a message carries its sender's clock; (clock, sender) is its stamp. Every process, the sender
    too, answers it to all with a later stamp of its own. The lowest message that a process has
    queued is delivered once a later packet has come from every process: over channels that keep
    their order no lower one can follow. A message costs (members + 1) * (members - 1) packets.

It keeps all three orders: messages that a process sends after it has sent or delivered a message
have a higher clock. Without channels that keep their order it keeps none.
"""

from collections.abc import Iterable
from heapq import heappop, heappush

from groupcomm.clocks.lamport import LamportClock
from groupcomm_lessons.algorithms.process import Message, Name, Order, Packet, Process, Step


class AcknowledgedStamps(Process):
    """A process that queues by stamp; a stamp is a clock, and a packet without a message an answer.

    All members get every message; a member that is not a destination only notes its place.
    """

    claims = frozenset(Order)
    needs_fifo = True

    def __init__(self, me: Name, members: Iterable[Name]) -> None:
        super().__init__(me, members)
        self._clock = LamportClock()
        self._latest = dict.fromkeys(self.members, 0)  # the last clock of each member
        self._queue: list[tuple[int, Name, Message]] = []  # a heap

    def send(self, data: bytes, destinations: Iterable[Name] | None = None) -> Step:
        """See `Process.send`."""
        message = self._message(data, destinations)
        clock = self._clock.send()
        heappush(self._queue, (clock, self.me, message))
        packets = self._fan_out(message, clock, self.members)
        return Step(packets + self._answer(), self._deliver())

    def receive(self, packet: Packet) -> Step:
        """Queue a message and answer it; in any case, note the progress of its sender."""
        self._latest[packet.source] = packet.stamp
        self._clock.receive(packet.stamp)
        answers: tuple[Packet, ...] = ()
        if packet.message is not None:
            heappush(self._queue, (packet.stamp, packet.source, packet.message))
            answers = self._answer()
        return Step(answers, self._deliver())

    def _answer(self) -> tuple[Packet, ...]:
        """Answer to all; this process receives its own answer at once."""
        clock = self._latest[self.me] = self._clock.send()
        return self._fan_out(None, clock, self.members)

    def _deliver(self) -> tuple[Message, ...]:
        deliveries = []
        while self._queue and self._nothing_lower_than(*self._queue[0][:2]):
            message = heappop(self._queue)[2]
            if self.me in message.destinations:
                deliveries.append(message)
        return tuple(deliveries)

    def _nothing_lower_than(self, clock: int, sender: Name) -> bool:
        """Return whether a later packet has come from every process."""
        return all((latest, name) > (clock, sender) for name, latest in self._latest.items())

    @property
    def waiting(self) -> tuple[Message, ...]:
        """Return the messages that wait, in the order of delivery; see `Process.waiting`."""
        return tuple(each[2] for each in sorted(self._queue) if self.me in each[2].destinations)
