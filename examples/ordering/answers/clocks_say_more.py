"""1.3 How many pairs of events a Lamport clock puts in an order that no cause has."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations

from examples.ordering.answers.answer import answer
from examples.ordering.answers.random_runs import play_at_random
from groupcomm_lessons.algorithms.history import Event
from groupcomm_lessons.algorithms.lamport_clocks import LamportClocks
from groupcomm_lessons.algorithms.tick_lines import clocks_of


def causes(events: Sequence[Event]) -> list[set[int]]:
    """Return for each event the places of all events before it: the definition, written out."""
    latest: dict[str, int] = {}
    found: list[set[int]] = []
    for at, event in enumerate(events):
        direct = {latest[event.process]} if event.process in latest else set()
        if not event.sends:
            direct.add(events.index(Event(event.message.sender, event.message, sends=True)))
        found.append(direct.union(*(found[each] for each in direct)))
        latest[event.process] = at
    return found


def pairs(events: Sequence[Event]) -> Counter[str]:
    """Return the orders of every two events, by clocks and by causes."""
    clocks, before = clocks_of(events), causes(events)
    found: Counter[str] = Counter()
    for first, second in combinations(range(len(events)), 2):
        if first in before[second]:
            assert clocks[first] < clocks[second]  # the clock condition
            found["one caused the other"] += 1
        else:
            equal = clocks[first] == clocks[second]
            found["concurrent, with " + ("equal" if equal else "different") + " clocks"] += 1
    return found


@answer("1.3", "How many pairs of events a Lamport clock puts in an order that no cause has")
def tell() -> Iterable[str]:
    for names in ("pq", "pqrs", "pqrstuvw"):
        events = play_at_random(LamportClocks, names, seed=1, length=30).history.events
        counts = pairs(events)
        told = ", ".join(f"{counts[key]} {key}" for key in sorted(counts, reverse=True))
        yield f"{len(names)} processes, {len(events)} events: {told}"
