"""Membership: from one view to the next, the same machine at every daemon, no coordinator.

Pure. ``now`` is in seconds on the daemon's monotonic clock. docs/membership.md has the states,
what makes them change, and a drawing. In short:

    GATHER       joins are flooded: who am I, whom do I hear, what do I hold of the old view
      | all that hear each other have joined, or the others had time enough
    COMMIT       the proposal is flooded; packets of the old view that fellows lack are sent
      | this daemon holds all that its fellows hold
    RECOVERED    it has said so, and is bound to deliver as they do
      | everybody has said so
    OPERATIONAL  the view is installed; beacons tell others that it is there

Sources: the obligations and the acknowledged recovery are those of Amir et al., "The Totem
Single-Ring Ordering and Membership Protocol", ACM TOCS 13(4), 1995, sections 5 and 6. Unlike
there, no token collects the state: all tell all, and what follows is computed by each.
"""

from collections import Counter
from math import inf
from typing import Final

from groupcomm.config.core import CoreConfig
from groupcomm.config.start import Start
from groupcomm.config.view import Incarnation, View
from groupcomm.errors import RemoteProtocolError
from groupcomm.membership.flood import Flood
from groupcomm.membership.gather import Gather
from groupcomm.membership.host import Host
from groupcomm.membership.peers import Peer
from groupcomm.membership.proposal import LEAD_US, make_view, median_reading, rank
from groupcomm.membership.recovery import Recovery
from groupcomm.membership.states import Reason, State
from groupcomm.names import daemon_number
from groupcomm.wire.control import ControlPacket
from groupcomm.wire.membership import (
    Beacon,
    Commit,
    ControlKind,
    ControlMessage,
    Join,
    Leave,
    Outdated,
    Proposal,
    Repair,
    decode_message_untrusted,
)

ANSWER_INTERVAL_S = 0.02
"""A daemon that does not know that it is heard is told so at most this often."""

LEAVES = 4
"""How often a daemon that leaves says so; who hears none of them finds its silence."""

FIRST_PATIENCE_S = 0.3
LONGEST_PATIENCE_S = 30.0

_DIRECT: Final = frozenset((ControlKind.BEACON, ControlKind.OUTDATED))
"""Nobody passes these on."""

HEARD_BEACONS = 3
"""A daemon is heard if anything of its own came within so many beacon intervals."""


