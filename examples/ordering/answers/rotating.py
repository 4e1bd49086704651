"""3.1 A sequencer that rotates: the next process gives each number."""

from collections.abc import Iterable

from examples.ordering.answers.answer import answer
from examples.ordering.stage import Stage
from groupcomm.trace.steps import MessageId
from groupcomm_lessons.algorithms.process import Message, Name, Order, Packet, Process, Step


class RotatingSequencer(Process):
    """A process of a rotating sequencer: member k gives number k, and broadcasts its message.

    Source: J. Chang, N. Maxemchuk, "Reliable Broadcast Protocols", ACM TOCS 2(3), 1984, without the
    faults.
    """

    claims = frozenset({Order.TOTAL})

    def __init__(self, me: Name, members: Iterable[Name]) -> None:
        super().__init__(me, members)
        self._held: dict[MessageId, Message] = {}  # not delivered
        self._numbers: dict[int, MessageId] = {}
        self._delivered = 0

    def send(self, data: bytes, destinations: Iterable[Name] | None = None) -> Step:
        """Send a message to all, without a number."""
        message = self._message(data, self.members)
        self._held[message.id] = message
        return self._go_on(self._fan_out(message, None, self.members))

    def receive(self, packet: Packet) -> Step:
        """Process a message, or the number of one."""
        if packet.message is not None:
            self._held[packet.message.id] = packet.message
        else:
            number, *name = packet.stamp
            self._numbers[number] = name[0], name[1]
        return self._go_on(())

    def _go_on(self, packets: tuple[Packet, ...]) -> Step:
        """Deliver the messages with the next numbers, and give one if it is this process's turn."""
        found: list[Message] = []
        while True:
            number = self._delivered + 1
            if number not in self._numbers and self.members[number % len(self.members)] == self.me:
                free = [name for name in self._held if name not in self._numbers.values()]
                if free:
                    self._numbers[number] = free[0]
                    packets += self._fan_out(None, (number, *free[0]), self.members)
            if self._numbers.get(number) not in self._held:
                return Step(packets, tuple(found))
            self._delivered = number
            found.append(self._held.pop(self._numbers[number]))

    @property
    def waiting(self) -> tuple[Message, ...]:
        """Return the messages without a number here, or after a missing one."""
        return tuple(self._held.values())


@answer("3.1", "A sequencer that rotates: each number is given by the next process")
def tell() -> Iterable[str]:
    stage = Stage(RotatingSequencer, "pqr")
    for name in "pqrp":
        stage.send(name)
    run = stage.end()
    for name in "pqr":
        yield f"{name} delivers {' '.join(run.delivered[name])}"
    yield f"held: {', '.join(sorted(order.value for order in run.held or ()))}"
    yield f"{stage.network.packets / 4:g} packets a message among 3"
