"""Mutual exclusion, judged over random schedules; Lamport's conditions I to III by name."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupcomm.errors import LocalProtocolError
from groupcomm_lessons.algorithms.central_scheduler import CentralScheduler
from groupcomm_lessons.algorithms.lamport_mutex import LamportMutex
from groupcomm_lessons.algorithms.mutual_exclusion import Claimant, MutexNetwork
from groupcomm_lessons.algorithms.process import Name, Packet, Step
from tests.groupcomm_lessons.algorithms.counterexample import example_of
from tests.groupcomm_lessons.algorithms.schedules import NAMES

Steps = list[tuple[int, int]]

steps_of_users = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30)), max_size=40)
"""0 tells all others; 1 asks, or releases; all else lets a packet come; who, or which one."""


class SchedulerOverFifo(CentralScheduler):
    """The same over channels that keep their order."""

    needs_fifo = True


class OverAnyChannel(LamportMutex):
    """Told that packets come as they were sent, where they do not."""

    needs_fifo = False


def use(make: Callable[[Name, str], Claimant], steps: Steps, processes: int = 3) -> MutexNetwork:
    """Play a schedule; then let everything arrive, and whoever gets the resource release it."""
    names = "".join(NAMES[:processes])
    network = MutexNetwork(make(name, names) for name in names)
    for what, which in steps:
        name, ready = names[which % processes], network.ready
        claimant = network.claimants[name]
        if what == 0:
            network.send(name, b"")
        elif what == 1 and claimant.holds:
            network.release(name)
        elif what == 1 and claimant.wish is None:
            network.request(name)
        elif ready:
            network.bring(ready[which % len(ready)])
    choices = [which for _, which in steps] or [0]
    at = 0
    while (ready := network.ready) or any(each.holds for each in network.claimants.values()):
        holders = [name for name, each in network.claimants.items() if each.holds]
        choice = choices[at % len(choices)] % (len(ready) + len(holders))
        if choice < len(ready):
            network.bring(ready[choice])
        else:
            network.release(holders[choice - len(ready)])
        at += 1
    return network


@pytest.mark.parametrize("make", [CentralScheduler, SchedulerOverFifo, LamportMutex])
@given(steps_of_users, st.integers(1, 4))
def test_I_and_III_one_at_a_time_and_everybody_in_the_end(
    make: type[Claimant], steps: Steps, processes: int
) -> None:
    network = use(make, steps, processes)
    assert not network.uses.overlaps
    assert not network.uses.open
    assert not network.history.missing
    assert not network.history.twice


@given(steps_of_users, st.integers(1, 4))
def test_II_lamport_grants_in_the_order_of_the_requests(steps: Steps, processes: int) -> None:
    assert not use(LamportMutex, steps, processes).uses.overtaken


def test_II_a_scheduler_does_not() -> None:
    steps = example_of(
        steps_of_users, lambda found: bool(use(CentralScheduler, found).uses.overtaken)
    )
    assert use(CentralScheduler, steps).uses.overtaken


def test_a_later_request_is_granted_first_over_channels_that_keep_their_order() -> None:
    """The paper's run: q asks and tells r, which asks; r's request is at the scheduler first."""
    network = MutexNetwork(SchedulerOverFifo(name, "pqr") for name in "pqr")
    earlier = network.request("q")
    network.send("q", b"I have asked", ["r"])
    network.bring(network.under_way[1])
    later = network.request("r")
    assert network.history.causes(later) >= {earlier}
    network.bring(network.under_way[1])
    network.bring_all()
    assert network.uses.granted == [later]
    network.release("r")
    network.bring_all()
    assert network.uses.overtaken == [(later, earlier)]
    assert not network.uses.overlaps


def test_lamport_needs_channels_that_keep_their_order() -> None:
    """An answer that overtakes its sender's own request lets two in at once."""
    steps = example_of(
        steps_of_users, lambda found: bool(use(OverAnyChannel, found, 2).uses.overlaps)
    )
    assert use(OverAnyChannel, steps, 2).uses.overlaps


class Telephone(LamportMutex):
    """Users' messages go past the clocks."""

    def receive(self, packet: Packet) -> Step:
        if packet.message is not None:
            return Step(deliveries=(packet.message,))
        return super().receive(packet)


def test_the_anomalous_behaviour_messages_that_carry_no_clock() -> None:
    """r hears of q's request past the clocks, and p's later one is granted before it."""
    for make, order in ((Telephone, "pq"), (LamportMutex, "qp")):
        network = MutexNetwork(make(name, "pqr") for name in "pqr")
        network.send("q", b"the clock goes on", ["q"])
        network.request("q")
        network.send("q", b"I have asked", ["r"])
        for _ in ("request", "message"):
            network.bring(next(each for each in network.ready if each.destination == "r"))
        network.send("r", b"q has asked", ["p"])
        network.bring(next(e for e in network.ready if (e.source, e.destination) == ("r", "p")))
        network.request("p")
        for _ in range(2):
            network.bring_all()
            for name in "pq":
                if network.claimants[name].holds:
                    network.release(name)
        assert "".join(each.sender for each in network.uses.granted) == order
        assert bool(network.uses.overtaken) == (make is Telephone)


@pytest.mark.parametrize("make", [CentralScheduler, LamportMutex])
def test_who_has_asked_cannot_ask_again_nor_release_what_it_does_not_hold(
    make: type[Claimant],
) -> None:
    network = MutexNetwork(make(name, "pq") for name in "pq")
    network.request("q")
    with pytest.raises(
        LocalProtocolError, match="q has a request already: release the resource before"
    ):
        network.request("q")
    with pytest.raises(LocalProtocolError, match="q does not hold the resource: wait"):
        network.release("q")
    network.bring_all()
    network.release("q")


@pytest.mark.parametrize(("make", "packets"), [(CentralScheduler, 3), (LamportMutex, 9)])
def test_packets_of_one_use_among_four(make: type[Claimant], packets: int) -> None:
    network = MutexNetwork(make(name, "pqrs") for name in "pqrs")
    network.request("q")
    network.bring_all()
    network.release("q")
    network.bring_all()
    assert network.packets == packets
