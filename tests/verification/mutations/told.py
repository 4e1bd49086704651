"""Mutations of the notices to clients about views that change."""

from random import Random
from typing import Any, Final

from msgspec.structs import replace

from groupcomm.trace.events import (
    Ask,
    Conf,
    Deliver,
    Dview,
    Member,
    Order,
    Trans,
)
from tests.verification.mutations.tools import (
    Mutation,
    Trace,
    alter,
    clients,
    drop,
    earlier,
    later,
    move,
    pick,
    repeat,
)

_RELIABLE, _AGREED, _SAFE = 1, 4, 5


def _is_network(event: Member) -> bool:
    return event.cause == "network"


def _other_together(rng: Random, trace: Trace, event: Member) -> Member | None:
    others = [member for member in event.members if member not in event.vs]
    if others and rng.random() < 0.5:
        return replace(event, vs=(*event.vs, rng.choice(others)))
    fewer = tuple(member for member in event.vs if member != rng.choice(event.vs))
    return replace(event, vs=fewer)


def ghost(rng: Random, trace: Trace) -> Trace | None:
    """Return a trace in which a network view has a member that does not exist, at all
    clients."""
    picked = pick(rng, trace, Member, _is_network)
    if picked is None:
        return None
    view = picked[1]
    others = [c for c in clients(trace) if c not in view.members]
    if not others:
        return None
    more = (*view.members, rng.choice(others))

    def haunted(event: Any) -> Any:
        same = isinstance(event, Member) and (event.group, event.pos) == (view.group, view.pos)
        return replace(event, members=more) if same else event

    return [haunted(event) for event in trace]


def _other_daemons(rng: Random, trace: Trace, event: Dview) -> Dview:
    if len(event.daemons) > 1 and rng.random() < 0.5:
        return replace(event, daemons=event.daemons[1:])
    return replace(event, daemons=(*event.daemons, "zulu"))


def _other_majority(rng: Random, trace: Trace, event: Dview) -> Dview:
    return replace(event, majority=not event.majority)


def _other_reported_view(rng: Random, trace: Trace, event: Any) -> Any:
    views = [e.view for e in trace if isinstance(e, Conf) and e.view != event.view]
    return replace(event, view=rng.choice(views)) if views else event


def _turned(rng: Random, trace: Trace, order: Order) -> Order:
    return replace(order, trans=not order.trans)


def without_quorum(rng: Random, trace: Trace) -> Trace | None:
    """Return a trace in which a client gets an agreed message to a group in which it pauses."""
    picked = pick(rng, trace, Deliver, lambda event: event.level >= _AGREED)
    if picked is None or picked[1].pos is None:
        return None
    client, view = picked[1].c, picked[1].pos[0]
    changed: list[Any] = []
    for event in trace:
        if isinstance(event, Dview) and event.view == view:
            changed.append(replace(event, majority=False))
        elif isinstance(event, Ask) and event.c == client and event.what in ("join", "read"):
            changed.append(replace(event, needs_quorum=True))
        else:
            changed.append(event)
    return changed


def delivered_in_next(rng: Random, trace: Trace) -> Trace | None:
    """Return a trace in which a client gets a message of one view after it was told of the next."""
    picked = pick(rng, trace, Dview)
    if picked is None:
        return None
    before = [
        i
        for i, e in enumerate(trace[: picked[0]])
        if isinstance(e, Deliver) and e.c == picked[1].c and e.level > 0
    ]
    return move(trace, rng.choice(before), picked[0] + 1) if before else None


TOLD_MUTATIONS: Final[dict[str, Mutation]] = {
    "daemons of a view altered": alter(Dview, _other_daemons),
    "daemons of a view lost": drop(Dview),
    "daemons of a view repeated": repeat(Dview),
    "delivery in next view": delivered_in_next,
    "delivery without a quorum": without_quorum,
    "ghost in a network view": ghost,
    "majority altered": alter(Dview, _other_majority),
    "network view lost": drop(Member, _is_network),
    "network view with others": alter(Member, _other_together, _is_network),
    "ordered marked wrongly": alter(Order, _turned),
    "transition early": earlier(Trans),
    "transition late": later(Trans),
    "transition lost": drop(Trans),
    "transition of other view": alter(Trans, _other_reported_view),
    "transition repeated": repeat(Trans),
}
