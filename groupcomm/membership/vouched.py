"""Vouched members: the view says that they are there, so that they need not send each beacon here.

Pure. ``now`` is in seconds. Beacons from each daemon to each other one cost the square of their
number. But a view that stands says who is there: daemons of a ring watch each other, links their
two ends, and each of them ends the view for all that it misses. So in a large cluster a daemon
sends each beacon to its *partners* only: to the daemons of its site and ring, of a large ring to
the two beside it, and to the other ends of its links. The members that were heard when the view was
sought and are no partners are *vouched* for:

    state     | begins when          | a vouched member
    ----------+----------------------+------------------------------------------------------------
    none      | a view begins that   | there is none
              | has not the feature  |
    standing  | another one begins   | counts as heard now, but in no list of the daemons heard
    ended     | the view is frozen   | counts as heard at that time, so that it is waited for, until
              |                      | a partner of it joins that hears this daemon and not it

Of a ring none of whose daemons joins in time the other ends of its links say so, which have missed
it for a token timeout.
"""

from collections.abc import Collection, Mapping
from math import inf
from typing import Final

from groupcomm.config.versions import CROWDS
from groupcomm.config.view import View
from groupcomm.membership.peer import Key, PeerDaemon, Row

LEAST_CROWD: Final = 3
MOST_ROUNDS: Final = 4
"""Of a large ring all get each second beacon, third or fourth: the silence of those that are not
beside this daemon is noticed that many token timeouts later."""


