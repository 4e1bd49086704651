"""The local sessions of a daemon: they connect its clients with the ring.

Pure. ``now`` is in seconds. The messages of clients become bundles that wait for numbers. A session
exists for all daemons from its CONNECT to its DISCONNECT. Both are events of the agreed order, so a
user's name is free again only once the DISCONNECT is ordered. Sessions, and waiting bundles,
continue from one view of the daemons to the next.
"""

from collections.abc import Callable, Iterable, Sequence
from math import inf

from groupcomm.clocks.stamp import Position
from groupcomm.config.core import RightLimits
from groupcomm.engine.acceptance import Acceptance
from groupcomm.engine.admission import Admission
from groupcomm.engine.backlog import Backlog, Subscriptions
from groupcomm.engine.connection_numbers import ConnectionNumbers
from groupcomm.engine.inputs import (
    ClientBytes,
    ClientCharged,
    ClientDismissed,
    ClientGone,
    ClientInput,
    ClientOpened,
    ProgramSettings,
    QuestionAnswered,
)
from groupcomm.engine.intake import Intake, Reading
from groupcomm.engine.lines import LocalLines
from groupcomm.engine.liveness import SessionWatches
from groupcomm.engine.news import ProgramSilent
from groupcomm.engine.output import Output
from groupcomm.engine.pauses import Pauses
from groupcomm.engine.probe import Probe
from groupcomm.engine.programs_status import BusySessions
from groupcomm.engine.session_output import SessionOutput
from groupcomm.errors import Code
from groupcomm.events import DaemonStopping, DaemonView, MemberId, Refused
from groupcomm.groups.table import GroupTable, Member
from groupcomm.level import ServiceLevel
from groupcomm.names import private_name
from groupcomm.security.access import Access
from groupcomm.security.quotas import Bound, Quotas
from groupcomm.session.daemon_frames import (
    encode_accepted,
    encode_answer,
    encode_ordered,
    encode_refused,
    encode_stopping,
    encode_transition,
)
from groupcomm.session.daemon_session import (
    DaemonSession,
    DaemonSessionState,
    SessionLimits,
    SessionStatus,
)
from groupcomm.session.frames import Capability
from groupcomm.session.liveness import PeerWatch
from groupcomm.session.requests import Alive, Hello, Price, Query, Request, Submit, price_of_refusal
from groupcomm.wire.bundle import (
    WITHOUT_VIEWS,
    Bundle,
    BundleKind,
    control_bundle,
    leave_bundle,
)

_UNRELIABLE = ServiceLevel.UNRELIABLE
_AGREED = ServiceLevel.AGREED
_FRAGMENT = BundleKind.FRAGMENT
_JOIN, _LINE = BundleKind.JOIN, BundleKind.LINE
_OPEN = DaemonSessionState.OPEN
_STOPPING, _HEARTBEATS = int(Capability.STOPPING), int(Capability.HEARTBEATS)
_REFUSALS, _BOUNDS = int(Capability.REFUSALS), int(Capability.BOUNDS)
_ACCEPTED = int(Capability.ACCEPTED)

RECORD_HEAD_BYTES = 14
"""The bytes of a bundle's record besides its body, its user's name and its targets."""


