"""Mutual exclusion: the order of the grants, and the cost of knowing it."""

from collections.abc import Callable

import attrs

from examples.ordering.stage import Play
from examples.ordering.story import Run, story
from groupcomm.trace.steps import AlgorithmStep
from groupcomm_lessons.algorithms.central_scheduler import CentralScheduler
from groupcomm_lessons.algorithms.lamport_mutex import LamportMutex
from groupcomm_lessons.algorithms.mutual_exclusion import Claimant, MutexNetwork
from groupcomm_lessons.algorithms.process import Message, Name


class Claims(Play):
    """A stage for processes that ask for one resource.

    Args:
        make: makes each process from its name and all names.
        names: the names of the processes, one letter each.
    """

    def __init__(self, make: Callable[[Name, str], Claimant], names: str) -> None:
        events: list[AlgorithmStep] = []
        self.mutex = MutexNetwork([make(name, names) for name in names], events.append)
        super().__init__(self.mutex, events)

    def use_up(self) -> Run:
        """Let all packets come; every holder releases the resource, until nobody wants it."""
        self.rest()
        while holders := [name for name, each in self.mutex.claimants.items() if each.holds]:
            for name in holders:
                self.mutex.release(name)
            self.rest()
        uses, users = self.mutex.uses, self._packets_of_users()
        run = self.end(
            requested=_told(uses.requested),
            granted=_told(uses.granted),
            overtaken=[(str(first), str(second)) for first, second in uses.overtaken],
            overlaps=[(str(first), str(second)) for first, second in uses.overlaps],
            packets_of_users=users,
            packets_of_the_algorithm=self.mutex.packets - users,
        )
        return attrs.evolve(run, held=None)

    def _packets_of_users(self) -> int:
        """Return no packets, as requests are messages of a process to itself."""
        return sum(
            name != message.sender
            for message in self.mutex.history.sent
            for name in message.destinations
        )


def _told(requests: list[Message]) -> list[str]:
    return [str(request) for request in requests]


def _ask_and_tell(play: Claims) -> None:
    """Play: q asks and tells r so, and then r asks; q's request to p is slow."""
    play.mutex.request("q")
    said = play.send("q", "r")
    if play.mutex.processes["r"].needs_fifo:
        play.answer("q", "r")
    play.bring(said, "r")
    play.mutex.request("r")
    play.answer("r", "p")


@story("scheduler", "A scheduler grants in the order in which requests come")
def scheduler() -> Run:
    """q asks the scheduler p, and tells r about it. So r asks after q, but r's request arrives
    first and is granted first. Only one process at a time has the resource, but the grants are not
    in the order of the requests."""
    play = Claims(CentralScheduler, "pqr")
    _ask_and_tell(play)
    return play.use_up()


@story("lamport-mutex", "Lamport's algorithm grants in the order of the requests")
def lamport_mutex() -> Run:
    """The network is the same. Every process has every request, and sorts the requests by clock. r
    knows that q's request is lower than its own, and waits for q's release. A use costs three
    packets for each other process."""
    play = Claims(LamportMutex, "pqr")
    _ask_and_tell(play)
    return play.use_up()


class OverAnyChannel(LamportMutex):
    """A process that wrongly assumes channels which keep their order."""

    needs_fifo = False


@story("answer-overtakes", "Lamport's algorithm needs channels that keep their order")
def answer_overtakes() -> Run:
    """p asks, receives q's request, which is higher, answers it, and uses the resource. The answer
    reaches q before p's own request does: q has something later from p, and no lower request. So
    both use the resource at once."""
    play = Claims(OverAnyChannel, "pq")
    play.mutex.request("p")
    play.mutex.request("q")
    play.answer("q", "p")
    (late, early) = play.network.ready
    play.network.bring(early)
    play.network.bring(late)
    return play.use_up()
