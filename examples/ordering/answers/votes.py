"""3.2 A total order by votes, which involves only the destinations of a message."""

from collections.abc import Iterable

from examples.ordering.answers.answer import answer
from examples.ordering.stage import Stage
from groupcomm_lessons.algorithms.process import Message, Name, Order, Packet, Process, Step

Vote = tuple[int, Name]


class Votes(Process):
    """A process that votes: destinations propose places, and a message gets the highest proposal.

    Source: Skeen's algorithm, in K. Birman, T. Joseph, "Reliable Communication in the Presence of
    Failures", ACM TOCS 5(1), 1987, section on ABCAST.
    """

    claims = frozenset({Order.TOTAL})

    def __init__(self, me: Name, members: Iterable[Name]) -> None:
        super().__init__(me, members)
        self._clock = 0
        self._queue: dict[Message, tuple[Vote, bool]] = {}  # the place, and whether it is final
        self._votes: dict[int, dict[Name, Vote]] = {}

    def send(self, data: bytes, destinations: Iterable[Name] | None = None) -> Step:
        """Ask all destinations for their votes."""
        message = self._message(data, destinations)
        self._votes[message.number] = {}
        return Step(tuple(Packet(self.me, to, message, ("place",)) for to in message.destinations))

    def receive(self, packet: Packet) -> Step:
        """Vote; count a vote; or put a message at its place and deliver the first ones."""
        what, *told = packet.stamp
        message = packet.message
        assert message is not None
        if what == "place":
            self._clock += 1
            self._queue[message] = (self._clock, self.me), False
            vote = "vote", self._clock
            return Step((Packet(self.me, message.sender, message, vote),))
        if what == "vote":
            return self._count(message, packet.source, told[0])
        self._clock = max(self._clock, told[0])
        self._queue[message] = (told[0], told[1]), True
        return Step(deliveries=tuple(self._first()))

    def _count(self, message: Message, voter: Name, clock: int) -> Step:
        votes = self._votes[message.number]
        votes[voter] = clock, voter
        if len(votes) < len(message.destinations):
            return Step()
        stamp = "final", *max(votes.values())
        return Step(tuple(Packet(self.me, to, message, stamp) for to in message.destinations))

    def _first(self) -> Iterable[Message]:
        while self._queue:
            message = min(self._queue, key=lambda each: self._queue[each][0])
            if not self._queue[message][1]:
                return
            del self._queue[message]
            yield message

    @property
    def waiting(self) -> tuple[Message, ...]:
        """Return the messages without a final place, and those after them."""
        return tuple(self._queue)


@answer("3.2", "A total order by votes: only the destinations of a message have to do with it")
def tell() -> Iterable[str]:
    stage = Stage(Votes, "pqrst")
    one, other = stage.send("p", "qrs"), stage.send("t", "rst")
    stage.bring(other, "r")
    stage.bring(one, "s")
    run = stage.end()
    for name, messages in run.delivered.items():
        yield f"{name} delivers {' '.join(messages)}"
    yield f"held: {', '.join(sorted(order.value for order in run.held or ()))}"
    yield f"{stage.network.packets} packets; p, no destination of its message, only counts votes"
