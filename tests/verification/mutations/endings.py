"""Mutations of the ends of views: the releases in each part, and their processes."""

from collections import Counter
from random import Random
from typing import Final

from groupcomm.trace.events import (
    Conf,
    Deliver,
    Fail,
    Left,
    Member,
    Release,
    Stamped,
)
from tests.verification.mutations.tools import (
    Mutation,
    Trace,
    move,
    pick,
)
from tests.verification.mutations.views import is_regular, is_transitional

_RELIABLE, _AGREED, _SAFE = 1, 4, 5


def boundary_moved(rng: Random, trace: Trace) -> Trace | None:
    """Return a trace in which a process ends the regular part of its view before or after
    another Release."""
    picked = pick(rng, trace, Conf, is_transitional)
    if picked is None:
        return None
    at, conf = picked
    mine = [i for i, e in enumerate(trace) if isinstance(e, Release) and e.p == conf.p]
    ends = [i for i, e in enumerate(trace) if isinstance(e, Conf) and e.p == conf.p and i != at]
    start = max([i for i in ends if i < at], default=0)
    end = min([i for i in ends if i > at], default=len(trace))
    near = [i for i in mine if start < i < end]
    if not near:
        return None
    other = rng.choice(near)
    return move(trace, at, other if other < at else other + 1)


def _in_transition(trace: Trace) -> list[int]:
    """Return indices of Releases in transitional parts that others come through, too."""
    confs = [e for e in trace if isinstance(e, Conf)]
    arrived = {(conf.p, conf.view) for conf in confs if is_regular(conf)}
    turns = [c for c in confs if is_transitional(c) and (c.p, c.view) in arrived]
    together = Counter((turn.old, turn.view) for turn in turns)
    shared: dict[str, bool] = {}
    found = []
    for index, event in enumerate(trace):
        if isinstance(event, Conf):
            arrives = is_transitional(event) and (event.p, event.view) in arrived
            shared[event.p] = arrives and together[event.old, event.view] > 1
        elif isinstance(event, Release) and event.number and shared.get(event.p):
            found.append(index)
    return found


def dropped_by_one(rng: Random, trace: Trace) -> Trace | None:
    """Return a trace in which one of the daemons that end a view together drops a bundle."""
    found = _in_transition(trace)
    if not found:
        return None
    at = rng.choice(found)
    return _without(trace, at)


def _without(trace: Trace, at: int) -> Trace:
    """Return the trace without a Release and the deliveries that it causes."""
    release = trace[at]
    assert isinstance(release, Release)
    home = "#" + release.p.rpartition("/")[0] + "/"
    messages = [(release.c, m) for m in range(release.first, release.last + 1)]
    return [
        event
        for index, event in enumerate(trace)
        if index != at
        and not (isinstance(event, Deliver) and home in event.c and (event.s, event.m) in messages)
    ]


def safe_not_delivered(rng: Random, trace: Trace) -> Trace | None:
    """Return a trace in which a process does not deliver a SAFE message that others deliver."""
    picked = pick(rng, trace, Release, lambda release: release.level == _SAFE)
    return None if picked is None else _without(trace, picked[0])


def own_not_delivered(rng: Random, trace: Trace) -> Trace | None:
    """Return a trace in which a daemon does not deliver a message of its own client."""
    picked = pick(
        rng,
        trace,
        Release,
        lambda r: r.level >= _RELIABLE and f"#{r.p.rpartition('/')[0]}/" in r.c,
    )
    return None if picked is None else _without(trace, picked[0])


def released_in_next(rng: Random, trace: Trace) -> Trace | None:
    """Return a trace in which a process releases something of a view after it has installed the
    next one."""
    picked = pick(rng, trace, Conf, is_regular)
    if picked is None:
        return None
    before = [i for i, e in enumerate(trace[: picked[0]]) if _releases(e, picked[1].p)]
    return move(trace, rng.choice(before), picked[0] + 1) if before else None


def _releases(event: object, process: str) -> bool:
    return isinstance(event, Release) and event.p == process and event.level > 0


def released_too_soon(rng: Random, trace: Trace) -> Trace | None:
    """Return a trace in which a process releases something before it knows the groups of the
    view."""
    picked = pick(rng, trace, Release)
    if picked is None:
        return None
    confs = [i for i, e in enumerate(trace[: picked[0]]) if _installs(e, picked[1].p)]
    return move(trace, picked[0], confs[-1] + 1) if confs else None


def _installs(event: object, process: str) -> bool:
    return isinstance(event, Conf) and event.p == process and event.kind == "R"


def numbered_in_transition(rng: Random, trace: Trace) -> Trace | None:
    """Return a trace in which a process numbers a packet of a view whose regular part is over."""
    picked = pick(rng, trace, Conf, is_transitional)
    if picked is None:
        return None
    mine = [i for i, e in enumerate(trace[: picked[0]]) if _numbers(e, picked[1])]
    return move(trace, rng.choice(mine), picked[0] + 1) if mine else None


def _numbers(event: object, conf: Conf) -> bool:
    return isinstance(event, Stamped) and (event.p, event.view) == (conf.p, conf.old)


def event_after_end(rng: Random, trace: Trace) -> Trace | None:
    """Return a trace in which a daemon that failed or left acts, or one of its clients
    does."""
    ends = [(i, e) for i, e in enumerate(trace) if isinstance(e, Fail | Left)]
    if not ends:
        return None
    at, end = rng.choice(ends)
    home = f"#{end.p.rpartition('/')[0]}/"
    mine = [
        i
        for i, e in enumerate(trace[:at])
        if (isinstance(e, Release | Stamped) and e.p == end.p)
        or (isinstance(e, Deliver | Member) and home in e.c)
    ]
    return move(trace, rng.choice(mine), at + 1) if mine else None


ENDING_MUTATIONS: Final[dict[str, Mutation]] = {
    "boundary moved": boundary_moved,
    "dropped by one": dropped_by_one,
    "event after the end of a daemon": event_after_end,
    "numbered in transition": numbered_in_transition,
    "own message not delivered": own_not_delivered,
    "release in next view": released_in_next,
    "release too soon": released_too_soon,
    "safe not delivered": safe_not_delivered,
}
