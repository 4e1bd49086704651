"""A process that is watched: its steps as trace events, whichever algorithm it runs.

What comes and goes is seen from outside: a message that the process has received and neither
delivered nor refused is in its buffer. What is inside (a clock, a path), the process tells itself.
"""

from collections.abc import Callable, Iterable

from groupcomm.algorithms.process import Message, Name, Packet, Process, Step
from groupcomm.trace.steps import AlgorithmStep, Now, StepTrace


class Traced:
    """Watches one process.

    Args:
        process: that is used from now on through this.
        clock: gives the steps their times.
        record: takes the steps.
    """

    def __init__(
        self, process: Process, clock: Now, record: Callable[[AlgorithmStep], object]
    ) -> None:
        self.process = process
        self._trace = StepTrace(clock, record, process.me)
        self._sent: set[Message] = set()
        self._buffered: set[Message] = set()
        process.watch(self._trace)

    def send(self, data: bytes, destinations: Iterable[Name] | None = None) -> Step:
        """See `Process.send`."""
        return self.take(self.process.send(data, destinations))

    def receive(self, packet: Packet) -> Step:
        """See `Process.receive`."""
        message = packet.message
        if message is None:
            self._trace.passed("a packet without a message")
        else:
            self._trace.received(message.id, packet.source)
        return self.take(self.process.receive(packet))

    def take(self, step: Step) -> Step:
        """Record what comes of any call to the process."""
        for packet in step.packets:
            self._note_sent(packet.message, packet)
        for message in step.deliveries:
            self._note_sent(message, None)
            if message in self._buffered:
                self._buffered.remove(message)
                self._trace.took(message.id)
            self._trace.delivered(message.id)
        self._note_buffered()
        return step

    def _note_sent(self, message: Message | None, packet: Packet | None) -> None:
        if message is None or message.sender != self.process.me or message in self._sent:
            return
        self._sent.add(message)
        stamp, size = ("", 0) if packet is None else (str(packet.stamp), packet.stamp_bytes)
        self._trace.sent(message.id, message.destinations, stamp, size)

    def _note_buffered(self) -> None:
        waiting = set(self.process.waiting)
        for message in sorted(waiting - self._buffered):
            self._note_sent(message, None)
            self._trace.buffered(message.id, self.process.awaited(message))
        self._buffered = waiting
