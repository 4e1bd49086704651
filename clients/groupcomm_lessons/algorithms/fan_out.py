"""Plain fan-out: a message is sent to all unchanged, and delivered when it comes.

It claims nothing. Over channels that keep their order it is FIFO; it is neither causal nor total,
which the two counterexamples of docs/algorithms.md show.
"""

from collections.abc import Iterable

from groupcomm_lessons.algorithms.process import Message, Name, Packet, Process, Step


class FanOut(Process):
    """A process that sends, and delivers messages as they come."""

    def send(self, data: bytes, destinations: Iterable[Name] | None = None) -> Step:
        """See `Process.send`."""
        message = self._message(data, destinations)
        own = (message,) if self.me in message.destinations else ()
        return Step(self._fan_out(message, None, message.destinations), own)

    def receive(self, packet: Packet) -> Step:
        """Deliver the message."""
        assert packet.message is not None
        return Step(deliveries=(packet.message,))

    @property
    def waiting(self) -> tuple[Message, ...]:
        """No message, as none waits."""
        return ()
