"""2.5 How often chance breaks causal order."""

from collections.abc import Iterable
from typing import Final

from examples.ordering.answers.answer import answer
from examples.ordering.answers.fifo_broadcast import FifoBroadcast
from examples.ordering.answers.last_two import LastTwoSenders
from examples.ordering.answers.random_runs import Make, play_at_random
from groupcomm_lessons.algorithms.fan_out import FanOut
from groupcomm_lessons.algorithms.last_sender import LastSender
from groupcomm_lessons.algorithms.process import Order
from groupcomm_lessons.algorithms.vector import Vector

RUNS: Final = 100
STAMPS: Final[tuple[type, ...]] = (FanOut, FifoBroadcast, LastSender, LastTwoSenders, Vector)


def broken(make: Make, names: str) -> int:
    """Return in how many runs an effect was delivered before its cause."""
    return sum(
        bool(play_at_random(make, names, seed, 16).history.broken(Order.CAUSAL))
        for seed in range(RUNS)
    )


@answer("2.5", "How often chance breaks causal order")
def tell() -> Iterable[str]:
    for names in ("pqr", "pqrst"):
        found = ", ".join(f"{make.__name__} {broken(make, names)}" for make in STAMPS)
        yield f"{len(names)} processes, of {RUNS} runs: {found}"
