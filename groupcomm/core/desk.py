"""The desk: where this daemon's sessions meet the ring.

Pure. What clients submit becomes bundles that wait for numbers; what the groups release becomes
frames. A session exists for all daemons from its CONNECT to its DISCONNECT, both of them events
of the agreed order, so a name is free again only once its DISCONNECT is ordered. Sessions, and
what waits, go on from one view of the daemons to the next.
"""

from collections.abc import Iterable

from groupcomm.clocks.stamp import Position
from groupcomm.core.backlog import Backlog
from groupcomm.core.inputs import (
    ClientBytes,
    ClientDismissed,
    ClientGone,
    ClientInput,
    ClientOpened,
    ProgramSettings,
    QuestionAnswered,
)
from groupcomm.core.intake import Intake
from groupcomm.core.output import Output
from groupcomm.core.probe import Probe
from groupcomm.core.seat import Seat
from groupcomm.core.subscriptions import Subscriptions
from groupcomm.core.teller import Teller
from groupcomm.core.user_names import UserNames
from groupcomm.errors import LocalProtocolError, SessionError
from groupcomm.events import DaemonView, MemberId
from groupcomm.groups.table import GroupTable, Member
from groupcomm.level import ServiceLevel
from groupcomm.names import private_name
from groupcomm.security.access import Access
from groupcomm.session.codes import Code
from groupcomm.session.daemon import DaemonSession, State
from groupcomm.session.frames import encode_ordered
from groupcomm.session.prices import price_of_refusal
from groupcomm.session.requests import Hello, Query, Request, Submit
from groupcomm.wire.bundle import Bundle, BundleKind, control_bundle, leave_bundle

_UNRELIABLE = ServiceLevel.UNRELIABLE
_AGREED = ServiceLevel.AGREED
_FRAGMENT = BundleKind.FRAGMENT

RECORD_HEAD_BYTES = 14
"""Of a bundle's record, besides its body, its user's name and its targets."""


