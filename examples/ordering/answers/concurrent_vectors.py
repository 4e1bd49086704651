"""2.2 A run in which two vectors are concurrent, and how many can be at once."""

from collections.abc import Iterable
from itertools import combinations

from examples.ordering.answers.answer import answer
from examples.ordering.stage import Stage
from groupcomm.clocks.vector import VectorClock
from groupcomm_lessons.algorithms.process import Message
from groupcomm_lessons.algorithms.vector import Vector


def stamps(stage: Stage) -> dict[Message, VectorClock[str]]:
    """Return the stamps of all messages that are in flight to a process."""
    return {
        packet.message: packet.stamp
        for packet in stage.network.under_way
        if packet.message is not None
    }


@answer("2.2", "A run in which two vectors are concurrent, and how many can be at once")
def tell() -> Iterable[str]:
    stage = Stage(Vector, "pqr")
    one, other = stage.send("p"), stage.send("q")
    stage.bring(one, "r")
    stage.bring(other, "r")
    stage.send("r")
    for (first, a), (second, b) in combinations(sorted(stamps(stage).items()), 2):
        counts = (" ".join(str(count) for _, count in stamp.items()) for stamp in (a, b))
        yield f"{first} [{next(counts)}] {second} [{next(counts)}]: {a.compare(b).name.lower()}"
    names = "pqrstuvw"
    stage = Stage(Vector, names)
    for name in names:
        stage.send(name)
        stage.send(name)
    pairs = list(combinations(stamps(stage).items(), 2))
    apart = {(first, second) for (first, a), (second, b) in pairs if a.concurrent_with(b)}
    of_one = [(first, second) for first, second in apart if first.sender == second.sender]
    yield f"{len(names)} processes send twice: {len(apart)} of {len(pairs)} pairs are concurrent"
    yield f"{len(of_one)} of these are of one process: so at most {len(names)} are at once"
