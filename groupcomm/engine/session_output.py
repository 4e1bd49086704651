"""The output of the local sessions: the frames for each of them, and the slow receivers.

Pure. ``now`` is in seconds. A frame is encoded once for all sessions that get it. Frames that come
before the WELCOME of a session wait for it.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from math import inf
from typing import Final

from groupcomm.clocks.stamp import Position
from groupcomm.engine.access_control import AccessControl
from groupcomm.engine.change_frames import ChangeFrames, ListsShown
from groupcomm.engine.counters import Traffic
from groupcomm.engine.held_changes import MANY, SHARED_A_FRAME, ChangeLog, HeldChanges
from groupcomm.events import CausalContext, Cause, DaemonView, MemberId
from groupcomm.groups.changes import GroupChange
from groupcomm.level import ServiceLevel
from groupcomm.session.daemon_frames import (
    encode_abort,
    encode_causes,
    encode_continued,
    encode_delivery,
    encode_origins,
    encode_principal,
    encode_undeliverable,
    encode_view_id,
)
from groupcomm.session.daemon_session import DaemonSession, DaemonSessionState
from groupcomm.session.differences import ChangeRun
from groupcomm.session.frames import Capability
from groupcomm.wire.bundle import Bundle
from groupcomm.wire.data import DataPacket
from groupcomm.wire.packet import Raw

_UNRELIABLE = ServiceLevel.UNRELIABLE
_CAUSAL = ServiceLevel.CAUSAL
_CONNECTING = DaemonSessionState.CONNECTING
_OPEN = DaemonSessionState.OPEN
_WITHDRAWING = DaemonSessionState.WITHDRAWING
_LEAVING = DaemonSessionState.LEAVING
_CONTINUED = (encode_continued(),)
_NO_VIEWS, _GO_ON = int(Capability.NO_VIEWS), int(Capability.CONTINUED)

STEP_FRAMES: Final = 150
"""The frames that one step delivers, besides those of the last view of a group: some 1 ms, with
the writes, and four times that on processors with other work. A round of the loop may have several
steps."""

NAMES_A_FRAME: Final = 4
"""The names that are encoded in views in the time that a frame takes."""

CHANGE_FRAMES: Final = 6
"""The frames that take the time of a change of a group, besides one for each session."""


class SlowReceivers:
    """The sessions that make all senders wait (`slow_receivers = "block"`), and since when.

    Attributes:
        due: when the first of them will have made senders wait for too long; inf without any.
    """

    __slots__ = ("_sessions", "_since", "due")

    def __init__(self) -> None:
        self._sessions: dict[int, DaemonSession] = {}  # some may have stopped blocking
        self._since: dict[int, float] = {}
        self.due = inf

    def __bool__(self) -> bool:
        """Return whether any session blocks now."""
        if self._sessions:
            self._sessions = {n: s for n, s in self._sessions.items() if s.blocks}
            self._since = {n: self._since[n] for n in self._sessions}
        return bool(self._sessions)

    def add(self, session: DaemonSession, now: float, limit_s: float) -> None:
        """Note that a session blocks; it may do so for `limit_s`."""
        self._sessions[session.connection] = session
        self._since.setdefault(session.connection, now)
        self.due = min(self.due, now + limit_s)

    def pop_overdue(self, now: float, limit_s: float) -> list[int]:
        """Return the connections of the sessions that have blocked for longer than `limit_s`."""
        since = self._since if self else {}
        found = [number for number, begun in since.items() if now >= begun + limit_s]
        rest = [begun for number, begun in since.items() if number not in found]
        self.due = min(rest, default=inf) + limit_s
        return found


class CausesFrames:
    """The CAUSES frames of deliveries, for the sessions that asked for them.

    The last frame is kept, as several bundles of one packet follow each other.

    Attributes:
        wanted: the connections that asked.
    """

    __slots__ = ("_frame", "_full", "_packet", "wanted")

    def __init__(self) -> None:
        self.wanted: set[int] = set()
        self._packet: DataPacket | None = None
        self._full = False
        self._frame = b""

    def split(self, connections: list[int]) -> tuple[list[int], list[int]]:
        """Return the connections that did not ask, and those that did."""
        wanted = self.wanted
        asked = [connection for connection in connections if connection in wanted]
        if not asked:
            return connections, asked
        return [connection for connection in connections if connection not in wanted], asked

    def prepend(self, delivery: tuple[Raw, ...], bundle: Bundle) -> tuple[Raw, ...]:
        """Return the CAUSES frame of a bundle, followed by its DELIVER frame."""
        first, *rest = delivery
        return (b"".join((self._frame_of(bundle), first)), *rest)

    def _frame_of(self, bundle: Bundle) -> bytes:
        """Return the frame of a bundle. From CAUSAL up it holds V and A."""
        packet: DataPacket = bundle.packet
        full = bundle.level >= _CAUSAL
        if packet is not self._packet or full != self._full:
            self._packet, self._full = packet, full
            agreed = packet.agreed if full else None
            heard = packet.vector if full else None
            self._frame = encode_causes(CausalContext(packet.number, agreed, heard or ()))
        return self._frame


class SessionOutput:
    """The frames for all local sessions.

    Args:
        principal_of: returns the principal of a session of any daemon of the view, given the index
            of the daemon and the connection; "" while it is not known.
        cut_off: ends a session whose client did not keep up, given its state before that.

    Attributes:
        by_connection: the sessions by connection number, from the beginning of a client's stream
            until no daemon knows the session and that stream has ended.
        ready: the connections with new output.
        held: the changes of large groups that wait, and the connections that they wait for.
        slow_receivers: the sessions for which all senders wait.
        traffic: counts of the messages that sessions have sent and received.
        access_control: the rules for sessions.
        causes_frames: the CAUSES frames, and the connections that asked for them.
        principals: the connections that asked for senders' principals.
        origins: the connections that asked which daemons came together.
        by_votes: whether votes decided who may act in this view, or in the one before it.
        block_s: the seconds for which a session may make all senders wait.
        now: the time of this step.
        frames: the frames that were delivered in this step, or since it was allowed more, with
            other work that was charged.
        earlier_frames: those of this step before that.
        rest: frames with more receivers than a step serves: the connections that are left, the
            frame, and whether it may be dropped.
    """

    def __init__(
        self,
        principal_of: Callable[[int, int], str],
        cut_off: Callable[[DaemonSession, DaemonSessionState], None],
        block_s: float,
    ) -> None:
        self._principal_of = principal_of
        self._cut_off = cut_off
        self.by_connection: dict[int, DaemonSession] = {}
        self.ready: dict[int, None] = {}
        self.held = HeldChanges()
        self.slow_receivers = SlowReceivers()
        self.traffic = Traffic()
        self.access_control = AccessControl()
        self._lists_shown = ListsShown(self.access_control)
        self.causes_frames = CausesFrames()
        self.principals: set[int] = set()
        self.origins: set[int] = set()
        self.by_votes = False
        self.block_s = block_s
        self.now = 0.0
        self.frames = self.earlier_frames = 0
        self.rest: deque[tuple[list[int], tuple[Raw, ...], bool]] = deque()

    def may_deliver(self) -> bool:
        """Return whether this step may deliver more."""
        return self.frames < STEP_FRAMES and not self.rest

    def allow_more(self) -> None:
        """Let this step deliver as much again."""
        self.earlier_frames += self.frames
        self.frames = 0

    def end_step(self) -> int:
        """Return the frames of this step; the next one may deliver as much again."""
        frames = self.frames + self.earlier_frames
        self.frames = self.earlier_frames = 0
        return frames

    def go_on(self) -> bool:
        """Send more of the frames with many receivers; return whether nothing is left.

        Nothing else may be delivered before that.
        """
        while self.rest and self.frames < STEP_FRAMES:
            connections, frame, droppable = self.rest.popleft()
            most = STEP_FRAMES - self.frames
            if len(connections) > most:
                self.rest.appendleft((connections[most:], frame, droppable))
                connections = connections[:most]
            self._push_all(connections, frame, droppable)
        return not self.rest

    def _push_all(self, connections: list[int], frame: tuple[Raw, ...], droppable: bool) -> None:
        """Send a frame to sessions; this step has room for all of them."""
        self.frames += len(connections)
        for connection in connections:
            session = self.by_connection.get(connection)
            if session is not None:
                self.push(session, frame, droppable)

    def fan_out(
        self, connections: list[int], frame: tuple[Raw, ...], droppable: bool = False
    ) -> None:
        """Send a frame to as many of these sessions as this step may; `go_on` serves the others."""
        if self.rest or self.frames + len(connections) > STEP_FRAMES:
            self.rest.append((connections, frame, droppable))
            self.go_on()
        else:
            self._push_all(connections, frame, droppable)

    def note_wishes(self, session: DaemonSession) -> None:
        """Note the frames that a session asks for in its HELLO."""
        wishes, number = session.asked.wishes, session.connection
        if wishes & Capability.CAUSES:
            self.causes_frames.wanted.add(number)
        if wishes & Capability.PRINCIPALS:
            self.principals.add(number)
        if wishes & Capability.ORIGINS:
            self.origins.add(number)

    def forget(self, connection: int) -> None:
        """Forget the wishes of a connection: its stream has ended."""
        self.ready.pop(connection, None)
        self.held.waiting.pop(connection, None)  # the logs go on without it
        self.causes_frames.wanted.discard(connection)
        self.principals.discard(connection)
        self.origins.discard(connection)

    def push(
        self,
        session: DaemonSession,
        frame: tuple[Raw, ...],
        droppable: bool = False,
        held: bool = False,
    ) -> None:
        """Send a frame to a session, now or after its WELCOME, if its state allows any.

        One that is held is sent with the next frame that is not, and soon in any case.
        """
        if session.connection in self.held.waiting:
            self.push_changes(session)
        state = session.state
        if state is _OPEN or state is _LEAVING:
            if not held:
                self.ready[session.connection] = None
            elif session.connection not in self.ready:
                self.held.hold(session.connection)
            if not session.push(*frame, droppable=droppable):
                self._cut_off(session, state)
            elif session.block_bytes is not None and session.blocks:
                self.slow_receivers.add(session, self.now, self.block_s)
        elif state is _CONNECTING or state is _WITHDRAWING:
            session.early.append((frame, droppable))

    def push_changes(self, session: DaemonSession) -> None:
        """Send a session the changes that wait for it, so that another frame may follow."""
        if session.connection in self.held.waiting:
            changes = self.held.pop(session.connection)
            if changes:
                self.push(session, changes)

    def push_all_changes(self) -> None:
        """Send all changes that wait; those that come next wait for sessions as they are then."""
        for connection in list(self.held.waiting):
            self._push_late(connection, self.held.pop(connection))
        self.held.clear()

    def push_due_changes(self) -> None:
        """Send changes that have waited long enough, to as many sessions as one step may."""
        for connection, changes in self.held.pop_due(self.now):
            self._push_late(connection, changes)

    def _push_late(self, connection: int, changes: tuple[ChangeRun, ...]) -> None:
        session = self.by_connection.get(connection)
        if session is not None:
            self.ready[connection] = None  # a frame that is held may be in its outbox
            if changes:
                self.push(session, changes)

    def begin_view(self, view: DaemonView) -> None:
        """Tell the sessions that get views of a new one."""
        notified: dict[bytes, list[int]] = {}  # by the frame that they understand
        for number, session in self.by_connection.items():
            if session.is_notified:
                frame = encode_view_id(view, session.asked.wishes)
                notified.setdefault(frame, []).append(number)
        for frame, numbers in notified.items():
            self.fan_out(numbers, (frame,))

    # ---- for the groups ----

    def came_from(self, origins: Callable[[], Mapping[str, int]]) -> None:
        """Send the sessions that asked which daemons came together into this view.

        Clients that do not know votes take those that did not come along for too few to have acted:
        where votes decide they are told nothing, and have to take all for others.
        """
        asked = sorted(self.origins)
        if self.by_votes:
            asked = [number for number in asked if self.by_connection[number].knows_votes]
        if asked:
            self.fan_out(asked, (encode_origins(origins()),))

    def deliver(self, connections: Iterable[int], bundle: Bundle, sender: MemberId) -> None:
        """Send a bundle to sessions, in as many steps as it takes; it is encoded once for all."""
        unreliable = bundle.level == _UNRELIABLE
        packet = bundle.packet
        parts = None if unreliable else (packet.time, packet.ring, bundle.place)
        frame = encode_delivery(sender.name, sender.connection, parts, bundle.body)
        receivers = list(connections)
        self.traffic.count_delivered(bundle, len(receivers))
        if self.principals:
            self._push_principal(receivers, packet.daemon, sender.connection)
        if self.causes_frames.wanted and not unreliable:
            receivers, asked = self.causes_frames.split(receivers)
            if asked:
                self.fan_out(asked, self.causes_frames.prepend(frame, bundle))
        self.fan_out(receivers, frame, unreliable)

    def _push_principal(self, receivers: list[int], daemon: int, sender: int) -> None:
        """Send the sessions that asked the principal of the next delivery, where it changes."""
        principal = self._principal_of(daemon, sender)
        frame = encode_principal(principal)
        for connection in self.principals.intersection(receivers):
            session = self.by_connection.get(connection)
            if session is not None and session.last_principal != principal:
                session.last_principal = principal
                self.push(session, (frame,))

    def show_change(
        self, connections: Collection[int], change: GroupChange, own: int | None = None
    ) -> None:
        """Send a change of a group to its members, and to the one that has joined or left itself.

        Each form is encoded once for all sessions that get it.
        """
        frames, shown, group = ChangeFrames(change), self._lists_shown, change.group
        for member in change.left:
            self._leave_log(member, group)
        log = self.held.logs.get(group)
        if change.before is not None and change.cause is not Cause.NETWORK:
            if log is None and len(connections) >= MANY:
                log = self._open_log(connections, group)
            if log is not None:
                self.held.append(log, frames.difference())
                connections = log.others
        for connection in connections:
            session = self.by_connection.get(connection)
            if session is not None and session.wants_views(group):
                frame = shown.frame_for(session, frames, own=False)
                self.push(session, (frame,), held=log is not None)
        session = None if own is None else self.by_connection.get(own)
        if session is not None:
            self.push(session, (shown.frame_for(session, frames, own=True),))
            if log is not None and change.cause is Cause.JOIN:
                self._enter_log(log, session, group)
        self.frames += CHANGE_FRAMES + len(connections) + frames.names // NAMES_A_FRAME

    def _open_log(self, connections: Collection[int], group: str) -> ChangeLog:
        """Return a new log of a group, with these members as its readers."""
        log = self.held.logs[group] = ChangeLog()
        self.frames += len(connections) // SHARED_A_FRAME
        for connection in connections:
            session = self.by_connection.get(connection)
            if session is not None:
                self._enter_log(log, session, group)
        return log

    def _enter_log(self, log: ChangeLog, session: DaemonSession, group: str) -> None:
        """Have a member get the changes that follow."""
        if self._lists_shown.shares(session, group):
            self.held.read(session.connection, log)
        elif session.wants_views(group):
            log.others[session.connection] = None

    def _leave_log(self, member: MemberId, group: str) -> None:
        """Send a member that has left, if it is local, the changes before that, and no others."""
        session = self.by_connection.get(member.connection)
        if session is not None and session.member == member:
            self.push_changes(session)
            self.held.leave(member.connection, group)

    def charge(self, units: int) -> None:
        """Count work of this step besides frames, which takes as much time as so many of them."""
        self.frames += units

    def continue_groups(self, connection: int, start: Position) -> bool:
        """Tell a session that all its groups without a view since `start` go on as they were.

        What it may not see it does not hold, so that goes on, too. Return False if its client does
        not understand that, or reads some of its groups.
        """
        session = self.by_connection.get(connection)
        if session is None or session.asked.wishes & _NO_VIEWS:
            return True
        if session.reads or not session.asked.wishes & _GO_ON:
            return False
        self.frames += 1
        self.push(session, _CONTINUED)
        return True

    def abort(self, connections: Iterable[int], sender: MemberId, message: int) -> None:
        """Tell sessions that no more fragments of a message will come."""
        self.fan_out(list(connections), (encode_abort(sender, message),))

    def bounce(self, connection: int, message: int, target: str, position: Position) -> None:
        """Tell a sender that its private message came too late for the target."""
        self.fan_out([connection], (encode_undeliverable(message, target, position),))
