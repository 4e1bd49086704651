"""Lamport's clocks alone: a message is stamped, and delivered when it comes.

Source: L. Lamport, "Time, Clocks, and the Ordering of Events in a Distributed System", CACM 21(7),
1978, IR1 and IR2.

It claims no order. Its stamps sort all messages in line with causality, but only afterwards: a
process that has one message cannot tell from the clocks whether another with a lower stamp is in
flight. `acknowledged` and `site_horizons` wait until none can be.
"""

from collections.abc import Iterable

from groupcomm.clocks.lamport import LamportClock
from groupcomm_lessons.algorithms.process import Message, Name, Packet, Process, Step


class LamportClocks(Process):
    """A process with a Lamport clock; a stamp is the clock of the sending.

    Attributes:
        stamped: the delivered messages, by (clock, sender) of the sending, in the order of
            delivery.
    """

    def __init__(self, me: Name, members: Iterable[Name]) -> None:
        super().__init__(me, members)
        self._clock = LamportClock()
        self.stamped: list[tuple[int, Name, Message]] = []

    def send(self, data: bytes, destinations: Iterable[Name] | None = None) -> Step:
        """See `Process.send`."""
        message = self._message(data, destinations)
        clock = self._clock.send()
        own = self._deliver(clock, message) if self.me in message.destinations else ()
        return Step(self._fan_out(message, clock, message.destinations), own)

    def receive(self, packet: Packet) -> Step:
        """Deliver the message."""
        assert packet.message is not None
        return Step(deliveries=self._deliver(packet.stamp, packet.message))

    def _deliver(self, clock: int, message: Message) -> tuple[Message]:
        """Deliver a message; a delivery is an event, even of an own message."""
        self._clock.receive(clock)
        self.stamped.append((clock, message.sender, message))
        return (message,)

    @property
    def waiting(self) -> tuple[Message, ...]:
        """No message, as none waits."""
        return ()
