"""Numbers between pairs: FIFO order for each pair, and no order for groups.

Source: common to all windows, as in V. Cerf, R. Kahn, "A Protocol for Packet Network
Intercommunication", IEEE Transactions on Communications 22(5), 1974. It keeps FIFO order over any
channels, so with two processes causal order too. Among three it is not causal: a multicast is a
number of unicasts, which nothing ties together.

Each process keeps for each other one the last number sent, the last one delivered, and a buffer
sorted by number. It delivers from the buffer as long as the first message there is the next.
"""

from collections.abc import Iterable
from heapq import heappop, heappush

from groupcomm_lessons.algorithms.process import Message, Name, Order, Packet, Process, Step


class Pair:
    """The state that a process keeps for one other.

    Attributes:
        sent, delivered: last numbers.
        buffer: a heap of numbers and messages.
    """

    def __init__(self) -> None:
        self.sent = 0
        self.delivered = 0
        self.buffer: list[tuple[int, Message]] = []

    def receive(self, number: int, message: Message) -> tuple[Message, ...]:
        """Buffer a message; return the messages that are next now."""
        heappush(self.buffer, (number, message))
        taken = []
        while self.buffer and self.buffer[0][0] == self.delivered + 1:
            self.delivered, following = heappop(self.buffer)
            taken.append(following)
        return tuple(taken)


class PairNumbers(Process):
    """A process with numbers for each of the others."""

    claims = frozenset({Order.FIFO})

    def __init__(self, me: Name, members: Iterable[Name]) -> None:
        super().__init__(me, members)
        self._pairs = {name: Pair() for name in self.members if name != self.me}

    def send(self, data: bytes, destinations: Iterable[Name] | None = None) -> Step:
        """See `Process.send`; to itself, the sender delivers at once."""
        message = self._message(data, destinations)
        own = (message,) if self.me in message.destinations else ()
        others = [name for name in message.destinations if name != self.me]
        return Step(tuple(self._packet(name, message) for name in others), own)

    def _packet(self, name: Name, message: Message) -> Packet:
        pair = self._pairs[name]
        pair.sent += 1
        return Packet(self.me, name, message, pair.sent)

    def receive(self, packet: Packet) -> Step:
        """See `Pair.receive`."""
        assert packet.message is not None
        pair = self._pairs[packet.source]
        return Step(deliveries=pair.receive(packet.stamp, packet.message))

    @property
    def waiting(self) -> tuple[Message, ...]:
        """See `Process.waiting`."""
        return tuple(message for pair in self._pairs.values() for _, message in sorted(pair.buffer))
