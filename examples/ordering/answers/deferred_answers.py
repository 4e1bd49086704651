"""3.3 Mutual exclusion with answers that are deferred instead of releases."""

import enum
from collections.abc import Iterable

from examples.ordering.answers.answer import answer
from groupcomm.clocks.lamport import LamportClock
from groupcomm_lessons.algorithms.central_scheduler import CentralScheduler
from groupcomm_lessons.algorithms.lamport_mutex import LamportMutex
from groupcomm_lessons.algorithms.mutual_exclusion import Claimant, MutexNetwork
from groupcomm_lessons.algorithms.process import Message, Name, Packet, Step


class Kind(enum.IntEnum):
    """The kind of a packet without a message."""

    REQUEST = 1
    ANSWER = 2


class DeferredAnswers(Claimant):
    """A process that answers at once, or when it has done if it holds the resource or is first.

    Source: G. Ricart, A. Agrawala, "An Optimal Algorithm for Mutual Exclusion in Computer
    Networks", CACM 24(1), 1981. It needs no ordered channels, as its packets are only requests and
    answers.
    """

    def __init__(self, me: Name, members: Iterable[Name]) -> None:
        super().__init__(me, members)
        self._clock = LamportClock()
        self._asked_at = 0
        self._missing: set[Name] = set()
        self._deferred: list[Name] = []

    def send(self, data: bytes, destinations: Iterable[Name] | None = None) -> Step:
        """Send a user's message, which carries the clock, too."""
        message = self._message(data, destinations)
        return Step(self._fan_out(message, (0, self._clock.send()), message.destinations))

    def receive(self, packet: Packet) -> Step:
        """Answer, or defer the answer; count an answer."""
        kind, clock = packet.stamp
        self._clock.receive(clock)
        if kind == Kind.ANSWER:
            self._missing.remove(packet.source)
            return Step(deliveries=self._turn())
        if kind == Kind.REQUEST:
            mine = self._asked_at, self.me
            if self.holds or (self.wish is not None and mine < (clock, packet.source)):
                self._deferred.append(packet.source)
                return Step()
            return Step(self._answer([packet.source]))
        said = () if packet.message is None else (packet.message,)
        return Step(deliveries=said)

    def _ask(self) -> Step:
        self._asked_at = self._clock.send()
        self._missing = set(self.members) - {self.me}
        return Step(self._fan_out(None, (Kind.REQUEST, self._asked_at), self.members), self._turn())

    def _give_back(self) -> Step:
        waiting, self._deferred = self._deferred, []
        return Step(self._answer(waiting))

    def _answer(self, names: list[Name]) -> tuple[Packet, ...]:
        return self._fan_out(None, (Kind.ANSWER, self._clock.send()), names)

    def _turn(self) -> tuple[Message, ...]:
        return () if self._missing or self.holds else self._granted()


def everybody_once(make: type[Claimant], names: str) -> MutexNetwork:
    """Have all processes ask at once; each releases as soon as it has the resource."""
    network = MutexNetwork(make(name, names) for name in names)
    for name in reversed(names):
        network.request(name)
    while network.uses.open or any(each.holds for each in network.claimants.values()):
        network.bring_all()
        for name, claimant in network.claimants.items():
            if claimant.holds:
                network.release(name)
    network.bring_all()
    return network


@answer("3.3", "Mutual exclusion with answers that are deferred instead of releases")
def tell() -> Iterable[str]:
    for names in ("pqr", "pqrstuvw"):
        for make in (CentralScheduler, LamportMutex, DeferredAnswers):
            network = everybody_once(make, names)
            granted = "".join(request.sender for request in network.uses.granted)
            cost = f"{network.packets / len(names):g} packets a use"
            yield f"{len(names)} processes, {make.__name__}: granted {granted}, {cost}"
