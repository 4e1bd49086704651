"""Traces to draw: of algorithms in memory, and of clusters in virtual time."""

from collections.abc import Callable, Sequence
from random import Random

from groupcomm.sim.run import run_seed
from groupcomm.sim.settings import Options
from groupcomm.trace.events import TraceEvent, encode_event
from groupcomm.trace.steps import Given, StampedReceived, StampedSent
from groupcomm_lessons.algorithms.network import Network
from groupcomm_lessons.algorithms.process import Process
from groupcomm_tools.traces.reading import read_trace
from tests.verification.mutants.catalogue import find_mutant

NAMES = ("p", "q", "r")


def random_run(
    make: Callable[[str, tuple[str, ...]], Process], messages: int, processes: int = 4
) -> tuple[Network, list[TraceEvent]]:
    """Broadcasts by all, brought nearly in the order of their sending."""
    names = tuple(f"p{number}" for number in range(processes))
    draw = Random(1)
    steps: list[TraceEvent] = []
    network = Network([make(name, names) for name in names], steps.append)
    for _ in range(messages):
        network.send(draw.choice(names), b"")
        while network.under_way and draw.random() < 0.9:
            ready = network.ready
            network.bring(ready[min(int(draw.expovariate(0.2)), len(ready) - 1)])
    network.bring_all()
    return network, steps


def lines(events: Sequence[TraceEvent]) -> bytes:
    return b"".join(encode_event(event) + b"\n" for event in events)


def traffic(messages: int, processes: int = 4) -> list[TraceEvent]:
    """Broadcasts, one every 100 us, each delivered by all within 2 ms; times of a real clock."""
    draw = Random(2)
    names = tuple(f"p{number}" for number in range(processes))
    counts = dict.fromkeys(names, 0)
    steps: list[TraceEvent] = []
    for number in range(messages):
        t, sender = 1_000_000_000 + number * 100, draw.choice(names)
        counts[sender] += 1
        m = counts[sender]
        steps.append(StampedSent(t, sender, sender, m, names, "", 0))
        steps.append(Given(t, sender, sender, m))
        for name in names:
            if name != sender:
                came = t + draw.randrange(100, 2_000)
                steps.append(StampedReceived(came, name, sender, m, sender))
                steps.append(Given(came, name, sender, m))
    return sorted(steps, key=lambda step: step.t)


def simulated(seed: int, options: Options) -> list[TraceEvent]:
    written: list[bytes] = []
    run_seed(seed, options, written.append)
    return list(read_trace("run", b"".join(written).splitlines(keepends=True)))


def parted() -> list[TraceEvent]:
    """Four daemons that part and come together, and programs under load."""
    return simulated(7, Options(daemons=4, sites=1, faults="partition", duration_s=8.0))


def buggy() -> list[TraceEvent]:
    """Messages to several groups come once for each of them: D2 does not hold."""
    with find_mutant("once-per-group").active():
        return simulated(2, Options())
