"""The stage of an algorithm's story: it chooses the senders, and the next messages."""

from collections.abc import Callable, Iterable, Sequence

from examples.ordering.story import Run, run_of
from groupcomm.trace.steps import AlgorithmStep
from groupcomm_lessons.algorithms.network import Network
from groupcomm_lessons.algorithms.process import Message, Name, Packet, Process


class Play:
    """A network whose packets come when the story says so.

    Args:
        network: the network.
        events: the recorded events.
    """

    def __init__(self, network: Network, events: list[AlgorithmStep]) -> None:
        self.network = network
        self._events = events

    def send(self, sender: Name, to: Iterable[Name] | None = None) -> Message:
        """Have a process send, by default to all."""
        sent = self.network.send(sender, b"", to)
        assert sent is not None
        return sent

    def bring(self, message: Message, *to: Name) -> None:
        """Let a message come to these processes, in this order."""
        for name in to:
            self._bring(lambda packet, name=name: packet[1:3] == (name, message))  # type: ignore[misc]

    def answer(self, source: Name, *to: Name) -> None:
        """Let the oldest packet of a process without a user's message come to these processes."""
        for name in to:
            self._bring(lambda packet, name=name: packet[:3] == (source, name, None))  # type: ignore[misc]

    def rest(self) -> None:
        """Let all packets in flight come, the oldest first."""
        while ready := self.network.ready:
            self.network.bring(ready[0])

    def waiting(self, name: Name) -> list[str]:
        """Return the messages that wait at a process."""
        return [str(message) for message in self.network.processes[name].waiting]

    def end(self, **seen: object) -> Run:
        """Let all packets in flight come; return the run."""
        self.rest()
        return run_of(self.network.history, self._events, **seen)

    def _bring(self, is_it: Callable[[Packet], bool]) -> None:
        self.network.bring(next(filter(is_it, self.network.ready)))


class Stage(Play):
    """A stage for one algorithm.

    Args:
        make: makes each process from its name and all names.
        names: the names of the processes, one letter each.
    """

    def __init__(self, make: Callable[[Name, Sequence[Name]], Process], names: str) -> None:
        events: list[AlgorithmStep] = []
        super().__init__(Network([make(name, names) for name in names], events.append), events)


def crossed(make: Callable[[Name, Sequence[Name]], Process]) -> Run:
    """Play: p and q send at the same time; p's message is first at r, and q's at s."""
    stage = Stage(make, "pqrs")
    one, other = stage.send("p"), stage.send("q")
    stage.bring(one, "r")
    stage.bring(other, "s", "r", "p")
    stage.bring(one, "s", "q")
    return stage.end()