class LocalSessions:
    """All local sessions.

    Attributes:
        by_connection, slow_receivers, traffic, access_control: see SessionOutput.
        came_from, deliver, show_change, continue_groups, charge, abort, bounce: see SessionOutput;
            the groups call them.
        may_deliver, allow_more, go_on, rest: see SessionOutput.
        busy: the sessions for which something may wait.
        limits: the limits of sessions that begin from now on.
        intake: the input of programs that was not processed yet.
        admission, names, why_name_taken: see Admission.
        connection_numbers: the numbers that clients get.
        silent: the sessions that have ended as their clients were silent, for the log.
        unreliable: bundles that need no number, in the order of their submission.
        backlog: bundles that wait for a number.
        subscriptions: bundles pass through them on their way to the backlog.
        pauses: the groups that pause without a quorum.
        acceptance: tells clients which of their messages are safe from a crash of this daemon.
        lines: the lines of sessions.
        line_claimed, line_granted, line_taken: see LocalLines; the groups call them.
        watches: the watches over the sessions whose clients send heartbeats.
        room: the bytes of a packet that a bundle of a session which begins now may fill.
        output: the frames for them.
        now: the time of this step; set at its beginning, like that of the output.
        due: the time of the next step that sessions need; inf if none is due.
        work: the units of work of the last step, each delivered frame counted as one.
    """

    def __init__(
        self,
        daemon: str,
        room: int,
        *,
        first_connection: int,
        settings: ProgramSettings,
        probe: Probe,
    ) -> None:
        """Begin without a view.

        Args:
            daemon: the name of this daemon.
            room: the bytes of a packet that a bundle may fill.
            first_connection: a number below all connection numbers.
            settings: the rules, quotas and limits for programs.
            probe: an observer for traces.
        """
        output = SessionOutput(self._principal_of, self._cut_off, settings.limits.block_s)
        self.output = output
        self.by_connection, self.slow_receivers = output.by_connection, output.slow_receivers
        self.traffic, self.access_control = output.traffic, output.access_control
        self.came_from, self.deliver = output.came_from, output.deliver  # one call less for each
        self.show_change, self.abort, self.bounce = output.show_change, output.abort, output.bounce
        self.continue_groups, self.charge = output.continue_groups, output.charge
        self._push, self.may_deliver = output.push, output.may_deliver
        self.allow_more = output.allow_more
        self.rest, self.go_on = output.rest, output.go_on
        self.busy = BusySessions(self.by_connection)
        self.limits = settings.limits
        self._view: DaemonView | None = None
        self._daemon = daemon
        self._stops_at = inf  # the time at which the sessions end, once they know it
        self._others: tuple[str, ...] = ()  # the addresses of other daemons
        self.room = room
        self._probe = probe
        self.connection_numbers = ConnectionNumbers(first_connection)
        self.admission = Admission(daemon, self.by_connection, self.access_control)
        self.names, self.why_name_taken = self.admission.names, self.admission.why_name_taken
        self.unreliable: list[Bundle] = []
        self._table: GroupTable | None = None
        self.pauses = Pauses()
        self.intake = Intake(self._carry_out, self._end, self._finish)
        self.backlog = Backlog()
        self.subscriptions = Subscriptions(self.backlog)
        self.acceptance = Acceptance()
        self.lines = LocalLines(self._tell_line, self._end_line)
        self.line_claimed, self.line_granted = self.lines.claimed, self.lines.grant
        self.line_taken = self.lines.end_taken
        self.watches = SessionWatches(self._push, self._end_silent)
        self.silent: list[ProgramSilent] = []
        self.now = 0.0
        self.due = inf
        self.work = 0
        self._reading = Reading()
        self._greeted: list[int] = []
        self._questions: list[tuple[int, str]] = []
        self._closed: list[int] = []  # connections to close once their output is written
        self.access_control.set_rules(settings.access, settings.quotas)
        self.intake.set_quotas(settings.quotas)

    # ---- views ----

    def begin(
        self,
        view: DaemonView,
        table: GroupTable,
        groups: Iterable[str],
        *,
        readers: bool,
        leaves: Callable[[str], bool] | None,
        rights: RightLimits | None,
        knows_pauses: bool = True,
    ) -> None:
        """Begin a view: `table` resolves names; for the rest see Subscriptions.

        `knows_pauses`: whether all daemons know joins that need a quorum.
        """
        self.output.by_votes = view.by_votes or (self._view is not None and self._view.by_votes)
        self._view = view
        self._table = self.access_control.table = table
        ended = self.lines.begin(table)
        self.acceptance.release(self.now)
        lacks_quorum = view.majority is False
        pauses = self.pauses.begin(table, lacks_quorum=lacks_quorum, are_known=knows_pauses)
        self.subscriptions.begin(
            groups, leaves=leaves, readers=readers, rights=rights, ended=ended, pauses=pauses
        )
        self._leave_groups()
        self.output.push_all_changes()
        self.output.begin_view(view)

    def _leave_groups(self) -> None:
        """Take sessions out of the groups that they leave without a quorum, and tell them.

        That comes before all that waits for a number.
        """
        bundles = []
        for connection, group in self.pauses.leavers(self.backlog):
            session = self.by_connection.get(connection)
            if session is not None:
                self._refuse(session, self.access_control.expel(session, group, Bound.QUORUM))
                bundles.append(leave_bundle(group))
                bundles[-1].address(connection, session.user, ())
        if bundles:
            self.backlog.put_back(bundles)

    def end_regular(self, daemons: Sequence[str]) -> None:
        """Tell the sessions that the regular part of the view is over.

        `daemons` are the transitional members, of which sessions with ORIGINS are notified.
        """
        self.came_from(lambda: dict.fromkeys(daemons, 0))
        self._notify_all(encode_transition())

    def _notify_all(self, frame: bytes) -> None:
        """Send a frame about the view of the daemons to all sessions that get it."""
        notified = [n for n, session in self.by_connection.items() if session.is_notified]
        self.output.fan_out(notified, (frame,))

    def end(self) -> None:
        """End a view: a message that has numbers only in part is numbered again as a whole."""
        self.acceptance.postponed = frozenset(self.lines.stages)  # the next view decides
        self.acceptance.settle(inf, self.now)  # the rest of the view was delivered
        sessions = self.by_connection.values()
        reclaimed = [b for each in sessions if each.numbered for b in each.reclaim()]
        for bundle in reclaimed:
            self.busy.submitted[bundle.session] = None
        self.backlog.put_back(reclaimed)

    def announce_stop(self, now: float, at: float, others: tuple[str, ...]) -> None:
        """Admit no more sessions, and tell those that there are when the daemon stops.

        Args:
            now: the time of this step.
            at: the time at which it stops, at the latest.
            others: addresses of other daemons.
        """
        self.output.now = now
        self._stops_at, self._others = at, others
        where = f"{', '.join(others)}, or " if others else ""
        self.admission.closing = closing = (
            f"daemon {self._daemon} is about to stop, and admits no new session: connect to"
            f" {where}another daemon of the cluster"
        )
        for session in list(self.by_connection.values()):
            if session.state is DaemonSessionState.GREETED:  # the session waits for its name
                self._end(session, Code.REJECT_STOPPING, closing)
            elif session.is_notified:
                self._push_stopping(session)

    def _push_stopping(self, session: DaemonSession) -> None:
        """Tell a session that the daemon is about to stop, if its client understands that."""
        if session.asked.wishes & _STOPPING:
            within_s = max(0.0, self._stops_at - self.output.now)
            notice = DaemonStopping(within_s=within_s, addresses=self._others)
            self._push(session, (encode_stopping(notice),))

    def close_all(self, reason: str) -> None:
        """End all sessions and admit no more, as this daemon leaves."""
        self.admission.closing = reason
        for session in list(self.by_connection.values()):
            self._end(session, Code.CONNECTION_CLOSED, reason)

    def programs(self, connections: Iterable[int]) -> list[SessionStatus]:
        """Return those of these sessions whose programs are there, for operators."""
        return [session.status() for session in self.busy.with_programs(connections)]

    @property
    def waiting(self) -> int:
        """Return the number of bundles that wait for a number."""
        return self.backlog.size + self.subscriptions.waiting

    @property
    def unfinished(self) -> int:
        """Return the number of sessions that other daemons know."""
        return sum(session.is_known for session in self.by_connection.values())

    def _principal_of(self, daemon: int, connection: int) -> str:
        known = None if self._table is None else self._table.sessions.get((daemon, connection))
        return "" if known is None else known.principal

    # ---- input of clients ----

    def accept(self, event: ClientInput) -> None:
        """Process an event of one client, or new settings for all; bytes wait for their turn."""
        match event:
            case ClientBytes(connection, data):
                self._reading.fed.append(connection)
                self._receive_bytes(connection, data)
            case ClientCharged(connection, price):
                self._reading.fed.append(connection)
                self._charge(connection, price)
            case ClientOpened(connection, principal):
                session = DaemonSession(connection, limits=self.limits, principal=principal)
                self.by_connection[connection] = session
            case ClientGone(connection):
                self._lose_client(connection)
            case QuestionAnswered(connection, answer):
                self._answer(connection, answer)
            case ClientDismissed(connection, code, reason):
                self._dismiss(connection, code, reason)
            case ProgramSettings():
                self._set_limits(event.limits)
                self.intake.set_quotas(event.quotas)
                self.set_rules(event.access, event.quotas)

    def serve(self, now: float) -> bool:
        """Process requests of clients in turn (see Intake.serve), and end overdue sessions.

        Returns:
            Whether any request was processed, or a bundle waits because a session has to end.
        """
        waiting = self.backlog.size
        if now >= self.slow_receivers.due:
            self._cut_off_blocking(now)
        if now >= self.names.due:
            for session, why_not in self.admission.pop_overdue(now):
                self._end(session, Code.REJECT_NOT_UNIQUE, why_not)
        if now >= self.watches.due:
            self.watches.look(now, self.by_connection)
        served = self.intake.serve(now)
        self.work = self.intake.work_done
        return served or self.backlog.size != waiting

    def _receive_bytes(self, connection: int, data: bytes) -> None:
        session = self.by_connection.get(connection)
        if session is not None and session.state <= _OPEN:
            session.buffer(data)
            self.intake.add(session)
            if session.watch is not None:
                session.watch.heard_at = self.now

    def _charge(self, connection: int, price: Price) -> None:
        session = self.by_connection.get(connection)
        if session is not None and session.state <= _OPEN:
            session.owe(price)
            self.intake.add(session)

    def _set_limits(self, limits: SessionLimits) -> None:
        before, self.limits, self.output.block_s = self.limits, limits, limits.block_s
        if limits.session_timeout_s != before.session_timeout_s:
            for session in list(self.by_connection.values()):
                self.watches.change(session, self.now, limits.session_timeout_s)

    def complete(self, output: Output) -> None:
        """Add to the output of a step everything that concerns clients; the next one may deliver
        as much again."""
        if self.now >= self.acceptance.due:
            self.acceptance.tell(self.now, self.by_connection, self._push)
        if self.now >= self.output.held.due:
            self.output.push_due_changes()
        if self.output.ready:
            self.busy.unread.update(self.output.ready)
            output.ready, self.output.ready = self.output.ready, {}
        if self._reading.fed or self._reading.held_back:
            output.readable = self._reading.pop(self.by_connection, self.intake.done)
        if self._closed:
            output.ended, self._closed = self._closed, []
        if self._greeted:
            output.greeted, self._greeted = self._greeted, []
        if self.output.frames or self.output.earlier_frames:
            self.work += self.output.end_step()
        if self._questions:
            output.questions, self._questions = self._questions, []
        due = min(self.intake.due, self.output.held.due, self.slow_receivers.due)
        self.due = min(due, self.names.due, self.watches.due, self.acceptance.due)

    def _carry_out(self, session: DaemonSession, request: Request) -> None:
        if isinstance(request, Submit):
            self._submit(session, request)
        elif isinstance(request, Alive):
            self.watches.hurry(session)
        elif isinstance(request, Query):
            if session.state is _OPEN:
                self._questions.append((session.connection, request.text))
        elif isinstance(request, Hello):
            self.output.note_wishes(session)
            if request.wishes & _HEARTBEATS:
                session.watch = PeerWatch(self.limits.session_timeout_s, self.now)
            self._greeted.append(session.connection)
            if self.admission.admits(session, request.user, self.output.now):
                self._connect(session)
        else:
            self._begin_end(session)

    def _answer(self, connection: int, data: bytes) -> None:
        """Answer the query of a session; its next one is processed once it has the answer."""
        session = self.by_connection.get(connection)
        if session is not None:
            self._push(session, (encode_answer(data),))
            session.note_reply(answer=True)

    def _connect(self, session: DaemonSession) -> None:
        self.names.assign(session.user, session.connection)
        session.connect(private_name(session.user, self._daemon))
        self._order_control(session, control_bundle(BundleKind.CONNECT, session.principal))

    def _order_control(self, session: DaemonSession, bundle: Bundle) -> None:
        bundle.address(session.connection, session.user, ())
        self.subscriptions.admit(bundle)

    def _submit(self, session: DaemonSession, request: Submit) -> None:
        bundle = request.bundle
        if bundle.kind == _LINE and not self.lines.allows(session, gives_up=bundle.flags > 0):
            return
        asks = self.access_control.restricts or bundle.kind > _FRAGMENT
        if (asks or session.refused == bundle.message) and not self._admits(session, bundle):
            return
        if bundle.privates:
            if bundle.index == 0:
                assert self._table is not None, "a session submits before any view"
                session.targets = self._table.targets(bundle.groups)
            bundle.targets = session.targets  # later fragments go to the first one's targets
        assert session.member is not None, "a session submits before its hello"
        whole = 1 if bundle.kind == _FRAGMENT else bundle.count
        last = bundle.message + whole - 1
        self._probe.accepted(session.member.name, session.member.connection, bundle.message, last)
        self.traffic.count_sent(bundle)
        if bundle.kind == _JOIN:
            session.note_wish(bundle.groups[0], views=not bundle.flags & WITHOUT_VIEWS)
        if request.ordered:
            session.awaited.add(bundle.message)
        session.submit(bundle, self._receivers(bundle))
        self.busy.submitted[session.connection] = None
        if bundle.level == _UNRELIABLE:
            self.unreliable.append(bundle)
        else:
            self.subscriptions.admit(bundle)

    def _receivers(self, bundle: Bundle) -> int:
        """Return the number of sessions, of any daemon, to which a bundle goes, as it looks now."""
        assert self._table is not None, "a session submits before any view"
        groups = self._table.groups
        if len(bundle.groups) == 1:
            return len(groups.get(bundle.groups[0], ()))
        return sum(len(groups.get(group, ())) for group in bundle.groups)

    def _admits(self, session: DaemonSession, bundle: Bundle) -> bool:
        """Return whether a bundle is allowed; if not, drop it and tell its session once."""
        refused = self.access_control.find_refusal(session, bundle)
        if refused is None:
            return True
        session.price = price_of_refusal(bundle, session.price)
        session.backlog_bytes -= bundle.size
        if session.asked.wishes & _ACCEPTED:
            self.acceptance.note_done(session.connection, self.now)
        if refused.verb:
            self._refuse(session, refused)
        return False

    def _refuse(self, session: DaemonSession, refused: Refused) -> None:
        """Tell a session of a refusal; end it if its client does not understand refusals."""
        if session.asked.wishes & _REFUSALS:
            bounds = bool(session.asked.wishes & _BOUNDS)
            self._push(session, (encode_refused(refused, bounds=bounds),))
            session.note_reply()
        else:
            self._end(session, Code.ILLEGAL_GROUP, str(refused))

    # ---- lines ----

    def _tell_line(self, connection: int, frame: bytes, first: Bundle | None) -> None:
        """Tell a session that it goes on with its line."""
        session = self.by_connection[connection]
        if first is not None:
            self._order_control(session, first)
        self._push(session, (frame,))

    def _end_line(self, connection: int, code: int, reason: str) -> None:
        """End a session whose line does not go on in it."""
        session = self.by_connection.get(connection)
        if session is not None:
            self._end(session, code, reason)

    # ---- rules ----

    def set_rules(self, access: Access, quotas: Quotas) -> None:
        """Apply new rules: sessions that may no longer be in a group have to leave it."""
        self.output.push_all_changes()  # rules decide who may share them
        self.access_control.set_rules(access, quotas)
        for session in list(self.by_connection.values()):
            session.allowed.clear()
            if DaemonSessionState.NEW < session.state <= DaemonSessionState.DRAINING:
                why_not = self.access_control.why_name_refused(session.principal, session.user)
                if why_not:
                    self._end(session, Code.REJECT_NAME, why_not)
        self.review_members()

    def review_members(self) -> None:
        """Apply the rules to all members of all groups."""
        if self._table is not None and self.access_control.rules.restricts:
            for member in list(self._table.sessions.values()):
                for group in list(member.groups):
                    self.entered(member, group)

    def entered(self, member: Member, group: str) -> None:
        """Apply the rules to a new member of any daemon; an own one may have to leave."""
        if self.access_control.may_be_in(member.principal, group):
            return
        session = self.by_connection.get(member.id.connection)
        if session is None or session.member != member.id:
            self.access_control.note_foreign_member(member, group)
        elif session.state <= DaemonSessionState.DRAINING and group not in session.expelled:
            self._refuse(session, self.access_control.expel(session, group))
            bundle = leave_bundle(group)
            bundle.address(member.id.connection, session.user, ())
            self.subscriptions.admit(bundle)

    # ---- ends ----

    def _end(self, session: DaemonSession, code: int, reason: str) -> None:
        """End a session at once; the bundles that it has submitted are still sent."""
        if session.state <= DaemonSessionState.DRAINING:
            self.output.push_changes(session)
            session.close(code, reason)
            self._begin_end(session)

    def _begin_end(self, session: DaemonSession) -> None:
        """Begin to end a session: order its DISCONNECT if other daemons know it."""
        session.discard_input()
        if session.is_known:
            self._order_control(session, control_bundle(BundleKind.DISCONNECT))
        else:
            self.names.unqueue(session.user, session.connection)
        if session.closed and session.has_client:
            self._shut(session)

    def _end_silent(self, session: DaemonSession, silent_s: float) -> None:
        """End a session whose client was silent for this long."""
        news = ProgramSilent(user=session.user, principal=session.principal, silent_s=silent_s)
        self.silent.append(news)
        text = (
            f"nothing has come from this program for {silent_s:g} s: it stood still, or its host"
            " could not be reached; connect again"
        )
        self._end(session, Code.CONNECTION_CLOSED, text)

    def _cut_off(self, session: DaemonSession, before: DaemonSessionState) -> None:
        """End a session whose client was too slow; `before` was the state of the session."""
        if before <= _OPEN:
            self._begin_end(session)
        else:
            self._shut(session)  # its DISCONNECT is already waiting

    def _shut(self, session: DaemonSession) -> None:
        """Have the shell close a connection once its output is written."""
        self.output.ready[session.connection] = None
        self._closed.append(session.connection)

    def note_heartbeat(self, connection: int, data: bytes, now: float) -> bool:
        """Process bytes of a client if they are a heartbeat; return whether they were."""
        session = self.by_connection.get(connection)
        return session is not None and session.note_heartbeat(data, now)

    def _lose_client(self, connection: int) -> None:
        """Note that a client's stream has ended."""
        self.output.forget(connection)
        self.watches.forget(connection)
        self._reading.forget(connection)
        session = self.by_connection.get(connection)
        if session is None:
            return
        before = session.state
        session.lose_client()
        self.busy.gone.add(connection)
        if session.state is DaemonSessionState.DRAINING:
            self.intake.add(session)
        elif session.state is DaemonSessionState.CLOSED:
            self.names.unqueue(session.user, connection)
            self._forget(connection)
        elif before <= _OPEN:
            self._begin_end(session)
        if session.state is DaemonSessionState.GONE:
            self.subscriptions.note_gone(connection)

    def _forget(self, connection: int) -> None:
        """Forget a session that no daemon knows, and whose client is gone."""
        del self.by_connection[connection]
        self.busy.forget(connection)
        self.acceptance.forget(connection)

    def _finish(self, session: DaemonSession) -> None:
        """End a session whose client is gone, once all its bytes were processed."""
        session.finish()
        self._begin_end(session)
        self.subscriptions.note_gone(session.connection)

    def _cut_off_blocking(self, now: float) -> None:
        """End the sessions of clients for which all senders have waited for too long."""
        limit_s = self.limits.block_s
        for connection in self.slow_receivers.pop_overdue(now, limit_s):
            session = self.by_connection.get(connection)
            if session is not None and session.is_notified:
                before = session.state
                session.close_slow(f"all senders waited for it for {limit_s:g} s")
                self._cut_off(session, before)

    def _dismiss(self, connection: int, code: int, reason: str) -> None:
        """End the session of a client that the shell dismisses."""
        session = self.by_connection.get(connection)
        if session is not None:
            self._end(session, code, reason)

    # ---- towards the ring ----

    def pop_unreliable(self) -> list[Bundle]:
        """Return the bundles that need no number, in the order of their submission."""
        taken, self.unreliable = self.unreliable, []
        for bundle in taken:
            session = self.by_connection.get(bundle.session)
            if session is not None:
                session.note_left(bundle)
                if session.asked.wishes & _ACCEPTED:
                    self.acceptance.note_done(bundle.session, self.now)
        return taken

    def on_numbered(self, bundle: Bundle) -> bool:
        """Note that a bundle has its number; return whether its session waits for the position."""
        session = self.by_connection.get(bundle.session)
        if session is None or not bundle.message:  # only bundles of clients have message numbers
            return False
        if session.asked.wishes & _ACCEPTED:
            self.acceptance.note_numbered(bundle, bundle.packet.number)
        return session.note_numbered(bundle)

    def send_position(self, bundle: Bundle, *, transitional: bool = False) -> None:
        """Tell a session the position of its bundle; nothing lower can come any more."""
        session = self.by_connection.get(bundle.session)
        if session is not None and bundle.message in session.awaited:
            session.awaited.remove(bundle.message)
            packet = bundle.packet
            assert self._view is not None
            position = Position(self._view.id, packet.time, packet.ring, bundle.place, 0)
            self._push(session, (encode_ordered(bundle.message, position, transitional),))

    # ---- the audience of the groups ----

    def connected(self, connection: int, member: MemberId) -> None:
        """Welcome a local session: all daemons know it from here on."""
        session = self.by_connection[connection]
        if session.closed:
            return
        limit = self.room - RECORD_HEAD_BYTES - len(session.user.encode())
        assert self._view is not None, "a CONNECT is ordered in no view"
        before = session.state
        self.output.ready[connection] = None
        if not session.welcome(limit, self._view, pauses=self.pauses.are_known):
            self._cut_off(session, before)
        if session.watch is not None:
            self.watches.begin(session, self.now, self.limits.session_timeout_s)
        if session.asked.wishes & _ACCEPTED:
            self._push(session, (encode_accepted(0),))  # so that its client knows that it is told
        early, session.early = session.early, []
        for frame, droppable in early:
            self._push(session, frame, droppable)
        if self._stops_at < inf:
            self._push_stopping(session)

    def disconnected(self, connection: int, member: MemberId) -> None:
        """End a local session for all daemons, and free its name."""
        session = self.by_connection[connection]
        before = session.state
        self.output.push_changes(session)
        session.disconnect()
        self.lines.forget(connection)
        self.access_control.forget(session)
        if before is DaemonSessionState.GONE:
            self._forget(connection)
        elif before is not DaemonSessionState.CLOSING:
            self._shut(session)
        follower = self.names.free(session.user)
        if follower is not None:
            self._connect(self.by_connection[follower])

    def joined(self, group: str) -> None:
        """Note that the join of a local session is ordered."""
        self.subscriptions.on_joined(group)

    def left(self, group: str) -> None:
        """Note that a local session has left a group."""
        if self._table is not None and not self._table.has_local(group):
            self.subscriptions.on_unwanted(group)

    def table_changed(self, position: Position, digest: int) -> None:
        """Tell the probe that the group table has changed."""
        self._probe.table(position, f"{digest:016x}")
        if self.subscriptions.waiting and self.pauses.have_ended():
            self.subscriptions.on_pause_over()
