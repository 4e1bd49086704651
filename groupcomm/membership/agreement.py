"""Agreement: the proposal that this daemon has agreed to, until all others have or it fails.

Pure. ``now`` is in seconds. An agreement lasts from the commit to the end of the view that results
from it, as a late daemon may still ask for it.

Commits are repeated, at growing intervals (`CommitSchedule`). A recovery may take seconds. All
commits are passed on where two daemons do not hear each other, and would leave little room on a
narrow path for the packets that are being recovered.

A daemon leaves its old view alone (`Isolation`) if the statements of other members about that view
contradict what is held or was delivered here, or if packets that a member says it holds never come:
a broken daemon could otherwise keep all others from a view for ever. It then has a view by itself
before it is in one with others. Two daemons that go from one view to the next together must deliver
the same messages in between (extended virtual synchrony); two that were apart need not. The others
get no obligation from it: as it had taken none, none of them has installed a view that it was to
enter with them.
"""

from collections.abc import Mapping
from math import inf
from typing import Final

from msgspec import structs

from groupcomm.config.core import CoreConfig, Timing
from groupcomm.config.view import Start, View
from groupcomm.errors import ConfigError, ProtocolViolation, RemoteProtocolError
from groupcomm.membership.context import OldView
from groupcomm.membership.peer import PeerDaemon
from groupcomm.membership.proposal import LEAD_US, make_view, median_reading, ones, rank
from groupcomm.membership.recovery import Recovery
from groupcomm.wire.membership import Commit, ControlMessage, Join, Proposal, Repair

QUICK_REPEATS: Final = 4
"""A commit is repeated this many times at the same interval; from then on intervals grow."""


class CommitSchedule:
    """The times at which one daemon sends its commits.

    Attributes:
        due: the time at which the last commit is repeated.
    """

    __slots__ = ("_repeats", "_sent", "_timing", "due")

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._sent: Commit | None = None  # the last commit
        self._repeats = 0  # the number of repetitions of that commit
        self.due = -inf

    def on_sent(self, commit: Commit, now: float) -> None:
        """Note that a commit is sent now; one that repeats the last is sent ever more rarely."""
        said, self._sent = self._sent, commit
        self._repeats = self._repeats + 1 if commit == said else 0
        if said is not None and _asks_anew(said, commit):
            wait_s = (
                self._timing.repair_again_s / 2
            )  # packets in flight are not sent again before this time
        else:
            wait_s = self._timing.repeat_s * max(1.0, self._repeats / QUICK_REPEATS)
        self.due = now + wait_s


def _asks_anew(before: Commit, now: Commit) -> bool:
    """Return whether nothing but the missing packets has changed."""
    if before.missing == now.missing:
        return False
    return structs.replace(before, missing=now.missing) == now


def check_commit(commit: Commit, peer: PeerDaemon) -> None:
    """Raise ProtocolViolation if a daemon commits to a view without its present start."""
    seat = commit.proposal.find(peer.number)
    start = peer.incarnation
    if seat is None or (seat.restarts, seat.random_id, seat.attempt) != (
        start.restarts,
        start.random_id,
        commit.attempt,
    ):
        raise ProtocolViolation("commit", "a daemon commits to a view that it is not in")


def note_commit(
    peer: PeerDaemon, commit: ControlMessage, sequence: int, direct: bool, now: float
) -> None:
    """Note a commit that came before its proposal was known, unless a later one has come."""
    if isinstance(commit, Commit) and peer.is_latest(commit, sequence, now, own=direct):
        check_commit(commit, peer)
        peer.commit = commit


