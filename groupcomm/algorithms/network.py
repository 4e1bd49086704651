"""A network in memory: packets that are under way, and whoever chooses which one comes next."""

from collections.abc import Callable, Iterable, Sequence

from groupcomm.algorithms.history import History
from groupcomm.algorithms.process import Message, Name, Packet, Process, Step
from groupcomm.algorithms.traced import Said, Traced
from groupcomm.trace.steps import AlgorithmStep


class Network:
    """Processes, what is between them, and what has happened.

    Args:
        processes: all of them.
        record: takes their steps; their times count what was sent and brought.

    Attributes:
        now: how much was sent and brought.
        processes: by name.
        under_way: packets, in the order of their sending.
        history: of the users.
        packets: that were sent.
        stamp_bytes: of all their stamps.
        most_waiting: messages that one process held back at once, at most.
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
        """Have a user send; the message, if the process tells of it in this step.

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
        """Packets that may come next: of channels that keep their order only the first ones."""
        seen: set[tuple[Name, Name]] = set()
        found = []
        for packet in self.under_way:
            channel = packet.source, packet.destination
            if channel not in seen or not self.processes[packet.destination].needs_fifo:
                found.append(packet)
            seen.add(channel)
        return found

    def bring(self, packet: Packet) -> None:
        """Let a packet that is under way arrive."""
        # Equal packets may be under way; any of them will do.
        self.under_way.remove(packet)
        process = self.processes[packet.destination]
        self.now += 1
        self._accept(process, self._endpoint(process.me).receive(packet))

    def bring_all(self) -> None:
        """Let everything arrive, the oldest first, and what comes of it."""
        while self.under_way:
            self.bring(self.under_way[0])

    def accept(self, name: Name, step: Step) -> None:
        """Accept what comes of any other call to a process, as when its clock is set."""
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
