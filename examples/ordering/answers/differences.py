"""2.4 Over channels that keep their order, a vector stamp need only have the changed counts."""

from collections.abc import Iterable

from examples.ordering.answers.answer import answer
from groupcomm_lessons.algorithms.buffering import Buffering, Received
from groupcomm_lessons.algorithms.network import Network
from groupcomm_lessons.algorithms.process import Name, Order, Packet, Step
from groupcomm_lessons.algorithms.vector import Vector


class Differences(Buffering):
    """The rule of `Vector`; a stamp has the counts that differ from the sender's last stamp.

    Source: M. Singhal, A. Kshemkalyani, "An Efficient Implementation of Vector Clocks", IPL 43(1),
    1992.
    """

    claims = frozenset({Order.FIFO, Order.CAUSAL})
    needs_fifo = True

    def __init__(self, me: Name, members: Iterable[Name]) -> None:
        super().__init__(me, members)
        self._counts = dict.fromkeys(self.members, 0)
        self._stamps = {name: dict.fromkeys(self.members, 0) for name in self.members}

    def send(self, data: bytes, destinations: Iterable[Name] | None = None) -> Step:
        """Send a message to all."""
        message = self._broadcast(data, destinations)
        self._counts[self.me] += 1
        before = self._stamps[self.me]
        changed = {name: count for name, count in self._counts.items() if count > before[name]}
        self._stamps[self.me] = self._counts.copy()
        return Step(self._fan_out(message, changed, self.members), (message,))

    def receive(self, packet: Packet) -> Step:
        """Rebuild the whole stamp as it comes; waiting messages keep theirs."""
        whole = self._stamps[packet.source] = self._stamps[packet.source] | packet.stamp
        return super().receive(packet._replace(stamp=whole))

    def _is_next(self, received: Received) -> bool:
        sender = received.message.sender
        return all(
            count <= self._counts[name] + (name == sender) for name, count in received.stamp.items()
        )

    def _count(self, received: Received) -> None:
        self._counts[received.message.sender] += 1


def bytes_a_stamp(make: type[Buffering], talkers: str, names: str = "pqrstuvw") -> float:
    """Return the bytes of a stamp in a conversation: the talkers send in turn, and all hear
    them."""
    network = Network(make(name, names) for name in names)
    for at in range(24):
        network.send(talkers[at % len(talkers)], b"")
        network.bring_all()
    return network.stamp_bytes / network.packets


@answer("2.4", "Over channels that keep their order, a vector stamp need only say what has changed")
def tell() -> Iterable[str]:
    for talkers in ("p", "pq", "pqrs", "pqrstuvw"):
        whole, changed = (bytes_a_stamp(make, talkers) for make in (Vector, Differences))
        yield f"{len(talkers)} of 8 talk: {whole:.0f} bytes a stamp, {changed:.1f} as differences"
