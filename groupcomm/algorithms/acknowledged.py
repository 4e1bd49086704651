"""Acknowledged stamps: the order of Lamport clocks, kept until nothing earlier can come.

Source: L. Lamport, "Time, Clocks, and the Ordering of Events in a Distributed System", CACM 21(7),
1978, sections "Ordering the Events Totally" and the state machines behind it. Its request queue is
here the order of all messages, with nothing to release.

Rule: a message carries its sender's clock; (clock, sender) is its stamp. Everybody, the sender,
too, answers it to everybody with a stamp of its own, which is later. The lowest message that a
process has queued is delivered once something later has come from every process: over channels that
keep their order nothing below it can follow. A message costs (members + 1) * (members - 1) packets.

Keeps all three orders: what a process sends after it has sent or delivered a message has a higher
clock. Without channels that keep their order it keeps none.
"""

from collections.abc import Iterable
from heapq import heappop, heappush

from groupcomm.algorithms.process import Message, Name, Order, Packet, Process, Step
from groupcomm.clocks.lamport import LamportClock


class AcknowledgedStamps(Process):
    """Queues by stamp; an integer stamp is a clock, and a packet without a message an answer.

    All members get every message; who is no destination only takes note of its place.
    """

    claims = frozenset(Order)
    needs_fifo = True

    def __init__(self, me: Name, members: Iterable[Name]) -> None:
        super().__init__(me, members)
        self._clock = LamportClock()
        self._latest = dict.fromkeys(self.members, 0)  # clock of the last that came from each
        self._queue: list[tuple[int, Name, Message]] = []  # a heap

    def send(self, data: bytes, destinations: Iterable[Name] | None = None) -> Step:
        """See `Process.send`."""
        message = self._message(data, destinations)
        clock = self._clock.send()
        heappush(self._queue, (clock, self.me, message))
        packets = self._fan_out(message, clock, self.members)
        return Step(packets + self._answer(), self._deliver())

    def receive(self, packet: Packet) -> Step:
        """Queue a message and answer it; either way its sender has got as far as its stamp."""
        self._latest[packet.source] = packet.stamp
        self._clock.receive(packet.stamp)
        answers: tuple[Packet, ...] = ()
        if packet.message is not None:
            heappush(self._queue, (packet.stamp, packet.source, packet.message))
            answers = self._answer()
        return Step(answers, self._deliver())

    def _answer(self) -> tuple[Packet, ...]:
        """To all; what a process tells itself comes at once."""
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
        """Whether something later has come from everybody."""
        return all((latest, name) > (clock, sender) for name, latest in self._latest.items())

    @property
    def waiting(self) -> tuple[Message, ...]:
        """See `Process.waiting`; in the order of delivery."""
        return tuple(each[2] for each in sorted(self._queue) if self.me in each[2].destinations)
