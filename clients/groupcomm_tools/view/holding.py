"""What a message waited for at a daemon: what came last before the daemon gave it out.

A trace tells which packets a daemon held and which horizons it counted, and when; a release that
follows such an event at once was let go by it. What is not in the trace (the token, a frontier)
cannot be named, only that nothing else did it.
"""

from collections import deque
from typing import Final

import attrs

from groupcomm.level import ServiceLevel
from groupcomm.trace.events import Conf, Count, Hold, Release, Stamped, Table
from groupcomm.trace.steps import MessageId
from groupcomm.wire.bundle import BundleKind

AT_ONCE_US: Final = 1_000
"""A release so much later than an event was let go by something else, on real clocks too."""

REMEMBERED: Final = 256
"""More events than a daemon takes at once before it releases what they let go."""

SHOWN_CAUSES: Final = 20
"""Of a packet with more messages the first ones stand for it."""

_BODIES: Final = (int(BundleKind.MESSAGES), int(BundleKind.FRAGMENT))
_Packet = tuple[str, int, int]  # view, ring, number


@attrs.frozen
class Passage:
    """How a message went through a receiver's daemon.

    Attributes:
        held: when its packet came; None if that is not known.
        released: when it was given out.
        by: the packet that it waited for; None if it was none.
        reason: what it waited for; empty if for nothing, or for just any packet.
    """

    held: int | None
    released: int
    by: _Packet | None
    reason: str


@attrs.define
class _Daemon:
    view: str = ""
    rings: tuple[tuple[str, ...], ...] = ()
    held: dict[tuple[int, int], int] = attrs.field(factory=dict)
    recent: deque[Hold | Count | Table | Conf] = attrs.field(
        factory=lambda: deque(maxlen=REMEMBERED)
    )
    safe: Release | None = None  # the last one that was given out


class Holdings:
    """Follows what daemons hold, count and release."""

    def __init__(self) -> None:
        self._daemons: dict[str, _Daemon] = {}
        self._authors: dict[_Packet, str] = {}
        self._contents: dict[_Packet, list[MessageId]] = {}
        self._passages: dict[tuple[str, MessageId], Passage] = {}

    def conf(self, event: Conf) -> None:
        """A view: packets are numbered anew in each regular one."""
        daemon = self._daemon(event.p)
        daemon.recent.append(event)
        if event.kind == "R":
            daemon.view, daemon.rings, daemon.held = event.view, event.rings, {}

    def stamped(self, event: Stamped) -> None:
        """A packet has its author."""
        self._authors[event.view, event.ring, event.number] = _name(event.p)

    def held(self, event: Hold) -> None:
        """A packet has come."""
        daemon = self._daemon(event.p)
        daemon.held.setdefault((event.ring, event.number), event.t)
        daemon.recent.append(event)

    def counted(self, event: Count) -> None:
        """A horizon counts."""
        self._daemon(event.p).recent.append(event)

    def table(self, event: Table) -> None:
        """A view's groups are known; other changes of the table let nothing go."""
        if event.pos[1] == 0:
            self._daemon(event.p).recent.append(event)

    def released(self, event: Release) -> tuple[MessageId, ...]:
        """Messages that are given out whole; of a message in fragments the last one counts."""
        if event.kind not in _BODIES or event.index + 1 < event.count:
            return ()
        daemon = self._daemon(event.p)
        found = tuple((event.c, number) for number in range(event.first, event.last + 1))
        packet = daemon.view, event.ring, event.number
        known = self._contents.setdefault(packet, [])
        if event.number and len(known) < SHOWN_CAUSES:
            known += [name for name in found if name not in known]
        passage = _passage(daemon, packet, event)
        if event.level == ServiceLevel.SAFE:
            daemon.safe = event
        for name in found:
            self._passages[_name(event.p), name] = passage
        return found

    def passage(self, daemon: str, message: MessageId) -> Passage | None:
        """How a message last went through a daemon, by the daemon's name."""
        return self._passages.get((daemon, message))

    def messages_in(self, packet: _Packet | None) -> tuple[MessageId, ...]:
        """What anybody has given out of a packet so far."""
        return () if packet is None else tuple(self._contents.get(packet, ())[:SHOWN_CAUSES])

    def told(self, packet: _Packet) -> str:
        """A packet in words."""
        author = self._authors.get(packet)
        return f"packet {packet[2]}" + (f" of {author}" if author else f" of ring {packet[1]}")

    def _daemon(self, p: str) -> _Daemon:
        return self._daemons.setdefault(p, _Daemon())


def _passage(daemon: _Daemon, packet: _Packet, event: Release) -> Passage:
    held = daemon.held.get(packet[1:])
    if held is None or held == event.t:
        return Passage(held, event.t, None, "")
    match _let_go_by(daemon, event):
        case None:
            return _unseen(daemon, held, event)
        case Hold(ring=ring, number=number) if (ring, number) == packet[1:]:
            # SAFE needs more than its packet, unless the daemon is alone.
            alone = event.level != ServiceLevel.SAFE or sum(map(len, daemon.rings)) == 1
            return Passage(held, event.t, None, "") if alone else _unseen(daemon, held, event)
        case Hold(ring=ring, number=number):
            by = daemon.view, ring, number
            return Passage(held, event.t, by, "")
        case Count(ring=ring):
            return Passage(held, event.t, None, f"a horizon of {_ring(daemon, ring)}")
        case Table():
            return Passage(held, event.t, None, "the groups of the view")
        case Conf():
            return Passage(held, event.t, None, "the end of the view")


def _let_go_by(daemon: _Daemon, event: Release) -> Hold | Count | Table | Conf | None:
    """The last of what may have let it go; a later packet of the same stream never does."""
    for each in reversed(daemon.recent):
        if event.t - each.t > AT_ONCE_US:
            return None
        if not isinstance(each, Hold) or each.ring != event.ring or each.number <= event.number:
            return each
    return None


def _unseen(daemon: _Daemon, held: int, event: Release) -> Passage:
    """Nothing that the trace tells let it go, unless by way of a SAFE message that waited itself.

    A SAFE one delays what is behind it in the agreed order, or in that of its sender, and what it
    has caused.
    """
    if event.level == ServiceLevel.SAFE:
        return Passage(held, event.t, None, "word that every daemon of the view can deliver it")
    safe = daemon.safe
    if safe is None or event.t - safe.t > AT_ONCE_US:
        return Passage(held, event.t, None, "something that the trace does not tell")
    by = daemon.view, safe.ring, safe.number
    return Passage(held, event.t, by, "a SAFE message before it")


def _ring(daemon: _Daemon, ring: int) -> str:
    known = daemon.rings[ring] if ring < len(daemon.rings) else ()
    return f"ring {ring}" + (f" ({', '.join(map(_name, known))})" if known else "")


def _name(process: str) -> str:
    return process.rpartition("/")[0]
