"""Mutations that leave the other events in agreement: only the definition forbids the result."""

from random import Random
from typing import Any, Final

from msgspec.structs import replace

from groupcomm.trace.events import (
    Accept,
    Ask,
    Conf,
    Deliver,
    Horizon,
    Member,
    Order,
    Release,
    Send,
    Stamped,
)
from tests.verification.mutations.tools import Mutation, Trace, alter, insert, pick, repeat

_UNRELIABLE, _AGREED, _SAFE = 0, 4, 5


def lost_before_leave(rng: Random, trace: Trace) -> Trace | None:
    """Return a trace in which a member does not get a message, and leaves the group afterwards."""
    ends = {e.c for e in trace if isinstance(e, Ask) and e.what in ("crash", "disconnect")}
    leaving = pick(
        rng,
        trace,
        Member,
        lambda view: view.cause == "leave" and view.c in view.changed and view.c not in ends,
    )
    if leaving is None:
        return None
    end, view = leaving
    joined = [
        index
        for index, event in enumerate(trace[:end])
        if isinstance(event, Member)
        and (event.c, event.group, event.changed) == (view.c, view.group, (view.c,))
        and event.cause == "join"
    ]
    after = {(e.c, e.m) for e in trace[joined[-1] :] if isinstance(e, Send)}
    lost = [
        index
        for index, event in enumerate(trace[:end])
        if isinstance(event, Deliver)
        and (event.c, event.to) == (view.c, (view.group,))
        and event.level > _UNRELIABLE
        and (event.s, event.m) in after
    ]
    if not lost:
        return None
    at = rng.choice(lost)
    return [*trace[:at], *trace[at + 1 :]]


def level_lowered_everywhere(rng: Random, trace: Trace) -> Trace | None:
    """Return a trace in which all daemons release a SAFE bundle as if it were AGREED."""
    picked = pick(rng, trace, Release, lambda release: release.level == _SAFE)
    if picked is None:
        return None
    place = (picked[1].ring, picked[1].number, picked[1].bundle)

    def lowered(event: Any) -> Any:
        same = isinstance(event, Release) and (event.ring, event.number, event.bundle) == place
        return replace(event, level=_AGREED) if same else event

    return [lowered(event) for event in trace]


def unasked_order(rng: Random, trace: Trace) -> Trace | None:
    """Return a trace in which a client is told a position that it did not ask for."""
    plain = {(e.c, e.m) for e in trace if isinstance(e, Send) and not e.ordered}
    picked = pick(
        rng, trace, Deliver, lambda e: e.level >= _AGREED and e.c == e.s and (e.s, e.m) in plain
    )
    if picked is None or picked[1].pos is None:
        return None
    return insert(trace, picked[0] + 1, Order(0, picked[1].c, picked[1].m, picked[1].pos))


def _others(trace: Trace, than: set[str]) -> list[str]:
    return [
        event.p
        for event in trace
        if isinstance(event, Conf) and event.kind == "R" and event.p not in than
    ]


def _elsewhere(rng: Random, trace: Trace, event: Accept) -> Accept | None:
    others = _others(trace, {event.p})
    return replace(event, p=rng.choice(others)) if others else None


def _of_other_ring(rng: Random, trace: Trace, event: Any) -> Any:
    views = [e for e in trace if isinstance(e, Conf) and (e.kind, e.view) == ("R", event.view)]
    conf = views[0]
    others = _others(trace, set(conf.rings[event.ring]))
    return replace(event, p=rng.choice(others)) if others else None


def _in_other_view(rng: Random, trace: Trace, event: Any) -> Any:
    return replace(event, view="6.alfa.2a")


PLAUSIBLE_MUTATIONS: Final[dict[str, Mutation]] = {
    "acceptance elsewhere": alter(Accept, _elsewhere),
    "delivery lost before a leave": lost_before_leave,
    "horizon in other view": alter(Horizon, _in_other_view),
    "horizon of another ring": alter(Horizon, _of_other_ring),
    "level lowered everywhere": level_lowered_everywhere,
    "ordered repeated": repeat(Order),
    "ordered unasked": unasked_order,
    "stamp in other view": alter(Stamped, _in_other_view),
    "stamp of another ring": alter(Stamped, _of_other_ring),
}