class Desk(Teller):
    """All local sessions.

    Attributes:
        sessions: by connection number, until their streams have ended.
        intake: what programs have sent, to be looked at in turn.
        names: of users.
        unreliable: bundles that need no number, in the order of their submission.
        backlog, subscriptions: bundles that want a number, and what they pass before.
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
            room: bytes of a packet that its bundles may fill, in any view.
            first_connection: connection numbers are above it.
            settings: what holds for programs.
            probe: an observer for traces.
        """
        super().__init__(settings.limits)
        self._view: DaemonView | None = None
        self._daemon = daemon
        self._closing = ""  # why nobody is admitted any more
        self._room = room
        self._probe = probe
        self._last = first_connection
        self.names = UserNames()
        self.unreliable: list[Bundle] = []
        self._table: GroupTable | None = None
        self.sessions: dict[int, DaemonSession] = {}
        self.intake = Intake(self._carry_out, self._leave, self._depart)
        self.backlog = Backlog()
        self.subscriptions = Subscriptions(self.backlog)
        self._fed: list[int] = []  # sent something in this step
        self._held_back: set[int] = set()  # nothing is read from these for now
        self._backlogged: set[int] = set()  # of these, who has sent more than is numbered
        self._greeted: list[int] = []
        self._questions: list[tuple[int, str]] = []
        self._closed: list[int] = []  # connections to be closed once their output is taken
        self.guard.govern(settings.access, settings.quotas.groups)
        self.intake.limit(settings.quotas)

    # ---- views ----

    def begin(
        self, view: DaemonView, table: GroupTable, groups: Iterable[str], *, several: bool
    ) -> None:
        """A view begins: `table` resolves names, and `groups` have members here."""
        self._view = view
        self._table = table
        self.subscriptions.begin(groups, several=several)
        for seat in self._seats.values():
            if seat.hears:
                seat.session.announce(view)
                self.ready[seat.session.connection] = None

    def end_regular(self) -> None:
        """The regular part of the view is over."""
        for seat in self._seats.values():
            if seat.hears:
                seat.session.transition()
                self.ready[seat.session.connection] = None

    def end(self) -> None:
        """The view is over: what has a number only in part is to be numbered again as a whole."""
        for seat in self._seats.values():
            self.backlog.put_back(seat.take_back())

    def close_all(self, reason: str) -> None:
        """End all sessions, and admit no more: this daemon leaves."""
        self._closing = reason
        for seat in list(self._seats.values()):
            self._leave(seat, Code.CONNECTION_CLOSED, reason)
            if seat.member is None:
                del self._seats[seat.session.connection]

    @property
    def unfinished(self) -> int:
        """How many sessions there are for other daemons; one without a user is none yet."""
        return sum(seat.member is not None for seat in self._seats.values())

    @property
    def empty(self) -> bool:
        """Whether no session waits for anything any more."""
        return not self.unfinished

    def principal_of(self, connection: int) -> str:
        """Whose session this is; "" if there is none any more."""
        seat = self._seats.get(connection)
        return "" if seat is None else seat.principal

    def _principal_at(self, daemon: int, connection: int) -> str:
        known = None if self._table is None else self._table.sessions.get((daemon, connection))
        return "" if known is None else known.principal

    @property
    def last(self) -> int:
        """The highest number that any client was given."""
        return self._last

    def open(self) -> int:
        """The number for a client that connects now; never given twice."""
        self._last += 1
        return self._last

    # ---- what clients do ----

    def feed(self, event: ClientInput) -> None:
        """Take one thing that a client did, or what changes for all; bytes wait for their turn."""
        match event:
            case ClientBytes(connection, data):
                self._fed.append(connection)
                self._hear(connection, data)
            case ClientOpened(connection, principal):
                session = DaemonSession(connection, limits=self.limits)
                self.sessions[connection] = session
                self._seats[connection] = Seat(session, principal)
            case ClientGone(connection):
                self._end(connection)
            case QuestionAnswered(connection, answer):
                self.answer(connection, answer)
            case ClientDismissed(connection, code, reason):
                self._dismiss(connection, code, reason)
            case ProgramSettings():
                self.limits = event.limits
                self.intake.limit(event.quotas)
                self.govern(event.access, event.quotas.groups)

    def serve(self, now: float) -> bool:
        """Do what clients have asked for, in turn (see Intake.serve); whether there was any."""
        self._now = now
        if now >= self.blocking.due:
            self._cut_off_blocking(now)
        if now >= self.names.due:
            self._refuse_tired(now)
        return self.intake.serve(now)

    def _hear(self, connection: int, data: bytes) -> None:
        seat = self._seats.get(connection)
        if seat is not None and not (seat.leaving or seat.gone):
            seat.session.hear(data)
            self.intake.add(seat)

    def complete(self, output: Output) -> None:
        """Add to the output of a step what it has brought about for clients."""
        if self.ready:
            output.ready, self.ready = self.ready, {}
        if self._fed or self._held_back:
            output.readable = self._pop_readable()
        if self._closed:
            output.ended, self._closed = self._closed, []
        if self._greeted:
            output.greeted, self._greeted = self._greeted, []
        if self._questions:
            output.questions, self._questions = self._questions, []

    def _pop_readable(self) -> list[int]:
        """Return from whom more may be read: all of it was looked at, and little has no number."""
        fed, self._fed = self._fed, []
        self._held_back.update(fed)
        found = []
        looked_at = self._held_back.intersection(self.intake.done)
        for number in sorted(looked_at.union(fed, self._backlogged)):
            session = self.sessions.get(number)
            if session is None or session.reading:
                self._held_back.discard(number)
                self._backlogged.discard(number)
                found.append(number)
            elif not session.waits:
                self._backlogged.add(number)
        return found

    def _carry_out(self, seat: Seat, request: Request) -> None:
        if isinstance(request, Submit):
            self._submit(seat, request)
        elif isinstance(request, Query):
            if not seat.gone:
                self._questions.append((seat.session.connection, request.text))
        elif isinstance(request, Hello):
            if request.causes:
                self._causes.wanted.add(seat.session.connection)
            if request.principals:
                self._principals.add(seat.session.connection)
            seat.takes_refusals = request.refusals
            self._greeted.append(seat.session.connection)
            self._greet(seat, request.user)
        else:
            self._leave(seat, Code.OK, "the client has left")

    def _greet(self, seat: Seat, user: str) -> None:
        try:
            private_name(user, self._daemon)
        except LocalProtocolError as error:  # each may be short enough, but not both together
            raise SessionError(Code.REJECT_NAME, str(error)) from None
        if self._closing:
            raise SessionError(Code.CONNECTION_CLOSED, self._closing)
        if why_not := self.guard.why_not_called(seat.principal, user):
            raise SessionError(Code.REJECT_NAME, why_not)
        seat.user = user
        holder = self.names.holder(user)
        if holder is None:
            self._connect(seat)
            return
        if self._stays(holder):
            if self._seats[holder].session.reading:
                raise SessionError(Code.REJECT_NOT_UNIQUE, self._name_in_use(user))
            self.names.doubt(seat.session.connection, self._now)
        self.names.queue(user, seat.session.connection)

    def _stays(self, holder: int) -> bool:
        """Whether the holder of a name is not about to give it up, for all that is known."""
        seat = self._seats[holder]
        return not (seat.leaving or seat.gone)

    def _name_in_use(self, user: str) -> str:
        return (
            f"daemon {self._daemon} has a session of user {user!r} already;"
            " choose another name, or end that session first"
        )

    def _refuse_tired(self, now: float) -> None:
        """Refuse who has waited for names whose holders have turned out to be there."""
        for connection in self.names.tired(now):
            seat = self._seats.get(connection)
            if seat is None or seat.leaving or seat.member is not None:
                continue
            holder = self.names.holder(seat.user)
            if holder is not None and self._stays(holder):
                self._leave(seat, Code.REJECT_NOT_UNIQUE, self._name_in_use(seat.user))

    def _connect(self, seat: Seat) -> None:
        connection = seat.session.connection
        self.names.take(seat.user, connection)
        seat.member = MemberId(private_name(seat.user, self._daemon), connection)
        self._order_control(seat, BundleKind.CONNECT)

    def _order_control(self, seat: Seat, kind: BundleKind) -> None:
        bundle = control_bundle(kind, seat.principal if kind == BundleKind.CONNECT else "")
        bundle.address(seat.session.connection, seat.user, ())
        self.subscriptions.admit(bundle)

    def _submit(self, seat: Seat, request: Submit) -> None:
        bundle = request.bundle
        asks = self.guard.access.restricts or bundle.kind > _FRAGMENT
        if (asks or seat.refused == bundle.message) and not self._admits(seat, bundle):
            return
        if bundle.privates:
            if bundle.index == 0:
                assert self._table is not None, "a session submits before any view"
                seat.targets = self._table.targets(bundle.groups)
            bundle.targets = seat.targets  # later fragments go to whom the first one meant
        assert seat.member is not None, "a session submits before its hello"
        whole = 1 if bundle.kind == _FRAGMENT else bundle.count
        last = bundle.message + whole - 1
        self._probe.accepted(seat.member.name, seat.member.connection, bundle.message, last)
        self.traffic.take(bundle)
        if request.ordered:
            seat.ordered.add(bundle.message)
        if bundle.level == _UNRELIABLE:
            self.unreliable.append(bundle)
        else:
            self.subscriptions.admit(bundle)

    def _admits(self, seat: Seat, bundle: Bundle) -> bool:
        """Whether a bundle is allowed; if not it is dropped, and its session told once."""
        session = seat.session
        refused = self.guard.judge(seat, bundle)
        if refused is None:
            return True
        session.price = price_of_refusal(bundle, session.price)
        session.backlog_bytes -= bundle.size
        if refused.verb:
            self.refuse(seat, refused)
        return False

    # ---- rules ----

    def govern(self, access: Access, most_groups: int | None) -> None:
        """These rules hold from now on: who may not be in a group any more has to leave it."""
        self.guard.govern(access, most_groups)
        for seat in list(self._seats.values()):
            seat.allowed.clear()
            if seat.user and (why_not := self.guard.why_not_called(seat.principal, seat.user)):
                self._leave(seat, Code.REJECT_NAME, why_not)
        self.review()

    def review(self) -> None:
        """Look at all members of all groups by the rules."""
        if self._table is not None and self.guard.access.restricts:
            for member in list(self._table.sessions.values()):
                for group in list(member.groups):
                    self.entered(member, group)

    def entered(self, member: Member, group: str) -> None:
        """A session of any daemon is a member; an own one that may not be has to leave."""
        if self.guard.may_be_in(member.principal, group):
            return
        seat = self._seats.get(member.id.connection)
        if seat is None or seat.member != member.id:
            self.guard.note_foreign(member, group)
        elif not seat.leaving and group not in seat.expelled:
            self.refuse(seat, self.guard.expel(seat, group))
            bundle = leave_bundle(group)
            bundle.address(member.id.connection, seat.user, ())
            self.subscriptions.admit(bundle)

    def _leave(self, seat: Seat, code: int, reason: str) -> None:
        """End a session; what it has submitted stays sent.

        One that said goodbye gets all that is ordered before its DISCONNECT, others end at once.
        """
        if seat.leaving:
            return
        seat.leaving = True
        seat.session.forget_heard()
        if seat.member is not None:
            self._order_control(seat, BundleKind.DISCONNECT)
        else:
            self.names.unqueue(seat.user, seat.session.connection)
        if code != Code.OK or seat.member is None:
            self._close(seat, code, reason)

    def _close(self, seat: Seat, code: int, reason: str) -> None:
        seat.session.close(code, reason)
        if not seat.gone:
            self.ready[seat.session.connection] = None
            self._closed.append(seat.session.connection)

    def _end(self, connection: int) -> None:
        self.sessions.pop(connection, None)
        self.ready.pop(connection, None)
        self._held_back.discard(connection)
        self._backlogged.discard(connection)
        self._causes.wanted.discard(connection)
        self._principals.discard(connection)
        seat = self._seats.get(connection)
        if seat is None:
            return
        seat.gone = True
        seat.session.forget_replies()
        if seat.session.waits:  # what it had sent before counts
            self.intake.add(seat)
        else:
            self._depart(seat)

    def _depart(self, seat: Seat) -> None:
        """Nothing of a client is left: neither its stream, nor anything that it has sent."""
        self._leave(seat, Code.CONNECTION_CLOSED, "the connection was lost")
        if seat.member is None:
            self._seats.pop(seat.session.connection, None)  # it may have had to go before

    def _cut_off_blocking(self, now: float) -> None:
        """End the sessions of clients for which all senders have waited for too long."""
        limit_s = self.limits.block_s
        for connection in self.blocking.late(now, limit_s):
            seat = self._seats.get(connection)
            if seat is not None and not seat.leaving:
                what = f"all senders waited for it for {limit_s:g} s"
                seat.session.close_slow(what)
                self._leave(seat, Code.CONNECTION_CLOSED, what)

    def _dismiss(self, connection: int, code: int, reason: str) -> None:
        """End the session of a client that may not stay."""
        seat = self._seats.get(connection)
        if seat is not None:
            self._leave(seat, code, reason)

    # ---- towards the ring ----

    def take_unreliable(self) -> list[Bundle]:
        """Bundles that need no number, in the order of their submission."""
        taken, self.unreliable = self.unreliable, []
        for bundle in taken:
            seat = self._seats.get(bundle.session)
            if seat is not None:
                seat.session.backlog_bytes -= bundle.size
        return taken

    def numbered(self, bundle: Bundle) -> bool:
        """A bundle has its number; True if its session waits for the position."""
        seat = self._seats.get(bundle.session)
        if seat is None or not bundle.message:  # only what a client submits has a number
            return False
        return seat.is_numbered(bundle)

    def tell_position(self, bundle: Bundle, *, transitional: bool = False) -> None:
        """Nothing lower than this bundle can come: tell its session where it stands."""
        seat = self._seats.get(bundle.session)
        if seat is not None and bundle.message in seat.ordered:
            seat.ordered.remove(bundle.message)
            packet = bundle.packet
            assert self._view is not None
            position = Position(self._view.id, packet.time, packet.ring, bundle.place, 0)
            self._push(seat, (encode_ordered(bundle.message, position, transitional),))

    # ---- the audience of the groups ----

    def connected(self, connection: int, member: MemberId) -> None:
        """A local session is known everywhere from here on."""
        seat = self._seats[connection]
        seat.welcomed = True
        if seat.gone or seat.session.state is State.CLOSED:
            return
        limit = self._room - RECORD_HEAD_BYTES - len(seat.user.encode())
        assert self._view is not None, "a CONNECT is ordered in no view"
        seat.session.welcome(member.name, limit, self._view)
        self.ready[connection] = None
        early, seat.early = seat.early, []
        for frame, droppable in early:
            self._push(seat, frame, droppable)

    def disconnected(self, connection: int, member: MemberId) -> None:
        """A local session has ended for everybody; its name may be used again."""
        seat = self._seats.pop(connection)
        self.guard.forget(seat)
        if seat.session.state is not State.CLOSED:
            self._close(seat, Code.OK, "the session has ended")
        follower = self.names.free(seat.user)
        if follower is not None:
            self._connect(self._seats[follower])

    def joined(self, group: str) -> None:
        """A local session's join is ordered."""
        self.subscriptions.joined(group)

    def left(self, group: str) -> None:
        """A local session has left a group."""
        if self._table is not None and group not in self._table.local:
            self.subscriptions.unwanted(group)

    def table_changed(self, position: Position, digest: int) -> None:
        """The group table is at a new state."""
        self._probe.table(position, f"{digest:016x}")
