"""Where a story of an algorithm is played: who sends, and which message comes next."""

from collections.abc import Callable, Iterable, Sequence

from examples.ordering.story import Run, run_of
from groupcomm.algorithms.network import Network
from groupcomm.algorithms.process import Message, Name, Packet, Process
from groupcomm.trace.steps import AlgorithmStep


class Play:
    """A network whose packets come when the story says so.

    Args:
        network: that is played on.
        events: into which it records.
    """

    def __init__(self, network: Network, events: list[AlgorithmStep]) -> None:
        self.network = network
        self._events = events

    def send(self, sender: Name, to: Iterable[Name] | None = None) -> Message:
        """Somebody sends, to all as a rule."""
        sent = self.network.send(sender, b"", to)
        assert sent is not None
        return sent

    def bring(self, message: Message, *to: Name) -> None:
        """A message comes to these, in this order."""
        for name in to:
            self._bring(lambda packet, name=name: packet[1:3] == (name, message))  # type: ignore[misc]

    def answer(self, source: Name, *to: Name) -> None:
        """What somebody sends that is no user's message comes to these, the oldest of it."""
        for name in to:
            self._bring(lambda packet, name=name: packet[:3] == (source, name, None))  # type: ignore[misc]

    def rest(self) -> None:
        """All that is still under way comes, the oldest first."""
        while ready := self.network.ready:
            self.network.bring(ready[0])

    def waiting(self, name: Name) -> list[str]:
        """What waits at a process."""
        return [str(message) for message in self.network.processes[name].waiting]

    def end(self, **seen: object) -> Run:
        """All comes that is still under way; what happened."""
        self.rest()
        return run_of(self.network.history, self._events, **seen)

    def _bring(self, is_it: Callable[[Packet], bool]) -> None:
        self.network.bring(next(filter(is_it, self.network.ready)))


class Stage(Play):
    """Where one algorithm is played.

    Args:
        make: of each process, from its name and all names.
        names: of the processes; one letter each.
    """

    def __init__(self, make: Callable[[Name, Sequence[Name]], Process], names: str) -> None:
        events: list[AlgorithmStep] = []
        super().__init__(Network([make(name, names) for name in names], events.append), events)


def crossed(make: Callable[[Name, Sequence[Name]], Process]) -> Run:
    """p and q send at the same time; the first message is the first at r, the second one at s."""
    stage = Stage(make, "pqrs")
    one, other = stage.send("p"), stage.send("q")
    stage.bring(one, "r")
    stage.bring(other, "s", "r", "p")
    stage.bring(one, "s", "q")
    return stage.end()
