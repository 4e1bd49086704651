"""Mutations of acts and events of clients: sends, deliveries, views, answers."""

from random import Random
from typing import Any, Final

from msgspec.structs import replace

from groupcomm.trace.events import Accept, Ask, Bounce, Deliver, Member, Order, Send
from tests.verification.mutations.tools import (
    Mutation,
    Trace,
    after,
    alter,
    clients,
    drop,
    earlier,
    insert,
    later,
    move,
    pick,
    repeat,
)

_RELIABLE, _AGREED = 1, 4


# ---- deliveries ----


def _reliable(event: Deliver) -> bool:
    return event.level >= _RELIABLE


def swap_deliveries(rng: Random, trace: Trace) -> Trace | None:
    """Return a trace in which two neighbouring deliveries of one client change places."""
    client = rng.choice(clients(trace) or [""])
    mine = [i for i, e in enumerate(trace) if isinstance(e, Deliver) and e.c == client]
    if len(mine) < 2:
        return None
    place = rng.randrange(len(mine) - 1)
    one, other = mine[place], mine[place + 1]
    swapped = list(trace)
    swapped[one] = replace(trace[other], t=trace[one].t)
    swapped[other] = replace(trace[one], t=trace[other].t)
    return swapped


def swap_agreed(rng: Random, trace: Trace) -> Trace | None:
    """Return a trace in which two AGREED or SAFE neighbours that a client gets change places."""
    picked = pick(rng, trace, Deliver, lambda event: event.level >= _AGREED)
    if picked is None:
        return None
    mine = [i for i, e in enumerate(trace) if isinstance(e, Deliver) and e.c == picked[1].c]
    others = [i for i in mine if i > picked[0] and getattr(trace[i], "level", 0) >= _AGREED]
    if not others:
        return None
    swapped = list(trace)
    swapped[picked[0]] = replace(trace[others[0]], t=picked[1].t)
    swapped[others[0]] = replace(picked[1], t=trace[others[0]].t)
    return swapped


def _from_outside(rng: Random, trace: Trace, event: Deliver) -> Deliver:
    return replace(event, s="#ann#zulu/1")


def _phantom(rng: Random, trace: Trace, event: Deliver) -> Deliver:
    return replace(event, m=event.m + 1000)


def phantom_delivery(rng: Random, trace: Trace) -> Trace | None:
    """Return a trace in which a client gets a message that nobody sent."""
    picked = pick(rng, trace, Deliver)
    if picked is None:
        return None
    return insert(trace, picked[0] + 1, _phantom(rng, trace, picked[1]))


def wrong_recipient(rng: Random, trace: Trace) -> Trace | None:
    """Return a trace in which a client gets a message that is not for it, or gets one twice."""
    picked = pick(rng, trace, Deliver)
    if picked is None:
        return None
    return insert(trace, picked[0] + 1, replace(picked[1], c=rng.choice(clients(trace))))


def delivery_after_crash(rng: Random, trace: Trace) -> Trace | None:
    """Return a trace in which a client that has crashed gets something."""
    crash = pick(rng, trace, Ask, lambda ask: ask.what == "crash")
    if crash is None:
        return None
    mine = pick(rng, trace, Deliver, lambda deliver: deliver.c == crash[1].c)
    return None if mine is None else move(trace, mine[0], crash[0] + 1)


def delivery_after_goodbye(rng: Random, trace: Trace) -> Trace | None:
    """Return a trace in which a client gets a message although it has seen its sender go."""
    view = pick(rng, trace, Member, lambda member: member.cause == "disconnect")
    if view is None:
        return None
    gone = view[1].changed[0]
    late = pick(rng, trace, Deliver, lambda d: (d.c, d.s) == (view[1].c, gone))
    return None if late is None else move(trace, late[0], view[0] + 1)


def lost_self_delivery(rng: Random, trace: Trace) -> Trace | None:
    """Return a trace in which a sender does not get its own message."""
    return drop(Deliver, lambda event: event.s == event.c and _reliable(event))(rng, trace)


# ---- groups ----


def _other_members(rng: Random, trace: Trace, event: Member) -> Member:
    members = list(event.members)
    if members and rng.random() < 0.5:
        members.remove(rng.choice(members))
    else:
        members.append(rng.choice(clients(trace)))
    return replace(event, members=tuple(members))


def _other_order(rng: Random, trace: Trace, event: Member) -> Member:
    return replace(event, members=tuple(reversed(event.members)))


def _other_cause(rng: Random, trace: Trace, event: Member) -> Member:
    return replace(event, cause=rng.choice(("join", "leave", "disconnect", "network")))


def _other_vs(rng: Random, trace: Trace, event: Member) -> Member:
    return replace(event, vs=event.members[1:])


def _other_position(rng: Random, trace: Trace, event: Any) -> Any:
    pos = event.pos
    return replace(event, pos=(pos[0], pos[1] + rng.choice((-30, -1, 1, 30)), *pos[2:]))


