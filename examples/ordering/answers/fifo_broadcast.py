"""1.1 A FIFO broadcast: a count per sender."""

from collections.abc import Iterable

from examples.ordering.answers.answer import answer
from examples.ordering.stage import Stage
from groupcomm_lessons.algorithms.process import Message, Name, Order, Packet, Process, Step


class FifoBroadcast(Process):
    """A process where a message waits only until all earlier ones of its sender are delivered."""

    claims = frozenset({Order.FIFO})

    def __init__(self, me: Name, members: Iterable[Name]) -> None:
        super().__init__(me, members)
        self._delivered = dict.fromkeys(self.members, 0)
        self._early: dict[tuple[Name, int], Message] = {}

    def send(self, data: bytes, destinations: Iterable[Name] | None = None) -> Step:
        """Send a message to all; its number is the stamp."""
        message = self._message(data, self.members)
        return Step(self._fan_out(message, message.number, self.members), (message,))

    def receive(self, packet: Packet) -> Step:
        """Hold a message, and deliver those that follow the delivered ones of its sender."""
        message, sender = packet.message, packet.source
        assert message is not None
        self._early[message.id] = message
        found = []
        while following := self._early.pop((sender, self._delivered[sender] + 1), None):
            self._delivered[sender] += 1
            found.append(following)
        return Step(deliveries=tuple(found))

    @property
    def waiting(self) -> tuple[Message, ...]:
        """Return the messages that have come too early."""
        return tuple(self._early.values())


@answer("1.1", "A FIFO broadcast: a count per sender")
def tell() -> Iterable[str]:
    stage = Stage(FifoBroadcast, "pqr")
    first, second = stage.send("p"), stage.send("p")
    stage.bring(second, "q")
    yield f"at q waits {', '.join(stage.waiting('q'))}"
    stage.bring(first, "q")
    stage.bring(stage.send("q"), "r")
    run = stage.end()
    for name in "qr":
        yield f"{name} delivers {' '.join(run.delivered[name])}"
    yield f"held: {', '.join(sorted(order.value for order in run.held or ()))}"
    yield from (broken.why for broken in stage.network.history.broken(Order.CAUSAL))
