"""Mutations that lose one event amid the acts or events of a client that ends later.

Later events stay. For a client that is present at Quiet every missing event is noticed
then; for one that crashed, left, was cut off or lost its daemon only the hole itself shows it.
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import Final

from groupcomm.trace.events import (
    Accept,
    Ask,
    Deliver,
    Fail,
    Left,
    Member,
    Quiet,
    Release,
    Send,
    TraceEvent,
)
from tests.verification.mutations.tools import Mutation, Trace

_RELIABLE, _FIFO, _CAUSAL, _AGREED = 1, 2, 3, 4

Told = tuple[int, TraceEvent]
"""An event of a client with its index."""

Hole = Callable[[Trace, int, list[Told]], bool]
"""Returns whether an event at an index is missed, by the client's later events."""


def _ending(trace: Trace) -> dict[str, int]:
    """Return per client that ends the index of its last crash, goodbye or end of its daemon."""
    found: dict[str, int] = {}
    ends = [(index, event) for index, event in enumerate(trace) if isinstance(event, Fail | Left)]
    for index, event in enumerate(trace):
        if isinstance(event, Ask) and event.what in ("crash", "disconnect"):
            found[event.c] = index
        elif isinstance(event, Ask) and event.what == "connect":
            daemon = event.c.rpartition("/")[0].rpartition("#")[2]
            later = [at for at, end in ends if at > index and end.p.rpartition("/")[0] == daemon]
            if later:
                found.setdefault(event.c, later[0])
    return found


def _told(trace: Trace) -> dict[str, list[Told]]:
    """Return the events of each client, and the items that its daemon accepted, with indices."""
    found: dict[str, list[Told]] = {}
    for index, event in enumerate(trace):
        if isinstance(event, Deliver | Member | Accept):
            found.setdefault(event.c, []).append((index, event))
    return found


def _lose(kind: type[TraceEvent], is_missed: Hole) -> Mutation:
    """Return a mutation: an event of a client that ends later is lost, and leaves a hole."""

    def candidates(trace: Trace) -> Iterator[int]:
        ending, told = _ending(trace), _told(trace)
        for client in sorted(ending):
            mine = told.get(client, [])
            for number, (index, event) in enumerate(mine):
                if isinstance(event, kind) and is_missed(trace, index, mine[number + 1 :]):
                    yield index

    def mutate(rng: Random, trace: Trace) -> Trace | None:
        found = list(candidates(trace))
        if not found:
            return None
        at = rng.choice(found)
        return [*trace[:at], *trace[at + 1 :]]

    return mutate


def _passed_by_sender(trace: Trace, index: int, later: list[Told]) -> bool:
    """Return whether a later message of the same sender with a common destination comes."""
    lost = trace[index]
    assert isinstance(lost, Deliver)
    return lost.level >= _FIFO and any(
        isinstance(event, Deliver)
        and event.s == lost.s
        and event.level >= _FIFO
        and not set(event.to).isdisjoint(lost.to)
        for _, event in later
    )


def _passed_by_order(trace: Trace, index: int, later: list[Told]) -> bool:
    """Return whether an event after an AGREED or SAFE message or a view in their order comes."""
    lost = trace[index]
    assert isinstance(lost, Deliver | Member)
    if isinstance(lost, Deliver) and lost.level < _AGREED:
        return False
    return any(
        (isinstance(event, Member) or (isinstance(event, Deliver) and event.level >= _AGREED))
        and event.pos != lost.pos
        for _, event in later
    )


def _passed_by_effect(trace: Trace, index: int, later: list[Told]) -> bool:
    """Return whether a message at CAUSAL or above comes whose sender had got the lost one."""
    lost = trace[index]
    assert isinstance(lost, Deliver)
    if lost.level < _RELIABLE:
        return False
    name = (lost.s, lost.m)
    knew: dict[str, int] = {}
    for at, event in enumerate(trace):
        if isinstance(event, Deliver) and (event.s, event.m) == name and event.c != lost.c:
            knew.setdefault(event.c, at)
    sent = {(e.c, e.m): at for at, e in enumerate(trace) if isinstance(e, Send)}
    return any(
        isinstance(event, Deliver)
        and event.level >= _CAUSAL
        and event.s in knew
        and sent[event.s, event.m] > knew[event.s]
        for _, event in later
    )


def _passed_by_acceptance(trace: Trace, index: int, later: list[Told]) -> bool:
    """Return whether something later of the same client is accepted, in a trace with Quiet.

    For a message in fragments some Release has to give their number.
    """
    lost = trace[index]
    assert isinstance(lost, Accept)
    same = [e for e in trace if isinstance(e, Accept | Release) and _is_of(e, lost)]
    accepts = [event for event in same if isinstance(event, Accept)]
    return (
        isinstance(trace[-1], Quiet)
        and (len(accepts) == 1 or len(accepts) < len(same))
        and any(isinstance(event, Accept) and event.first > lost.last for _, event in later)
    )


def _is_of(event: Accept | Release, accept: Accept) -> bool:
    """Return whether an event is of the same items as an Accept."""
    return event.c == accept.c and event.first <= accept.first <= event.last


HOLE_MUTATIONS: Final[dict[str, Mutation]] = {
    "acceptance lost before the end": _lose(Accept, _passed_by_acceptance),
    "agreed delivery lost before the end": _lose(Deliver, _passed_by_order),
    "cause lost before the end": _lose(Deliver, _passed_by_effect),
    "delivery lost before the end": _lose(Deliver, _passed_by_sender),
    "view lost before the end": _lose(Member, _passed_by_order),
}
