"""The failure detector: knows the present daemons, their starts, and the daemons that they hear.

Pure. ``now`` is in seconds. Of each daemon one start counts, the *known* one:

    another start comes      | from the daemon itself         | passed on by others
    -------------------------+--------------------------------+---------------------------------
    none is known            | counts                         | counts
    the known one was only   | counts                         | counts if it is later, or if the
    mentioned by others      |                                | known one is not mentioned for 2 s
    it is later              | counts                         | counts unless the known one is heard
    the known one answers    | is ignored, as a clone         | is ignored
    the known one is silent  | counts after a token timeout   | counts after 2 s

A start is *later* if it has more restarts, and has not given way to another one here before; one
that has, and is not over after all, counts once the known one has been silent for 2 s. So a daemon
whose disk was lost, rolled back or copied, which counts its restarts anew, waits for a token
timeout after its former start at most, whatever others remember of it. Nobody has to tell it
anything, so nobody can end it by a lie.
"""

from collections.abc import Callable, Iterable, Iterator, Set
from math import inf

from groupcomm.config.core import CoreConfig
from groupcomm.config.view import Incarnation, Start, View
from groupcomm.membership.comparison import Comparison
from groupcomm.membership.flood import Flood
from groupcomm.membership.pace import are_few, paced
from groupcomm.membership.peer import HEARSAY_S, MOST_OVER, PeerDaemon, PeerStatus
from groupcomm.membership.reservation import SLOW_S, Reservation
from groupcomm.membership.vouched import Vouched
from groupcomm.names import daemon_number
from groupcomm.wire.membership import (
    Beacon,
    ControlKind,
    ControlMessage,
    Heard,
    Join,
    spoken_of,
)

ANSWER_INTERVAL_S = 0.02
"""The least time between two notices to a daemon that does not know that it is heard."""

FIRST_BACKOFF_S = 0.3
LONGEST_BACKOFF_S = 30.0
"""The time for which no further view begins for a daemon that is heard but was in no new view."""

MEMBER_WRITES = 3
"""A daemon outside the view waits while the disk of a member could write this often: the write in
progress, the needed one, and a spare one."""

MEMBER_WAIT_S = 3.0
"""The longest wait for a disk; a slower one is not waited for."""

HEARD_BEACONS = 3
"""A daemon is heard if a datagram of its own came within this many beacon intervals."""

UNHEARD = 100_000
"""Connections to which a daemon may have given numbers that no other daemon has heard of. After a
start whose disk may not know them either, the next view has a higher counter."""

MAX_STRANGERS = 256
"""The most unlisted daemons of which anything is kept; a broken member could name any number."""


