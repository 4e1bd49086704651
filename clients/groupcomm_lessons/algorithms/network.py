"""A network in memory: packets in flight, and the choice of the next one."""

from collections.abc import Callable, Iterable, Sequence

from groupcomm.trace.steps import AlgorithmStep
from groupcomm_lessons.algorithms.history import History
from groupcomm_lessons.algorithms.process import Message, Name, Packet, Process, Step
from groupcomm_lessons.algorithms.traced import Said, Traced


class Network:
    """A network: processes, the packets between them, and the history.

    Args:
        processes: all processes.
        record: records their steps; their times count sendings and arrivals.

    Attributes:
        now: the number of sendings and arrivals.
        processes: the processes by name.
        under_way: the packets in flight, in the order of their sending.
        history: the history of the users.
        packets: the number of packets that were sent.
        stamp_bytes: the size of all their stamps.
        most_waiting: the most messages that one process held back at once.
    """

    def __init__(
        self,
        processes: Iterable[Process],
        record: Callable[[AlgorithmStep], object] | None = None,
    ) -> None:
        self.processes: dict[Name, Process] = {process.me: process for process in processes}
        self.now = 0
        said = Said()
        self._traced = {
            name: Traced(process, self, record, said)
            for name, process in self.processes.items()
            if record is not None
        }
        self.under_way: list[Packet] = []
        self.history = History()
        self.packets = self.stamp_bytes = self.most_waiting = 0

    def send(
        self, sender: Name, data: bytes, destinations: Iterable[Name] | None = None
    ) -> Message | None:
        """Have a user send; return the message, if the process reports it in this step.

        Raises:
            LocalProtocolError: see `Process.send`.
        """
        process = self.processes[sender]
        self.now += 1
        step = self._endpoint(sender).send(data, destinations)
        messages = [packet.message for packet in step.packets if packet.message is not None]
        told = (*messages, *step.deliveries, *process.waiting)
        own = [m for m in told if m.sender == sender and m not in self.history.sent]
        sent = max(own, key=lambda m: m.number, default=None)
        if sent is not None:
            self.history.send(sent)
        self._accept(process, step)
        return sent

    @property
    def ready(self) -> Sequence[Packet]:
        """Return the packets that may come next: the first ones of channels that keep their
        order."""
        seen: set[tuple[Name, Name]] = set()
        found = []
        for packet in self.under_way:
            channel = packet.source, packet.destination
            if channel not in seen or not self.processes[packet.destination].needs_fifo:
                found.append(packet)
            seen.add(channel)
        return found

    def bring(self, packet: Packet) -> None:
        """Let a packet in flight arrive."""
        # Equal packets may be in flight; any of them can be used.
        self.under_way.remove(packet)
        process = self.processes[packet.destination]
        self.now += 1
        self._accept(process, self._endpoint(process.me).receive(packet))

    def bring_all(self) -> None:
        """Let all packets arrive, the oldest first, and those that they cause."""
        while self.under_way:
            self.bring(self.under_way[0])

    def accept(self, name: Name, step: Step) -> None:
        """Process the results of any other call to a process, as when its clock is set."""
        self.now += 1
        if name in self._traced:
            self._traced[name].accept(step)
        told = (*(packet.message for packet in step.packets), *step.deliveries)
        for message in told:
            if message and message.sender == name and message not in self.history.sent:
                self.history.send(message)
        self._accept(self.processes[name], step)

    def _endpoint(self, name: Name) -> Process | Traced:
        return self._traced.get(name) or self.processes[name]

    def _accept(self, process: Process, step: Step) -> None:
        for message in step.deliveries:
            self.history.deliver(process.me, message)
        self.under_way += step.packets
        self.packets += len(step.packets)
        self.stamp_bytes += sum(packet.stamp_bytes for packet in step.packets)
        self.most_waiting = max(self.most_waiting, len(process.waiting))
