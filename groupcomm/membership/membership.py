"""Membership: from one view to the next, the same machine at every daemon, no coordinator.

Pure. ``now`` is in seconds, monotonic. docs/membership.md has all that changes states. In short:

    GATHER       joins are flooded: who am I, whom do I hear, what do I hold of the old view
      | all that hear each other have joined, or the others had time enough
    COMMIT       the proposal is flooded; packets of the old view that fellows lack are sent
      | this daemon holds all that its fellows hold
    RECOVERED    it has said so, and is bound to deliver as they do
      | everybody has said so
    OPERATIONAL  the view is installed; beacons tell others that it is there

Source of obligations and acknowledged recovery: Amir et al., "The Totem Single-Ring Ordering and
Membership Protocol", ACM TOCS 13(4), 1995, sections 5 and 6. There a token collects the state.
"""

from collections import Counter
from math import inf

from groupcomm.config.core import CoreConfig
from groupcomm.config.view import Adoption, Incarnation, Start, View
from groupcomm.errors import Contradiction, RemoteProtocolError
from groupcomm.membership.agreement import Agreement, check_commit, joins_of
from groupcomm.membership.commit_schedule import CommitSchedule
from groupcomm.membership.farewell import Farewell
from groupcomm.membership.flood import Flood
from groupcomm.membership.gather import Gather
from groupcomm.membership.hearing import Hearing
from groupcomm.membership.host import Host
from groupcomm.membership.neighbours import Neighbours
from groupcomm.membership.outdated import Outdating
from groupcomm.membership.own_join import OwnJoin
from groupcomm.membership.peers import Peer
from groupcomm.membership.reservation import Reservation
from groupcomm.membership.solitude import Solitude
from groupcomm.membership.standing import STEADY_BEACONS, Standing
from groupcomm.membership.states import Reason, State
from groupcomm.membership.trouble import Trouble, silence_s
from groupcomm.membership.trust import Trust
from groupcomm.wire.control import ControlPacket
from groupcomm.wire.membership import (
    Beacon,
    Commit,
    ControlMessage,
    Join,
    Leave,
    Links,
    Outdated,
    Proposal,
    Repair,
)