def joins_of(
    proposal: Proposal, start: Start, own: Join, peers: Mapping[int, PeerDaemon]
) -> dict[int, Join] | None:
    """Return the joins that a proposal is made from, by number; None if one is not here.

    Args:
        proposal: own or another's.
        start: this daemon, which must be in it.
        own: its join.
        peers: all others.
    """
    joins: dict[int, Join] = {}
    for seat in proposal.seats:
        join: Join | None = own
        incarnation = start.incarnation
        if seat.number != start.daemon.number:
            peer = peers.get(seat.number)
            if peer is None or peer.left:
                return None
            join, incarnation = peer.join, peer.incarnation
        if join is None or join.attempt != seat.attempt:
            return None
        if (incarnation.restarts, incarnation.random_id) != (seat.restarts, seat.random_id):
            return None
        joins[seat.number] = join
    return joins if start.daemon.number in joins else None


def _mutual_of(proposal: Proposal, me: int) -> frozenset[int]:
    """Return the members that one of them hears both ways, by number."""
    own = proposal.find(me)
    assert own is not None, "a proposal without this daemon"
    return frozenset(proposal.seats[at].number for at in ones(int.from_bytes(own.mutual, "little")))


class Agreement:
    """One proposal, and the means to carry it out.

    Attributes:
        proposal: the proposal that was agreed to.
        view: the view that results from it.
        recovery: the exchange with the daemons that come from the same old view.
        mutual: the members that this daemon hears and that hear it, by number.
        recovered: whether this daemon has announced that it holds everything that they hold.
    """

    __slots__ = (
        "_attempts",
        "_joins",
        "_me",
        "_old",
        "_peers",
        "_said_recovered",
        "mutual",
        "proposal",
        "recovered",
        "recovery",
        "view",
    )

    def __init__(
        self,
        config: CoreConfig,
        start: Start,
        frozen: OldView | None,
        old: View | None,
        *,
        proposal: Proposal,
        joins: Mapping[int, Join],
        peers: Mapping[int, PeerDaemon],
    ) -> None:
        self._me = start.daemon.number
        self._old = old
        self._joins = joins
        self._peers = peers
        self.proposal = proposal
        self._attempts = {(seat.number, seat.random_id): seat.attempt for seat in proposal.seats}
        try:
            self.view = make_view(config, proposal, joins)
        except ConfigError as error:  # for instance links that do not join all rings
            raise RemoteProtocolError(f"a proposal from which no view results: {error}") from None
        again_s = config.timing.repair_again_s
        self.recovery = Recovery(frozen, old, self._me, proposal, joins, again_s=again_s)
        self.recovered = False
        self._said_recovered: set[int] = set()  # the other members that hold the recovered set
        self.mutual = _mutual_of(proposal, self._me)
        for seat in proposal.seats:
            peer = peers.get(seat.number)
            if peer is not None and peer.commit is not None:
                self.note_commit(peer, peer.commit)

    def note_commit(self, peer: PeerDaemon, commit: Commit) -> bool:
        """Note a daemon's latest commit; return whether it is to this proposal.

        Such a one gets this very proposal object, so that it is compared as a whole only once.
        """
        agreed = commit.proposal == self.proposal
        if agreed and commit.recovered:
            self._said_recovered.add(peer.number)
        peer.commit = structs.replace(commit, proposal=self.proposal) if agreed else commit
        return agreed

    def note_installed(self, peer: PeerDaemon, view: bytes) -> bool:
        """Note the view, by its key, that a member says it comes from.

        If it is the view that results from this agreement, the member has installed it, and so has
        announced that it holds the recovered set: its commit may still be on its way.

        Returns:
            Whether it is that view.
        """
        if view != self.view.key:
            return False
        self._said_recovered.add(peer.number)
        return True

    def attempt_of(self, peer: PeerDaemon) -> int | None:
        """Return the attempt with which a daemon, in its present start, is a member; or None."""
        return self._attempts.get(peer.key)

    def forget_joins(self) -> None:
        """Drop the joins that led to this view: they say nothing about the next one."""
        for peer in self._peers.values():
            attempt = self.attempt_of(peer)
            if peer.join is not None and attempt is not None and peer.join.attempt <= attempt:
                peer.join = None

    def has_name(self, number: int) -> bool:
        """Return whether a daemon, in any start, is a member."""
        return any(seat.number == number for seat in self.proposal.seats)

    def has_other_start_of(self, peer: PeerDaemon) -> bool:
        """Return whether a daemon is a member with another start than its present one."""
        return self.has_name(peer.number) and self.attempt_of(peer) is None

    def next_repairs(self, now: float) -> list[tuple[Repair, set[int], bool]]:
        """Return packets of the old view to send, each with its receivers, by number, and whether
        all daemons that lack it hear this one: if not all members get it, to pass it on.
        """
        old = self._old
        if old is None or not self.recovery.has_packets_to_send:
            return []
        members = {seat.number for seat in self.proposal.seats} - {self._me}

        def receivers(lacking: set[int]) -> set[int]:
            return lacking if lacking <= self.mutual else members

        batch = self.recovery.pop_batch(now, lambda lacking: len(receivers(lacking)))
        return [
            (Repair(old.key, packet), receivers(lacking), lacking <= self.mutual)
            for packet, lacking in batch
        ]

    def are_mutual(self, number: int) -> bool:
        """Return whether this daemon and another member hear each other."""
        return number in self.mutual

    def is_worse_than(self, other: Proposal) -> bool:
        """Return whether members should prefer another proposal."""
        return rank(other) > rank(self.proposal)

    def may_give_way_to(self, other: Proposal) -> bool:
        """Return whether this daemon is free to agree to another proposal instead.

        It is not free once it has taken an obligation, nor if it has received packets that are not
        in the recovered set of the other proposal, as its join does not list them. If all members
        here, with the same attempts, are members there, too, their recovered set is the same.
        """
        if self.recovered or not self.recovery.begun:
            return not self.recovered
        attempts = {(seat.number, seat.random_id): seat.attempt for seat in other.seats}
        return self._attempts.items() <= attempts.items()

    def commits(self) -> list[Commit | None]:
        """Return, for each other member, its commit to this proposal; None if it is not here."""
        found = [self._peers[s.number].commit for s in self.proposal.seats if s.number != self._me]
        return [c if c is not None and c.proposal is self.proposal else None for c in found]

    def owing(self) -> list[PeerDaemon]:
        """Return the members that have not committed to this proposal yet, or, if this daemon has
        announced that it holds the recovered set, have not announced it."""
        members = [self._peers[s.number] for s in self.proposal.seats if s.number != self._me]
        if self.recovered:
            return [peer for peer in members if peer.number not in self._said_recovered]
        return [p for p, c in zip(members, self.commits(), strict=True) if c is None]

    @property
    def all_recovered(self) -> bool:
        """Return whether every member has said that it holds the recovered set."""
        return self.recovered and len(self._said_recovered) == len(self.proposal.seats) - 1

    def commit(self, attempt: int, *, installed: bool) -> Commit:
        """Return the commit that this daemon sends."""
        missing = () if self.recovered else self.recovery.missing
        return Commit(
            attempt=attempt,
            proposal=self.proposal,
            recovered=self.recovered,
            installed=installed,
            missing=missing,
        )

    def correction(self) -> int | None:
        """Return the corrected reading of the physical clock if it is far ahead of the median."""
        median = median_reading(self._joins)
        return median if self._joins[self._me].reading > median + LEAD_US else None


MOST_FAILURES: Final = 8
"""Attempts in a row that may fail because packets of the old view do not come."""


class Isolation:
    """The decision of one daemon to leave its old view alone.

    Attributes:
        is_isolated: whether its next view is one by itself.
    """

    __slots__ = ("_failures", "is_isolated")

    def __init__(self) -> None:
        self._failures = 0
        self.is_isolated = False

    def on_failed_attempt(self, agreement: Agreement, old: OldView | None) -> None:
        """Note an attempt that has failed; an obligation to others in the old view remains."""
        if agreement.recovered or agreement.recovery.complete:
            self._failures = 0
            return
        self._failures += 1
        if self._failures >= MOST_FAILURES and old is not None and not old.obligation:
            self.is_isolated = True

    def on_installed(self) -> None:
        """Note that a view is installed."""
        self.is_isolated, self._failures = False, 0
