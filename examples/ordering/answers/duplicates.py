"""1.4 A network that brings packets twice."""

from collections.abc import Iterable

from examples.ordering.answers.answer import answer
from examples.ordering.stage import Stage
from groupcomm_lessons.algorithms.pair_numbers import PairNumbers
from groupcomm_lessons.algorithms.process import Name, Packet, Step


class OncePairNumbers(PairNumbers):
    """A process that drops repeated packets: those below the next number, or waiting already."""

    def __init__(self, me: Name, members: Iterable[Name]) -> None:
        super().__init__(me, members)
        self.dropped = 0

    def receive(self, packet: Packet) -> Step:
        """See `PairNumbers.receive`."""
        pair = self._pairs[packet.source]
        if packet.stamp <= pair.delivered or packet.message in self.waiting:
            self.dropped += 1
            return Step()
        return super().receive(packet)


@answer("1.4", "A network that brings packets twice")
def tell() -> Iterable[str]:
    for make in (PairNumbers, OncePairNumbers):
        stage = Stage(make, "pq")
        for _ in range(3):
            message = stage.send("p", "q")
            stage.network.under_way *= 2
            stage.bring(message, "q", "q")
        delivered = " ".join(map(str, stage.network.history.delivered["q"]))
        waiting = " ".join(stage.waiting("q")) or "nothing"
        yield f"{make.__name__}: q delivers {delivered}; left for ever: {waiting}"
