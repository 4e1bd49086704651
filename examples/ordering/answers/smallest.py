"""1.2 The smallest counterexample, by chance and by omission."""

from collections.abc import Callable, Iterable

from examples.ordering.answers.answer import answer
from examples.ordering.answers.fifo_broadcast import FifoBroadcast
from examples.ordering.answers.random_runs import Move, play, schedules
from groupcomm_lessons.algorithms.process import Order


def without_superfluous(moves: list[Move], breaks: Callable[[list[Move]], bool]) -> list[Move]:
    """Leave out one step after another, as long as the rest still breaks the promise."""
    for at in range(len(moves)):
        fewer = moves[:at] + moves[at + 1 :]
        if breaks(fewer):
            return without_superfluous(fewer, breaks)
    return moves


def smallest(order: Order, seeds: int = 200) -> tuple[int, list[Move]]:
    """Return the number of schedules that break a promise, and the shortest such schedule."""

    def breaks(moves: list[Move]) -> bool:
        return bool(play(FifoBroadcast, "pqr", moves).history.broken(order))

    found = [moves for moves in schedules("pqr", seeds) if breaks(moves)]
    return len(found), min((without_superfluous(moves, breaks) for moves in found), key=len)


@answer("1.2", "The smallest counterexample, by chance and by leaving out")
def tell() -> Iterable[str]:
    for order in (Order.CAUSAL, Order.TOTAL):
        count, moves = smallest(order)
        why = play(FifoBroadcast, "pqr", moves).history.broken(order)[0].why
        yield f"{order.value}: {count} of 200; {'; '.join(map(str, moves))}: {why}"