def _other_view(rng: Random, trace: Trace, event: Any) -> Any:
    return replace(event, pos=("6.alfa.2a", *event.pos[1:]))


# ---- clients ----


def send_after_goodbye(rng: Random, trace: Trace) -> Trace | None:
    """Return a trace in which a client sends after it said goodbye or crashed."""
    end = pick(rng, trace, Ask, lambda ask: ask.what in ("crash", "disconnect"))
    if end is None:
        return None
    sends = [e for e in trace if isinstance(e, Send) and e.c == end[1].c]
    if not sends:
        return None
    again = replace(sends[-1], m=sends[-1].m + 500)
    return insert(trace, after(rng, trace, end[0]), again)


def refused(rng: Random, trace: Trace) -> Trace | None:
    """Return a trace in which a client is told that another session has its name."""
    picked = pick(rng, trace, Ask, lambda ask: ask.what == "connect")
    if picked is None:
        return None
    return insert(trace, picked[0] + 1, replace(picked[1], what="refused"))


def spurious_bounce(rng: Random, trace: Trace) -> Trace | None:
    """Return a trace in which a message comes back although its receiver was there."""
    picked = pick(rng, trace, Deliver, lambda e: e.pos is not None and e.to[0][0] == "#")
    if picked is None:
        return None
    deliver = picked[1]
    assert deliver.pos is not None
    bounce = Bounce(0, deliver.s, deliver.m, deliver.to[0], deliver.pos)
    return insert(trace, picked[0] + 1, bounce)


def stale_name(rng: Random, trace: Trace) -> Trace | None:
    """Return a message to the old owner of a name reaches another owner."""
    picked = pick(rng, trace, Deliver, lambda e: e.to[0] == e.c.rpartition("/")[0])
    if picked is None:
        return None
    name = picked[1].to[0]
    others = [c for c in clients(trace) if c.startswith(name + "/") and c != picked[1].c]
    if not others:
        return None
    at = after(rng, trace, picked[0])
    return insert(trace, at, replace(picked[1], c=rng.choice(others)))


def _other_level(rng: Random, trace: Trace, event: Deliver) -> Deliver:
    return replace(event, level=rng.randrange(6))


def _other_destination(rng: Random, trace: Trace, event: Deliver) -> Deliver:
    return replace(event, to=(*event.to, "blue"))


def _other_digest(rng: Random, trace: Trace, event: Deliver) -> Deliver:
    return replace(event, digest=event.digest ^ 1)


def _has_position(event: Deliver) -> bool:
    return event.pos is not None


def _agreed(event: Send) -> bool:
    return event.level >= _AGREED


def _is_disconnect(event: Member) -> bool:
    return event.cause == "disconnect"


CLIENT_MUTATIONS: Final[dict[str, Mutation]] = {
    "bounce lost": drop(Bounce),
    "bounce repeated": repeat(Bounce),
    "bounce spurious": spurious_bounce,
    "connect repeated": repeat(Ask, lambda ask: ask.what == "connect"),
    "connect refused": refused,
    "delivery after crash": delivery_after_crash,
    "delivery after farewell": delivery_after_goodbye,
    "delivery altered": alter(Deliver, _other_digest),
    "delivery at other level": alter(Deliver, _other_level),
    "delivery early": earlier(Deliver),
    "delivery elsewhere": wrong_recipient,
    "delivery from outside": alter(Deliver, _from_outside),
    "delivery in other view": alter(Deliver, _other_view, _has_position),
    "delivery late": later(Deliver),
    "delivery lost": drop(Deliver, _reliable),
    "delivery misplaced": alter(Deliver, _other_position, _has_position),
    "delivery misaddressed": alter(Deliver, _other_destination),
    "delivery of a phantom": phantom_delivery,
    "delivery repeated": repeat(Deliver),
    "delivery to a later owner": stale_name,
    "deliveries of agreed ones swapped": swap_agreed,
    "deliveries swapped": swap_deliveries,
    "ordered early": earlier(Order),
    "ordered lost": drop(Order),
    "ordered misplaced": alter(Order, _other_position),
    "request repeated": repeat(Ask, lambda ask: ask.what in ("join", "leave", "line")),
    "self delivery lost": lost_self_delivery,
    "send after goodbye": send_after_goodbye,
    "send late": later(Send, _agreed),
    "send lost": drop(Send),
    "send repeated": repeat(Send),
    "acceptance lost": drop(Accept),
    "view altered": alter(Member, _other_members),
    "view for another cause": alter(Member, _other_cause),
    "view early": earlier(Member),
    "view late": later(Member),
    "view lost": drop(Member),
    "view misplaced": alter(Member, _other_position),
    "view of a disconnect lost": drop(Member, _is_disconnect),
    "view repeated": repeat(Member),
    "view reordered": alter(Member, _other_order),
    "view with others": alter(Member, _other_vs),
}
