"""DaemonCore: one whole daemon as a state machine.

Pure. Datagrams, inputs of clients, and the time go in; datagrams, frames for clients, and one
deadline come out. The core wires the parts together and decides nothing that a part can decide:
membership says which view is next, a ViewState (view.py) is everything about one view, and the
local sessions and the clocks continue from view to view.

One call of `step` is one step: first everything that has arrived is processed, then membership and
the ring act once. Then, with the datagrams sent, `deliver` delivers everything that can be. So the
work for a burst is done once, not per datagram, and no daemon waits for another one's clients.

A shell drives it by `drive` (engine/output.py). Besides, it uses only `deadline`,
`next_connection`, `note_heartbeat`, `pop_output`, `command`, `status`, `programs`,
`programs_status`, `groups` and `heard`.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import inf

from groupcomm.config.core import CoreConfig
from groupcomm.config.roster import Roster, RosterRecord
from groupcomm.config.view import Start, View
from groupcomm.engine import inputs as given
from groupcomm.engine.drain import Drain
from groupcomm.engine.frozen_view import FrozenView
from groupcomm.engine.inputs import Command, Input, ProgramSettings
from groupcomm.engine.leaving import Leaving
from groupcomm.engine.news_collector import NewsCollector
from groupcomm.engine.output import Output, Transmission
from groupcomm.engine.parts import Parts
from groupcomm.engine.probe import Probe
from groupcomm.engine.roster import EndRemoved, FloodRoster, TellRoster, UseRoster
from groupcomm.engine.stalls import Stalls
from groupcomm.engine.status import ProgramsStatus, SessionStatus, Status, make_status
from groupcomm.engine.view import ViewState
from groupcomm.errors import BadDatagram, RemoteProtocolError
from groupcomm.groups.table import Member
from groupcomm.membership.membership import Membership
from groupcomm.membership.states import GatherReason, MembershipState
from groupcomm.security.identity import DaemonCredentials
from groupcomm.security.keys import KeyRing
from groupcomm.stream.packer import bundle_room
from groupcomm.wire.control import decode_control_untrusted
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
        why_name_taken: see LocalSessions.
        counters, physical, sender, sessions, submitter: see Parts.
        key_manager, roster_manager, reservation: see Parts, too.
        membership: agrees on views.
        view_state: the state of the present view; None before the first.
        near: the other daemons to which datagrams for the site go.
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
        parts = self._parts = Parts(
            config,
            start,
            keys=keys,
            now=now,
            wall=wall,
            settings=settings,
            probe=probe,
            credentials=credentials,
            rosters=rosters,
        )
        self.config, self.start = config, start
        self.counters, self.sender, self._segments = parts.counters, parts.sender, parts.segments
        self.sessions, self.submitter = parts.sessions, parts.submitter
        self.key_manager, self.roster_manager = parts.key_manager, parts.roster_manager
        self.reservation, self.physical = parts.reservation, parts.physical
        self._storage, self._protection = parts.storage, parts.protection
        self.why_name_taken = self.sessions.why_name_taken
        self.view_state: ViewState | None = None
        self._begun = False  # whether a view was installed in this step
        self._consults = True  # whether something came that membership has to act upon
        self._early: list[tuple[int, bytes]] = []  # (sender, packet)
        self._output = Output([])  # the output of the present step
        self._now = now
        self._stalls = Stalls(config.timing.token_timeout_s)
        self._regain_at = inf  # when a view is sought that tells of the roster, at the latest
        self.drain = Drain(self.sessions)
        self.leaving = Leaving(config.leave_timeout_s)
        self.membership = Membership(
            config,
            start,
            self,
            self.reservation,
            parts.physical,
            probe=parts.probe,
            forget=self._protection.forget_start,
            on_roster=self.roster_manager.on_notice,
        )
        timeout_s = config.timing.token_timeout_s
        self._news = NewsCollector(parts, self.membership, self.drain, timeout_s, now)
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

    # ---- one step ----

    def step(self, now: float, datagrams: Sequence[bytes], inputs: Sequence[Input]) -> Output:
        """Process everything that has arrived, act once, and return the duties of the shell.

        The duties towards programs are added by `deliver`, which completes the output.

        Args:
            now: seconds of the monotonic clock, never less than before.
            datagrams: the received datagrams; no bytes in them make this raise.
            inputs: all other events, in order; no bytes of clients make this raise.
        """
        out = self.sender.datagrams = list[Transmission]()
        output = self._output = Output(out)
        late_s, stalls = now - self.deadline, self._stalls
        paused = late_s > stalls.pause_s
        self._now = self.sessions.now = self.sessions.output.now = self._protection.now = now
        if now >= self._protection.due:
            self._protection.begin_step(now)
        if late_s > stalls.late_s:
            self._excuse(now, late_s, paused=paused)
        counters, bad = self.counters, self.counters.bad
        for datagram in datagrams:
            self._receive(datagram, drop=paused)
        protection = self._protection
        if (protection.hellos or protection.met) and protection.pop_hellos(out):
            self.membership.on_met(now)
        for event in inputs:
            self._accept(event)
        clients = bool(inputs)
        if clients or now >= self.sessions.due or now >= self.sessions.intake.due:
            clients |= self.sessions.serve(now)
        else:
            self.sessions.work = self.sessions.intake.work_done = 0
        self._step(now, clients=clients)
        if self._segments.size.is_new:
            output.segmentation = self._segments.pop_news()
        counters.sent += len(out)
        if counters.latest:
            output.dropped, output.rejected = counters.pop_latest(), counters.bad - bad
        keys, rosters = self.key_manager, self.roster_manager
        if self.reservation.to_store is not None or keys.unstored or rosters.unstored:
            output.store = self._storage.begin(now)
        return output

    def _excuse(self, now: float, late_s: float, *, paused: bool) -> None:
        """Judge nobody by the seconds for which this daemon stood still; after a pause, gather."""
        not_before = self._stalls.note_late(now)
        self.membership.postpone(not_before)
        if self.view_state is not None:
            self.view_state.ring.monitor.postpone(not_before)
        self.reservation.excuse(late_s)
        if paused and self.membership.state is not MembershipState.LEFT:
            self.membership.gather(GatherReason.PAUSED, now)

    def _accept(self, event: Input) -> None:
        """Process one input; most are of clients."""
        match event:
            case given.ClientBytes():
                self.sessions.accept(event)
            case given.ClientOpened():
                self.sessions.accept(event)
                first = self.config.starts.connection
                self.reservation.keep_ahead(event.connection - first, self._now)
            case given.WallClockRead(now, wall):
                self.physical.observe_wall(now, wall)
            case given.PathMeasured(datagram_bytes):
                self._segments.size.use_path(datagram_bytes)
            case given.DrainRequested():
                if not self.leaving.begun:  # a daemon that is leaving continues to leave
                    self.drain.begin(event, self._now)
            case given.LeaveRequested():
                self.leave()
            case _ if not isinstance(event, given.StorageAnswer):
                self.sessions.accept(event)
            case _:
                self._storage.accept(event, self._now)
                self._consults = True
                self._carry_out()

    def _step(self, now: float, *, clients: bool) -> None:
        membership, view_state = self.membership, self.view_state
        if self.drain.begun and self.drain.is_over(now):
            self.leave()
        if now >= self.reservation.due or now >= self.roster_manager.due:
            self._storage.step(now, left=membership.state is MembershipState.LEFT)
            self._carry_out()
        if self._regain_at < inf and membership.state is _OPERATIONAL:
            self._go_on_regaining()
        due = clients or self.submitter.is_woken or self._begun
        if view_state is not None and not due:
            due = now >= view_state.deadline or (
                view_state.ring.flow.blocked and not self.sessions.slow_receivers
            )
        if due:
            self._step_view(now)
        if self._consults or now >= membership.deadline or membership.state is not _OPERATIONAL:
            self._consults = False
            membership.step(now)
        if membership.state is MembershipState.LEFT:
            self.freeze()
        if self._begun:
            self._step_view(now)
        if self.roster_manager.effects or membership.flood.out:
            self._send_control()

    def _send_control(self) -> None:
        """Send what membership tells others, after what the roster manager adds to it."""
        self._carry_out()
        for destination, packet in self.membership.flood.out:
            self.sender.send(destination, packet)
        self.membership.flood.out.clear()

    def _set_deadline(self) -> None:
        # Never in the past: else the next call would look as if it came after a pause.
        due = min(self.membership.deadline, self.roster_manager.due)
        if self.view_state is not None:
            due = min(due, self.view_state.deadline)
        if self._now < self.leaving.follow_until:
            due = min(due, self.leaving.follow_until)
        due = min(due, self.sessions.due, self.leaving.due, self._regain_at)
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
        elif view_state is not None:  # what is left now, the end of the view need not do at once
            view_state.deliver_left(self._now)
        if self.roster_manager.effects:
            self._carry_out()
        if self.leaving.begun and not self.membership.leaving:
            self._go_on_leaving()
        self.sessions.complete(output)
        if self._parts.reports.arrived:
            output.reports = self._parts.reports.pop()
        news = self._news
        if any(news.sources) or self._now > news.look_at or news.views.installed is not None:
            output.news = news.pop(view_state, self._now)
        if self.membership.state is MembershipState.LEFT:
            output.over = self.leaving.pop_end(self.roster_manager.record.agreed)
        self._set_deadline()
        keys, rosters = self.key_manager, self.roster_manager
        if (keys.unstored or rosters.unstored) and self._storage.is_due(self._now):
            self.deadline = self._now  # a delivered bundle has changed the keys or the roster

    def _step_view(self, now: float) -> None:
        view_state = self.view_state
        if view_state is None or self.membership.state is not _OPERATIONAL:
            return
        self.submitter.is_woken = False
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
        view_state.step(now)
        if view_state.several:
            for daemon in view_state.pop_unreached():
                self.membership.on_unreached(daemon, now)
        ring = view_state.ring
        if ring.monitor.token_losses:  # the token was silent for a token timeout
            self.membership.gather(GatherReason.TOKEN_LOST, now)
        elif ring.reception.overdue:
            self.membership.gather(GatherReason.NOT_RECEIVED, now)

    def leave(self) -> None:
        """Leave in order: end the sessions, wait until all members hold all packets, tell the
        others.

        `Output.over` says so once that is done, or after `leave_timeout_s` with the rest undone.
        """
        if not self.leaving.begun:
            self.leaving.begun = True
            self.roster_manager.leave()
            self.sessions.close_all(self.drain.end())
            self.submitter.wake()
            self.deadline = self._now

    def _go_on_leaving(self) -> None:
        """Tell the others that this daemon leaves, once nothing of it would be missing."""
        membership, left = self.membership, None
        if self.view_state is not None:
            rosters, agree = self.roster_manager, membership.others_say(differ=False)
            left = self.view_state.leave_progress(
                membership.state,
                others_differ=membership.others_say(differ=True),
                is_missed=not rosters.may_leave
                or rosters.unstored
                or (rosters.is_away and not agree),
            )
        if self.leaving.may_go(left, self._now):
            membership.leave(self._now)

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
        parts = session.pop_output(limit, self._now)
        if not session.output_bytes:
            self.sessions.busy.unread.pop(connection, None)
        blocked = self.view_state is not None and self.view_state.ring.flow.blocked
        if blocked and not self.sessions.slow_receivers:
            self.deadline = self._now
        return parts

    def command(self, command: Command) -> None:
        """Carry out a command of an operator; raise LocalProtocolError if it is impossible."""
        if isinstance(command, given.ChangeRoster):
            self.roster_manager.change(command.change, forced=command.forced)
            self._carry_out()
        else:
            self.key_manager.carry_out(command, self.config)
        self.deadline = self._now

    def report(self, payload: bytes) -> None:
        """Report to all daemons of the view, whose shells get it with `Output.reports`.

        Raises:
            LocalProtocolError: the report is too long.
        """
        self._parts.reports.send(payload)
        self.deadline = self._now

    def programs(self, connections: Iterable[int]) -> list[SessionStatus]:
        """Return those of these sessions whose programs are there."""
        return self.sessions.programs(connections)

    def programs_status(self, least_output: float = inf) -> ProgramsStatus:
        """Return the facts about all programs; see `BusySessions.status`."""
        return self.sessions.busy.status(least_output)

    def status(self, now: float) -> Status:
        """Return all facts but groups and programs."""
        view, drain, config = self.view_state, self.drain, self.config
        return make_status(self._parts, self.membership, view, drain, config, now)

    def groups(self) -> Mapping[str, Collection[Member]]:
        """Return the members of each group, in the order in which they joined: as delivered here.

        It is the table itself, which steps change.
        """
        return {} if self.view_state is None else self.view_state.groups

    def pausing(self) -> Mapping[str, Collection[Member]]:
        """Return the groups that pause, and the sessions that need a quorum in each, as above."""
        return self.sessions.pauses.by_group

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
                self._consults = True
                self.membership.on_control(decode_control_untrusted(packet), sender, self._now)
            elif view_state is not None and key == view_state.key:
                if self.membership.state is _OPERATIONAL:
                    self.submitter.is_woken = True
                    view_state.receive(kind, packet, sender, self._now)
            elif (coming := self.membership.coming) is not None and key == coming.key:
                if len(self._early) < MAX_EARLY:
                    self._early.append((sender, packet))
            else:
                self.counters.foreign += 1
        except RemoteProtocolError as error:
            self.counters.note_violation(error)
            self.membership.on_broken(sender, error, self._now)

    # ---- rosters ----

    def _carry_out(self) -> None:
        """Do what the roster manager has decided."""
        self._consults = True
        effects, self.roster_manager.effects = self.roster_manager.effects, []
        for effect in effects:
            match effect:
                case FloodRoster(notice):
                    self.membership.flood.send_all(notice)
                case UseRoster(roster, stored):
                    self._use_roster(roster, stored=stored)
                case TellRoster():
                    self.membership.comparison.tell_roster(self._now)
                case EndRemoved():
                    self.leaving.remove(self._now)
                    self.leave()

    def _use_roster(self, roster: Roster, *, stored: bool) -> None:
        """Use this roster from now on; the shell learns it with the output of this step."""
        self.config = self.config.with_roster(roster)
        self._output.roster = roster
        self._update_near()
        # Daemons that it does not have any more are opened, too: they have to learn that.
        self._protection.use_daemons(roster.names, self.config.former, roster.number)
        self.membership.use_config(self.config, self._now)
        if stored:
            self.membership.comparison.tell_roster(self._now)
        else:
            self.membership.comparison.hold_roster()
        if self.view_state is not None and self.membership.state is _OPERATIONAL:
            self._adapt(self.view_state)

    def _adapt(self, state: ViewState) -> None:
        """Have a view use the roster, and seek another one if programs have to be told of it.

        They are told by views that a majority was gained, and that votes decide from now on: else
        one that sees views only of before and after the votes would take few for no majority.
        """
        state.use_roster(self.config, self._now)
        gained = self.config.has_majority([daemon.name for daemon in state.view.daemons])
        told = not state.rosters[0].is_plain or self.config.roster.is_plain
        news = gained and not (state.majority and told)
        self._regain_at = self._now + self.config.timing.token_timeout_s if news else inf

    def _go_on_regaining(self) -> None:
        """Seek a view that tells programs what the roster has brought, once all use it."""
        if self.membership.others_say(differ=False) or self._now >= self._regain_at:
            self._regain_at = inf
            self.membership.gather(GatherReason.ROSTER_CHANGED, self._now)

    def _update_near(self) -> None:
        """Have the shell send datagrams for the site to these daemons, if they are others.

        A daemon that was removed needs all packets of the view as long as it is in it.
        """
        me, view = self.start, self.membership.view
        ring = () if view is None else view.ring_names(me.daemon)
        near = frozenset((*self.config.site_of(me.name), *ring)) - {me.name}
        if near != self.near:
            self.near = self._output.near = near

    # ---- the context of membership ----

    def freeze(self) -> FrozenView | None:
        """Freeze the present view, and return its change; see MembershipContext."""
        if self.membership.state is _OPERATIONAL:
            self._news.views.stop(self._now)
        self.submitter.is_woken, self._regain_at = False, inf
        if self.view_state is not None:
            self.view_state.deadline = inf
        self._segments.size.end_view()
        self._early.clear()
        return None if self.view_state is None else self.view_state.view_change

    @property
    def used(self) -> int:
        """Return the highest connection number that may have been used, here or by others."""
        seen = 0 if self.view_state is None else self.view_state.delivery.highest_connection
        return max(self.sessions.connection_numbers.last, seen) - self.config.starts.connection

    def install(self, view: View, agreed_with: CoreConfig) -> ViewState:
        """Begin a view; see MembershipContext."""
        self._carry_out()  # the rest of the old view may have changed the roster
        self._parts.probe.installed(view)
        self._news.views.installed = view
        self.reservation.renew(self._now)
        if self.reservation.is_far_ahead(view.id.counter, self._now):
            first = self.config.starts.connection
            self.sessions.connection_numbers.begin_above(view.id.counter + first)
            self.reservation.keep_ahead(view.id.counter, self._now)
        self._protection.begin_view(view)
        me = view.daemons.index(self.start.daemon)
        announced = self._parts.carried_groups.announce(bundle_room(view.packet_limit), view)
        majority = agreed_with.has_majority([daemon.name for daemon in view.daemons])
        rosters = [agreed_with.roster, self.config.roster]
        if (old := self.view_state) is not None:
            rosters += old.rosters[:1] if old.delivery.complete else old.rosters
        self.view_state = ViewState(
            view,
            me,
            announced,
            self._parts,
            self.config,
            self._now,
            majority=majority,
            rosters=rosters,
        )
        self.sessions.room = self._segments.begin_view(view)
        if self.config is not agreed_with:
            self._adapt(self.view_state)
        self._begun = True
        self._update_near()
        return self.view_state
