"""What one client's session asks for and is told, as trace events."""

from collections.abc import Sequence

import google_crc32c

from groupcomm.events import (
    DaemonView,
    Event,
    GroupView,
    Message,
    Ordered,
    Transition,
    Undeliverable,
)
from groupcomm.level import ServiceLevel
from groupcomm.trace.events import Ask, Bounce, Deliver, Dview, Member, Order, Send, Trans
from groupcomm.trace.probe import Record, trace_position, view_text
from groupcomm.trace.steps import Now


def digest_of(kind: int, data: bytes) -> int:
    """What stands in a trace for a message's type and data: a CRC32C, started with the type."""
    return int(google_crc32c.extend(kind, data))


class SessionTrace:
    """Records one session.

    Args:
        clock: gives the events their times.
        record: takes the events.
        identity: of the session, if it is known already.

    Attributes:
        identity: the same; set before anything is recorded.
    """

    __slots__ = ("_clock", "_record", "identity")

    def __init__(self, clock: Now, record: Record, identity: str = "") -> None:
        self._clock = clock
        self._record = record
        self.identity = identity

    def asked(self, what: str, group: str = "", number: int = 0) -> None:
        """It asked to connect, join, leave or disconnect, or it crashed; see Ask."""
        self._record(Ask(self._clock.now, self.identity, what, group, number))

    def sent(
        self,
        number: int,
        level: ServiceLevel,
        to: Sequence[str],
        type: int,
        data: bytes,
        *,
        discard: bool,
        ordered: bool,
    ) -> None:
        """It sent a message; see Send."""
        digest = digest_of(type, data)
        now = self._clock.now
        self._record(Send(now, self.identity, number, level, tuple(to), digest, discard, ordered))

    def told(self, event: Event) -> None:
        """It was told an event; of some there is nothing to record."""
        now, me = self._clock.now, self.identity
        match event:
            case Message(sender=sender, position=position):
                place = None if position is None else trace_position(position)
                self._record(
                    Deliver(
                        now,
                        me,
                        f"{sender.name}/{sender.connection}",
                        event.number,
                        event.level,
                        event.groups,
                        digest_of(event.type, event.data),
                        place,
                    )
                )
            case GroupView():
                self._group_view(event)
            case Ordered():
                place = trace_position(event.position)
                self._record(Order(now, me, event.number, place, event.transitional))
            case Undeliverable():
                place = trace_position(event.position)
                self._record(Bounce(now, me, event.number, event.target, place))
            case Transition(view=view):
                self._record(Trans(now, me, view_text(view)))
            case DaemonView(id=id):
                self._record(Dview(now, me, view_text(id), event.daemons, event.majority))

    def _group_view(self, view: GroupView) -> None:
        self._record(
            Member(
                self._clock.now,
                self.identity,
                view.group,
                trace_position(view.id),
                tuple(map(str, view.members)),
                view.cause.name.lower(),
                tuple(map(str, view.changed)),
                tuple(map(str, view.vs_set)),
            )
        )