def rounds_of(ring: Collection[int], few: int) -> int:
    """Return how many beacons a daemon sends for each that goes to its whole site.

    Args:
        ring: the daemons of its ring.
        few: the number of daemons up to which beacons to all of them cost little.
    """
    return min(-(-len(ring) // max(few, LEAST_CROWD)), MOST_ROUNDS)


def beside(ring: tuple[int, ...], number: int) -> tuple[int, int]:
    """Return the daemons before and after one on the ring."""
    place = ring.index(number)
    return ring[place - 1], ring[(place + 1) % len(ring)]


class Vouched:
    """The members that one view vouches for, at one daemon.

    Attributes:
        is_used: whether the daemons of the view send beacons to partners only, as it stands.
        numbers: the members that it vouches for, by number, while it stands.
        beside: the daemons of a large ring that get each beacon of this one, by number.
        rounds: see `rounds_of`.
        relayed: whether joins of other sites come over relays.
    """

    __slots__ = (
        "_ended_at",
        "_ends",
        "_ends_of",
        "_few",
        "_members",
        "_near",
        "_rings",
        "_waiting",
        "beside",
        "is_used",
        "numbers",
        "relayed",
        "rounds",
    )

    def __init__(self) -> None:
        self.numbers: frozenset[int] = frozenset()
        self.beside: frozenset[int] = frozenset()
        self.is_used, self.rounds = False, 1
        self.relayed = False
        self._few = 0
        self._ended_at = -inf
        self._ends: frozenset[int] = frozenset()
        self._ends_of: dict[tuple[int, ...], set[int]] = {}
        self._near: frozenset[int] = frozenset()  # those of the site and ring, and other ends
        self._members: frozenset[int] = frozenset()
        self._rings: list[tuple[int, ...]] = []
        self._waiting: list[tuple[tuple[int, ...], frozenset[int]]] = []

    def begin(
        self, view: View, me: int, site: Collection[int], heard: Collection[int], few: int | None
    ) -> None:
        """Begin a view.

        Args:
            view: the view.
            me: the number of this daemon.
            site: the daemons of its site, by number.
            heard: the daemons heard since the view was sought.
            few: the number of daemons up to which beacons to all cost little; None if there are no
                more of them.
        """
        numbers = [daemon.number for daemon in view.daemons]
        place = numbers.index(me)
        rings = [tuple(numbers[at] for at in ring) for ring in view.rings]
        ring = rings[view.ring_of[place]]
        self._few = 0 if few is None else few
        self.rounds = 1 if few is None else rounds_of(ring, few)
        self.is_used = few is not None and bool(
            (view.links or self.rounds > 1) and view.versions.features & CROWDS
        )
        self._members = view.numbers - {me}
        self._ends = frozenset(numbers[sum(pair) - place] for pair in view.links if place in pair)
        self._near = self._ends.union(ring, site)
        self.beside = frozenset(beside(ring, me)) if self.rounds > 1 else frozenset(ring)
        partners = self._ends | self.beside if self.rounds > 1 else self._near
        among = self._members.difference(partners).intersection(heard)
        self.numbers = among if self.is_used else frozenset()
        self._rings = [each for each in rings if not self.numbers.isdisjoint(each)]
        ends: dict[int, set[int]] = {at: set() for at in range(len(rings))}
        for one, other in view.links:
            ends[view.ring_of[one]].add(numbers[other])
            ends[view.ring_of[other]].add(numbers[one])
        self._ends_of = {ring: ends[at] - {me} for at, ring in enumerate(rings)}
        self._waiting, self._ended_at = [], inf if self.is_used else -inf

    def end(self, peers: Mapping[int, PeerDaemon], now: float) -> bool:
        """Note that the view has ended: who was vouched for counts as heard until now.

        Returns:
            Whether its daemons have sent beacons to partners only.
        """
        if not self.is_used:
            return False
        there = frozenset(n for n in self.numbers if not (peers[n].is_left_out or peers[n].left))
        for number in there:
            peers[number].vouched_at = now
        self._waiting = [(ring, there.intersection(ring)) for ring in self._rings]
        self._ended_at, self.is_used, self.numbers = now, False, frozenset()
        return True

    def revoke(
        self, peers: Mapping[int, PeerDaemon], me: Key, since: float, *, waited: bool
    ) -> None:
        """Wait no longer for those whom their partners do not hear.

        A daemon that has joined since then and hears this one has had the time to hear them. Of a
        ring nobody may be left to say so. Then the daemons at the other ends of its links do, once
        others had the time to answer: they have missed it for a token timeout.

        Args:
            peers: the other daemons, by number.
            me: number and random id of this daemon.
            since: the time from which joins count.
            waited: whether all that hear this daemon had the time to answer.
        """
        joined = {n: peer.row for n, peer in peers.items() if peer.join_at >= since}
        silent = {ring for ring, _ in self._waiting if (joined.keys() | {me[0]}).isdisjoint(ring)}
        gone = frozenset(number for ring in silent for number in ring)
        waiting = []
        for ring, among in self._waiting:
            late = frozenset(number for number in among if number not in joined)
            if ring not in silent:
                late = self._late_of(ring, late, joined, peers, me)
            elif waited and self._is_missed(ring, joined, peers, gone, since):
                for number in late:
                    peers[number].vouched_at = -inf
                continue
            if late:
                waiting.append((ring, late))
        self._waiting = waiting

    def _late_of(
        self,
        ring: tuple[int, ...],
        late: frozenset[int],
        joined: Mapping[int, Row],
        peers: Mapping[int, PeerDaemon],
        me: Key,
    ) -> frozenset[int]:
        """Return those of a ring that may still come, as nobody of it can say that they do not."""
        there = {number: joined[number] for number in ring if number in joined}
        for number in late:
            key = peers[number].key
            partners = ring if rounds_of(ring, self._few) == 1 else beside(ring, number)
            if any(self._had_time(n, there, peers, me) for n in partners if n in there):
                if not any(key in row for row in there.values()):
                    peers[number].vouched_at = -inf
                late -= {number}
        return late

    def _is_missed(
        self,
        ring: tuple[int, ...],
        joined: Mapping[int, Row],
        peers: Mapping[int, PeerDaemon],
        gone: Collection[int],
        since: float,
    ) -> bool:
        """Return whether all other ends of the links of a ring have joined, and hear none of it.

        Ends of which nobody of their own ring has joined count as little as the ring itself.
        """
        ends = self._ends_of[ring].difference(gone)
        keys = {peers[number].key for number in ring}
        if not ends or any(peers[number].heard_at >= since for number in ring):
            return False
        return all(number in joined and keys.isdisjoint(joined[number]) for number in ends)

    def _had_time(
        self,
        partner: int,
        joined: Mapping[int, Row],
        peers: Mapping[int, PeerDaemon],
        me: Key,
    ) -> bool:
        """Return whether a partner that has joined had the time to hear the others.

        It has heard this daemon since; where relays pass joins on, its ring as far as it joined.
        """
        row = joined[partner]
        if not self.relayed:
            return me in row
        return all(n == partner or peers[n].key in row for n in joined)

    def needs_no_beacon(self, number: int) -> bool:
        """Return whether a daemon is in the view, and gets no beacon of this one."""
        return self.is_used and number in self._members and number not in self._near

    def is_member(self, number: int) -> bool:
        """Return whether another daemon is in the view."""
        return number in self._members

    def leaves_to_ends(self, number: int) -> bool:
        """Return whether the ends of links pass on a daemon's messages to members, and not this
        one.

        The lists of the daemons heard say nothing about paths that no beacon takes.
        """
        return not self._ends and (number in self.numbers or self.needs_no_beacon(number))

    def silent_until(self, one: int, other: int) -> float:
        """Return the time up to which two daemons need not say that they hear each other.

        It is inf for two other members while the view stands, as they may be no partners.
        """
        return self._ended_at if one in self._members and other in self._members else -inf

    def sign_at(self, peer: PeerDaemon, now: float) -> float:
        """Return the time at which a daemon was last heard, itself or by the word of the view."""
        if peer.number in self.numbers:
            return now
        return max(peer.heard_at, peer.vouched_at)
