"""Gather: finds out which daemons hear each other, and when to propose a view.

Pure. ``now`` is in seconds. There is one `Gather` for each attempt of a daemon, and one join: the
others compute the view from it. So only the daemons that are heard, and the mark on disk, may
change in the join during an attempt.

After failures timeouts are longer (`Backoff`), so that daemons whose network is slower than their
settings say still find each other, and attempts that chase each other come to rest.
"""

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from math import inf

from groupcomm.config.core import Timing
from groupcomm.config.versions import Versions, speakers
from groupcomm.config.view import Incarnation, Start, View
from groupcomm.errors import RemoteProtocolError
from groupcomm.membership.failure_detector import FailureDetector
from groupcomm.membership.late import LateMembers
from groupcomm.membership.peer import Key, PeerDaemon, Row
from groupcomm.membership.proposal import (
    CounterClaim,
    component,
    find_ready,
    mutual_pairs,
    propose,
)
from groupcomm.membership.relays import Relays
from groupcomm.membership.reservation import Reservation
from groupcomm.membership.room import PLENTY, Room, Separated, separate
from groupcomm.membership.states import GatherReason
from groupcomm.wire.membership import Join, Past, Proposal, spoken_of

STEADY_S = 2.0
"""After a view that lasted this long all failures are forgotten; after one that lasted a quarter of
it, half of them: such a view has ended for a new reason."""

MOST_FAILURES = 5


def silence_s(timing: Timing, stretch: float) -> float:
    """Return after how many seconds without news an attempt is given up."""
    return 2 * timing.answer_wait_s * stretch


def longest_silence_s(timing: Timing) -> float:
    """Return `silence_s` after many failures."""
    return silence_s(timing, 1 + MOST_FAILURES / 2)


class Backoff:
    """The failures of one daemon.

    Attributes:
        failures: the number of recent failures, at most MOST_FAILURES.
    """

    __slots__ = ("_installed_at", "failures")

    def __init__(self) -> None:
        self.failures = 0
        self._installed_at = -inf

    def on_installed(self, now: float) -> None:
        """Note that a view was installed."""
        self._installed_at = now

    def on_gather(self, now: float, *, operational: bool) -> None:
        """Note that a daemon gathers again; `operational` if it had a view until now."""
        lasted_s = now - self._installed_at if operational else 0.0
        if lasted_s >= STEADY_S:
            self.failures = 0
        elif lasted_s >= STEADY_S / 4:
            self.failures //= 2
        else:
            self.failures = min(self.failures + 1, MOST_FAILURES)

    @property
    def factor(self) -> float:
        """Return the factor by which to multiply timeouts."""
        return 1 + self.failures / 2


class OwnJoin:
    """The latest join of one daemon.

    Attributes:
        latest: the join that was sent last, or will be sent next.
    """

    __slots__ = (
        "_began_at",
        "_detector",
        "_name",
        "_reservation",
        "_spoken",
        "latest",
    )

    def __init__(
        self,
        start: Start,
        detector: FailureDetector,
        reservation: Reservation,
        versions: Versions,
    ) -> None:
        self._name = start.name
        self._spoken = spoken_of(versions)
        self._detector = detector
        self._reservation = reservation
        self._began_at = 0.0
        self.latest = self._make(0, reading=0, clock=0, past=None)

    def begin(self, past: Past | None, *, reading: int, clock: int, now: float) -> None:
        """Begin the next attempt. A view needs one more counter at least: have it reserved.

        Args:
            past: the holdings of the old view; None without one, or if others must not share it.
            reading: physical time, in microseconds.
            clock: the last known stamp, in microseconds.
            now: seconds.
        """
        disk = self._reservation
        disk.may_use(disk.used + 1, now)
        self._began_at = now
        self.latest = self._make(self.attempt + 1, reading=reading, clock=clock, past=past)

    def _make(self, attempt: int, *, reading: int, clock: int, past: Past | None) -> Join:
        return Join(
            attempt=attempt,
            name=self._name,
            digests=self._detector.comparison.digests,
            heard=(),
            reading=reading,
            clock=clock,
            counter=self._reservation.used,
            mark=self._reservation.mark,
            past=past,
            spoken=self._spoken,
        )

    @property
    def attempt(self) -> int:
        """Return which attempt this is, from 1."""
        return self.latest.attempt

    @property
    def lacks_mark(self) -> bool:
        """Return whether the disk has reserved more since it was last said."""
        return self.latest.mark != self._reservation.mark

    def update(self) -> bool:
        """Update the parts that may change during an attempt; return whether any has changed.

        A daemon that has died since the attempt began sends no join, and so does not count as
        heard.
        """
        detector, before = self._detector, self.latest
        heard = detector.heard_since(detector.fresh_since(self._began_at))
        self.latest = before.updated(heard, self._reservation.mark)
        return self.latest is not before


