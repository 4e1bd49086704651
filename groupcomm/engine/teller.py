"""The teller: what this daemon's sessions are told, by the half of the desk that speaks.

Pure. Frames are encoded once for all who get them; what comes before a session's WELCOME waits.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping

from groupcomm.clocks.stamp import Position
from groupcomm.engine.access_control import AccessControl, restrict_to_self
from groupcomm.engine.causes import CausesFrames
from groupcomm.engine.slow_receivers import SlowReceivers
from groupcomm.engine.traffic import Traffic
from groupcomm.events import GroupView, MemberId, Refused
from groupcomm.level import ServiceLevel
from groupcomm.session.codes import Code
from groupcomm.session.daemon_frames import (
    encode_abort,
    encode_answer,
    encode_delivery,
    encode_principal,
    encode_refused,
    encode_undeliverable,
    encode_view,
)
from groupcomm.session.daemon_session import DaemonSession, DaemonSessionState, SessionLimits
from groupcomm.session.origins_frame import encode_origins
from groupcomm.wire.bundle import Bundle
from groupcomm.wire.raw import Raw

_UNRELIABLE = ServiceLevel.UNRELIABLE
_CONNECTING = DaemonSessionState.CONNECTING
_OPEN = DaemonSessionState.OPEN
_WITHDRAWING = DaemonSessionState.WITHDRAWING
_LEAVING = DaemonSessionState.LEAVING


class Teller(ABC):
    """Speaks to all local sessions.

    Attributes:
        by_connection: the sessions by connection number, from the begin of a client's stream until
            no daemon knows the session and that stream has ended.
        ready: connections with new output.
        slow_receivers: those for which all senders wait.
        limits: of sessions that begin from now on.
        traffic: counts of what sessions gave and got.
        access_control: what they may do.
    """

    def __init__(self, limits: SessionLimits) -> None:
        self.limits = limits
        self._now = 0.0
        self.by_connection: dict[int, DaemonSession] = {}
        self._causes_frames = CausesFrames()
        self._principals: set[int] = set()  # connections that asked for senders' principals
        self._origins: set[int] = set()  # connections that asked which daemons came together
        self.slow_receivers = SlowReceivers()
        self.ready: dict[int, None] = {}
        self.traffic = Traffic()
        self.access_control = AccessControl()

    @abstractmethod
    def _end(self, session: DaemonSession, code: int, reason: str) -> None:
        """End a session, and tell its client why."""

    @abstractmethod
    def _cut_off(self, session: DaemonSession, before: DaemonSessionState) -> None:
        """Do what the end of a session asks for whose client was too slow in the state before."""

    @abstractmethod
    def _principal_at(self, daemon: int, connection: int) -> str:
        """Return whose session one of any daemon of the view is; "" while nobody knows."""

    def came_from(self, origins: Mapping[str, int]) -> None:
        """Tell sessions that asked which daemons came together into this view."""
        if self._origins:
            self._push_all(sorted(self._origins), encode_origins(origins))

    def deliver(self, connections: Iterable[int], bundle: Bundle, sender: MemberId) -> None:
        """Hand a bundle to sessions; encoded once for all of them."""
        unreliable = bundle.level == _UNRELIABLE
        packet = bundle.packet
        parts = None if unreliable else (packet.time, packet.ring, bundle.place)
        frame = encode_delivery(sender.name, sender.connection, parts, bundle.body)
        receivers = list(connections)
        self.traffic.count_delivered(bundle, len(receivers))
        if self._principals:
            self._push_principal(receivers, packet.daemon, sender.connection)
        if self._causes_frames.wanted and not unreliable:
            receivers, asked = self._causes_frames.split(receivers)
            if asked:
                self._push_all(asked, *self._causes_frames.prepend(frame, bundle))
        for connection in receivers:
            session = self.by_connection.get(connection)
            if session is not None:
                self._push(session, frame, unreliable)

    def _push_principal(self, receivers: list[int], daemon: int, sender: int) -> None:
        """Tell those that asked whose the next delivery is, unless the last one was, too."""
        principal = self._principal_at(daemon, sender)
        frame = encode_principal(principal)
        for connection in self._principals.intersection(receivers):
            session = self.by_connection.get(connection)
            if session is not None and session.last_principal != principal:
                session.last_principal = principal
                self._push(session, (frame,))

    def _push(
        self, session: DaemonSession, frame: tuple[Raw, ...], droppable: bool = False
    ) -> None:
        """Tell a session something, if it is to be told anything."""
        state = session.state
        if state is _OPEN or state is _LEAVING:
            self.ready[session.connection] = None
            if not session.push(*frame, droppable=droppable):
                self._cut_off(session, state)
            elif session.block_bytes is not None and session.blocks:
                self.slow_receivers.add(session, self._now, self.limits.block_s)
        elif state is _CONNECTING or state is _WITHDRAWING:
            session.early.append((frame, droppable))

    def show_view(self, connections: Iterable[int], view: GroupView) -> None:
        """Tell sessions of a group view; those that may not see members, of themselves alone."""
        if self.access_control.rules.restricts:
            connections = self._show_blind(connections, view)
        self._push_all(connections, encode_view(view))

    def _show_blind(self, connections: Iterable[int], view: GroupView) -> list[int]:
        """Tell sessions that may not see members; the others."""
        seeing: list[int] = []
        for connection in connections:
            session = self.by_connection.get(connection)
            if session is None or self.access_control.may_see_members(session, view.group):
                seeing.append(connection)
            else:
                self._push(session, (encode_view(restrict_to_self(view, session.member)),))
        return seeing

    def send_refusal(self, session: DaemonSession, refused: Refused) -> None:
        """Tell a session what it may not do; a client that does not understand that is cut off."""
        if session.takes_refusals:
            self._push(session, (encode_refused(refused),))
            session.note_reply()
        else:
            self._end(session, Code.ILLEGAL_GROUP, str(refused))

    def abort(self, connections: Iterable[int], sender: MemberId, message: int) -> None:
        """Tell sessions that no more fragments of a message will come."""
        self._push_all(connections, encode_abort(sender, message))

    def bounce(self, connection: int, message: int, target: str, position: Position) -> None:
        """Tell a sender that its private message came too late for the target."""
        self._push_all([connection], encode_undeliverable(message, target, position))

    def _push_all(self, connections: Iterable[int], *frame: Raw) -> None:
        for connection in connections:
            session = self.by_connection.get(connection)
            if session is not None:
                self._push(session, frame)

    def send_answer(self, connection: int, data: bytes) -> None:
        """Answer the query of a session; the next one is looked at once it has taken the answer."""
        session = self.by_connection.get(connection)
        if session is not None:
            self._push(session, (encode_answer(data),))
            session.note_reply(answer=True)