class Membership:
    """One daemon's part in agreeing on views.

    Feed what arrives to the ``on_`` methods, then call `step`; also when `deadline` is reached.

    Attributes:
        state: how far it is.
        reasons: how often it has begun to gather, by reason.
        view: the regular view installed last.
        deadline: when `step` has something to do.
        flood: what is to be sent.
        adopt_restarts: others know of so many restarts of this daemon, more than it does itself.
        coming: the key of the view that is about to be installed.
    """

    def __init__(self, config: CoreConfig, start: Start, host: Host) -> None:
        self._config = config
        self._timing = config.timing
        self._start = start
        self._me = start.daemon.number
        self._key = (self._me, start.incarnation.random_id)
        self._host = host
        self._peers: dict[int, Peer] = {}
        self._names = {daemon_number(name): name for name in config.daemons}
        self.flood = Flood(config, start)
        self.state = State.GATHER
        self.reasons: Counter[Reason] = Counter()
        self.view: View | None = None
        self.coming: View | None = None
        self.deadline = -inf
        self.adopt_restarts: int | None = None
        self._counter = start.counter
        self._attempt = 0
        self._failures = 0
        self._gather = Gather(self._timing, 0.0, 0.0)
        self._join: Join | None = None
        self._joins: dict[int, Join] = {}
        self._proposal: Proposal | None = None
        self._recovery = Recovery(host, None, self._me, Proposal(()), {})
        self._sent_at = -inf
        self._progress_at = -inf
        self._beacon_due = inf
        self._silence_due = inf
        self._leaves = 0
        self._leave_due = inf

    # ---- what is heard ----

    def on_datagram(self, number: int, incarnation: Incarnation, now: float) -> bool:
        """A daemon's own datagram has come; False if it is of a start that is over."""
        peer = self._peers.get(number)
        if peer is None or peer.incarnation is not incarnation:
            peer = self._meet(number, incarnation, now)
            if peer is None:
                return False
        if peer.heard_at < self._gather.started:
            self._gather.news = True
        peer.heard_at = now
        return True

    def _meet(self, number: int, incarnation: Incarnation, now: float) -> Peer | None:
        """The peer of a start; None if a later start of it is known."""
        peer = self._peers.get(number)
        if peer is None:
            peer = self._peers[number] = Peer(number, self._names.get(number), incarnation)
        elif incarnation.restarts > peer.incarnation.restarts:
            self._host.forget(number, peer.incarnation)
            peer.restart(incarnation)
            if self.state is not State.GATHER and self._is_member(number):
                self.gather(Reason.FELLOW_RESTARTED, now)
        elif incarnation != peer.incarnation:
            self._tell_outdated(peer, incarnation, now)
            return None
        peer.incarnation = incarnation  # the same object: the next comparison is by identity
        return peer

    def _tell_outdated(self, peer: Peer, incarnation: Incarnation, now: float) -> None:
        """Tell a start that it is not the latest, unless that one answers: then it is a clone."""
        answers = now - peer.heard_at < self._timing.token_timeout_s
        if peer.name and not answers and now - peer.answered_at >= ANSWER_INTERVAL_S:
            peer.answered_at = now
            message = Outdated(incarnation.random_id, peer.incarnation.restarts)
            self.flood.send_to(peer.name, message)

    def _is_member(self, number: int) -> bool:
        """Whether a daemon is in the view that is proposed or installed."""
        return self._proposal is not None and any(
            seat.number == number for seat in self._proposal.seats
        )

    def on_control(self, packet: ControlPacket, sender: int, now: float) -> None:
        """Take a control packet that came from `sender`, its origin or not."""
        if packet.origin == self._me or self.state is State.LEFT:
            return
        peer = self._peers.get(packet.origin)
        if peer is None or peer.incarnation != packet.incarnation:
            peer = self._meet(packet.origin, packet.incarnation, now)
            if peer is None:
                return
        direct = sender == packet.origin
        if not self.flood.is_new(peer.seen, packet):
            return
        if packet.kind not in _DIRECT:
            self.flood.pass_on(packet, self._lacking(peer, sender, now))
        body = self.flood.assemble(packet)
        if body is not None:
            peer.seen.accept(packet.sequence)
            message = decode_message_untrusted(packet.kind, body)
            self._on_message(peer, message, packet.sequence, direct, now)

    def _lacking(self, origin: Peer, sender: int, now: float) -> list[int]:
        """Who may not hear a message's origin directly."""
        since = self._fresh_since(now)
        return [
            number
            for number in self._names
            if number not in (self._me, origin.number, sender)
            and not (
                (peer := self._peers.get(number)) is not None and peer.hears(origin.key, since)
            )
        ]

    def _fresh_since(self, now: float) -> float:
        return now - HEARD_BEACONS * self._timing.beacon_interval_s - self._timing.longest_delay_s

    def _on_message(
        self, peer: Peer, message: ControlMessage, sequence: int, direct: bool, now: float
    ) -> None:
        if isinstance(message, Repair):
            self._on_repair(message, now)
        elif isinstance(message, Outdated):
            if message.random_id == self._start.incarnation.random_id:
                self.adopt_restarts = max(self.adopt_restarts or 0, message.restarts)
        elif isinstance(message, Leave):
            self._on_leave(peer, now)
        elif peer.is_latest(message, sequence):
            if isinstance(message, Join):
                self._on_join(peer, message, direct, now)
            elif isinstance(message, Commit):
                self._on_commit(peer, message, now)
            elif direct:
                self._on_beacon(peer, message, now)

    def _on_repair(self, repair: Repair, now: float) -> None:
        """Take a packet of the old view; the joins have said already what is held at other times."""
        known = self.view is not None and repair.view == self.view.key
        if self.state is State.COMMIT and known and self._recovery.union is not None:
            self._recovery.begun = True
            self._host.take_repair(repair.packet)
            self._progress_at = now

    def _on_leave(self, peer: Peer, now: float) -> None:
        peer.left = True
        peer.join = None
        if self.state is not State.GATHER and self._is_member(peer.number):
            self.gather(Reason.FELLOW_LEFT, now)
        self._gather.news = True

    def _on_join(self, peer: Peer, join: Join, direct: bool, now: float) -> None:
        if daemon_number(join.name) != peer.number:
            raise RemoteProtocolError(f"daemon {peer.number} calls itself {join.name!r}")
        known = peer.join
        peer.name = join.name
        peer.join, peer.join_at = join, now
        if known is None or known.attempt != join.attempt or known.heard != join.heard:
            self._gather.news = True
        if self.state is State.GATHER:
            return
        seat = self._seat_of(peer)
        if seat is not None:
            if join.attempt > seat:
                self.gather(Reason.FELLOW_GATHERS, now)
        elif direct and not peer.left and self.state is State.OPERATIONAL:
            if self._key in join.heard:
                self.gather(Reason.FOREIGN_HEARD, now)
            else:
                self._answer(peer, now)

    def _seat_of(self, peer: Peer) -> int | None:
        """The attempt with which a daemon is in the view; None if it is not."""
        for seat in self._proposal.seats if self._proposal is not None else ():
            if (seat.number, seat.random_id) == peer.key:
                return seat.attempt
        return None

    def _answer(self, peer: Peer, now: float) -> None:
        """Tell a daemon that does not know it that it is heard."""
        if peer.name and now - peer.answered_at >= ANSWER_INTERVAL_S:
            peer.answered_at = now
            self.flood.send_to(peer.name, self._beacon(now))

    def _on_beacon(self, peer: Peer, beacon: Beacon, now: float) -> None:
        peer.beacon, peer.beacon_at = beacon, now
        if self.state is not State.OPERATIONAL or self.view is None or peer.left:
            return
        if self._seat_of(peer) is not None:
            if beacon.counter > self.view.id.counter and beacon.view != self.view.key:
                self.gather(Reason.FELLOW_MOVED, now)
        elif self._key not in beacon.heard:
            self._answer(peer, now)
        elif now >= peer.ignored_until:
            self.gather(Reason.FOREIGN_HEARD, now)

    # ---- gather ----

    def gather(self, reason: Reason, now: float) -> None:
        """Begin to look for the next view; the present one stands still from here on."""
        if self.state is State.LEFT:
            return
        self.reasons[reason] += 1
        if reason is Reason.ATTEMPT_FAILED:
            self._failures += 1
        self._host.freeze()
        self.state = State.GATHER
        self._recovery = Recovery(self._host, None, self._me, Proposal(()), {})
        self.coming = None
        self._proposal = None
        self._attempt += 1
        self._gather = Gather(self._timing, now, self._patience())
        self._join = Join(
            attempt=self._attempt,
            name=self._start.name,
            heard=(),
            reading=self._host.reading(now),
            clock=self._host.clock,
            counter=self._counter,
            past=self._host.past,
        )
        self._send_join(now)

    def _patience(self) -> float:
        """Seconds more to wait for others, rising with failures; no two daemons wait alike."""
        if not self._failures:
            return 0.0
        share = ((self._me >> self._attempt % 48) & 0xFF) / 256
        return (min(self._failures, 8) / 2 + share) * self._timing.answer_wait_s / 2

    def _send_join(self, now: float) -> None:
        assert self._join is not None
        heard = self._heard_since(self._gather.started)
        join = self._join
        if heard != join.heard:
            join = self._join = Join(
                attempt=join.attempt,
                name=join.name,
                heard=heard,
                reading=join.reading,
                clock=join.clock,
                counter=join.counter,
                past=join.past,
            )
        self._sent_at = now
        self.flood.send_all(join)

    def _heard_since(self, since: float) -> tuple[tuple[int, int], ...]:
        """Whom this daemon heard itself since a time, sorted."""
        return tuple(
            sorted(p.key for p in self._peers.values() if p.heard_at >= since and not p.left)
        )

    def _step_gather(self, now: float) -> None:
        gather, join = self._gather, self._join
        assert join is not None
        if gather.news or now >= gather.due:
            gather.news = False
            heard = self._heard_since(gather.started)
            if heard != join.heard:
                gather.unsaid = True
            proposal = gather.look(
                self._me, self._start.incarnation, self._attempt, heard, self._peers, now
            )
            expected = self._expected(now)
            if not gather.unsaid and gather.is_complete(expected, now):
                self._commit(proposal, now)
                return
        if gather.may_send(self._sent_at, now):
            gather.unsaid = False
            self._send_join(now)
            gather.news = True
        self.deadline = gather.deadline(self._sent_at, now)

    def _expected(self, now: float) -> set[int]:
        """Who should answer: the last view's daemons and all that were heard lately."""
        since = self._fresh_since(self._gather.started)
        expected = {
            peer.number
            for peer in self._peers.values()
            if not peer.left and (peer.heard_at >= since or peer.join_at >= since)
        }
        if self.view is None:
            expected |= self._names.keys() - {self._me}
        else:
            for daemon in self.view.daemons:
                peer = self._peers.get(daemon.number)
                if peer is not None and not peer.left:
                    expected.add(daemon.number)
        return expected

    # ---- commit ----

    def _joins_of(self, proposal: Proposal) -> dict[int, Join] | None:
        """The joins that a proposal is made from; None if one of them is not here."""
        joins: dict[int, Join] = {}
        for seat in proposal.seats:
            if seat.number == self._me:
                join, key = self._join, self._key
            else:
                peer = self._peers.get(seat.number)
                if peer is None or peer.left:
                    return None
                join, key = peer.join, peer.key
            if join is None or join.attempt != seat.attempt or key[1] != seat.random_id:
                return None
            joins[seat.number] = join
        return joins if self._me in joins else None

    def _commit(self, proposal: Proposal, now: float) -> None:
        joins = self._joins_of(proposal)
        assert joins is not None, "a proposal without joins"
        self.state = State.COMMIT
        self._proposal, self._joins = proposal, joins
        self.coming = make_view(self._config, proposal, joins)
        self._recovery = Recovery(self._host, self.view, self._me, proposal, joins)
        self._progress_at = now
        self._repeat(now)
        self._step_commit(now)

    def _on_commit(self, peer: Peer, commit: Commit, now: float) -> None:
        peer.commit, peer.commit_at = commit, now
        theirs = commit.proposal
        if self._proposal == theirs:
            self._progress_at = now
            if self.state is State.OPERATIONAL:
                if now - self._sent_at >= self._timing.repeat_s:
                    self._send_commit(now)
            elif not commit.recovered and peer.number in self._recovery.numbers:
                self._recovery.asked(commit.missing)
        elif self.state in (State.GATHER, State.COMMIT):
            self._consider(theirs, now)
        elif self.state is State.RECOVERED and self._seat_of(peer) is not None:
            assert self._proposal is not None
            if rank(theirs) > rank(self._proposal):
                self.gather(Reason.ATTEMPT_FAILED, now)

    def _consider(self, theirs: Proposal, now: float) -> None:
        """Take over another's proposal if it is better than the own one, or comes earlier."""
        if self._joins_of(theirs) is None:
            return
        if self.state is State.GATHER:
            better = self._gather.members <= {seat.number for seat in theirs.seats}
        else:
            assert self._proposal is not None
            better = rank(theirs) > rank(self._proposal)
        if better and self._recovery.begun:
            self.gather(Reason.ATTEMPT_FAILED, now)  # more is held here than the own join says
        elif better:
            self._commit(theirs, now)

    def _send_commit(self, now: float) -> None:
        assert self._proposal is not None
        recovered = self.state is not State.COMMIT
        self._sent_at = now
        self.flood.send_all(
            Commit(
                attempt=self._attempt,
                proposal=self._proposal,
                recovered=recovered,
                missing=() if recovered else self._recovery.missing,
            )
        )

    def _repeat(self, now: float) -> None:
        """Say again what others may not have heard."""
        if any(commit is None for commit in self._commits()):
            assert self._join is not None
            self.flood.send_all(self._join)
        self._send_commit(now)
        self._send_repairs()

    def _send_repairs(self) -> None:
        if self._recovery.sends and self.view is not None:
            for packet in self._recovery.take():
                self.flood.send_all(Repair(self.view.key, packet))

    def _commits(self) -> list[Commit | None]:
        """Per other member its commit to the present proposal, if it is here."""
        assert self._proposal is not None
        commits: list[Commit | None] = []
        for seat in self._proposal.seats:
            if seat.number != self._me:
                commit = self._peers[seat.number].commit
                commits.append(commit if commit and commit.proposal == self._proposal else None)
        return commits

    def _step_commit(self, now: float) -> None:
        assert self.coming is not None
        if (
            self.state is State.COMMIT
            and not any(self._recovery.missing)
            and self._host.may_use(self.coming.id.counter)
        ):
            self.state = State.RECOVERED
            if self._recovery.union is not None:
                self._host.bind(self._recovery.union, self._recovery.fellows)
            self._send_commit(now)
        if self.state is State.RECOVERED and all(
            commit is not None and commit.recovered for commit in self._commits()
        ):
            self._install(now)
            return
        wait_s = 2 * self._timing.answer_wait_s
        if now >= self._progress_at + wait_s:
            self.gather(Reason.ATTEMPT_FAILED, now)
            self._step_gather(now)
            return
        if now >= self._sent_at + self._timing.repeat_s:
            self._repeat(now)
        self.deadline = min(self._sent_at + self._timing.repeat_s, self._progress_at + wait_s)

    def _install(self, now: float) -> None:
        view, recovery = self.coming, self._recovery
        assert view is not None
        median = median_reading(self._joins)
        if self._joins[self._me].reading > median + LEAD_US:
            self._host.set_reading(now, median)
        self.state = State.OPERATIONAL
        self.view, self.coming = view, None
        self._failures = 0
        self._counter = max(self._counter, view.id.counter)
        self._host.install(view, recovery.union, recovery.fellows)
        self._recovery = Recovery(self._host, None, self._me, Proposal(()), {})
        for peer in self._peers.values():
            if self._is_member(peer.number):
                peer.patience_s = 0.0
                peer.heard_at = max(peer.heard_at, now)  # its silence counts from here
            elif peer.heard_at >= self._gather.started:
                peer.patience_s = min(
                    max(2 * peer.patience_s, FIRST_PATIENCE_S), LONGEST_PATIENCE_S
                )
                peer.ignored_until = now + peer.patience_s
        self._beacon_due = now
        self._silence_due = now
        self.deadline = now

    # ---- operational ----

    def _beacon(self, now: float) -> Beacon:
        counter, key = (self.view.id.counter, self.view.key) if self.view else (0, bytes(16))
        return Beacon(counter, key, self._heard_since(self._fresh_since(now)))

    def _step_operational(self, now: float) -> None:
        if now >= self._beacon_due:
            self._beacon_due = now + self._timing.beacon_interval_s
            self.flood.send_all(self._beacon(now))
        if now >= self._silence_due and self._is_path_lost(now):
            self.gather(Reason.PATH_LOST, now)
            self._step_gather(now)
            return
        if self._leaves and now >= self._leave_due:
            self._say_leave(now)
        self.deadline = min(self._beacon_due, self._silence_due, self._leave_due)

    def _is_path_lost(self, now: float) -> bool:
        """Whether a fellow of the ring or the other end of a link was silent for too long.

        The token does not tell while it rests: then only its holder is known to be alive.
        """
        assert self.view is not None
        view, timeout_s = self.view, self._timing.token_timeout_s
        me = next(i for i, daemon in enumerate(view.daemons) if daemon.number == self._me)
        watched = dict.fromkeys(view.rings[view.ring_of[me]], 2 * timeout_s)
        for pair in view.links:
            if me in pair:
                watched[sum(pair) - me] = timeout_s + self._timing.longest_delay_s
        watched.pop(me, None)
        self._silence_due = inf
        for index, limit_s in watched.items():
            due = self._peers[view.daemons[index].number].heard_at + limit_s
            if due <= now:
                return True
            self._silence_due = min(self._silence_due, due)
        return False

    def leave(self, now: float) -> None:
        """Tell all that this daemon leaves; it has nothing left that others lack."""
        if not self._leaves:
            self._leaves = LEAVES
            self._leave_due = now

    @property
    def leaving(self) -> bool:
        """Whether `leave` was called."""
        return self._leaves > 0

    def _say_leave(self, now: float) -> None:
        self.flood.send_all(Leave())
        self._leaves -= 1
        self._leave_due = now + self._timing.join_interval_s / 5
        if not self._leaves:
            self.state = State.LEFT
            self._leave_due = inf

    # ---- one step ----

    def step(self, now: float) -> None:
        """Do what the state and the time call for."""
        if self.state is State.GATHER:
            self._step_gather(now)
        elif self.state in (State.COMMIT, State.RECOVERED):
            self._step_commit(now)
        elif self.state is State.OPERATIONAL:
            if now >= self.deadline:
                self._step_operational(now)
        else:
            self.deadline = inf
