"""The teller: what this daemon's sessions are told, by the half of the desk that speaks.

Pure. Frames are encoded once for all who get them; what comes before a session's WELCOME waits.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable

from groupcomm.clocks.stamp import Position
from groupcomm.core.blocking import Blocking
from groupcomm.core.guard import Guard, alone
from groupcomm.core.seat import Seat
from groupcomm.core.told_causes import ToldCauses
from groupcomm.core.traffic import Traffic
from groupcomm.events import GroupView, MemberId, Refused
from groupcomm.level import ServiceLevel
from groupcomm.session.codes import Code
from groupcomm.session.daemon import SessionLimits
from groupcomm.session.frames import (
    encode_abort,
    encode_answer,
    encode_delivery,
    encode_undeliverable,
)
from groupcomm.session.principal_frame import encode_principal
from groupcomm.session.refused_frame import encode_refused
from groupcomm.session.view_frame import encode_view
from groupcomm.wire.bundle import Bundle
from groupcomm.wire.raw import Raw

_UNRELIABLE = ServiceLevel.UNRELIABLE


class Teller(ABC):
    """Speaks to all local sessions.

    Attributes:
        ready: connections with new output.
        blocking: those for which all senders wait.
        limits: of sessions that begin from now on.
        traffic: counts of what sessions gave and got.
        guard: what they may do.
    """

    def __init__(self, limits: SessionLimits) -> None:
        self.limits = limits
        self._now = 0.0
        self._seats: dict[int, Seat] = {}
        self._causes = ToldCauses()
        self._principals: set[int] = set()  # connections that asked for senders' principals
        self.blocking = Blocking()
        self.ready: dict[int, None] = {}
        self.traffic = Traffic()
        self.guard = Guard()

    @abstractmethod
    def _leave(self, seat: Seat, code: int, reason: str) -> None:
        """End a session."""

    @abstractmethod
    def _principal_at(self, daemon: int, connection: int) -> str:
        """Return whose session one of any daemon of the view is; "" while nobody knows."""

    def deliver(self, connections: Iterable[int], bundle: Bundle, sender: MemberId) -> None:
        """Hand a bundle to sessions; encoded once for all of them."""
        unreliable = bundle.level == _UNRELIABLE
        packet = bundle.packet
        parts = None if unreliable else (packet.time, packet.ring, bundle.place)
        frame = encode_delivery(sender.name, sender.connection, parts, bundle.body)
        receivers = list(connections)
        self.traffic.deliver(bundle, len(receivers))
        if self._principals:
            self._tell_principal(receivers, packet.daemon, sender.connection)
        if self._causes.wanted and not unreliable:
            receivers, asked = self._causes.split(receivers)
            if asked:
                self._push_all(asked, *self._causes.before(frame, bundle))
        for connection in receivers:
            seat = self._seats.get(connection)
            if seat is not None:
                self._push(seat, frame, unreliable)

    def _tell_principal(self, receivers: list[int], daemon: int, sender: int) -> None:
        """Tell those that asked whose the next delivery is, unless the last one was, too."""
        principal = self._principal_at(daemon, sender)
        frame = encode_principal(principal)
        for connection in self._principals.intersection(receivers):
            seat = self._seats.get(connection)
            if seat is not None and seat.told_principal != principal:
                seat.told_principal = principal
                self._push(seat, (frame,))

    def _push(self, seat: Seat, frame: tuple[Raw, ...], droppable: bool = False) -> None:
        if seat.gone:
            return
        if not seat.welcomed:
            seat.early.append((frame, droppable))
            return
        session = seat.session
        self.ready[session.connection] = None
        if not session.push(*frame, droppable=droppable) and not seat.leaving:
            self._leave(seat, Code.CONNECTION_CLOSED, "the client was too slow")
        if session.block_bytes is not None and session.blocks:
            self.blocking.add(session, self._now, self.limits.block_s)

    def show_view(self, connections: Iterable[int], view: GroupView) -> None:
        """Tell sessions of a group view; those that may not see members, of themselves alone."""
        if self.guard.access.restricts:
            connections = self._show_blind(connections, view)
        self._push_all(connections, encode_view(view))

    def _show_blind(self, connections: Iterable[int], view: GroupView) -> list[int]:
        """Tell sessions that may not see members; the others."""
        seeing: list[int] = []
        for connection in connections:
            seat = self._seats.get(connection)
            if seat is None or self.guard.may_see(seat, view.group):
                seeing.append(connection)
            else:
                self._push(seat, (encode_view(alone(view, seat.member)),))
        return seeing

    def refuse(self, seat: Seat, refused: Refused) -> None:
        """Tell a session what it may not do; a client that does not understand that is cut off."""
        if seat.takes_refusals:
            self._push(seat, (encode_refused(refused),))
            seat.session.replied()
        else:
            self._leave(seat, Code.ILLEGAL_GROUP, str(refused))

    def abort(self, connections: Iterable[int], sender: MemberId, message: int) -> None:
        """Tell sessions that no more fragments of a message will come."""
        self._push_all(connections, encode_abort(sender, message))

    def bounce(self, connection: int, message: int, target: str, position: Position) -> None:
        """Tell a sender that its private message came too late for the target."""
        self._push_all([connection], encode_undeliverable(message, target, position))

    def _push_all(self, connections: Iterable[int], *frame: Raw) -> None:
        for connection in connections:
            seat = self._seats.get(connection)
            if seat is not None:
                self._push(seat, frame)

    def answer(self, connection: int, data: bytes) -> None:
        """Answer the query of a session; the next one is looked at once it has taken the answer."""
        seat = self._seats.get(connection)
        if seat is not None:
            self._push(seat, (encode_answer(data),))
            seat.session.replied(answer=True)
