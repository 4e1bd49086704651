"""Late members: the daemons that an attempt waits for longer than `gather_wait_s`.

Pure. ``now`` is in seconds. A member of the old view that was heard within a token timeout is
alive, and perhaps its processor or a network is busy: a view without it would part it from the
others for no reason. So a daemon is left out for one reason only, silence for a token timeout; a
view that is sought because another daemon has started can wait for that.

The wait is bounded: nobody is waited for longer than a token timeout from the beginning of the
attempt, as a daemon that is heard and does not hear loses its token within that time. A daemon that
has joined, and does not hear the members or stands aside for its disk, is waited for no longer than
`gather_wait_s` from its join.
"""

from collections.abc import Collection, Mapping
from math import inf

from groupcomm.config.core import Timing
from groupcomm.config.view import View
from groupcomm.membership.peer import PeerDaemon
from groupcomm.wire.membership import Join


def alive_s(timing: Timing) -> float:
    """Return for how many seconds a daemon counts as alive after its last datagram."""
    return timing.token_timeout_s + timing.longest_delay_s


class LateMembers:
    """The members of old views that one attempt of a daemon waits for."""

    __slots__ = (
        "_alive_s",
        "_answered",
        "_awaited",
        "_keys",
        "_own",
        "_paused",
        "_started",
        "_view",
    )

    def __init__(self, timing: Timing, view: View | None, now: float, *, paused: bool) -> None:
        """Begin an attempt.

        Args:
            timing: timeouts.
            view: the old view of this daemon, if there was one.
            now: seconds.
            paused: whether this daemon could hear no other one until now.
        """
        self._alive_s = alive_s(timing)
        self._view = view
        self._own = {} if view is None else {d.number: d.incarnation for d in view.daemons}
        self._started = now
        self._paused = paused
        self._answered: dict[int, float] = {}
        self._keys: set[bytes] = set()
        self._awaited: frozenset[int] = frozenset()

    def note(self, joins: Mapping[int, Join], awaited: Collection[int], now: float) -> None:
        """Note the daemons that have joined.

        Args:
            joins: their fresh joins, by number.
            awaited: the daemons that members of the proposal hear.
            now: seconds.
        """
        self._answered = {number: self._answered.get(number, now) for number in joins}
        self._keys = {join.past.view for join in joins.values() if join.past is not None}
        self._awaited = frozenset(awaited)

    def until(
        self, members: Collection[int], peers: Mapping[int, PeerDaemon], wait_s: float
    ) -> float:
        """Return the time until which a proposal has to wait; -inf if it has all late members.

        Args:
            members: the members of the proposal, by number.
            peers: all other daemons.
            wait_s: for how long a daemon that has joined is waited for.
        """
        waits = [
            self._waits_until(peer, wait_s)
            for peer in peers.values()
            if peer.number not in members and not peer.left and self._comes_along(peer)
        ]
        return max(waits, default=-inf)

    def _waits_until(self, peer: PeerDaemon, wait_s: float) -> float:
        answered_at = self._answered.get(peer.number)
        if answered_at is not None:
            return answered_at + wait_s
        heard_at = max(peer.heard_at, peer.vouched_at, peer.join_at)
        is_deaf = self._paused and heard_at > -inf
        if is_deaf or (heard_at < self._started - self._alive_s and peer.number in self._awaited):
            heard_at = self._started
        return min(heard_at, self._started) + self._alive_s

    def _comes_along(self, peer: PeerDaemon) -> bool:
        """Return whether a daemon is in an old view of members, as far as is known."""
        beacon = peer.beacon
        if self._view is not None and self._own.get(peer.number) == peer.incarnation:
            has_moved = beacon is not None and beacon.counter > self._view.id.counter
            return not has_moved or (beacon is not None and beacon.view in self._keys)
        return beacon is not None and beacon.view in self._keys