class Membership:
    """One daemon's part in agreeing on views.

    Feed what arrives to the ``on_`` methods, then call `step`; also when `deadline` is reached.

    Attributes:
        state: how far it is.
        reasons: how often it has begun to gather, by reason.
        view: the regular view installed last.
        deadline: when `step` has something to do.
        flood: what is to be sent.
        peers: the other daemons that it knows of, by number.
        comparison: of other daemons' settings with its own.
        adopt: what others know of earlier starts of this daemon, which is outdated; None if not.
        trust: who is left out, as it breaks the protocol.
        on_datagram: is told of every datagram; see Hearing.
    """

    def __init__(
        self, config: CoreConfig, start: Start, host: Host, reservation: Reservation
    ) -> None:
        self._config = config
        self._timing = config.timing
        self._start = start
        self._me = start.daemon.number
        self._host = host
        self._reservation = reservation
        self.flood = Flood(config, start)
        self._neighbours = Neighbours(
            config,
            start,
            self.flood,
            reservation,
            self._on_restart,
            lambda: max(reservation.used, host.used),
        )
        self.peers = self._neighbours.peers
        self.comparison = self._neighbours.comparison
        self.trust = Trust()
        self._hearing = Hearing(self.flood, self._neighbours, self.trust, self._on_message)
        self.on_datagram = self._hearing.on_datagram
        self.state = State.GATHER
        self.reasons: Counter[Reason] = Counter()
        self.view: View | None = None
        self.deadline = -inf
        self.adopt: Adoption | None = None
        self._outdating = Outdating(start, self.peers.values)
        self._trouble = Trouble()
        self._gather = Gather(self._timing, 0.0, 1.0)
        self._own = OwnJoin(start, host, self._neighbours, reservation)
        self._agreement: Agreement | None = None
        self._solitude = Solitude(host)
        self._schedule = CommitSchedule(self._timing)
        self._sent_at = self._repair_at = self._progress_at = self._met_at = -inf
        self._standing = Standing(self._timing, self.flood, self._neighbours, host)
        self._farewell = Farewell()

    @property
    def gathered_at(self) -> float:
        """When it began to look for a view the last time."""
        return self._gather.started

    @property
    def coming(self) -> View | None:
        """The view that is agreed to and not installed."""
        agreed, done = self._agreement, self.state is State.OPERATIONAL
        return None if agreed is None or done else agreed.view

    # ---- what is heard ----

    def _on_restart(self, number: int, over: Incarnation | None, now: float) -> None:
        if over is not None:
            self._host.forget(number, over)
        agreement, peer = self._agreement, self.peers[number]
        if agreement is not None and agreement.has_other_start_of(peer):
            self.gather(Reason.FELLOW_RESTARTED, now)

    def on_broken(self, number: int, error: RemoteProtocolError, now: float) -> None:
        """A daemon's own datagram breaks the protocol, or contradicts what came before."""
        reason, agreement = self.trust.judge(self.peers[number], error, now), self._agreement
        self._gather.news |= reason is not None
        if reason is not None and agreement is not None and agreement.has_name(number):
            self.gather(reason, now)

    def on_control(self, packet: ControlPacket, sender: int, now: float) -> None:
        """Take a control packet that came from `sender`; raises RemoteProtocolError if broken."""
        if self.state is not State.LEFT:
            self._hearing.on_control(packet, sender, now)

    def _on_links(self, peer: Peer, links: Links, now: float) -> None:
        if self.state is State.OPERATIONAL and not self._standing.on_links(peer, links):
            self.gather(Reason.PATH_LOST, now)

    def _on_message(
        self, peer: Peer, message: ControlMessage, sequence: int, direct: bool, now: float
    ) -> None:
        if isinstance(message, Repair):
            self._on_repair(peer, message, now)
        elif isinstance(message, Outdated):
            self._reservation.check(message.counter, now)
            self.adopt = self._outdating.hear(peer, message, now) or self.adopt
        elif isinstance(message, Leave):
            peer.leave(sequence, now, own=direct)
            self._on_leave(peer, now)
        elif peer.is_latest(message, sequence, now, own=direct):
            if isinstance(message, Join):
                self._on_join(peer, message, direct, now)
            elif isinstance(message, Commit):
                self._on_commit(peer, message, now)
            elif isinstance(message, Links):
                self._on_links(peer, message, now)
            elif isinstance(message, Beacon) and direct:
                self._on_beacon(peer, message, now)

    def _on_leave(self, peer: Peer, now: float) -> None:
        self._gather.news = True
        if self._agreement is not None and self._agreement.attempt_of(peer) is not None:
            self.gather(Reason.FELLOW_LEFT, now)

    def _on_join(self, peer: Peer, join: Join, direct: bool, now: float) -> None:
        self._reservation.check(join.counter, now)
        if peer.take_join(join, now):
            self._gather.news = True
        self._reservation.may_use(join.counter + 1, now)
        if self._agreement is None:
            return
        attempt = self._agreement.attempt_of(peer)
        if attempt is not None:
            if join.attempt > attempt:
                self.gather(Reason.FELLOW_GATHERS, now)
        elif direct and not peer.left and self.state is State.OPERATIONAL:
            if self._neighbours.key not in join.heard:
                self._neighbours.answer(peer, self.view, now)
            elif self._neighbours.may_meet(peer, join, self.view, now):
                self.gather(Reason.FOREIGN_HEARD, now)

    def _on_beacon(self, peer: Peer, beacon: Beacon, now: float) -> None:
        self._reservation.check(beacon.used, now)
        peer.beacon, peer.beacon_at = beacon, now
        peer.streak = peer.streak + 1 if self._neighbours.key in beacon.heard else 0
        self._reservation.may_use(beacon.used + 1, now)
        agreement, view = self._agreement, self.view
        if self.state is not State.OPERATIONAL or agreement is None or view is None or peer.left:
            return
        if agreement.attempt_of(peer) is not None:
            if beacon.counter > view.id.counter and beacon.view != view.key:
                self.gather(Reason.FELLOW_MOVED, now)
            else:
                self._standing.on_beacon(peer, now)
                self.deadline = min(self.deadline, self._standing.deadline)
        elif self._neighbours.key not in beacon.heard:
            self._neighbours.answer(peer, view, now)
        elif (
            now >= peer.ignored_until or peer.streak >= STEADY_BEACONS
        ) and self._neighbours.may_meet(peer, beacon, view, now):
            self.gather(Reason.FOREIGN_HEARD, now)

    # ---- gather ----

    def gather(self, reason: Reason, now: float) -> None:
        """Begin to look for the next view; the present one stands still from here on."""
        if self.leaving:
            return
        self.reasons[reason] += 1
        operational = self.state is State.OPERATIONAL
        if self._agreement is not None and operational:
            self._agreement.forget_joins()
        if self._agreement is not None and reason is not Reason.FELLOW_LEFT:
            self._trouble.gathering(now, operational=operational)
        self._note_failure(now)
        self._host.freeze()
        self.state, self._agreement = State.GATHER, None
        self._reservation.note_used(self._host.used)
        self._hearing.since = now
        self._own.begin(None if self._solitude.alone else self._host.past, now)
        jitter = (self._me >> self._own.attempt % 48 & 0xFF) / 256
        manner = self._trouble.stretch, jitter
        self._gather = Gather(self._timing, now, *manner, reason=reason, met_at=self._met_at)
        self._send_join(now)

    def _send_join(self, now: float) -> None:
        self._own.update()
        self._sent_at = now
        self.flood.send_all(self._own.latest)

    def say_again(self, now: float) -> None:
        """Others could not take the last join: send it again soon."""
        self._met_at = now
        self._gather.say_again(now)

    def _step_gather(self, now: float) -> None:
        gather = self._gather
        if self._hearing.take_news() or gather.news or now >= gather.due or self._own.lacks_mark:
            gather.news = False
            gather.unsaid |= self._own.update()
            if self._solitude.alone:  # no view with others before one by itself: see there
                proposal, is_complete = gather.look(self._start, self._own.latest, {}, now), True
            else:
                proposal = gather.look(self._start, self._own.latest, self.peers, now)
                known = self.view, gather.started
                expected = self._neighbours.expected(*known, paused=gather.paused)
                is_complete = not gather.unsaid and gather.is_complete(expected, now)
            if proposal and is_complete:
                self._commit(proposal, now)
                return
        if gather.may_send(self._sent_at, now):
            gather.unsaid = False
            self._send_join(now)
            gather.news = True
        self.deadline = gather.deadline(self._sent_at)

    # ---- commit ----

    def _commit(self, proposal: Proposal, now: float) -> None:
        """Agree to a proposal, if this daemon is in it and has all joins that it is made from."""
        joins = joins_of(proposal, self._start, self._own.latest, self.peers)
        if joins is None:
            return
        here = (self._config, self._start, self._host, self.view)
        agreement = Agreement(*here, proposal=proposal, joins=joins, peers=self.peers)
        agreement.recovery.begun = self._agreement is not None and self._agreement.recovery.begun
        self._gather.give_kept(agreement.recovery.take)
        self.state, self._agreement, self._progress_at = State.COMMIT, agreement, now
        self._repeat(agreement, now)
        self._repair(agreement, now)
        self._step_commit(now)

    def _on_commit(self, peer: Peer, commit: Commit, now: float) -> None:
        check_commit(commit, peer)
        news, peer.commit = commit != peer.commit, commit
        agreement, theirs = self._agreement, commit.proposal
        if self._solitude.alone:
            return
        if agreement is None:
            if self._gather.members <= {seat.number for seat in theirs.seats}:
                self._commit(theirs, now)
        elif agreement.note(peer, commit):
            if news:  # a repetition is no progress: who does not answer any more is not waited for
                self._progress_at = now
            self._on_agreed(agreement, peer, commit, now)
        elif self.state is not State.OPERATIONAL and agreement.is_worse_than(theirs):
            if agreement.may_give_way_to(theirs):
                self._commit(theirs, now)
            elif agreement.attempt_of(peer) is not None:
                # It will not come back, and more is bound here than the own join says.
                self.gather(Reason.ATTEMPT_FAILED, now)

    def _on_agreed(self, agreement: Agreement, peer: Peer, commit: Commit, now: float) -> None:
        """A daemon has committed to the same proposal as this one."""
        if self.state is not State.OPERATIONAL:
            if not commit.recovered and peer.number in agreement.recovery.numbers:
                agreement.recovery.asked(peer.number, commit.missing, now)
        elif not commit.installed:  # it still asks, and the view is installed here
            if peer.name and agreement.are_mutual(peer.number):
                self.flood.send_to(peer.name, agreement.commit(self._own.attempt, installed=True))
            elif now - self._sent_at >= self._timing.repeat_s:
                self._send_commit(agreement, now)

    def _on_repair(self, peer: Peer, repair: Repair, now: float) -> None:
        """Take a packet of the old view; while it gathers, once it is known who goes on."""
        agreement, key = self._agreement, self.view.key if self.view is not None else None
        if self.state is State.GATHER and repair.view == key:
            self._gather.keep(peer.number, repair.packet)
        elif self.state is State.COMMIT and agreement is not None and repair.view == key:
            try:
                news = agreement.recovery.take(peer.number, repair.packet)
            except Contradiction:
                self._go_on_alone(now)
                raise
            self._progress_at = now if news else self._progress_at

    def _note_failure(self, now: float) -> None:
        """Note an attempt that had come to a standstill before somebody gave it up."""
        if self._agreement is None or self.state is State.OPERATIONAL:
            return
        if now >= self._progress_at + self._timing.answer_wait_s * self._trouble.stretch:
            self._solitude.failed(self._agreement)

    def _go_on_alone(self, now: float) -> None:
        """What fellows hold of the old view contradicts what is held here: come without them."""
        self._solitude.alone = True
        self.gather(Reason.CONTRADICTED, now)

    def _send_commit(self, agreement: Agreement, now: float) -> None:
        """Say what this daemon agrees to, and what it lacks."""
        installed = self.state is State.OPERATIONAL
        commit = agreement.commit(self._own.attempt, installed=installed)
        self._sent_at = now
        self._schedule.said(commit, now)
        self.flood.send_all(commit)

    def _repeat(self, agreement: Agreement, now: float) -> None:
        """Say again what others may not have heard."""
        if None in agreement.commits():
            self.flood.send_all(self._own.latest)
        self._send_commit(agreement, now)

    def _repair(self, agreement: Agreement, now: float) -> None:
        """Send some of what fellows lack."""
        self._repair_at = now + self._timing.repeat_s
        for repair, numbers in agreement.next_repairs(now):
            self.flood.send_some(repair, numbers)

    def _step_commit(self, now: float) -> None:
        agreement = self._agreement
        assert agreement is not None
        recovery, counter = agreement.recovery, agreement.view.id.counter
        holds_all = not agreement.recovered and recovery.complete
        if holds_all and self._reservation.may_use(counter, now):
            if not recovery.is_sound():
                self._go_on_alone(now)
                self._step_gather(now)
                return
            self.state = State.RECOVERED
            agreement.recovered = True
            self._reservation.use(counter)  # others may install the view from here on
            if recovery.union is not None:
                self._host.bind(recovery.union, recovery.fellows)
            self._send_commit(agreement, now)
        if agreement.all_recovered:
            self._install(agreement, now)
            return
        wait_s = silence_s(self._timing, self._trouble.stretch)
        if now >= self._progress_at + wait_s:
            self.gather(Reason.ATTEMPT_FAILED, now)
            self._step_gather(now)
            return
        if now >= self._schedule.due:
            self._repeat(agreement, now)
        if recovery.sends and now >= self._repair_at:
            self._repair(agreement, now)
        repair_at = self._repair_at if recovery.sends else inf
        self.deadline = min(self._schedule.due, repair_at, self._progress_at + wait_s)

    def _install(self, agreement: Agreement, now: float) -> None:
        reading = agreement.correction()
        if reading is not None:
            self._host.set_reading(now, reading)
        view, recovery = agreement.view, agreement.recovery
        self.state = State.OPERATIONAL
        self.view = view
        self._solitude.end()
        self._trouble.installed(now)
        self._host.install(view, recovery.union, recovery.fellows)
        self._standing.begin(view, self._gather.started, now)
        self.deadline = now

    # ---- operational, and one step ----

    def _step_operational(self, now: float) -> None:
        standing = self._standing
        if not standing.step(now):
            self.gather(Reason.PATH_LOST, now)
            self._step_gather(now)
            return
        self.deadline = standing.deadline

    def leave(self, now: float) -> None:
        """Tell all that this daemon leaves, whatever its state; then it has left."""
        self._farewell.begin(now)
        self.deadline = now

    @property
    def leaving(self) -> bool:
        """Whether `leave` was called: nothing else is done from then on."""
        return self._farewell.begun

    def _say_goodbye(self, now: float) -> None:
        if now >= self._farewell.due:
            self.flood.send_all(Leave())
            if self._farewell.take(now):
                self.state = State.LEFT
        self.deadline = self._farewell.due

    def step(self, now: float) -> None:
        """Do what the state and the time call for."""
        if self._farewell.begun:
            self._say_goodbye(now)
            return
        if now >= self.comparison.due:
            self.comparison.step(now)
        if self.state is State.GATHER:
            self._step_gather(now)
        elif self.state is not State.OPERATIONAL:
            self._step_commit(now)
        elif now >= self.deadline or (
            self._reservation.needed > self._standing.told_mark and self._standing.owes_mark
        ):
            self._step_operational(now)
        self.deadline = min(self.deadline, self.comparison.due)
