"""Trace events as lines for people."""

from collections.abc import Iterable

from groupcomm.level import LEVELS
from groupcomm.trace.events import (
    Accept,
    Ask,
    Boot,
    Bounce,
    Conf,
    Count,
    Deliver,
    Dview,
    Fail,
    Heal,
    Hold,
    Horizon,
    Left,
    Member,
    Order,
    Quiet,
    Rejects,
    Release,
    Send,
    Stamped,
    Table,
    TraceEvent,
    TracePosition,
    Trans,
)
from groupcomm.trace.steps import (
    AlgorithmStep,
    Buffered,
    Concurrent,
    Counted,
    Given,
    MemberAdded,
    MemberDropped,
    MessageId,
    OfReceived,
    PassedThrough,
    PathCopied,
    StampedReceived,
    StampedSent,
    SuccessorFound,
    Taken,
    VectorCreated,
)


def readable(event: TraceEvent) -> str:
    """Return one line for an event: seconds, process, and what has happened."""
    return f"{event.t / 1e6:11.6f}  {_who(event):24} {what_happened(event)}"


_Client = Send | Deliver | Ask | Member | Order | Bounce | Trans | Dview


def _who(event: TraceEvent) -> str:
    if isinstance(event, Quiet | Heal):
        return "harness"
    return event.c if isinstance(event, _Client) else event.p


def what_happened(event: TraceEvent) -> str:
    """Return a description of the event, without time and process."""
    if isinstance(event, AlgorithmStep):
        return readable_step(event)
    if isinstance(event, Trans | Dview):
        return _view(event)
    if isinstance(event, Send | Deliver | Ask | Member | Order | Bounce):
        return _client(event)
    if isinstance(event, Boot | Fail | Left | Conf | Heal | Quiet):
        return _life(event)
    return _daemon(event)


def _view(event: Trans | Dview) -> str:
    if isinstance(event, Trans):
        return f"learns that the rest of view {event.view} is transitional"
    majority = {None: "", True: ", a majority", False: ", no majority"}[event.majority]
    return f"learns of view {event.view}: {', '.join(event.daemons)}{majority}"


def _life(event: Boot | Fail | Left | Conf | Heal | Quiet) -> str:
    match event:
        case Boot(incarnation=incarnation):
            return f"starts, as incarnation {incarnation}"
        case Fail():
            return "is killed"
        case Left():
            return "has left in order"
        case Conf(kind="T", view=view, rings=rings, old=old):
            who = ", ".join(member for ring in rings for member in ring)
            return f"ends view {old}, on the way to {view} with {who}"
        case Conf(view=view, rings=rings):
            return f"installs view {view}: {' | '.join(', '.join(ring) for ring in rings)}"
        case Heal(core=core, aside=aside):
            text = f"ended all faults; the core is {', '.join(core)}"
            return text + (f"; the disks of {', '.join(aside)} are still unwell" if aside else "")
        case Quiet():
            return "ended all faults and load; everything has settled"


def _client(event: Send | Deliver | Ask | Member | Order | Bounce) -> str:
    match event:
        case Send(m=number, level=level, to=to, discard=discard):
            text = f"sends {number} {LEVELS[level].name} to {', '.join(to)}"
            return text + (", not to itself" if discard else "")
        case Deliver(s=sender, m=number, level=level, to=to, pos=pos):
            text = f"receives {sender}:{number} {LEVELS[level].name} to {', '.join(to)}"
            return text if pos is None else f"{text} at {_position(pos)}"
        case Ask(what=what, group=group, m=number):
            return f"asks: {what} {group} ({number})".replace("  ", " ")
        case Member(group=group, members=members, cause=cause, changed=changed, pos=pos):
            who = f"{cause} of {', '.join(changed)}" if changed else cause
            return (
                f"sees {group} = {', '.join(members) or 'nobody'} after {who} at {_position(pos)}"
            )
        case Order(m=number, pos=pos, trans=trans):
            text = f"learns that {number} is at {_position(pos)}"
            return text + (", transitional" if trans else "")
        case Bounce(m=number, target=target, pos=pos):
            return f"learns that {number} did not reach {target}, at {_position(pos)}"


def _daemon(
    event: Accept | Stamped | Hold | Horizon | Count | Release | Table | Rejects,
) -> str:
    match event:
        case Accept(c=client, first=first, last=last):
            return f"takes {_numbers(first, last)} of {client}"
        case (
            Stamped(ring=ring, number=number, time=time) | Hold(ring=ring, number=number, time=time)
        ):
            verb = "numbers" if isinstance(event, Stamped) else "holds"
            return f"{verb} packet {number} of ring {ring}, stamp {time}"
        case Horizon(ring=ring, value=value, upto=upto):
            return f"promises nothing at or below {value} after packet {upto} of ring {ring}"
        case Count(ring=ring, value=value, upto=upto):
            return f"counts horizon {value} of ring {ring} (packets to {upto})"
        case Release(c=client, first=first, last=last, level=level, time=time, ring=ring):
            name = LEVELS[level].name
            return f"releases {_numbers(first, last)} of {client} {name} at {time}/{ring}"
        case Table(pos=pos, digest=digest):
            return f"has the group table {digest[:8]} at {_position(pos)}"
        case Rejects(bad=bad, injected=injected):
            return f"dropped {bad} bad datagrams of {injected}"


def _numbers(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first} to {last}"


def _position(position: TracePosition) -> str:
    return "/".join(str(part) for part in position[1:])


def readable_step(event: AlgorithmStep) -> str:
    """Return a description of a process's act in a step of an algorithm."""
    match event:
        case VectorCreated(clock=clock):
            counts = ", ".join(f"{name} {count}" for name, count in clock.items())
            return f"creates its vector: {counts or 'nobody'}"
        case MemberAdded(name=name, count=count):
            return f"counts {name} from {count} on"
        case MemberDropped(name=name):
            return f"counts {name} no more"
        case Counted(count=count):
            return f"raises its own count to {count}"
        case PassedThrough(what=what):
            return f"passes {what} through"
        case StampedSent(to=to, stamp=stamp, bytes=size):
            text = f"sends {event.s}:{event.m} to {', '.join(to) or 'nobody'}"
            return f"{text}, stamped {stamp} ({size} bytes)" if stamp else text
        case PathCopied(paths=paths):
            return f"copies clock and buffer for {event.s}:{event.m}: {paths} paths now"
        case _:
            stamped = f", stamped {event.stamp} ({event.bytes} bytes)" if event.stamp else ""
            return _of_received(event, f"{event.s}:{event.m}") + stamped


def _of_received(event: OfReceived, message: str) -> str:
    match event:
        case StampedReceived(source=source):
            return f"receives {message} from {source}"
        case Concurrent():
            return f"finds {message} concurrent with its deliveries"
        case Buffered(waits=waits):
            return f"buffers {message}" + (f", which waits for {_listed(waits)}" if waits else "")
        case SuccessorFound():
            return f"finds {message} to be a successor"
        case Taken():
            return f"takes {message} out of the buffer"
        case Given():
            return f"delivers {message}"


def _listed(messages: Iterable[MessageId]) -> str:
    return ", ".join(f"{sender}:{number}" for sender, number in messages)
