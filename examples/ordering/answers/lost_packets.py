"""1.5 A network that loses packets: a process that misses one asks for it."""

from collections.abc import Iterable

from examples.ordering.answers.answer import answer
from examples.ordering.answers.fifo_broadcast import FifoBroadcast
from examples.ordering.stage import Stage
from groupcomm_lessons.algorithms.process import Message, Name, Packet, Step


class Asking(FifoBroadcast):
    """A process that asks the sender for the first missing message; senders keep their messages."""

    def __init__(self, me: Name, members: Iterable[Name]) -> None:
        super().__init__(me, members)
        self._kept: dict[int, Message] = {}

    def send(self, data: bytes, destinations: Iterable[Name] | None = None) -> Step:
        """See `Process.send`."""
        step = super().send(data, destinations)
        self._kept[self._sent] = step.deliveries[0]
        return step

    def receive(self, packet: Packet) -> Step:
        """Answer a request; ask if there is a gap after the delivered messages."""
        if packet.message is None:
            return Step(self._fan_out(self._kept[packet.stamp], packet.stamp, [packet.source]))
        if packet.stamp <= self._delivered[packet.source]:
            return Step()  # the second answer to two requests
        step, missing = super().receive(packet), self._delivered[packet.source] + 1
        if any(message.sender == packet.source for message in self.waiting):
            return Step(self._fan_out(None, missing, [packet.source]), step.deliveries)
        return step


@answer("1.5", "A network that loses packets: whoever misses one asks for it")
def tell() -> Iterable[str]:
    stage = Stage(Asking, "pq")
    for number in range(1, 5):
        message = stage.send("p")
        if number in {2, 4}:
            stage.network.under_way.clear()
            yield f"{message} is lost"
            continue
        stage.bring(message, "q")
        for packet in stage.network.ready:
            yield f"{message} comes, and {packet.source} asks for number {packet.stamp}"
        stage.rest()
        delivered = " ".join(map(str, stage.network.history.delivered["q"]))
        yield f"q has delivered {delivered}"
    _, missing = stage.network.history.missing[0]
    yield f"{missing} is missing, and nobody knows it as long as p is silent"
