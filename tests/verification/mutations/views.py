"""Mutations of views: the daemons that installed them, their members, and the times."""

from itertools import combinations
from random import Random
from typing import Any, Final

from msgspec.structs import replace

from groupcomm.trace.events import (
    Boot,
    Conf,
    Heal,
    Quiet,
    view_order,
)
from tests.verification.mutations.tools import (
    Mutation,
    Trace,
    alter,
    drop,
    earlier,
    insert,
    pick,
    repeat,
)
from tests.verification.reference.terms import name_of

_RELIABLE, _AGREED, _SAFE = 1, 4, 5


# ---- views of daemons ----


def is_regular(conf: Conf) -> bool:
    """Return whether a Conf is of a regular view."""
    return conf.kind == "R"


def is_transitional(conf: Conf) -> bool:
    """Return whether a Conf is of a transitional view."""
    return conf.kind == "T"


def processes(trace: Trace) -> list[str]:
    """Return all starts of daemons."""
    return sorted({e.p for e in trace if isinstance(e, Conf)})


def _other_members(rng: Random, trace: Trace, conf: Conf) -> Conf | None:
    """Return one member more or less."""
    members = [member for ring in conf.rings for member in ring]
    more = [p for p in processes(trace) if p not in members]
    fewer = [member for member in members if member != conf.p]
    if more and (rng.random() < 0.5 or not fewer):
        return replace(conf, rings=(*conf.rings[:-1], (*conf.rings[-1], rng.choice(more))))
    if not fewer:
        return None
    gone = rng.choice(fewer)
    rings = (tuple(member for member in ring if member != gone) for ring in conf.rings)
    return replace(conf, rings=tuple(ring for ring in rings if ring))


def _without_itself(rng: Random, trace: Trace, conf: Conf) -> Conf | None:
    rings = (tuple(member for member in ring if member != conf.p) for ring in conf.rings)
    others = tuple(ring for ring in rings if ring)
    return replace(conf, rings=others) if others else None


def _other_next(rng: Random, trace: Trace, conf: Conf) -> Conf:
    views = [e.view for e in trace if isinstance(e, Conf) and e.view != conf.view]
    return replace(conf, view=rng.choice(views)) if views else conf


def _other_old(rng: Random, trace: Trace, conf: Conf) -> Conf:
    views = [e.old for e in trace if isinstance(e, Conf) and e.old not in ("", conf.old)]
    return replace(conf, old=rng.choice(views)) if views else conf


def rename_view(trace: Trace, old: str, new: str) -> Trace:
    """Return a trace in which a view has another id, wherever it is named."""

    def renamed(event: Any) -> Any:
        changes: dict[str, Any] = {
            field: new for field in ("view", "old") if getattr(event, field, None) == old
        }
        pos = getattr(event, "pos", None)
        if pos is not None and pos[0] == old:
            changes["pos"] = (new, *pos[1:])
        return replace(event, **changes) if changes else event

    return [renamed(event) for event in trace]


def falling_id(rng: Random, trace: Trace) -> Trace | None:
    """Return a trace in which a view has a lower id than one before it, and everybody agrees on
    it."""
    picked = pick(rng, trace, Conf, is_transitional)
    if picked is None:
        return None
    counter, daemon, incarnation = view_order(picked[1].old)
    lower = f"{max(counter - 1, 0)}.{daemon}.{incarnation:x}"
    return rename_view(trace, picked[1].view, lower)


def reused_id(rng: Random, trace: Trace) -> Trace | None:
    """Return a trace in which a later start installs a view with the id of one that an earlier
    start was in."""
    again = pick(rng, trace, Conf, lambda c: is_regular(c) and not c.p.endswith("/1"))
    if again is None:
        return None
    name = again[1].p.rpartition("/")[0]
    before = [
        e.view
        for e in trace[: again[0]]
        if isinstance(e, Conf) and e.kind == "R" and e.p != again[1].p and e.p.startswith(name)
    ]
    return rename_view(trace, again[1].view, rng.choice(before)) if before else None


# ---- starts and ends ----


