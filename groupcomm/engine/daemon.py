"""DaemonCore: one whole daemon as a state machine.

Pure. Datagrams, inputs of clients, and the time go in; datagrams, frames for clients, and one
deadline come out. The core wires the parts together and decides nothing that a part can decide:
membership says which view is next, a ViewState (view.py) is everything about one view, and the
local sessions and the clocks continue from view to view.

One call of `step` is one step: first everything that has arrived is processed, then membership and
the ring act once. Then, with the datagrams sent, `deliver` delivers everything that can be. So the
work for a burst is done once, not per datagram, and no daemon waits for another one's clients.

A shell drives it by `drive` (engine/output.py). Besides, it uses only `deadline`,
`next_connection`, `note_heartbeat`, `pop_output`, `command`, `status`, `programs`, `groups`,
`members` and `heard`.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import inf

from groupcomm.clocks.ring_clock import PhysicalClock
from groupcomm.config.core import CoreConfig
from groupcomm.config.roster import Roster, RosterRecord
from groupcomm.config.view import Incarnation, Start, View
from groupcomm.engine import inputs as given
from groupcomm.engine.counters import Counters
from groupcomm.engine.drain import Drain
from groupcomm.engine.inputs import (
    ChangeRoster,
    Command,
    Evict,
    Input,
    LoadKeys,
    ProgramSettings,
    PromoteKey,
    RetireKey,
)
from groupcomm.engine.keys import KeyManager
from groupcomm.engine.leaving import Leaving
from groupcomm.engine.news import (
    AccessNews,
    MembershipNews,
    News,
    ProtocolNews,
    RosterNews,
    TokenWatch,
    ViewHistory,
)
from groupcomm.engine.output import CoreOver, Output, Transmission
from groupcomm.engine.probe import NoProbe, Probe
from groupcomm.engine.protection import make_protection
from groupcomm.engine.reports import Reports
from groupcomm.engine.roster import RosterManager
from groupcomm.engine.segmentation import Segments
from groupcomm.engine.sessions import LocalSessions
from groupcomm.engine.stalls import Stalls
from groupcomm.engine.status import SessionStatus, Status, sessions_of, status_of
from groupcomm.engine.storage import Storage
from groupcomm.engine.view import ViewState
from groupcomm.engine.view_change import ViewChange
from groupcomm.errors import BadDatagram, RemoteProtocolError
from groupcomm.groups.carried import CarriedGroups
from groupcomm.groups.table import Member
from groupcomm.membership.membership import Membership
from groupcomm.membership.proposal import link_delays_us
from groupcomm.membership.recovered_set import RecoveredSet
from groupcomm.membership.reservation import reserved_by
from groupcomm.membership.states import GatherReason, MembershipState
from groupcomm.ring.ring import TokenState as RingState
from groupcomm.security.identity import DaemonCredentials
from groupcomm.security.keys import KeyRing
from groupcomm.stream.packer import bundle_room
from groupcomm.stream.ranges import Range
from groupcomm.stream.stream import Stream
from groupcomm.wire.control import decode_control_untrusted
from groupcomm.wire.data import DataPacket
from groupcomm.wire.membership import ControlMessage, Past, RosterNotice
from groupcomm.wire.packet import PacketKind, Raw, peek_untrusted

MAX_EARLY = 1024
"""Packets of a view that others have installed already, kept until this daemon has."""

_CONTROL = PacketKind.CONTROL
_OPERATIONAL = MembershipState.OPERATIONAL  # in every other state the view is frozen


class DaemonCore:
    """One daemon, as a state machine.

    Args:
        config: its settings; all cores of one cluster have equal ones.
        start: the start of the daemon, with its restart count already on disk.
        keys: the key ring, needed with suites 1 and 2.
        credentials: its identity, and the others'; needed with suite 2.
        now: seconds of its monotonic clock.
        wall: seconds of its wall clock.
        settings: rules, quotas and limits for programs; without them everything is allowed.
        rosters: the rosters on its disk; `config` has the agreed one of them.
        probe: an observer for traces.

    Attributes:
        deadline: the time of the next step even if nothing arrives; inf if none is due.
        sessions: the local sessions; the shell takes their output.
        why_name_taken: see LocalSessions.
        key_manager: manages keys and identities.
        roster_manager: agrees on the daemons that may be members.
        reports: carries what daemons tell operators at other daemons.
        counters: counts of datagrams.
        membership: agrees on views.
        carried_groups: the groups that go from view to view.
        view_state: the state of the present view; None before the first.
        reservation: the view counters that its disk reserves.
        near: the other daemons to which datagrams for the site go.
        segments: sizes of packets and datagrams.
        drain: the time before that in which its programs move.
        leaving: its end in order.
    """

    def __init__(
        self,
        config: CoreConfig,
        start: Start,
        *,
        keys: KeyRing | None,
        now: float,
        wall: float,
        settings: ProgramSettings | None = None,
        probe: Probe | None = None,
        credentials: DaemonCredentials | None = None,
        rosters: RosterRecord | None = None,
    ) -> None:
        self.config = config
        self.start = start
        self.probe = NoProbe() if probe is None else probe  # a probe with a length may be empty
        self._protection = make_protection(config, start, keys, now, credentials)
        if config.agreed is not None:
            agreed = config.agreed
            self._protection.use_daemons(agreed.names, config.former, agreed.number)
        self.counters = Counters()
        self.physical = PhysicalClock(now, wall)
        self.segments = Segments(config.packet_limit, start.name)
        self.reservation = reserved_by(start, self.physical.read, now)
        self.sessions = LocalSessions(
            start.name,
            bundle_room(config.packet_limit),
            first_connection=self.reservation.used + config.starts.connection,
            settings=settings or ProgramSettings(),
            probe=self.probe,
        )
        self.why_name_taken = self.sessions.why_name_taken
        self.key_manager = KeyManager(self, self._protection, keys)
        self.reports = Reports(self)
        self.roster_manager = RosterManager(self, rosters or RosterRecord())
        self._storage = Storage(self.reservation, self.key_manager, self.roster_manager)
        self.view_state: ViewState | None = None
        self._begun = False  # whether a view was installed in this step
        self._touched = False  # whether packets of the view have arrived in this step
        self._view_due = inf  # when the view has something to do
        self.carried_groups = CarriedGroups()
        self._early: list[tuple[int, bytes]] = []  # (sender, packet)
        self._output = Output([])  # the output of the present step
        self._out: list[Transmission] = self._output.datagrams
        self._history = ViewHistory(now)
        self._token_watch = TokenWatch(config.timing.token_timeout_s)
        self._is_over = False  # whether the shell knows that this start is over
        self._now = now
        self._stalls = Stalls(config.timing.token_timeout_s)
        self.drain = Drain(self.sessions)
        self.leaving = Leaving(self, config.leave_timeout_s)
        self.membership = Membership(config, start, self, self.reservation)
        self.membership.gather(GatherReason.STARTED, now)
        self.near: frozenset[str] = frozenset()
        self._update_near()
        self.deadline = now

    @property
    def view(self) -> View | None:
        """Return the regular view that was installed last."""
        return self.membership.view

    @property
    def state(self) -> MembershipState:
        """Return the state of membership."""
        return self.membership.state

    @property
    def streams(self) -> list[Stream]:
        """Return the streams of the present view, by ring."""
        return [] if self.view_state is None else self.view_state.streams

    # ---- one step ----

    def step(self, now: float, datagrams: Sequence[bytes], inputs: Sequence[Input]) -> Output:
        """Process everything that has arrived, act once, and return the duties of the shell.

        The duties towards programs are added by `deliver`, which completes the output.

        Args:
            now: seconds of the monotonic clock, never less than before.
            datagrams: the received datagrams; no bytes in them make this raise.
            inputs: all other events, in order; no bytes of clients make this raise.
        """
        out = self._out = list[Transmission]()
        output = self._output = Output(out)
        late_s, stalls = now - self.deadline, self._stalls
        paused = late_s > stalls.pause_s
        if late_s > stalls.late_s:
            stalls.note_late(now)
            self.membership.postpone(stalls.not_before)
            if self.view_state is not None:
                self.view_state.ring.monitor.postpone(stalls.not_before)
            self.reservation.excuse(late_s)
        self._now = self.sessions.now = now
        self._protection.begin_step(now)
        counters, bad = self.counters, self.counters.bad
        if paused and self.membership.state is not MembershipState.LEFT:
            self.membership.gather(GatherReason.PAUSED, now)
        for datagram in datagrams:
            self._receive(datagram, drop=paused)
        protection = self._protection
        if (protection.hellos or protection.met) and protection.pop_hellos(out):
            self.membership.on_met(now)
        for event in inputs:
            self._accept(event)
        if self.drain.is_over(now):
            self.leave()
        self._step(now, clients=self.sessions.serve(now) or bool(inputs))
        output.segmentation = self.segments.pop_news()
        counters.sent += len(out)
        if counters.latest:
            output.dropped, counters.latest = counters.latest, []
            output.rejected = counters.bad - bad
        if (
            self.reservation.to_store is not None
            or self.key_manager.unstored
            or self.roster_manager.unstored
        ):
            output.store = self._storage.begin(now)
        return output

    def _accept(self, event: Input) -> None:
        """Process one input; most are of clients."""
        match event:
            case given.ClientBytes():
                self.sessions.accept(event)
            case (
                given.MarkStored()
                | given.MarkNotStored()
                | given.KeysStored()
                | given.RollStored()
                | given.RosterStored()
                | given.RosterNotStored()
            ):
                self._storage.accept(event, self._now)
            case given.WallClockRead(now, wall):
                self.physical.observe_wall(now, wall)
            case given.PathMeasured(datagram_bytes):
                self.segments.size.use_path(datagram_bytes)
            case given.DrainRequested():
                self._begin_drain(event)
            case given.LeaveRequested():
                self.leave()
            case _:
                self.sessions.accept(event)

    def _step(self, now: float, *, clients: bool) -> None:
        membership = self.membership
        if clients:
            self.reservation.keep_ahead(
                self.sessions.connection_numbers.last - self.config.starts.connection, now
            )
        if now >= self.reservation.due and membership.state is not MembershipState.LEFT:
            self.reservation.step(now)
        if now >= self.roster_manager.due:
            self.roster_manager.step(now)
        due = self._touched or self._begun or now >= self._view_due or self._is_unblocked()
        if due or clients:
            self._step_view(now, clients=clients)
        membership.step(now)
        if membership.state is MembershipState.LEFT:
            self._stand_still()
        if self._begun:
            self._step_view(now, clients=clients)
        if membership.flood.out:
            for destination, packet in membership.flood.out:
                self.seal_and_send(destination, packet)
            membership.flood.out.clear()

    def _set_deadline(self) -> None:
        # Never in the past: else the next call would look as if it came after a pause.
        due = min(self.membership.deadline, self._view_due, self.roster_manager.due)
        if self._now < self.leaving.follow_until:
            due = min(due, self.leaving.follow_until)
        due = min(due, self.sessions.due, self.leaving.due)
        if self.drain.begun:
            due = self._now if self.drain.is_over(self._now) else min(due, self.drain.due)
        if self.membership.state is not MembershipState.LEFT:
            due = min(due, self.reservation.due)
        self.deadline = max(self._now, due)

    def deliver(self) -> None:
        """Deliver everything that the last step has made deliverable, and complete its output."""
        view_state, output = self.view_state, self._output
        if view_state is not None and self.membership.state is _OPERATIONAL:
            view_state.deliver()
            self._view_due = view_state.deadline
        elif view_state is not None:  # what is left now, the end of the view need not do at once
            self._view_due = self._now if view_state.delivery.deliver_left() else inf
        if self.leaving.begun and not self.membership.leaving and self.leaving.may_go(self._now):
            self.membership.leave(self._now)
        self.sessions.complete(output)
        if self.reports.arrived:
            output.reports = self.reports.pop()
        self._add_news(output)
        self._set_deadline()
        unstored = self.key_manager.unstored or self.roster_manager.to_store(self._now) is not None
        if unstored and self._storage.may_begin:
            self.deadline = self._now  # a delivered bundle has changed the keys or the roster

    def _add_news(self, output: Output) -> None:
        """Add news about this daemon: in most steps none."""
        now, membership, view_state = self._now, self.membership, self.view_state
        news: list[News] = []
        if self._history.installed is not None:
            news.append(self._history.report(membership.reasons, membership.no_room, now))
        if view_state is not None and membership.state is _OPERATIONAL:
            ring, monitor = view_state.ring, view_state.ring.monitor
            silent = ring.state is RingState.AWAY and now > monitor.heard_at + monitor.silence_s
            if silent or self._token_watch.is_late:
                news += self._token_watch.check(ring, now)
        for some in (self.drain.news, self.sessions.silent):
            if some:
                news += some
                some.clear()
        for kind, lines in (
            (AccessNews, self.sessions.access_control.news),
            (ProtocolNews, membership.trust.news),
            (MembershipNews, membership.news),
            (RosterNews, self.roster_manager.news),
        ):
            while lines:
                news.append(kind(lines.popleft()))
        if news:
            output.news = news
        if membership.state is MembershipState.LEFT:
            output.over = self._end_once()

    def _end_once(self) -> CoreOver | None:
        """Return the end of this start, once; None while it runs."""
        if self._is_over:
            return None
        self._is_over = True
        return self.leaving.end(self.roster_manager.record.agreed)

    def _is_unblocked(self) -> bool:
        """Return whether the client that all senders waited for has read meanwhile."""
        view_state = self.view_state
        blocked = view_state is not None and view_state.ring.flow.blocked
        return blocked and not self.sessions.slow_receivers

    def _step_view(self, now: float, *, clients: bool) -> None:
        view_state = self.view_state
        if view_state is None or self.membership.state is not _OPERATIONAL:
            return
        self._touched = False
        if self._begun:
            self._begun = False
            early, self._early = self._early, []
            for sender, packet in early:  # sent before the view was installed here
                self._receive_packet(sender, packet)
            if self.membership.state is not _OPERATIONAL:
                return  # the statements of daemons contradict each other
        slow = self.sessions.limits.block_bytes is not None and bool(self.sessions.slow_receivers)
        delivery = view_state.delivery
        view_state.ring.flow.blocked = slow or (delivery.unfinished and delivery.is_behind)
        view_state.step(now, clients=clients)
        self._view_due = view_state.deadline
        if view_state.several:
            for daemon in view_state.pop_unreached():
                self.membership.on_unreached(daemon, now)
        if (failure := view_state.ring_failure) is not None:
            self.membership.gather(failure, now)

    def _begin_drain(self, request: given.DrainRequested) -> None:
        """Have the programs move, then leave; a daemon that is leaving continues to leave."""
        if not self.leaving.begun:
            self.drain.begin(request, self._now)

    def leave(self) -> None:
        """Leave in order: end the sessions, wait until all members hold all packets, tell the
        others.

        `Output.over` says so once that is done, or after `leave_timeout_s` with the rest undone.
        """
        if not self.leaving.begun:
            self.leaving.begun = True
            self.drain.end()
            self.sessions.close_all("the daemon is being stopped")
            self.wake()

    def wake(self) -> None:
        """Have the next step come soon and process waiting bundles."""
        self._touched = True
        self.deadline = self._now

    # ---- outside steps ----

    def next_connection(self) -> int:
        """Return the number for a client that connects now; never given twice."""
        return self.sessions.connection_numbers.next()

    def note_heartbeat(self, connection: int, data: bytes, now: float) -> bool:
        """Process bytes of a client, unless the next step has to; return whether that was done."""
        return self.sessions.note_heartbeat(connection, data, now)

    def pop_output(self, connection: int, limit: int) -> list[Raw]:
        """Return parts of whole frames for a client, until `limit` bytes are reached.

        If they have fewer bytes there is nothing more. If all senders have waited for this client
        to read and need wait no more, `deadline` is now.
        """
        session = self.sessions.by_connection.get(connection)
        if session is None:
            return []
        parts = session.pop_output(limit)
        if parts and session.watch is not None:
            session.watch.sent_at = self._now
        if self._is_unblocked():
            self.deadline = self._now
        return parts

    def command(self, command: Command) -> None:
        """Carry out a command of an operator; raise LocalProtocolError if it is impossible."""
        key_manager = self.key_manager
        match command:
            case LoadKeys(keys, roll):
                key_manager.load(keys, roll)
            case PromoteKey(number):
                key_manager.promote(number)
            case Evict(name):
                key_manager.evict(name)
            case RetireKey(number=number, without_missing=anyway):
                key_manager.retire(number, without_missing=anyway)
            case ChangeRoster(change=change, forced=forced):
                self.roster_manager.change(change, forced=forced)

    def report(self, payload: bytes) -> None:
        """Report to all daemons of the view, whose shells get it with `Output.reports`.

        Raises:
            LocalProtocolError: the report is too long.
        """
        self.reports.send(payload)

    def programs(self, connections: Iterable[int]) -> list[SessionStatus]:
        """Return those of these sessions whose programs are there."""
        return sessions_of(self.sessions, connections)

    def status(self, now: float, *, least_output: float = inf) -> Status:
        """Return all facts but groups; of sessions those with so many bytes of output at least."""
        return status_of(self, now, least_output)

    def members(self, group: str) -> Sequence[Member]:
        """Return the members of a group, in the order in which they joined; () if it has none."""
        return tuple(self.groups().get(group, ()))

    def groups(self) -> Mapping[str, Collection[Member]]:
        """Return the members of each group, as delivered here: the table, which steps change."""
        view_state = self.view_state
        if view_state is None or not view_state.delivery.complete:
            return {}
        return view_state.delivery.groups.table.groups

    def heard(self, since: float) -> Iterator[tuple[str, bool, bool]]:
        """Return the facts for choosing among networks; see `Membership.heard`."""
        return self.membership.heard(since, self._now)

    # ---- datagrams ----

    def _receive(self, datagram: bytes, *, drop: bool) -> None:
        """Process a datagram; drop it after a pause, as senders repeat all that matters."""
        self.counters.received += 1
        try:
            opened = self._protection.open_untrusted(datagram)
        except BadDatagram as error:
            self.counters.reject(datagram, error.reason)
            return
        if opened is None or drop:
            self.counters.stale += opened is not None  # otherwise it was a hello
        elif self.membership.on_datagram(opened.sender, opened.incarnation, self._now):
            self._receive_packet(opened.sender, opened.packet)
        else:
            self.counters.foreign += 1

    def _receive_packet(self, sender: int, packet: bytes) -> None:
        """Process a packet of a daemon of the cluster, or count that it breaks the protocol."""
        view_state = self.view_state
        try:
            kind, key = peek_untrusted(packet)
            if kind == _CONTROL:
                self.membership.on_control(decode_control_untrusted(packet), sender, self._now)
            elif view_state is not None and key == view_state.key:
                if self.membership.state is _OPERATIONAL:
                    self._touched = True
                    view_state.receive(kind, packet, sender, self._now)
            elif (coming := self.membership.coming) is not None and key == coming.key:
                if len(self._early) < MAX_EARLY:
                    self._early.append((sender, packet))
            else:
                self.counters.foreign += 1
        except RemoteProtocolError as error:
            self.counters.note_violation(error)
            self.membership.on_broken(sender, error, self._now)

    def seal_and_send(self, destination: str | None, packet: bytes) -> None:
        """Send to a daemon, or to all others of the site."""
        self._out.append((destination, self._protection.seal(destination, packet)))

    def send_data(self, packet: DataPacket) -> None:
        """Send a packet of a stream to the ring."""
        self._out.append((None, self.segments.seal(packet, self._protection.seal)))

    # ---- the context of the roster manager ----

    def flood_roster(self, notice: ControlMessage) -> None:
        """Send a roster to all daemons of the roster that counts."""
        self.membership.flood.send_all(notice)
        self.wake()

    def use_roster(self, roster: Roster, *, stored: bool) -> None:
        """Use this roster from now on; the shell learns it with the output of this step.

        Args:
            roster: the roster.
            stored: whether others may learn it, too: a daemon that it does not have ends then.
        """
        self.config = self.config.with_roster(roster)
        self._output.roster = roster
        self._update_near()
        # Daemons that it does not have any more are opened, too: they have to learn that.
        self._protection.use_daemons(roster.names, self.config.former, roster.number)
        self.membership.use_config(self.config, self._now)
        if stored:
            self.tell_roster()
        else:
            self.membership.comparison.hold_roster()
        if self.view_state is not None and self.membership.state is _OPERATIONAL:
            self._use_links(self.view_state)

    def tell_roster(self) -> None:
        """Tell others the roster that counts from now on: the disk holds it."""
        self.membership.comparison.tell_roster(self._now)

    def _use_links(self, view_state: ViewState) -> None:
        """Route packets of the view by the links of the roster that counts."""
        view = view_state.view
        names = [daemon.name for daemon in view.daemons]
        joined = [(names[one], names[other]) for one, other in view.links]
        if view_state.use_delays(link_delays_us(self.config, joined), self._now):
            self._view_due = self._now

    def _update_near(self) -> None:
        """Have the shell send datagrams for the site to these daemons, if they are others.

        A daemon that was removed needs all packets of the view as long as it is in it.
        """
        me, view = self.start, self.membership.view
        ring = () if view is None else view.ring_names(me.daemon)
        near = frozenset((*self.config.site_of(me.name), *ring)) - {me.name}
        if near != self.near:
            self.near = self._output.near = near

    def end_removed(self) -> None:
        """Leave, as the roster that counts does not have this daemon any more."""
        self.leaving.remove(self._now)
        self.leave()

    # ---- the context of membership ----

    def on_roster(self, notice: RosterNotice) -> bool:
        """See MembershipContext."""
        return self.roster_manager.on_notice(notice, self._now)

    def freeze(self) -> None:
        """Freeze the present view: nothing is numbered or delivered in it from now on."""
        if self.membership.state is _OPERATIONAL:
            self._history.stop(self._now)
        self._stand_still()
        self.segments.size.end_view()
        self._early.clear()

    def _stand_still(self) -> None:
        self._touched = False
        self._view_due = inf

    @property
    def past(self) -> Past | None:
        """Return the holdings of the frozen view; None before the first view."""
        return self.view_state.view_change.past if self.view_state is not None else None

    @property
    def clock(self) -> int:
        """Return the last known stamp, in microseconds."""
        return self.view_state.clock.value if self.view_state is not None else 0

    @property
    def used(self) -> int:
        """Return the highest connection number that may have been used, here or by others."""
        seen = 0 if self.view_state is None else self.view_state.delivery.highest_connection
        return max(self.sessions.connection_numbers.last, seen) - self.config.starts.connection

    def reading(self, now: float) -> int:
        """Return physical time, in microseconds."""
        return self.physical.read(now)

    def set_reading(self, now: float, reading: int) -> None:
        """Correct physical time, which was wrong by more than is followed."""
        self.physical.correct(now, reading)

    def missing(self, recovered_set: RecoveredSet) -> list[list[Range]]:
        """Return, per ring, the ranges of the recovered set that are not held here."""
        assert self.view_state is not None
        return self.view_state.view_change.missing(recovered_set)

    def old_packet(self, ring: int, number: int) -> bytes | None:
        """Return a whole packet of the frozen view; None if it is not held here."""
        assert self.view_state is not None
        packet = self.view_state.streams[ring].packets.get(number)
        return packet.raw if packet is not None else None

    def accept_repair(self, packet: bytes, recovered_set: RecoveredSet) -> tuple[int, int] | None:
        """Accept a packet of the frozen view; return its ring and number if it is new here."""
        assert self.view_state is not None
        return self.view_state.view_change.receive_repair(packet, recovered_set)

    @property
    def old(self) -> ViewChange:
        """Return the change of the frozen view, which exists."""
        assert self.view_state is not None
        return self.view_state.view_change

    def bind(self, recovered_set: RecoveredSet, transitional_members: frozenset[int]) -> None:
        """Take the obligation to treat the old view as these members do.

        This daemon holds the recovered set, and has said so.
        """
        assert self.view_state is not None
        self.view_state.view_change.accept_obligation(recovered_set, transitional_members)

    def install(
        self, view: View, recovered_set: RecoveredSet | None, transitional_members: frozenset[int]
    ) -> None:
        """Deliver the rest of the old view, then begin this one."""
        # The rest of the old view may change the roster; this view was agreed on before that.
        majority = self.config.has_majority([daemon.name for daemon in view.daemons])
        config = self.config
        if self.view_state is not None and recovered_set is not None:
            self._finish(self.view_state, view, transitional_members)
        self.probe.installed(view)
        self._history.installed = view
        self.reservation.renew(self._now)
        if self.reservation.is_far_ahead(view.id.counter, self._now):
            self.sessions.connection_numbers.begin_above(view.id.counter + config.starts.connection)
        self._protection.begin_view(view)
        me = view.daemons.index(self.start.daemon)
        announced = self.carried_groups.announce(bundle_room(view.packet_limit), view)
        self.view_state = ViewState(view, me, announced, self, self._now, majority=majority)
        self.sessions.room = self.segments.begin_view(view)
        if self.config is not config:
            self._use_links(self.view_state)
        self._begun = True
        self._update_near()

    def reroute(self, links: tuple[tuple[int, int], ...]) -> None:
        """Send packets of the present view over these of its links from now on."""
        assert self.view_state is not None
        self.view_state.reroute(links, self._now)
        self._view_due = self._now

    def forget(self, number: int, incarnation: Incarnation) -> None:
        """Forget a start of a daemon: it is over."""
        self._protection.forget_start(number, incarnation)

    def _finish(self, old: ViewState, view: View, transitional_members: frozenset[int]) -> None:
        members = tuple(old.view.daemons[index] for index in sorted(transitional_members))
        was_complete = old.delivery.complete

        def turn() -> None:
            self.roster_manager.end_regular()
            self.probe.transitional(old.view.id, view.id, members)
            if old.delivery.complete:
                self.sessions.end_regular([daemon.name for daemon in members])

        finished = old.view_change.finish(turn)
        assert finished or not was_complete
        if finished:
            me = old.view.daemons.index(self.start.daemon)
            self.carried_groups.replace(old.delivery.groups.table, old.view, me)
        self.carried_groups.keep_members(members)
        self.sessions.end()