class FailureDetector:
    """All other daemons, as one daemon knows them.

    Attributes:
        peers: the other daemons, by number.
        listed: the names of all daemons that may be members, by number; without this daemon.
        key: the number and the random id of this daemon.
        comparison: the comparison of their settings with those of this daemon.
        reservation: the view counters of this daemon.
        vouched: the members that need not send beacons here.
        contacts: where relays pass messages on, the daemons of other sites whose own messages have
            come lately, by number.
        silence_due: the time at which a watched daemon may have been silent for too long.
        say_s: the seconds in which a daemon that is heard says whom it hears.
        fresh_s: the seconds for which a datagram shows that its daemon is heard.
    """

    def __init__(
        self,
        config: CoreConfig,
        start: Start,
        flood: Flood,
        reservation: Reservation,
        restarted: Callable[[int, Incarnation | None, float], None],
        used: Callable[[], int],
    ) -> None:
        """Begin.

        Args:
            config: the cluster's.
            start: this daemon's start.
            flood: sends messages.
            reservation: its view counters.
            restarted: is called with a number, the start that was heard and is over, if any, and
                the time in seconds.
            used: returns the number up to which any may have been used, here or by others.
        """
        self._timing = config.timing
        self._flood = flood
        self.reservation = reservation
        self._restarted = restarted
        self._used = used
        self.key = (start.daemon.number, start.incarnation.random_id)
        self.peers: dict[int, PeerDaemon] = {}
        self._met: dict[int, Incarnation] = {}  # the last start of each that was heard
        self._name = start.name
        self.vouched = Vouched()
        self._list(config)
        self.comparison = Comparison(config, start, flood, self.peers)
        self.contacts: set[int] = set()
        self.silence_due = inf
        self._watched: list[tuple[PeerDaemon, float]] = []

    def use_config(self, config: CoreConfig, now: float) -> None:
        """Use these settings, with another roster, from now on."""
        self._timing = config.timing
        self._list(config)
        for peer in self.peers.values():
            peer.name = peer.name or self._names.get(peer.number)
        self.comparison.use_config(config, now)

    def _list(self, config: CoreConfig) -> None:
        """Note the names of all daemons that may be members; former ones may be heard still."""
        self.listed = {daemon_number(n): n for n in config.daemons if n != self._name}
        former = {daemon_number(n): n for n in config.former if n != self._name}
        self._names = {**former, **self.listed}
        self._sites = {daemon_number(n): at for at, site in enumerate(config.sites) for n in site}
        self._linked: dict[int | None, set[int]] = {}
        for one, other, _ in config.link_delays_us:
            self._linked.setdefault(one, set()).add(other)
            self._linked.setdefault(other, set()).add(one)
        others = len(config.sites) - 1
        if all(len(self._linked.get(site, ())) == others for site in range(len(config.sites))):
            self._linked.clear()  # as if none were configured: no pair is without one
        timing, self._are_few = config.timing, are_few(config)
        self._few = None if self._are_few else config.few_daemons
        self.say_s = paced(config).repeat_s / 2
        self._has_relays = self.vouched.relayed = config.has_relays
        own = self._sites.get(self.key[0])
        self._near = frozenset(n for n, at in self._sites.items() if at == own)
        self._quiet_s = 2 * paced(config).repeat_s + timing.longest_delay_s
        self.fresh_s = HEARD_BEACONS * timing.beacon_interval_s + timing.longest_delay_s

    def site_of(self, number: int) -> int | None:
        """Return the place of a daemon's site among all; None for one that is not listed."""
        return self._sites.get(number)

    def is_near(self, number: int) -> bool:
        """Return whether a daemon is of this one's site."""
        return number in self._near

    def linked_sites(self, site: int) -> Set[int] | None:
        """Return the sites to which configured links lead from one; None if to all."""
        return self._linked.get(site, frozenset()) if self._linked else None

    # ---- the daemons that are there ----

    def on_heard(self, number: int, incarnation: Incarnation, now: float) -> PeerDaemon | None:
        """Return the peer of a start that is heard; None if another one counts, or with too many.

        A start that only others reported does not count against it.
        """
        peer = self.peers.get(number)
        if peer is None:
            if not self._has_room_for(number):
                return None
            peer = self.peers[number] = PeerDaemon(number, self._names.get(number), incarnation)
        elif incarnation == peer.incarnation:
            peer.retract_leave()
            peer.met, peer.strange = True, False
        elif self._gives_way(peer, incarnation, now):
            peer.restart(incarnation)
        else:
            peer.clone_at = now
            return None
        peer.incarnation = incarnation  # the same object: the next comparison is by identity
        self._meet(peer, now)
        return peer

    def _gives_way(self, peer: PeerDaemon, other: Incarnation, now: float) -> bool:
        """Return whether another start counts that is heard, and not the known one any more."""
        if not peer.met or peer.precedes(other):
            return True
        silent_s = now - self.vouched.sign_at(peer, now)
        if other.random_id in peer.over:
            return silent_s > HEARSAY_S  # it is no late datagram: one of the two is a copy
        return peer.left or silent_s >= self._timing.token_timeout_s

    def _meet(self, peer: PeerDaemon, now: float) -> None:
        """Note that the start that counts was heard; the one that was heard before it is over."""
        over = self._met.get(peer.number)
        self._met[peer.number] = peer.incarnation
        if over is None or over == peer.incarnation:
            return
        peer.over = (*peer.over, over.random_id)[-MOST_OVER:]
        if peer.incarnation.restarts <= over.restarts:  # its disk may not know its numbers, either
            self.reservation.note_used(self._used() + UNHEARD)
        self._restarted(peer.number, over, now)

    def on_mentioned(self, number: int, incarnation: Incarnation, now: float) -> PeerDaemon | None:
        """Return the peer of a start whose messages others pass on; None if they are ignored.

        They are ignored while the daemon is heard directly. Another start than the known one that
        is not later counts once the known one is neither heard nor mentioned any more.
        """
        peer = self.peers.get(number)
        if peer is None:
            if number == self.key[0] or not self._has_room_for(number):
                return None
            peer = PeerDaemon(number, self._names.get(number), incarnation, met=False)
            self.peers[number] = peer
        elif self._speaks_for_itself(peer, incarnation, now):
            return None
        elif incarnation != peer.incarnation:
            sign_at = self.vouched.sign_at(peer, now)
            forgotten = now - max(sign_at, peer.mentioned_at) > HEARSAY_S
            if not forgotten and not peer.precedes(incarnation):
                return None
            peer.restart(incarnation, met=False)
            self._restarted(number, None, now)
        elif now - peer.mentioned_at > HEARSAY_S:
            peer.forget_passed_on()
        return peer

    def _speaks_for_itself(self, peer: PeerDaemon, incarnation: Incarnation, now: float) -> bool:
        """Return whether what others pass on in a daemon's name does not count.

        Where relays pass messages on, that a datagram came is no sign that messages do.
        """
        is_relayed = self._has_relays and not self.is_near(peer.number)
        if is_relayed and incarnation == peer.incarnation:
            return peer.spoke_at >= now - self._quiet_s
        return self.vouched.sign_at(peer, now) >= self.fresh_since(now)

    def _has_room_for(self, number: int) -> bool:
        return number in self.listed or len(self.peers) < len(self.listed) + MAX_STRANGERS

    def _may_answer(self, peer: PeerDaemon, now: float) -> bool:
        if peer.number not in self.listed or now - peer.answered_at < ANSWER_INTERVAL_S:
            return False
        peer.answered_at = now
        return True

    # ---- which daemons hear which ----

    def heard_directly(self, since: float, now: float) -> Iterator[tuple[str, bool, bool]]:
        """Yield the facts for choosing among networks, for each other daemon with a known name.

        These are its name, whether a datagram of it came with the step at `now`, and whether it has
        said since `since` that it hears this daemon.
        """
        for peer in self.peers.values():
            if peer.name is not None:
                yield peer.name, peer.heard_at == now, peer.hears(self.key, since)

    def status(self, now: float) -> tuple[PeerStatus, ...]:
        """Return the facts about all other daemons for operators."""
        sign_at = self.vouched.sign_at
        return tuple(peer.status(sign_at(peer, now)) for peer in self.peers.values())

    def heard_since(self, since: float) -> tuple[tuple[int, int], ...]:
        """Return number and random id of the daemons heard directly since a time, sorted.

        Daemons that have left, or whose settings differ, are not among them.
        """
        peers = [peer for _, peer in self.within_reach() if not (peer.left or peer.differs)]
        return tuple(sorted(peer.key for peer in peers if peer.heard_at >= since))

    def fresh_since(self, now: float) -> float:
        """Return the time since when a datagram shows that its daemon is still heard."""
        return now - self.fresh_s

    def pass_on_targets(self, origin: PeerDaemon, sender: int, kind: int, now: float) -> list[int]:
        """Return the daemons that may not hear a message's origin, and so need it passed on.

        Daemons that are not heard here are not among them: one that is down would cost as many
        datagrams for each message as there are daemons, and one that runs is reached by others.
        Daemons with different settings tell each other nothing about views, only the settings.
        Packets of the old view may not come from an origin that is heard and does not hear: it has
        perhaps left out a daemon that its packets do not reach.
        """
        since = self.fresh_since(now)
        mutual = origin.join.heard if kind == ControlKind.REPAIR and origin.join else None
        anybody = kind in (ControlKind.SETTINGS, ControlKind.ROSTER)
        leaves = self.vouched.leaves_to_ends(origin.number)
        if (leaves or origin.differs) and not anybody:
            return []
        return [
            number
            for number, peer in self._to_pass_on_to()
            if number in self.listed
            and number not in (origin.number, sender)
            and not (leaves and self.vouched.is_member(number))
            and (anybody or not peer.differs)
            and peer.heard_at >= since
            and not (peer.hears(origin.key, since) and (mutual is None or peer.key in mutual))
        ]

    def _to_pass_on_to(self) -> Iterable[tuple[int, PeerDaemon]]:
        """Return those to which this daemon may pass messages on: with relays, its site."""
        return self._among(self._near) if self._has_relays else self.peers.items()

    def within_reach(self) -> Iterable[tuple[int, PeerDaemon]]:
        """Return those that may be heard: where there are relays, the site and `contacts`."""
        return self._among(self._near | self.contacts) if self._has_relays else self.peers.items()

    def _among(self, numbers: Iterable[int]) -> list[tuple[int, PeerDaemon]]:
        return [(number, self.peers[number]) for number in numbers if number in self.peers]

    def lacking(self, origins: Iterable[PeerDaemon], now: float) -> dict[int, set[int]]:
        """Return for each of these daemons, by number, those that its joins have to be passed on
        to; see `pass_on_targets`. It costs what one of them costs there."""
        since, found = self.fresh_since(now), {origin.number: set[int]() for origin in origins}
        keys = {origin.key: origin.number for origin in origins if not origin.differs}
        for number, peer in self._to_pass_on_to():
            if number in self.listed and not peer.differs and peer.heard_at >= since:
                for key in peer.unheard(keys.keys(), since):
                    found[keys[key]].add(number)
        for number, targets in found.items():
            targets.discard(number)
        return found

    def all_read(self, feature: int, now: float) -> bool:
        """Return whether all daemons that are there have a feature, and can answer this one.

        Not if there are none. One that only others hear cannot, nor one that has had the time to
        say that it hears this daemon, and does not, nor a second start, which is not answered.
        """
        since, key, found = now - self.fresh_s, self.key, False
        for _, peer in self.within_reach():
            is_heard = peer.heard_at >= since
            if peer.left or not (is_heard or (peer.mentioned_at >= since and not self._has_relays)):
                continue
            found = True
            if not is_heard or peer.versions is None:
                return False
            if not peer.versions.features & feature or peer.clone_at >= since:
                return False
            if peer.beacon_at >= since and key in peer.beacon_row:
                continue  # the usual case
            if not peer.hears(key, since) and now >= self.silence_counts_at(peer, key[0]):
                return False
        return found

    def all_mutual(self, heard: Heard, now: float) -> bool:
        """Return whether all that are heard hear each other, or had not the time to say so."""
        since, there = now - self.fresh_s, frozenset(heard)
        for peer in self.peers.values():
            if peer.key not in there:
                continue
            lacks = there - {peer.key}
            if peer.heard_list_at >= since:
                lacks -= peer.row
            if lacks and peer.beacon_at >= since:
                lacks -= peer.beacon_row
            if any(now >= self.silence_counts_at(peer, number) for number, _ in lacks):
                return False
        return True

    def silence_counts_at(self, origin: PeerDaemon, target: int) -> float:
        """Return the time from which a daemon that does not say that it hears another does not.

        Once both are heard here, each has had the time to hear the other and to say so. No path is
        expected between sites without a link, where links are configured. Few daemons wait for none
        of this: passing on at once costs them little, and saves the wait.
        """
        if self._are_few:
            return -inf
        near, far, wait_s = self._sites.get(origin.number), self._sites.get(target), self.say_s
        if near != far:
            if self._linked and far not in self._linked.get(near, ()):
                return -inf
            wait_s += self._timing.longest_delay_s
        there = self.peers.get(target)
        from_ = origin.heard_from if there is None else max(origin.heard_from, there.heard_from)
        if near != far or self.vouched.rounds > 1:
            from_ = max(from_, self.vouched.silent_until(origin.number, target))
        return from_ + wait_s

    def silence_counts_from(self, origin: PeerDaemon) -> float:
        """Return a time before which `silence_counts_at` is never over for this origin."""
        return -inf if self._are_few or self._linked else origin.heard_from + self.say_s

    def unreached(self, number: int, incarnation: Incarnation) -> PeerDaemon | None:
        """Return a daemon whose packets may not arrive here, though it is heard; or None.

        Its join does not list this daemon, perhaps since it has left it out for that reason. Then
        others pass its packets of the old view on. What these say is no news of the daemon itself.
        """
        peer = self.peers.get(number)
        if peer is None or peer.incarnation != incarnation or peer.join is None:
            return None
        return None if self.key in peer.join.heard else peer

    # ---- beacons ----

    def make_beacon(self, view: View, now: float) -> Beacon:
        """Return the beacon of this daemon in a view."""
        heard, disk = self.heard_since(self.fresh_since(now)), self.reservation
        told = self.comparison.digests, disk.used, disk.mark, int(1e6 * disk.write_s)
        return Beacon(view.id.counter, view.key, heard, *told, spoken_of(view.versions))

    def send_beacon_to(self, peer: PeerDaemon, view: View, now: float) -> None:
        """Notify a daemon that it is heard, if it does not know."""
        if self._may_answer(peer, now):
            self._flood.send_to(peer.name or "", self.make_beacon(view, now))

    def send_to(self, name: str, message: ControlMessage) -> None:
        """Send to one daemon."""
        self._flood.send_to(name, message)

    # ---- disks ----

    def may_seek_view_with(
        self, peer: PeerDaemon, said: Join | Beacon, view: View | None, now: float
    ) -> bool:
        """Return whether it is time to seek a view with a daemon outside the present one.

        Both disks must allow it, and all must share a version of the protocol. Slow disks of
        members of either view get some time to follow: no daemon shall lose its view because
        another one has started. All whom either daemon hears get a token timeout to be heard by
        the other one, too: a view that is sought before that leaves out some of them, and one more
        is needed.

        Args:
            peer: the daemon outside.
            said: the message that has just come from it.
            view: the present one.
            now: seconds.
        """
        used = said.counter if isinstance(said, Join) else said.used
        if view is None or not said.versions.meets(view.versions):
            return False
        if not self.reservation.allows_view_with(used, said.mark, now):
            return False
        if isinstance(said, Join) and said.past is not None:
            return True  # it has left its view already, and has waited for that as long as needed
        half = not self._is_mutual(peer.number, said, view, now)
        peer.half_heard_since = min(peer.half_heard_since, now) if half else inf
        if half and now < peer.half_heard_since + self._timing.token_timeout_s:
            return False
        needed = max(used, self.reservation.used) + 1
        theirs = None if peer.beacon is None else peer.beacon.view
        since = self.fresh_since(now)
        beacons = (p.beacon for p in self.peers.values() if p.beacon_at >= since)
        members = [b for b in beacons if b is not None and b.view in (view.key, theirs)]
        wait_s = max((_follows_in_s(beacon, needed) for beacon in members), default=0.0)
        peer.kept_waiting_since = min(peer.kept_waiting_since, now) if wait_s else inf
        return not wait_s or now >= peer.kept_waiting_since + wait_s

    def _sites_of(self, numbers: Iterable[int]) -> set[int]:
        return {self._sites[number] for number in numbers if number in self._sites}

    def _is_mutual(self, number: int, said: Join | Beacon, view: View, now: float) -> bool:
        """Return whether the daemon outside the view that says this hears all its members, and this
        daemon all that it hears: those of the other view are not known, but are among them."""
        theirs = {number for number, _ in said.heard}
        ours = {number for number, _ in self.heard_since(self.fresh_since(now))}
        ours |= self.vouched.numbers | {self.key[0]}
        members: Set[int | None] = view.numbers
        if self._has_relays and self.is_near(number):
            members, theirs = members & self._near, theirs & self._near
        elif self._has_relays:  # who hears one of a site hears all of it by that one's word
            members, theirs, ours = map(self._sites_of, (view.numbers, theirs, ours))
            members -= {self._sites.get(number)}
        return members <= theirs <= ours

    # ---- silence ----

    def expected(self, view: View | None, since: float, *, paused: bool) -> set[int]:
        """Return the daemons that should answer: those heard lately, or without a view all listed.

        A member that has died was silent for a token timeout, and costs no further time. A daemon
        that has heard no other one, or was paused, may itself be the cause: it waits for all
        members. Daemons whose settings differ are not expected, unless they are in the view: then
        one of the two has gone on to the next roster, and the other one learns it in a moment.

        Args:
            view: the last view, if there was one.
            since: the time at which this daemon began to gather.
            paused: whether it could hear no other daemon until then.
        """
        if view is None:
            others = {peer.number for peer in self.peers.values() if peer.differs}
            return self.listed.keys() - others
        since = self.fresh_since(since)
        members = view.numbers
        learning = members if self.comparison.has_roster else frozenset[int]()
        there = [
            peer
            for peer in self.peers.values()
            if not (peer.left or (peer.differs and peer.number not in learning))
        ]
        lately = {
            peer.number
            for peer in there
            if max(peer.heard_at, peer.vouched_at, peer.join_at) >= since
        }
        if lately and not paused:
            return lately
        return lately | {peer.number for peer in there if peer.number in members}

    def give_up_missed(self, since: float, *, waited: bool) -> None:
        """Expect no vouched member any more that its partners miss; see `Vouched.revoke`."""
        self.vouched.revoke(self.peers, self.key, since, waited=waited)

    def watch(self, view: View, gathered_at: float, now: float) -> None:
        """Watch the daemons whose silence breaks the view: of the ring, and at other ends of links.

        A token that rests shows only that its holder is alive. Other daemons that were heard since
        `gathered_at` and are not in the view are ignored for a while.
        """
        for peer in self.peers.values():
            peer.half_heard_since = inf
            if peer.number in view.numbers:
                peer.backoff_s = 0.0
            elif peer.heard_at >= gathered_at:
                longer_s = max(2 * peer.backoff_s, FIRST_BACKOFF_S)
                peer.backoff_s = min(longer_s, LONGEST_BACKOFF_S)
                peer.streak = 0
                peer.ignored_until = now + peer.backoff_s
        timeout_s = self._timing.token_timeout_s
        numbers = [daemon.number for daemon in view.daemons]
        me = numbers.index(self.key[0])
        limits = dict.fromkeys(view.rings[view.ring_of[me]], timeout_s)
        heard = [
            number
            for number, peer in self.peers.items()
            if max(peer.heard_at, peer.join_at if self._has_relays else -inf) >= gathered_at
        ]
        vouched = self.vouched
        vouched.begin(view, self.key[0], self._near, heard, self._few)
        if vouched.is_used and vouched.rounds > 1:
            for index in limits:
                if numbers[index] not in vouched.beside:
                    limits[index] = timeout_s * vouched.rounds
        for pair in view.links:
            if me in pair:
                limits[sum(pair) - me] = timeout_s + self._timing.longest_delay_s
        limits.pop(me, None)
        self._watched = [(self.peers[numbers[i]], limit_s) for i, limit_s in limits.items()]
        for peer, _ in self._watched:
            peer.heard_at = max(peer.heard_at, now)
        self.silence_due = now

    def pop_silent(self, now: float) -> list[PeerDaemon]:
        """Return the watched daemons that were silent for too long, and stop watching them."""
        silent = [peer for peer, limit_s in self._watched if peer.heard_at + limit_s <= now]
        self._watched = [entry for entry in self._watched if entry[0] not in silent]
        self.vouched.numbers -= {peer.number for peer in silent}  # of a large ring
        self._set_silence_due()
        return silent

    def postpone(self, until: float) -> None:
        """Find no watched daemon silent before this time: this one could not hear them."""
        for peer, limit_s in self._watched:
            peer.heard_at = max(peer.heard_at, until - limit_s)
        self._set_silence_due()

    def watch_no_more(self, peer: PeerDaemon) -> None:
        """Note that the silence of the other end of a link breaks nothing any more."""
        self._watched = [entry for entry in self._watched if entry[0] is not peer]
        self._set_silence_due()

    def watch_again(self, peer: PeerDaemon, now: float) -> None:
        """Note that the other end of a link that had been silent is heard again."""
        peer.heard_at = now
        self._watched.append((peer, self._timing.token_timeout_s + self._timing.longest_delay_s))
        self._set_silence_due()

    def _set_silence_due(self) -> None:
        self.silence_due = min((p.heard_at + limit for p, limit in self._watched), default=inf)


def _follows_in_s(beacon: Beacon, needed: int) -> float:
    """Return the time to wait for a member without a needed mark; 0 for no wait.

    A disk that is quick has it before it can be asked for.
    """
    write_s = beacon.write_us / 1e6
    lacks = beacon.mark < needed and write_s > SLOW_S
    return MEMBER_WRITES * write_s if lacks and MEMBER_WRITES * write_s <= MEMBER_WAIT_S else 0.0