def _of_other_core(rng: Random, trace: Trace, heal: Heal) -> Heal | None:
    """Return a Heal with one process less in its core."""
    if len(heal.core) < 2:
        return None
    gone = rng.choice(heal.core)
    return replace(heal, core=tuple(p for p in heal.core if p != gone))


def installed_after_end(rng: Random, trace: Trace) -> Trace | None:
    """Return a trace in which a process goes on after all is healed: it installs its last view
    once more."""
    healed = pick(rng, trace, Heal)
    if healed is None:
        return None
    mine = [e for e in trace if isinstance(e, Conf) and e.kind == "R" and e.p in healed[1].core]
    return insert(trace, len(trace) - 1, mine[-1]) if mine else None


def _is_formed(trace: Trace, core: tuple[str, ...]) -> bool:
    """Return whether the core is in one view, with nobody else."""
    last = {e.p: e for e in trace if isinstance(e, Conf) and e.p in core}
    views = {conf.view for conf in last.values() if is_regular(conf)}
    members = {p for conf in last.values() for ring in conf.rings for p in ring}
    return len(views) == 1 and members == set(core) == set(last)


def formed_late(rng: Random, trace: Trace) -> Trace | None:
    """Return the core needs more than three seconds to form its view."""
    healed = pick(rng, trace, Heal)
    if healed is None:
        return None
    at, heal = healed
    confs = [i for i, e in enumerate(trace) if isinstance(e, Conf) and e.p in heal.core and i > at]
    if not confs:
        return None
    start = rng.randint(at + 1, confs[0])
    if _is_formed(trace[:start], heal.core):
        return None  # the daemon continues into another view, which is another fault
    return [*trace[:start], *(replace(e, t=e.t + 4_000_000) for e in trace[start:])]


def view_after_agreement(rng: Random, trace: Trace) -> Trace | None:
    """Return a trace in which one of the core goes on to a view of its own, long after all were
    in one."""
    healed = pick(rng, trace, Heal)
    if healed is None or not isinstance(trace[-1], Quiet):
        return None
    p = rng.choice(healed[1].core)
    last = [e for e in trace if isinstance(e, Conf) and e.p == p][-1]
    if not is_regular(last):
        return None
    counter, daemon, incarnation = view_order(last.view)
    view = f"{counter + 1000}.{daemon}.{incarnation:x}"
    late = max(healed[1].t + 2_000_000, trace[-1].t)
    turn = Conf(late, p, "T", view, ((p,),), last.view)
    return [*trace[:-1], turn, Conf(late, p, "R", view, ((p,),), ""), replace(trace[-1], t=late)]


def incarnation_used_again(rng: Random, trace: Trace) -> Trace | None:
    """Return a trace in which a start of a daemon has the incarnation of an earlier one."""
    boots = [event for event in trace if isinstance(event, Boot)]
    pairs = [
        (one, other) for one, other in combinations(boots, 2) if name_of(one.p) == name_of(other.p)
    ]
    if not pairs:
        return None
    one, other = rng.choice(pairs)
    again = replace(other, incarnation=one.incarnation)
    return [again if event is other else event for event in trace]


VIEW_MUTATIONS: Final[dict[str, Mutation]] = {
    "boot lost": drop(Boot),
    "boot repeated": repeat(Boot),
    "conf after the end": installed_after_end,
    "conf early": earlier(Conf, is_regular),
    "conf lost": drop(Conf, is_regular),
    "conf of other members": alter(Conf, _other_members, is_regular),
    "conf repeated": repeat(Conf, is_regular),
    "conf without itself": alter(Conf, _without_itself),
    "core altered": alter(Heal, _of_other_core),
    "formed too late": formed_late,
    "heal repeated": repeat(Heal),
    "id falls": falling_id,
    "incarnation used again": incarnation_used_again,
    "id used by an earlier start": reused_id,
    "transitional from another view": alter(Conf, _other_old, is_transitional),
    "transitional lost": drop(Conf, is_transitional),
    "transitional of other members": alter(Conf, _other_members, is_transitional),
    "transitional to another view": alter(Conf, _other_next, is_transitional),
    "view after the agreement": view_after_agreement,
}
