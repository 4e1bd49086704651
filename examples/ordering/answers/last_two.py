"""2.1 The last two senders in the stamp: one cause more, and no end to it."""

from collections.abc import Iterable

from examples.ordering.answers.answer import answer
from examples.ordering.stage import Stage
from groupcomm.trace.steps import MessageId
from groupcomm_lessons.algorithms.buffering import Buffering, Received
from groupcomm_lessons.algorithms.process import Name, Order, Step


class LastTwoSenders(Buffering):
    """A process whose stamp names the last delivered message of the two latest senders."""

    def __init__(self, me: Name, members: Iterable[Name]) -> None:
        super().__init__(me, members)
        self._counts = dict.fromkeys(self.members, 0)
        self._last: list[Name] = []  # senders, the latest at the end

    def send(self, data: bytes, destinations: Iterable[Name] | None = None) -> Step:
        """Send a message to all."""
        message = self._broadcast(data, destinations)
        stamp = tuple((name, self._counts[name]) for name in self._last[-2:])
        self._note(self.me)
        return Step(self._fan_out(message, stamp, self.members), (message,))

    def _is_next(self, received: Received) -> bool:
        return not list(self._missing(received))

    def _missing(self, received: Received) -> Iterable[MessageId]:
        return [(name, count) for name, count in received.stamp if self._counts[name] < count]

    def _count(self, received: Received) -> None:
        self._note(received.message.sender)

    def _note(self, sender: Name) -> None:
        self._counts[sender] += 1
        self._last = [*(name for name in self._last if name != sender), sender]


def run_with_causes(causes: str) -> Stage:
    """Have these send; r has all messages, then sends; its message comes to the last one first."""
    names = "".join(sorted({*causes, "r"}))
    stage = Stage(LastTwoSenders, names)
    sent = [stage.send(name) for name in causes]
    for message in sent:
        stage.bring(message, "r")
    for message in sent[1:-1]:
        stage.bring(message, causes[-1])
    stage.bring(stage.send("r"), causes[-1])
    stage.rest()
    return stage


@answer("2.1", "The last two senders in the stamp: one cause more, and no end to it")
def tell() -> Iterable[str]:
    for causes in ("pq", "pqs"):
        history = run_with_causes(causes).network.history
        last = " ".join(map(str, history.delivered[causes[-1]]))
        broken = [each.why for each in history.broken(Order.CAUSAL)] or ["causal order holds"]
        yield f"{len(causes)} causes: {causes[-1]} delivers {last}; {'; '.join(broken)}"
