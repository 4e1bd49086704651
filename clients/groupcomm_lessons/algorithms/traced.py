"""A watched process: its steps as trace events, whichever algorithm it runs.

Messages are watched from outside: a message that the process has received and neither delivered nor
refused is in its buffer. The process itself reports its inner state (a clock, a path). Packets
without a message pass through, unless the process has a word for them (`Process.says`): then they
are messages of their own, named by that word: ``q-request``.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from groupcomm.trace.steps import AlgorithmStep, MessageId, StepTrace, TraceClock
from groupcomm_lessons.algorithms.process import Message, Name, Packet, Process, Step


class Said:
    """The names of packets without a message, from their sending to their receipt.

    Copies of one packet to several processes have one name; equal packets in flight cannot be told
    apart, and count as coming in the order of their sending.
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._under_way: dict[Packet, list[MessageId]] = {}

    def sent(self, word: str, copies: Iterable[Packet]) -> MessageId:
        """Name the packets that are sent."""
        copies = list(copies)
        name = f"{copies[0].source}-{word}"
        self._counts[name] += 1
        for packet in copies:
            self._under_way.setdefault(packet, []).append((name, self._counts[name]))
        return name, self._counts[name]

    def received(self, packet: Packet) -> MessageId | None:
        """Return the name of a packet that has come, if it has one."""
        names = self._under_way.get(packet)
        return names.pop(0) if names else None


class Traced:
    """A watcher of one process.

    Args:
        process: the process, which is used through this object from now on.
        clock: gives the steps their times.
        record: records the steps.
        said: the same object for all processes of a network.
    """

    def __init__(
        self,
        process: Process,
        clock: TraceClock,
        record: Callable[[AlgorithmStep], object],
        said: Said,
    ) -> None:
        self.process = process
        self._said = said
        self._trace = StepTrace(clock, record, process.me)
        self._sent: set[Message] = set()
        self._buffered: set[Message] = set()
        process.watch(self._trace)

    def send(self, data: bytes, destinations: Iterable[Name] | None = None) -> Step:
        """See `Process.send`."""
        return self.accept(self.process.send(data, destinations))

    def receive(self, packet: Packet) -> Step:
        """See `Process.receive`."""
        message = packet.message
        told = self._said.received(packet) if message is None else message.id
        if told is None:
            self._trace.passed("a packet without a message")
        else:
            self._trace.received(told, packet.source)
        return self.accept(self.process.receive(packet))

    def accept(self, step: Step) -> Step:
        """Record the results of any call to the process."""
        for packet in step.packets:
            self._note_sent(packet.message, packet)
        for message in step.deliveries:
            self._note_sent(message, None)
            if message in self._buffered:
                self._buffered.remove(message)
                self._trace.took(message.id)
            self._trace.delivered(message.id)
        self._note_buffered()
        self._note_said(step)
        return step

    def _note_said(self, step: Step) -> None:
        alike: dict[str, list[Packet]] = {}
        for packet in step.packets:
            if packet.message is None and self.process.says(packet):
                alike.setdefault(str(packet.stamp), []).append(packet)
        for stamp, copies in alike.items():
            message = self._said.sent(self.process.says(copies[0]), copies)
            to = [packet.destination for packet in copies]
            self._trace.sent(message, to, stamp, copies[0].stamp_bytes)

    def _note_sent(self, message: Message | None, packet: Packet | None) -> None:
        if message is None or message.sender != self.process.me or message in self._sent:
            return
        self._sent.add(message)
        stamped = packet is not None and packet.stamp is not None
        stamp, size = (str(packet.stamp), packet.stamp_bytes) if packet and stamped else ("", 0)
        self._trace.sent(message.id, message.destinations, stamp, size)

    def _note_buffered(self) -> None:
        waiting = set(self.process.waiting)
        for message in sorted(waiting - self._buffered):
            self._note_sent(message, None)
            self._trace.buffered(message.id, self.process.awaited(message))
        self._buffered = waiting
