"""Mutations of acts of daemons: stamps, horizons, packets, releases, tables."""

from random import Random
from typing import Any, Final

from msgspec.structs import replace

from groupcomm.trace.events import Conf, Count, Hold, Horizon, Rejects, Release, Stamped, Table
from tests.verification.mutations.tools import (
    Mutation,
    Trace,
    alter,
    drop,
    earlier,
    later,
    move,
    pick,
    repeat,
)

_RELIABLE, _AGREED, _SAFE = 1, 4, 5


def _reliable(event: Release) -> bool:
    return event.level >= _RELIABLE


def unsafe_safe(rng: Random, trace: Trace) -> Trace | None:
    """Return a trace in which a SAFE bundle is released before another daemon holds its packet."""
    picked = pick(rng, trace, Release, lambda event: event.level == _SAFE)
    if picked is None:
        return None
    release = picked[1]
    hold = pick(
        rng,
        trace,
        Hold,
        lambda h: (h.ring, h.number) == (release.ring, release.number) and h.p != release.p,
    )
    return None if hold is None else move(trace, picked[0], hold[0])


def stamp_lowered_everywhere(rng: Random, trace: Trace) -> Trace | None:
    """Return a trace in which a packet has a lower stamp, at all daemons."""
    picked = pick(rng, trace, Stamped)
    if picked is None:
        return None
    ring, number, time = picked[1].ring, picked[1].number, picked[1].time
    lower = max(time - rng.randint(1, 100), 0)

    def changed(event: Any) -> Any:
        packet = getattr(event, "ring", None) == ring and getattr(event, "number", None) == number
        if packet and isinstance(event, Stamped | Hold | Release):
            return replace(event, time=lower)
        pos = getattr(event, "pos", None)
        if pos is not None and pos[1:3] == (time, ring):
            return replace(event, pos=(pos[0], lower, *pos[2:]))
        return event

    return [changed(event) for event in trace]


def _lower_stamp(rng: Random, trace: Trace, event: Stamped) -> Stamped:
    return replace(event, time=max(event.time - rng.randint(1, 50), 0))


def _reused_stamp(rng: Random, trace: Trace, event: Stamped) -> Stamped | None:
    others = [e for e in trace if isinstance(e, Stamped) and e.ring == event.ring and e != event]
    return replace(event, time=rng.choice(others).time) if others else None


def _reused_number(rng: Random, trace: Trace, event: Stamped) -> Stamped:
    return replace(event, number=event.number - 1)


def _lower_horizon(rng: Random, trace: Trace, event: Horizon) -> Horizon:
    return replace(event, value=event.value - rng.randint(1, 100))


def _higher_horizon(rng: Random, trace: Trace, event: Horizon) -> Horizon:
    return replace(event, value=event.value + rng.randint(1, 100))


def _wrong_time(rng: Random, trace: Trace, event: Hold) -> Hold:
    return replace(event, time=event.time + 1)


def _other_place(rng: Random, trace: Trace, event: Release) -> Release:
    return replace(event, time=event.time + rng.choice((-40, -1, 1, 40)))


def early_agreed(rng: Random, trace: Trace) -> Trace | None:
    """Return a trace in which a daemon releases a bundle of the agreed order before it may."""
    return earlier(Release, lambda event: event.level >= _AGREED)(rng, trace)


def swap_releases(rng: Random, trace: Trace) -> Trace | None:
    """Return a trace in which two neighbouring releases of one daemon change places."""
    picked = pick(rng, trace, Release, _reliable)
    if picked is None:
        return None
    mine = [i for i, e in enumerate(trace) if isinstance(e, Release) and e.p == picked[1].p]
    after = [i for i in mine if i > picked[0]]
    if not after:
        return None
    one, other = picked[0], after[0]
    swapped = list(trace)
    swapped[one] = replace(trace[other], t=trace[one].t)
    swapped[other] = replace(trace[one], t=trace[other].t)
    return swapped


def _more_rejects(rng: Random, trace: Trace, event: Rejects) -> Rejects:
    return replace(event, bad=event.bad + rng.choice((-1, 1)))


def _other_table(rng: Random, trace: Trace, event: Table) -> Table:
    return replace(event, digest="0")


def time_falls(rng: Random, trace: Trace) -> Trace | None:
    """Return a trace in which an event happens before the one before it."""
    at = rng.randrange(1, len(trace))
    return [*trace[:at], replace(trace[at], t=trace[at - 1].t - 1), *trace[at + 1 :]]


DAEMON_MUTATIONS: Final[dict[str, Mutation]] = {
    "agreed release early": early_agreed,
    "conf late": later(Conf, lambda conf: conf.kind == "R"),
    "count early": earlier(Count),
    "hold late": later(Hold),
    "hold lost": drop(Hold),
    "hold of other time": alter(Hold, _wrong_time),
    "hold repeated": repeat(Hold),
    "horizon lowered": alter(Horizon, _lower_horizon),
    "horizon raised": alter(Horizon, _higher_horizon),
    "rejects miscounted": alter(Rejects, _more_rejects),
    "release lost": drop(Release),
    "release misplaced": alter(Release, _other_place, _reliable),
    "release repeated": repeat(Release),
    "releases swapped": swap_releases,
    "safe unsafe": unsafe_safe,
    "stamp lowered": alter(Stamped, _lower_stamp),
    "stamp lowered everywhere": stamp_lowered_everywhere,
    "stamp reused": alter(Stamped, _reused_stamp),
    "stamp's number reused": alter(Stamped, _reused_number),
    "table altered": alter(Table, _other_table),
    "table lost": drop(Table),
    "time falls": time_falls,
}