MIN_GAP_S = 0.001
"""The least time between two joins; changes in between go into the later one."""

MAX_KEPT = 1024
"""The most packets of the old view kept before this daemon's commit; more are asked for again."""

FRESH_REPEATS = 5
"""A daemon that has not repeated its join for this many intervals no longer gathers."""


class Gather:
    """The findings of one attempt.

    Attributes:
        started: the time at which it began.
        members: the daemons of the view as known now, by number.
        news: something came that may change them.
        stale_from: the time from which to send a join, as the last one does not name the daemons
            that this one hears; inf if it does.
        paused: whether it began because the daemon had been paused.
        apart: the daemons that are heard and share no version with the members.
        separated: the daemons that are heard and for which there is no room, by number and random
            id.
        due: the time at which the findings are computed again in any case.
        look_at: the time from which news is looked at: where daemons are many it comes together.
    """

    __slots__ = (
        "_all_mutual",
        "_awaited",
        "_calm_s",
        "_changed_at",
        "_gap_s",
        "_kept",
        "_late",
        "_looked_at",
        "_meet_until",
        "_needed",
        "_no_room",
        "_relays",
        "_repeat_s",
        "_room",
        "_round_s",
        "_seats",
        "_short",
        "_since",
        "_timing",
        "_wait_s",
        "apart",
        "due",
        "look_at",
        "members",
        "news",
        "paused",
        "separated",
        "stale_from",
        "started",
    )

    def __init__(
        self,
        timing: Timing,
        now: float,
        stretch: float,
        jitter: float = 0.0,
        room: Room = PLENTY,
        relays: Relays | None = None,
        met_at: float = -inf,
        crowd: float = 1.0,
        *,
        reason: GatherReason = GatherReason.STARTED,
        view: View | None = None,
    ) -> None:
        """Begin.

        Args:
            timing: timeouts.
            now: seconds.
            stretch: the factor by which to multiply them; above 1 after failures.
            jitter: 0 to 1, so that after failures no two daemons wait equally long.
            room: the limit on rings.
            relays: know which daemons are expected to hear each other; None: all are.
            reason: the reason to gather. If a message reported it, its sender has begun one one-way
                delay ago, and the message has reached all others, too.
            met_at: the time of the last meeting of this daemon and another one that did not know
                each other.
            view: the old view, if there was one.
            crowd: the factor by which joins are rarer, see `crowd_of`.
        """
        told = reason in (GatherReason.MEMBER_GATHERS, GatherReason.MEMBER_LEFT)
        self._timing = timing
        wait_s = timing.answer_wait_s - (timing.longest_delay_s if told else 0.0)
        stretched = stretch + jitter / 2 if stretch > 1 else 1.0
        self._wait_s = max(wait_s, timing.gather_wait_s) * stretched
        self._room, self._relays = room, relays
        self._gap_s = MIN_GAP_S * crowd
        self._repeat_s = timing.repeat_s * stretch  # a network in trouble gets fewer messages
        # As long after the first failure, and longer after each: where paths take longer than the
        # timing says, two sites may each give up an agreement because the other begins anew.
        self._calm_s = timing.answer_wait_s * (stretch - 0.5) if stretch > 1 else 0.0
        self._seats: dict[int, tuple[Incarnation, int]] = {}
        self._all_mutual = False
        self._awaited: set[int] = set()  # the daemons that members hear
        self._kept: list[tuple[int, bytes]] = []  # packets of the old view, each with its sender
        self._meet_until, self.look_at, self.stale_from = -inf, -inf, inf
        self._round_s = 2.1 * timing.longest_delay_s
        self._needed = 0  # the mark that a view with all heard daemons needs
        self._short = False  # whether the disk of this daemon does not hold that mark yet
        self._looked_at: Proposal | None = None  # the last one of others
        self._since = self._changed_at = now  # the other daemons have time to answer from now on
        self.started = self.due = now
        self.members, self.apart = frozenset[int](), frozenset[int]()
        self.separated: dict[tuple[int, int], Separated] = {}
        self._no_room: frozenset[int] = frozenset()
        self.news = True
        self.paused = reason is GatherReason.PAUSED
        self._late = LateMembers(timing, view, now, paused=self.paused)
        if now < met_at + self._round_s:
            self.on_met(met_at)

    def on_met(self, now: float) -> None:
        """Note that daemons meet: earlier messages are lost, and new ones need a round trip.

        An attacker who replays old datagrams can cause this, too; so only one round trip is granted
        in all.
        """
        self.note_stale(now)
        if self._meet_until == -inf:
            self._wait_s += self._round_s
        self._meet_until = now + self._round_s

    def note_stale(self, now: float) -> None:
        """Note that the last join does not name the daemons that this one hears."""
        self.stale_from = min(self.stale_from, self._later(now))

    def _later(self, now: float) -> float:
        """Return the time for what may wait, as more may come where there are many daemons."""
        return now + self._gap_s - MIN_GAP_S if self._gap_s > MIN_GAP_S else -inf

    def keep(self, sender: int, packet: bytes) -> None:
        """Keep a packet of the old view, whose sender has committed before this daemon."""
        if len(self._kept) < MAX_KEPT:
            self._kept.append((sender, packet))

    def replay_kept(self, accept: Callable[[int, bytes], bool]) -> None:
        """Hand over the packets that were kept; broken ones are lost."""
        kept, self._kept = self._kept, []
        for sender, packet in kept:
            with suppress(RemoteProtocolError):
                accept(sender, packet)

    def find_proposal(
        self, start: Start, own: Join, peers: Mapping[int, PeerDaemon], now: float
    ) -> Proposal | None:
        """Find the daemons that hear each other now and whose disks allow a view.

        Args:
            start: this daemon.
            own: its join.
            peers: all others.
            now: seconds.

        Returns:
            The proposal; None if this disk allows no view yet.
        """
        self.look_at = self._later(now)
        since = self._fresh_since(now)
        me = start.daemon.number
        rows = {(me, start.incarnation.random_id): frozenset(own.heard)}
        who = {me: (start.incarnation, own.attempt)}
        joins = {me: own}
        for peer in peers.values():
            join = peer.join
            if join is not None and peer.join_at >= since and not peer.left:
                rows[peer.key] = peer.row
                who[peer.number] = (peer.incarnation, join.attempt)
                joins[peer.number] = join
        numbers = {
            k[0]: frozenset(other[0] for other in row if other in rows) for k, row in rows.items()
        }
        versions = {number: join.versions for number, join in joins.items()}
        mutual = self._without_apart(mutual_pairs(numbers), versions, me)
        claims = {n: CounterClaim(joins[n].counter, joins[n].mark) for n in mutual}
        members, needed = find_ready(mutual, claims, me)
        if members:
            names = {number: joins[number].name for number in members}
            groups = self._room.groups(members, mutual, names, versions)
            members, separated = separate(groups, joins, me)
            self.separated = {(n, who[n][0].random_id): each for n, each in separated.items()}
            self._no_room = frozenset(separated)
        self._look_at_disk(own.mark, needed, now)
        if not members:
            self._all_mutual, self.due = False, inf
            return None
        seats = {number: who[number] for number in members}
        if seats != self._seats:
            self.members, self._seats = members, seats
            self._changed_at = now
        heard = frozenset().union(*(rows[m, who[m][0].random_id] for m in members))
        self._awaited = {other for other, _ in heard}
        self._late.note(joins, self._awaited, now)
        keys = {m: (m, who[m][0].random_id) for m in members}
        self._all_mutual = self._connect({m: (rows[key], key) for m, key in keys.items()}, mutual)
        looks = (
            self._repeat_s + now,
            self._meet_until,
            self._since + self._wait_s,
            self._changed_at + self._calm_s,
        )
        self.due = min(at for at in looks if at > now)
        return propose(seats, mutual)

    def _fresh_since(self, now: float) -> float:
        """Return the time since when a join shows that its daemon still gathers."""
        return now - FRESH_REPEATS * self._repeat_s - self._timing.longest_delay_s

    def had_time(self, now: float) -> bool:
        """Return whether all that hear this daemon had the time to answer."""
        return now >= self._since + self._wait_s

    def waits_for_relays(
        self,
        start: Start,
        own: Join,
        peers: Mapping[int, PeerDaemon],
        expected: set[int],
        now: float,
    ) -> bool:
        """Return whether relays have not yet brought what a complete proposal needs.

        Finding the proposal of a thousand daemons takes long. Until they had time enough it is
        looked for only if all that are expected have joined, and say that they hear whom they are
        expected to hear.
        """
        if self._relays is None or not self._relays.is_used or self.had_time(now):
            return False
        since = self._fresh_since(now)
        rows = {
            peer.number: (peer.row, peer.key)
            for peer in peers.values()
            if peer.join is not None and peer.join_at >= since and not peer.left
        }
        me = start.daemon.number
        rows[me] = frozenset(own.heard), (me, start.incarnation.random_id)
        if rows.keys() >= expected and self._relays.connect(rows):
            return False
        self.look_at = self._later(now)
        self.due = min(self._since + self._wait_s, now + self._repeat_s)
        return True

    def _connect(
        self, rows: Mapping[int, tuple[Row, Key]], mutual: Mapping[int, frozenset[int]]
    ) -> bool:
        """Return whether all of these daemons hear each other that are expected to."""
        if self._relays is not None and self._relays.is_used:
            return self._relays.connect(rows)
        return all(mutual[number] >= rows.keys() - {number} for number in rows)

    def _without_apart(
        self,
        mutual: dict[int, frozenset[int]],
        versions: Mapping[int, Versions],
        me: int,
    ) -> dict[int, frozenset[int]]:
        """Leave out the daemons that share no version with this one and the others."""
        there = component(mutual, me)
        sharing = speakers({number: versions[number] for number in there}, me)
        self.apart = there - sharing
        if not self.apart:
            return mutual
        return {n: among - self.apart for n, among in mutual.items() if n not in self.apart}

    def _look_at_disk(self, mark: int, needed: int, now: float) -> None:
        """Note whether this disk lacks a mark for a view with others: the daemon stands aside then.

        Once it has, the others have the usual time to answer: they may have a view by now.
        """
        self._needed = max(self._needed, needed)
        was_short, self._short = self._short, mark < self._needed
        if was_short and not self._short:
            self._since = now

    def lacks_late(
        self, members: Collection[int], peers: Mapping[int, PeerDaemon], now: float
    ) -> bool:
        """Return whether a member of an old view is late and waited for, and not among these."""
        until = self._late.until({*members, *self._no_room}, peers, self._wait_s)
        if until > now:
            self.due = min(self.due, until)
        return until > now

    def follows(
        self,
        theirs: Proposal,
        find: Callable[[Mapping[int, PeerDaemon], float], Proposal | None],
        peers: Mapping[int, PeerDaemon],
        now: float,
    ) -> bool:
        """Return whether to agree to another's proposal: it lacks none that this daemon waits for.

        Where relays pass commits on a thousand come together, and finding the own proposal takes
        long: one that was looked at just now is not agreed to yet.

        Args:
            theirs: the proposal.
            find: finds the own one.
            peers: all other daemons.
            now: seconds.
        """
        relayed = self._relays is not None and self._relays.is_used
        if relayed and theirs is self._looked_at and now < self.look_at:
            return False
        find(peers, now)
        self._looked_at = theirs
        there = {seat.number for seat in theirs.seats}
        return self.members <= there and not self.lacks_late(there, peers, now)

    def is_complete(self, expected: set[int], now: float) -> bool:
        """Return whether this daemon need not wait for any other one.

        It waits also for a daemon of which it has not heard yet if another member hears it:
        otherwise two that meet a third would continue without it, and need one more view.

        After a failure no daemon hurries. So attempts that chase each other, each begun because of
        another one, come to rest.

        A daemon that stands aside waits for its disk, but no longer than others wait for a silent
        daemon: then it has a view of its own until the disk has answered.
        """
        if self._short and now < self.started + self._timing.token_timeout_s:
            return False
        answered = self.members | self.apart | self._no_room
        if self._all_mutual and (expected | self._awaited) <= answered:
            return now >= max(self._changed_at + self._calm_s, self._meet_until)
        settled = now >= self._changed_at + self._repeat_s
        return now >= self._since + (self._wait_s if settled else 3 * self._wait_s)

    def may_send(self, sent_at: float, now: float) -> bool:
        """Return whether it is time for the next join."""
        return now >= self._join_due(sent_at)

    def _join_due(self, sent_at: float) -> float:
        """Return the time of the next join: more may change soon where there are many daemons."""
        if self.stale_from == inf:
            return sent_at + self._repeat_s
        return max(sent_at + self._gap_s, self.stale_from)

    def deadline(self, sent_at: float) -> float:
        """Return the time of the next act of gathering."""
        look_at = self.look_at if self.news and self.look_at > -inf else inf
        return min(self._join_due(sent_at), self.due, look_at)
