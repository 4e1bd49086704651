"""Random schedules: who sends, and which packet comes next, as Hypothesis draws it."""

from collections.abc import Callable, Sequence

from hypothesis import strategies as st

from groupcomm.trace.steps import AlgorithmStep
from groupcomm_lessons.algorithms.network import Network
from groupcomm_lessons.algorithms.process import Name, Order, Process

NAMES = ("p", "q", "r", "s")

Make = Callable[[Name, Sequence[Name]], Process]

schedules = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(1, 15)), max_size=40
)
"""Steps: 0 sends, all else lets a packet come; which one, or who sends; to whom, as bits."""


def play(
    make: Make,
    steps: Sequence[tuple[int, int, int]],
    *,
    processes: int = 3,
    multicasts: bool = False,
    record: Callable[[AlgorithmStep], object] | None = None,
) -> Network:
    """Play a schedule, then let all arrive that is under way, in the order that it says.

    Args:
        make: of each process, from its name and the names of all.
        steps: see `schedules`.
        processes: the number of processes, up to 4.
        multicasts: the third number of a step chooses destinations; else all are broadcasts.
        record: takes the processes' steps.
    """
    names = NAMES[:processes]
    network = Network([make(name, names) for name in names], record)
    for what, which, to in steps:
        ready = network.ready
        if what and ready:
            network.bring(ready[which % len(ready)])
        elif not what:
            chosen = [name for at, name in enumerate(names) if to >> at & 1]
            destinations = (chosen or names) if multicasts else None
            network.send(names[which % processes], b"", destinations)
    choices = [which for _, which, _ in steps] or [0]
    at = 0
    while ready := network.ready:
        network.bring(ready[choices[at % len(choices)] % len(ready)])
        at += 1
    return network


def assert_keeps(network: Network, orders: frozenset[Order]) -> None:
    """All was delivered, once, and these orders held."""
    history = network.history
    assert not history.missing
    assert not history.twice
    for order in orders:
        assert not history.broken(order), history.broken(order)[0].why


def late_cause(make: Make, names: Sequence[Name] = NAMES[:3]) -> list[AlgorithmStep]:
    """The first sends, the second answers; at the third the answer is before its cause."""
    steps: list[AlgorithmStep] = []
    network = Network([make(name, names) for name in names], steps.append)
    network.send(names[0], b"")
    network.bring(next(packet for packet in network.under_way if packet.destination == names[1]))
    network.send(names[1], b"")
    for packet in [packet for packet in network.under_way if packet.source == names[1]]:
        network.bring(packet)
    network.bring_all()
    return steps
