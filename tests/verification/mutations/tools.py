"""Tools for mutations: pick, drop, repeat, alter and move events."""

from collections.abc import Callable
from random import Random
from typing import TypeVar

from msgspec.structs import replace

from groupcomm.trace.events import Ask, Horizon, Quiet, TraceEvent

Trace = list[TraceEvent]
Mutation = Callable[[Random, Trace], Trace | None]
E = TypeVar("E", bound=TraceEvent)


def pick(
    rng: Random, trace: Trace, kind: type[E], fits: Callable[[E], bool] = lambda event: True
) -> tuple[int, E] | None:
    """Return one of the events of a kind, with its index."""
    found = [(i, e) for i, e in enumerate(trace) if isinstance(e, kind) and fits(e)]
    return rng.choice(found) if found else None


def move(trace: Trace, start: int, end: int) -> Trace:
    """Move an event before the event that is at index `end` now; times stay in order."""
    rest = [*trace[:start], *trace[start + 1 :]]
    at = end if end <= start else end - 1
    order = [*rest[:at], trace[start], *rest[at:]]
    return [replace(event, t=old.t) for event, old in zip(order, trace, strict=True)]


def insert(trace: Trace, index: int, event: TraceEvent) -> Trace:
    """Add an event at an index, at the time of the one before it."""
    return [*trace[:index], replace(event, t=trace[index - 1].t), *trace[index:]]


def after(rng: Random, trace: Trace, index: int) -> int:
    """Return any place after an event, but not after the last one if there is another."""
    return rng.randrange(index + 1, max(len(trace), index + 2))


def drop(kind: type[E], fits: Callable[[E], bool] = lambda event: True) -> Mutation:
    """Return a trace that lacks an event of a kind."""

    def mutate(rng: Random, trace: Trace) -> Trace | None:
        picked = pick(rng, trace, kind, fits)
        return None if picked is None else [*trace[: picked[0]], *trace[picked[0] + 1 :]]

    return mutate


def repeat(kind: type[E], fits: Callable[[E], bool] = lambda event: True) -> Mutation:
    """Return an event happens once more, at any later time."""

    def mutate(rng: Random, trace: Trace) -> Trace | None:
        picked = pick(rng, trace, kind, fits)
        if picked is None:
            return None
        return insert(trace, after(rng, trace, picked[0]), picked[1])

    return mutate


def alter(
    kind: type[E],
    change: Callable[[Random, Trace, E], E | None],
    fits: Callable[[E], bool] = lambda event: True,
) -> Mutation:
    """Return an event says something else."""

    def mutate(rng: Random, trace: Trace) -> Trace | None:
        picked = pick(rng, trace, kind, fits)
        changed = None if picked is None else change(rng, trace, picked[1])
        if picked is None or changed is None or changed == picked[1]:
            return None
        return [*trace[: picked[0]], changed, *trace[picked[0] + 1 :]]

    return mutate


def earlier(kind: type[E], fits: Callable[[E], bool] = lambda event: True) -> Mutation:
    """Return an event happens earlier."""

    def mutate(rng: Random, trace: Trace) -> Trace | None:
        picked = pick(rng, trace, kind, fits)
        if picked is None:
            return None
        return move(trace, picked[0], rng.randrange(first(trace), picked[0] + 1))

    return mutate


def later(kind: type[E], fits: Callable[[E], bool] = lambda event: True) -> Mutation:
    """Return an event happens later."""

    def mutate(rng: Random, trace: Trace) -> Trace | None:
        picked = pick(rng, trace, kind, fits)
        if picked is None:
            return None
        return move(trace, picked[0], rng.randrange(picked[0] + 1, len(trace) + 1))

    return mutate


def first(trace: Trace) -> int:
    """Return the place where the views are installed and the rest begins."""
    return next(i for i, e in enumerate(trace) if isinstance(e, Ask | Horizon | Quiet))


def clients(trace: Trace) -> list[str]:
    """Return all clients that ever did anything."""
    return sorted({e.c for e in trace if isinstance(e, Ask)})
