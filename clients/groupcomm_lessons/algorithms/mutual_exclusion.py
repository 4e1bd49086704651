"""Mutual exclusion: processes that request one resource, and the checker of the grants.

Source: L. Lamport, "Time, Clocks, and the Ordering of Events in a Distributed System", CACM 21(7),
1978, section "Ordering the Events Totally". The conditions, by his numbers: (I) a process that has
the resource releases it before it is granted to another; (II) requests are granted in the order in
which they were made, which here means: a possible cause before its effect; (III) if every holder
releases it, every request is granted.

A request is a message of a process to itself, and granted when it is delivered. So the history
knows which requests may have caused which, by the messages that users send to each other.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable
from itertools import combinations

from groupcomm.errors import LocalProtocolError
from groupcomm.trace.steps import AlgorithmStep
from groupcomm_lessons.algorithms.history import History
from groupcomm_lessons.algorithms.network import Network
from groupcomm_lessons.algorithms.process import Message, Name, Process, Step


class Claimant(Process):
    """A process that may request the resource; users' messages are delivered as they come.

    Attributes:
        wish: its request until the release; None without one.
        holds: whether the request was granted.
    """

    def __init__(self, me: Name, members: Iterable[Name]) -> None:
        super().__init__(me, members)
        self.wish: Message | None = None
        self.holds = False

    def request(self) -> Step:
        """Request the resource; it is granted when `wish` is delivered, which may be at once.

        Raises:
            LocalProtocolError: the process has an earlier request that it has not released.
        """
        if self.wish is not None:
            raise LocalProtocolError(
                f"{self.me} has a request already: release the resource before the next request"
            )
        self.wish = self._message(b"request", [self.me])
        return self._ask()

    def release(self) -> Step:
        """Release the resource.

        Raises:
            LocalProtocolError: the process does not hold it.
        """
        if not self.holds:
            raise LocalProtocolError(f"{self.me} does not hold the resource: wait for the grant")
        self.holds, self.wish = False, None
        return self._give_back()

    @abstractmethod
    def _ask(self) -> Step:
        """Send the algorithm's packets for a request, once `wish` is set."""

    @abstractmethod
    def _give_back(self) -> Step:
        """Send the algorithm's packets for a release, once `wish` is None again."""

    def _granted(self) -> tuple[Message]:
        """Note the grant; return the delivery that reports it."""
        assert self.wish is not None
        self.holds = True
        return (self.wish,)

    @property
    def waiting(self) -> tuple[Message, ...]:
        """Return the request, until it is granted."""
        return () if self.wish is None or self.holds else (self.wish,)


class Uses:
    """A checker of the uses of the resource.

    Attributes:
        requested, granted: requests, in this order.
        overlaps: pairs of requests, the second granted while the first was not yet released: (I).
    """

    def __init__(self, history: History) -> None:
        self._history = history
        self._held: list[Message] = []
        self.requested: list[Message] = []
        self.granted: list[Message] = []
        self.overlaps: list[tuple[Message, Message]] = []

    def grant(self, request: Message) -> None:
        """Note a grant."""
        self.overlaps += [(held, request) for held in self._held]
        self._held.append(request)
        self.granted.append(request)

    def release(self, request: Message) -> None:
        """Note a release."""
        self._held.remove(request)

    @property
    def overtaken(self) -> list[tuple[Message, Message]]:
        """Pairs as they were granted, though the second may have caused the first: (II)."""
        causes = self._history.causes
        pairs = combinations(self.granted, 2)
        return [(first, second) for first, second in pairs if second in causes(first)]

    @property
    def open(self) -> list[Message]:
        """Requests that were not granted: (III), once all is quiet and the resource is
        free."""
        return [request for request in self.requested if request not in self.granted]


class MutexNetwork(Network):
    """A network of claimants.

    Args:
        claimants: all claimants.
        record: records their steps. A request waits in the buffer until it is granted; the packets
            about it are messages of their own, such as ``q-request``.

    Attributes:
        claimants: the processes, by name.
        uses: the uses of the resource.
    """

    def __init__(
        self,
        claimants: Iterable[Claimant],
        record: Callable[[AlgorithmStep], object] | None = None,
    ) -> None:
        self.claimants = {claimant.me: claimant for claimant in claimants}
        super().__init__(self.claimants.values(), record)
        self.uses = Uses(self.history)

    def request(self, name: Name) -> Message:
        """Have a process request the resource; return the request.

        Raises:
            LocalProtocolError: see `Claimant.request`.
        """
        claimant = self.claimants[name]
        step = claimant.request()
        assert claimant.wish is not None
        self.uses.requested.append(claimant.wish)
        self.history.send(claimant.wish)
        self.accept(name, step)
        return claimant.wish

    def release(self, name: Name) -> None:
        """Have a process release the resource.

        Raises:
            LocalProtocolError: see `Claimant.release`.
        """
        claimant = self.claimants[name]
        request, step = claimant.wish, claimant.release()
        assert request is not None
        self.uses.release(request)
        self.accept(name, step)

    def _accept(self, process: Process, step: Step) -> None:
        for message in step.deliveries:
            if message in self.uses.requested:
                self.uses.grant(message)
        super()._accept(process, step)
