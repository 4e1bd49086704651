"""Membership: from one view to the next, the same machine at every daemon, no coordinator.

Pure. ``now`` is in seconds, monotonic. docs/membership.md has all changes of states. In short:

    GATHER       joins are flooded: the name, the daemons heard, the packets of the old view
      | all daemons that hear each other have joined, or the others had time enough
    COMMIT       the proposal is flooded; packets of the old view that other members lack are sent
      | this daemon holds all that the other members hold
    RECOVERED    it has announced that, and has the obligation to deliver as they do
      | all members have announced it, and the rest of the old view is delivered here
    OPERATIONAL  the view is installed; beacons announce this daemon to others

Source of obligations and acknowledged recovery: Amir et al., "The Totem Single-Ring Ordering and
Membership Protocol", ACM TOCS 13(4), 1995, sections 6 (membership) and 7 (recovery). There a token
collects the state.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping
from math import inf
from types import MappingProxyType

from groupcomm.clocks.ring_clock import PhysicalClock
from groupcomm.config.core import CoreConfig
from groupcomm.config.view import Incarnation, Start, View
from groupcomm.errors import Contradiction, RemoteProtocolError
from groupcomm.membership.agreement import (
    Agreement,
    CommitSchedule,
    Isolation,
    check_commit,
    joins_of,
    note_commit,
)
from groupcomm.membership.context import MembershipContext, MembershipProbe, OldView
from groupcomm.membership.control_receiver import ControlReceiver
from groupcomm.membership.failure_detector import FailureDetector
from groupcomm.membership.flood import Flood
from groupcomm.membership.gather import Backoff, Gather, OwnJoin, silence_s
from groupcomm.membership.late import alive_s
from groupcomm.membership.leave import LeaveSchedule
from groupcomm.membership.operational import STEADY_BEACONS, OperationalPhase
from groupcomm.membership.pace import are_few, crowd_of, paced
from groupcomm.membership.peer import PeerDaemon
from groupcomm.membership.relays import Relays
from groupcomm.membership.reservation import Reservation
from groupcomm.membership.room import Room
from groupcomm.membership.short_forms import ShortForms
from groupcomm.membership.states import GatherReason, MembershipState
from groupcomm.membership.status import MembershipStatus, protocol_status
from groupcomm.membership.trust import MAX_NEWS, Trust, forgotten_starts
from groupcomm.wire.control import ControlPacket
from groupcomm.wire.membership import (
    Beacon,
    Commit,
    ControlKind,
    ControlMessage,
    Join,
    Leave,
    Links,
    Past,
    Proposal,
    Repair,
    RosterNotice,
)


class Membership:
    """One daemon's part in agreeing on views.

    Pass arrivals to the ``on_`` methods, then call `step`; also when `deadline` is reached.

    Args:
        config: the settings.
        start: the start of the daemon.
        context: the daemon.
        reservation: the view counters that the disk reserves.
        clock: physical time, which a view may correct.
        probe: an observer.
        forget: is called with each start of a daemon that is over, as a later one was heard.
        on_roster: is called with each roster that another daemon floods, and the time; it returns
            whether that daemon has to adopt the roster of this one.

    Attributes:
        state: its state.
        reasons: the number of times that it began to gather, by reason.
        view: the regular view installed last.
        deadline: the time at which `step` is due.
        flood: the messages to be sent.
        peers: the other daemons that it knows of, by number.
        comparison: compares other daemons' settings with its own.
        heard: yields the facts for choosing among networks; see FailureDetector.
        trust: knows the daemons that are left out because they break the protocol.
        news: lines for the log, the oldest first.
        on_datagram: is called with every datagram; see ControlReceiver.
    """

    def __init__(
        self,
        config: CoreConfig,
        start: Start,
        context: MembershipContext,
        reservation: Reservation,
        clock: PhysicalClock,
        *,
        probe: MembershipProbe,
        forget: Callable[[int, Incarnation], None],
        on_roster: Callable[[RosterNotice, float], bool],
    ) -> None:
        self._config, self._timing = config, paced(config)
        self._start = start
        self._me = start.daemon.number
        self._context = context
        self._old: OldView | None = None  # the frozen view
        self._clock = clock
        self._probe = probe
        self._forget = forget
        self._ask_roster = on_roster
        self._reservation = reservation
        self._room = Room(config)
        self.flood = Flood(config, start)
        told = self._on_restart, self._highest_used
        self._detector = FailureDetector(config, start, self.flood, reservation, *told)
        self.peers = self._detector.peers
        self.comparison, self.heard = self._detector.comparison, self._detector.heard_directly
        self.trust = Trust()
        self.news: deque[str] = deque(maxlen=MAX_NEWS)
        self._short = ShortForms(config, self._detector, self._own_proposal, self._latest)
        told_of = self._short.restore, self._on_message, self._look_at
        self._relays = Relays(config, self.flood, self._detector)
        means = self.flood, self._detector, self._relays
        self._receiver = ControlReceiver(*means, self.trust, *told_of)
        self.on_datagram = self._receiver.on_datagram
        self.state = MembershipState.GATHER
        self.reasons: Counter[GatherReason] = Counter()
        self.view: View | None = None
        self.deadline = -inf
        self._backoff = Backoff()
        self._gather = Gather(self._timing, 0.0, 1.0)
        self._own_join = OwnJoin(start, self._detector, reservation, config.versions)
        self._agreement: Agreement | None = None
        self._isolation = Isolation()
        self._schedule = CommitSchedule(self._timing)
        self._sent_at = self._repair_at = self._progress_at = self._met_at = -inf
        self._operational = OperationalPhase(self._timing, *means, self._short)
        self._leave = LeaveSchedule()
        self._overtaken = False  # a member has gone on from the view that is agreed to here
        self._agreed_with: CoreConfig | None = None  # from when the end of the old view has begun

    def _highest_used(self) -> int:
        """Return the highest number that this start or an earlier one may have used."""
        return max(self._reservation.used, self._context.used)

    @property
    def gathered_at(self) -> float:
        """Return the time at which this daemon last began to gather."""
        return self._gather.started

    @property
    def no_room(self) -> tuple[str, ...]:
        """Return the daemons that are heard and not in the view, as it has no room, sorted."""
        found = [self.peers[number].label for number, _ in self._gather.separated]
        return tuple(sorted(found))

    def others_say(self, *, differ: bool) -> bool:
        """Return whether all other members of the view say that they have other settings, or the
        same."""
        others = set() if self.view is None else self.view.numbers - {self._me}
        return all(n in self.peers and self.peers[n].differs is differ for n in others)

    @property
    def coming(self) -> View | None:
        """Return the view that was agreed to and is not installed yet; None without one."""
        agreed, done = self._agreement, self.state is MembershipState.OPERATIONAL
        return None if agreed is None or done else agreed.view

    def status(self, now: float) -> MembershipStatus:
        """Return the facts about views and other daemons."""
        view, peers, me = self.view, self.peers, self._start.name
        return MembershipStatus(
            state=self.state,
            view=view,
            reasons=MappingProxyType(dict(self.reasons)),
            no_room=self.no_room,
            protocol=protocol_status(self._config.versions, me, view, peers, now),
            peers=self._detector.status(now),
            differing=tuple(self.comparison.others(view, now)),
            broken=self.trust.status(peers),
        )

    # ---- messages that come ----

    def _on_restart(self, number: int, over: Incarnation | None, now: float) -> None:
        agreement, peer = self._agreement, self.peers[number]
        if over is not None:
            self._forget(number, over)
            if peer.incarnation.restarts <= over.restarts:
                self.news.append(forgotten_starts(peer, over))
        is_member = agreement is not None and agreement.has_other_start_of(peer)
        gathers = self.state is MembershipState.GATHER
        if is_member or (gathers and self._own_join.latest.counter < self._reservation.used):
            self.gather(GatherReason.MEMBER_RESTARTED, now)

    def on_broken(self, number: int, error: RemoteProtocolError, now: float) -> None:
        """Process a breach of the protocol, or a contradiction, in a daemon's own datagram."""
        reason, agreement = self.trust.on_breach(self.peers[number], error, now), self._agreement
        self._gather.news |= reason is not None
        if reason is not None and agreement is not None and agreement.has_name(number):
            self.gather(reason, now)

    def on_unreached(self, number: int, now: float) -> None:
        """Leave out the other end of a link, over which a packet is sent in vain."""
        peer = self.peers[number]
        self.trust.leave_out_unreached(peer, now)
        if self._operational.lose_link(peer, now):
            self.deadline = min(self.deadline, self._operational.deadline)
        else:
            self.gather(GatherReason.NOT_RECEIVED, now)

    def on_control(self, packet: ControlPacket, sender: int, now: float) -> None:
        """Process a control packet that came from `sender`; raise RemoteProtocolError if broken."""
        if self.state is not MembershipState.LEFT:
            self._receiver.on_control(packet, sender, now)

    def _on_links(self, peer: PeerDaemon, links: Links, now: float) -> None:
        operational = self.state is MembershipState.OPERATIONAL
        if operational and not self._operational.on_links(peer, links, now):
            self.gather(GatherReason.PATH_LOST, now)

    def _on_message(
        self, peer: PeerDaemon, message: ControlMessage, sequence: int, direct: bool, now: float
    ) -> None:
        if isinstance(message, Repair):
            self._on_repair(peer, message, now)
        elif isinstance(message, RosterNotice):
            if self._ask_roster(message, now):
                self.comparison.on_superseded_roster(peer, now)
        elif isinstance(message, Leave):
            peer.leave(sequence, now, own=direct)
            self._on_leave(peer, now)
        elif peer.is_latest(message, sequence, now, own=direct):
            if isinstance(message, Join):
                self._on_join(peer, message, direct, now)
            elif isinstance(message, Commit):
                self._on_commit(peer, message, now)
                self._short.release(message.proposal, self._on_message, now)
            elif isinstance(message, Links):
                self._on_links(peer, message, now)
            elif isinstance(message, Beacon) and direct:
                self._on_beacon(peer, message, now)

    def _latest(self, kind: int, now: float) -> ControlMessage | None:
        """Return the latest message of a kind, for a daemon that asks."""
        operational = self.state is MembershipState.OPERATIONAL
        if kind == ControlKind.JOIN and not operational:
            return self._own_join.latest
        if kind == ControlKind.COMMIT and self._agreement is not None:
            return self._agreement.commit(self._own_join.attempt, installed=operational)
        if kind == ControlKind.BEACON and operational and self.view is not None:
            return self._detector.make_beacon(self.view, now)
        return None

    def _look_at(self, peer: PeerDaemon, message: ControlMessage, now: float) -> None:
        """Find out whether a member has left the view, from a message that says nothing else.

        Its settings differ: it uses the next roster already, and this daemon waits for the last
        step of that change, which comes in the order of the view or, once that is over, never.
        """
        agreement, view = self._agreement, self.view
        if self.state is not MembershipState.OPERATIONAL or agreement is None or view is None:
            return
        attempt = agreement.attempt_of(peer)
        if attempt is None:
            return
        if isinstance(message, Join) and message.attempt > attempt:
            self.gather(GatherReason.MEMBER_GATHERS, now)
        elif isinstance(message, Beacon) and message.counter > view.id.counter:
            self.gather(GatherReason.MEMBER_MOVED, now)

    def _on_leave(self, peer: PeerDaemon, now: float) -> None:
        self._gather.news = True
        if self._agreement is not None and self._agreement.attempt_of(peer) is not None:
            self.gather(GatherReason.MEMBER_LEFT, now)

    def _on_join(self, peer: PeerDaemon, join: Join, direct: bool, now: float) -> None:
        self._reservation.check(join.counter, now)
        if peer.note_join(join, now):
            self._gather.news = True
        self._reservation.may_use(join.counter + 1, now)
        if self._agreement is None:
            return
        attempt = self._agreement.attempt_of(peer)
        if attempt is not None:
            if join.attempt > attempt and not self._is_behind(peer, join.past):
                self.gather(GatherReason.MEMBER_GATHERS, now)
        elif direct and not peer.left and self.state is MembershipState.OPERATIONAL:
            assert self.view is not None
            if self._detector.key not in join.heard:
                self._detector.send_beacon_to(peer, self.view, now)
            elif self._may_seek_view_with(peer, join, now):
                self.gather(GatherReason.FOREIGN_HEARD, now)

    def _is_behind(self, peer: PeerDaemon, past: Past | None) -> bool:
        """Return whether a member that joins anew has installed the view that is agreed to here.

        Then all members have announced that they hold the recovered set. This daemon installs the
        view as well once it knows that of each of them, and only then looks for the next one: else
        it would not be in the transitional view of those that were quicker.
        """
        agreement = self._agreement
        if self.state is not MembershipState.RECOVERED or agreement is None or past is None:
            return False
        if not agreement.note_installed(peer, past.view):
            return False
        self._overtaken = True
        return True

    def _on_beacon(self, peer: PeerDaemon, beacon: Beacon, now: float) -> None:
        self._reservation.check(beacon.used, now)
        peer.beacon, peer.beacon_at = beacon, now
        is_heard = self._detector.key in peer.beacon_row
        peer.streak = peer.streak + 1 if is_heard else 0
        self._reservation.may_use(beacon.used + 1, now)
        agreement, view = self._agreement, self.view
        if (
            self.state is not MembershipState.OPERATIONAL
            or agreement is None
            or view is None
            or peer.left
        ):
            return
        if agreement.attempt_of(peer) is not None:
            if beacon.counter > view.id.counter and beacon.view != view.key:
                self.gather(GatherReason.MEMBER_MOVED, now)
            else:
                self._operational.on_beacon(peer, now)
                self.deadline = min(self.deadline, self._operational.deadline)
        elif not is_heard:
            self._detector.send_beacon_to(peer, view, now)
        elif (
            now >= peer.ignored_until or peer.streak >= STEADY_BEACONS
        ) and self._may_seek_view_with(peer, beacon, now):
            self.gather(GatherReason.FOREIGN_HEARD, now)

    def _may_seek_view_with(self, peer: PeerDaemon, said: Join | Beacon, now: float) -> bool:
        """Return whether it is time to seek a view with a daemon outside, which may have room."""
        view = self.view
        separated = self._gather.separated.get(peer.key)
        if view is not None and separated is not None and not separated.may_fit(said, view.numbers):
            return False
        return self._detector.may_seek_view_with(peer, said, view, now)

    def use_config(self, config: CoreConfig, now: float) -> None:
        """Use these settings, with another roster, from now on."""
        self._config = config
        self._timing = paced(config)
        self._room = Room(config)
        self.flood.use_config(config)
        self._short.use_config(config)
        self._detector.use_config(config, now)
        self._relays.use_config(config)
        self._schedule = CommitSchedule(self._timing)
        self._operational.tell_settings()
        if self.state is not MembershipState.OPERATIONAL and self._agreed_with is None:
            self.gather(GatherReason.ROSTER_CHANGED, now)  # the join names the old settings

    # ---- gather ----

    def gather(self, reason: GatherReason, now: float) -> None:
        """Begin to look for the next view; the present one is frozen from now on."""
        if self.leaving:
            return
        if self._agreed_with is not None and self._agreement is not None:
            self._end_view(self._agreement, whole=True)  # a part of it was delivered already
            self._install(self._agreement, now)
            if self.state is MembershipState.GATHER:
                return
        self.reasons[reason] += 1
        if self._detector.vouched.end(self.peers, now):
            self._receiver.held.due = now  # what was held while the view stood counts from now on
        operational = self.state is MembershipState.OPERATIONAL
        if self._agreement is not None and operational:
            self._agreement.forget_joins()
        if self._agreement is not None and reason is not GatherReason.MEMBER_LEFT:
            self._backoff.on_gather(now, operational=operational)
        self._note_failure(now)
        self._old = old = self._context.freeze()
        if operational and old is not None:
            for number in old.not_received(now):
                self.trust.leave_out_unreceived(self.peers[number], now)
            for number in old.not_reached(now):
                self.trust.leave_out_unreached(self.peers[number], now)
        self.state, self._agreement, self._overtaken = MembershipState.GATHER, None, False
        self._reservation.note_used(self._context.used)
        self._short.forget()
        self._receiver.gather_began_at = now
        self._relays.begin(now)
        past = None if old is None or self._isolation.is_isolated else old.past
        reading, clock = self._clock.read(now), 0 if old is None else old.clock
        self._own_join.begin(past, reading=reading, clock=clock, now=now)
        self._probe.gathered(self._own_join.latest)
        jitter = (self._me >> self._own_join.attempt % 48 & 0xFF) / 256
        manner = self._backoff.factor, jitter, self._room, self._relays, self._met_at
        crowd, view = crowd_of(self._config), self.view
        self._gather = Gather(self._timing, now, *manner, crowd, reason=reason, view=view)
        self._send_join(now)

    def _send_join(self, now: float) -> None:
        self._own_join.update()
        self._sent_at = now
        self.flood.send_all(self._short.shorten(self._own_join.latest, now))

    def on_met(self, now: float) -> None:
        """Send the last join again soon: others could not open it."""
        self._met_at = now
        self._gather.on_met(now)

    def _own_proposal(self, now: float) -> Proposal | None:
        """Return the proposal of this daemon, which others may have, too; None if it is alone."""
        if self._agreement is not None:
            return self._agreement.proposal
        if self.state is not MembershipState.GATHER or self._isolation.is_isolated:
            return None
        return self._find_proposal(self.peers, now)

    def _find_proposal(self, peers: Mapping[int, PeerDaemon], now: float) -> Proposal | None:
        return self._gather.find_proposal(self._start, self._own_join.latest, peers, now)

    def _step_gather(self, now: float) -> None:
        gather = self._gather
        if self._receiver.pop_news():
            self._short.clear_up()
            gather.news = True
        gather.news |= self._own_join.lacks_mark
        if now >= gather.due or (gather.news and now >= gather.look_at):
            gather.news = False
            if self._own_join.update():
                gather.note_stale(now)
            if self._isolation.is_isolated:  # a view by itself comes before one with others
                proposal, is_complete = self._find_proposal({}, now), True
            else:
                known = self.view, gather.started
                self._detector.give_up_missed(gather.started, waited=gather.had_time(now))
                expected = self._detector.expected(*known, paused=gather.paused)
                joins = self._own_join.latest, self.peers
                waits = gather.waits_for_relays(self._start, *joins, expected, now)
                proposal = None if waits else self._find_proposal(self.peers, now)
                is_complete = (
                    gather.stale_from == inf
                    and gather.is_complete(expected, now)
                    and not gather.lacks_late(gather.members, self.peers, now)
                )
            if proposal and is_complete:
                self._commit(proposal, now)
                return
        if gather.may_send(self._sent_at, now):
            gather.stale_from = inf
            self._send_join(now)
            gather.news = True
        self.deadline = gather.deadline(self._sent_at)

    # ---- commit ----

    def _commit(self, proposal: Proposal, now: float) -> None:
        """Agree to a proposal if this daemon is in it and has all joins that it is made from."""
        joins = joins_of(proposal, self._start, self._own_join.latest, self.peers)
        if joins is None:
            return
        self._short.release(proposal, note_commit, now)
        here = (self._config, self._start, self._old, self.view)
        agreement = Agreement(*here, proposal=proposal, joins=joins, peers=self.peers)
        agreement.recovery.begun = self._agreement is not None and self._agreement.recovery.begun
        self._probe.committed(proposal, agreement.view, agreement.recovery.member_numbers)
        self._gather.replay_kept(agreement.recovery.receive)
        self.state, self._agreement, self._progress_at = MembershipState.COMMIT, agreement, now
        if are_few(self._config):
            self._repeat_commit(agreement, now)
        elif not self._holds_all(agreement, now):  # else the step below says both in one message
            self._send_commit(agreement, now)
        self._send_repairs(agreement, now)
        self._step_commit(now)

    def _on_commit(self, peer: PeerDaemon, commit: Commit, now: float) -> None:
        check_commit(commit, peer)
        news, peer.commit = commit != peer.commit, commit
        agreement, theirs = self._agreement, commit.proposal
        if self._isolation.is_isolated:
            return
        if agreement is None:
            if self._gather.follows(theirs, self._find_proposal, self.peers, now):
                self._commit(theirs, now)
        elif agreement.note_commit(peer, commit):
            if news:  # a daemon that only repeats itself is not waited for
                self._progress_at = now
            self._on_agreed(agreement, peer, commit, now)
        elif self.state is not MembershipState.OPERATIONAL and agreement.is_worse_than(theirs):
            if agreement.may_give_way_to(theirs):
                self._commit(theirs, now)
            elif agreement.attempt_of(peer) is not None:
                # That daemon will not come back. The obligation here is larger than in the join of
                # this daemon.
                self.gather(GatherReason.ATTEMPT_FAILED, now)

    def _on_agreed(
        self, agreement: Agreement, peer: PeerDaemon, commit: Commit, now: float
    ) -> None:
        """Process a commit to the proposal that this daemon has agreed to."""
        if self.state is not MembershipState.OPERATIONAL:
            if not commit.recovered and peer.number in agreement.recovery.member_numbers:
                agreement.recovery.on_missing(peer.number, commit.missing, now)
        elif not commit.installed:  # the daemon still asks, and the view is installed here
            self._operational.excuse(peer.number, now)
            near = agreement.are_mutual(peer.number) or peer.number in self._detector.contacts
            if peer.name and near:  # who is heard itself has to say it itself
                commit = agreement.commit(self._own_join.attempt, installed=True)
                self.flood.send_to(peer.name, self._short.shorten(commit, now))
            elif now - self._sent_at >= self._timing.repeat_s:
                self._send_commit(agreement, now)

    def _on_repair(self, peer: PeerDaemon, repair: Repair, now: float) -> None:
        """Accept a packet of the old view; while gathering, keep it until the members are known."""
        agreement, key = self._agreement, self.view.key if self.view is not None else None
        if self.state is MembershipState.GATHER and repair.view == key:
            self._gather.keep(peer.number, repair.packet)
        elif self.state is MembershipState.COMMIT and agreement is not None and repair.view == key:
            try:
                news = agreement.recovery.receive(peer.number, repair.packet)
            except Contradiction:
                self._go_on_alone(now)
                raise
            self._progress_at = now if news else self._progress_at

    def _note_failure(self, now: float) -> None:
        """Note an attempt that came to a standstill before it was given up."""
        if self._agreement is None or self.state is MembershipState.OPERATIONAL:
            return
        if now >= self._progress_at + self._timing.answer_wait_s * self._backoff.factor:
            self._isolation.on_failed_attempt(self._agreement, self._old)

    def _go_on_alone(self, now: float) -> None:
        """Leave the old view alone: packets of other members contradict those held here."""
        self._isolation.is_isolated = True
        self.gather(GatherReason.CONTRADICTED, now)

    def _send_commit(self, agreement: Agreement, now: float) -> None:
        """Send the commit of this daemon, with the packets that it lacks."""
        installed = self.state is MembershipState.OPERATIONAL
        commit = agreement.commit(self._own_join.attempt, installed=installed)
        self._sent_at = now
        self._schedule.on_sent(commit, now)
        self.flood.send_all(self._short.shorten(commit, now))

    def _repeat_commit(self, agreement: Agreement, now: float) -> None:
        """Send again the messages that others may not have received."""
        if None in agreement.commits():
            self.flood.send_all(self._short.shorten(self._own_join.latest, now))
        self._send_commit(agreement, now)

    def _send_repairs(self, agreement: Agreement, now: float) -> None:
        """Send some of the packets that other members lack."""
        self._repair_at = now + self._timing.repeat_s
        for repair, numbers, direct in agreement.next_repairs(now):
            self.flood.send_some(repair, numbers, direct=direct)

    def _holds_all(self, agreement: Agreement, now: float) -> bool:
        """Return whether this daemon may announce that it holds the recovered set, and has not."""
        if agreement.recovered or not agreement.recovery.complete:
            return False
        return self._reservation.may_use(agreement.view.id.counter, now)

    def _step_commit(self, now: float) -> None:
        agreement = self._agreement
        assert agreement is not None
        recovery = agreement.recovery
        if self._holds_all(agreement, now):
            if not recovery.is_sound():
                self._go_on_alone(now)
                self._step_gather(now)
                return
            self.state = MembershipState.RECOVERED
            agreement.recovered = True
            self._reservation.use(agreement.view.id.counter)  # others may install it from here on
            self._probe.recovered()
            recovery.accept_obligation()
            self._send_commit(agreement, now)
        if agreement.all_recovered:
            if self._end_view(agreement, whole=False):
                self._install(agreement, now)
                return
            if now >= self._schedule.due:  # others have installed the view, and wait
                self._repeat_commit(agreement, now)
            self.deadline = now
            return
        give_up_at = self._give_up_at(agreement)
        if now >= give_up_at:
            self.gather(GatherReason.ATTEMPT_FAILED, now)
            self._step_gather(now)
            return
        if now >= self._schedule.due:
            self._repeat_commit(agreement, now)
        if recovery.has_packets_to_send and now >= self._repair_at:
            self._send_repairs(agreement, now)
        repair_at = self._repair_at if recovery.has_packets_to_send else inf
        self.deadline = min(self._schedule.due, repair_at, give_up_at)

    def _give_up_at(self, agreement: Agreement) -> float:
        """Return the time at which an attempt without news is given up.

        While all that others still have to say comes from daemons that were heard lately, these are
        late, and others may have installed the view already.
        """
        quick = self._progress_at + silence_s(self._timing, self._backoff.factor)
        heard_at = min((peer.heard_at for peer in agreement.owing()), default=-inf)
        return max(quick, min(heard_at, self._progress_at) + alive_s(self._timing))

    def _end_view(self, agreement: Agreement, *, whole: bool) -> bool:
        """Deliver some of the rest of the old view, or all; return whether all is delivered.

        From here on this daemon goes on into the view that is agreed to, whatever comes.
        """
        self._agreed_with = self._agreed_with or self._config
        old, recovery = self._old, agreement.recovery
        if old is None or recovery.recovered_set is None:
            return True
        return old.end(agreement.view, recovery.transitional, whole=whole)

    def _install(self, agreement: Agreement, now: float) -> None:
        reading = agreement.correction()
        if reading is not None:
            self._clock.correct(now, reading)
        view, recovery = agreement.view, agreement.recovery
        agreed_with, self._agreed_with = self._agreed_with, None
        assert agreed_with is not None, "the old view has not ended"
        self.state, self.view = MembershipState.OPERATIONAL, view
        self._isolation.on_installed()
        self._backoff.on_installed(now)
        running = self._context.install(view, agreed_with)
        self._old = None
        recovery.end()
        self._operational.begin(view, running, self._gather.started, now)
        self.deadline = now
        if self._config is not agreed_with:
            # The rest of the old view had the last step of a change. Members from elsewhere have
            # not delivered it, and whether this view has a majority was decided before it.
            self.gather(GatherReason.ROSTER_CHANGED, now)
        elif self._overtaken:
            self.gather(GatherReason.MEMBER_GATHERS, now)

    # ---- operational, and one step ----

    def postpone(self, until: float) -> None:
        """Judge no daemon by its silence before this time: this one stood still."""
        self._detector.postpone(until)

    def _step_operational(self, now: float) -> None:
        operational = self._operational
        if not operational.step(now):
            self.gather(GatherReason.PATH_LOST, now)
            self._step_gather(now)
            return
        self.deadline = operational.deadline

    def leave(self, now: float) -> None:
        """Tell all others that this daemon leaves, in every state; then it has left."""
        self._leave.begin(now)
        self.deadline = now

    @property
    def leaving(self) -> bool:
        """Return whether `leave` was called: nothing else is done from then on."""
        return self._leave.begun

    def _send_leave(self, now: float) -> None:
        if now >= self._leave.due:
            self.flood.send_all(Leave())
            if self._leave.count_sent(now):
                self.state = MembershipState.LEFT
        self.deadline = self._leave.due

    def step(self, now: float) -> None:
        """Act as the state and the time require."""
        if self._leave.begun:
            self._send_leave(now)
            return
        if now >= self.comparison.due:
            self.comparison.step(now)
        self._receiver.step(now)
        if self.state is MembershipState.GATHER:
            self._step_gather(now)
        elif self.state is not MembershipState.OPERATIONAL:
            self._step_commit(now)
        elif now >= self.deadline or (
            self._reservation.needed > self._operational.announced_mark
            and self._operational.owes_mark
        ):
            self._step_operational(now)
        self.deadline = min(self.deadline, self.comparison.due, self._receiver.due)
