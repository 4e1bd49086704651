"""Relays: in a cluster of many daemons, few of each site pass messages about views on.

Pure. ``now`` is in seconds. If each daemon sent its messages about views to each other one, a
hundred sites of ten daemons would exchange some eight million for one view. So with many daemons at
several sites these messages go to the own site, and each site has two *relays*, the first two of
its daemons by name that are heard:

    a relay gets, for the first time,            | it passes it on
    ---------------------------------------------+--------------------------------------------------
    a message of its own site                    | to one relay of each other site, the first to
                                                 | first ones, the second to second ones
    a message of another site, from elsewhere    | to its own site
    a message of another site, and a daemon that | to that daemon, too
    it hears hears nobody of that site           |

So there are two ways from each daemon to each other one, without a daemon in common. Messages that
come within a few milliseconds are passed on together, of each daemon the latest. The second relay
waits for longer before it tells its site, and need not if the first one has.

A daemon of another site may hear only one that is no relay, as a path between two sites may be the
only one. Then the first of those that it hears speaks to it as a relay would. A relay that does not
know who is there at another site tries the daemons of that site in turn.
"""

from collections.abc import Collection, Iterable, Mapping
from math import inf
from typing import Final

from groupcomm.config.core import CoreConfig
from groupcomm.membership.failure_detector import FailureDetector
from groupcomm.membership.flood import Flood
from groupcomm.membership.pace import HOLD_S, paced
from groupcomm.membership.peer import Key, PeerDaemon, Row
from groupcomm.names import daemon_number
from groupcomm.wire.control import ControlPacket, deflate_packets
from groupcomm.wire.membership import ControlKind, Relayed

RELAYS: Final = 2
"""The daemons of a site that pass messages on, each on a way of its own."""

MOST_TOGETHER: Final = 2**16
"""The bytes of packets from which on those that follow travel apart."""

MOST_HELD: Final = 4096
"""The messages that wait, beyond which the oldest goes; more than any cluster has daemons."""

FEW_CONTACTS: Final = 8
"""Up to so many daemons of other sites get at once what is passed on around: along a chain of sites
each hold would come on top of the ones before, and little would come together."""

RARE: Final = 8
"""Daemons that are no relays, or without relays no lowest daemon of their ring, send every eighth
beacon only to other sites' daemons outside the view: one path that works is enough to meet."""

_HELD: Final[dict[int, int]] = {
    ControlKind.JOIN: 0,
    ControlKind.SHORT_JOIN: 0,
    ControlKind.COMMIT: 1,
    ControlKind.SHORT_COMMIT: 1,
}
"""The kinds of messages that wait: of each daemon the latest join, and the latest commit."""


def _sort_of(packet: ControlPacket) -> tuple[int, int]:
    """Return of what only the latest message is passed on: all messages of other kinds are."""
    return packet.origin, _HELD.get(packet.kind, len(_HELD) + packet.sequence)


class Held:
    """Packets that wait to be passed on: of each daemon the latest message of each sort."""

    __slots__ = ("_packets",)

    def __init__(self) -> None:
        self._packets: dict[tuple[int, int], list[ControlPacket]] = {}

    def add(self, packet: ControlPacket) -> None:
        """Add a packet, unless a later message is here."""
        there = self._packets.get(_sort_of(packet))
        if not there or there[0].incarnation != packet.incarnation:
            there = self._packets[_sort_of(packet)] = []
        elif there[0].sequence < packet.sequence:
            there.clear()
        if not there or there[0].sequence == packet.sequence:
            there.append(packet)
        if len(self._packets) > MOST_HELD:
            del self._packets[next(iter(self._packets))]

    def drop(self, packet: ControlPacket) -> None:
        """Drop what is needless once another daemon has passed this packet on."""
        there = self._packets.get(_sort_of(packet), [])
        left = [
            each
            for each in there
            if each.incarnation != packet.incarnation
            or each.sequence > packet.sequence
            or (each.sequence == packet.sequence and each.part != packet.part)
        ]
        if left:
            self._packets[_sort_of(packet)] = left
        elif there:
            del self._packets[_sort_of(packet)]

    def pop(self) -> list[ControlPacket]:
        """Return all, and forget them."""
        found = [packet for packets in self._packets.values() for packet in packets]
        self._packets.clear()
        return found


class Relays:
    """What one daemon passes on between sites.

    Attributes:
        is_used: whether there are so many daemons that only relays speak with other sites.
        due: the time at which `step` is due.
        now: the time, in seconds.
    """

    __slots__ = (
        "_around",
        "_around_due",
        "_before",
        "_began_at",
        "_detector",
        "_far",
        "_flood",
        "_inward",
        "_inward_due",
        "_outward",
        "_outward_due",
        "_rank",
        "_ranked_at",
        "_reach",
        "_site",
        "_sites",
        "_timing",
        "is_used",
        "now",
    )

    def __init__(self, config: CoreConfig, flood: Flood, detector: FailureDetector) -> None:
        self._flood = flood
        self._detector = detector
        self._outward, self._inward, self._around = Held(), Held(), Held()
        self._outward_due = self._around_due = self._inward_due = inf
        self._began_at = self.now = self._ranked_at = -inf
        self._rank: int | None = None
        self._reach: dict[int, tuple[Row, frozenset[int | None], int | None]] = {}
        self.use_config(config)

    def use_config(self, config: CoreConfig) -> None:
        """Pass on between the sites of these settings from now on."""
        me = self._detector.key[0]
        self._timing = paced(config)
        self.is_used = config.has_relays
        self._flood.targets = (lambda: self.targets(self.now)) if self.is_used else None
        self._sites = [[daemon_number(name) for name in sorted(site)] for site in config.sites]
        self._site = next((site for site in self._sites if me in site), [me])
        self._far = [site for site in self._sites if me not in site]
        self._before = self._site[: self._site.index(me)]
        self._ranked_at = -inf
        self._reach.clear()

    def begin(self, now: float) -> None:
        """Note that this daemon begins to look for a view."""
        self._began_at = self.now = now

    @property
    def due(self) -> float:
        """Return the time at which something has to be passed on."""
        return min(self._outward_due, self._around_due, self._inward_due)

    # ---- who passes on, and to whom ----

    def rank(self, now: float) -> int | None:
        """Return which relay of its site this daemon is, from 0; None if it is none."""
        if now != self._ranked_at:
            place = sum(self._is_there(number, now) for number in self._before)
            self._rank, self._ranked_at = place if place < RELAYS else None, now
        return self._rank

    def _is_there(self, number: int, now: float) -> bool:
        """Return whether a daemon of the site is heard, or had not the time to be."""
        peer = self._detector.peers.get(number)
        if peer is None or peer.heard_from == -inf:
            return now < self._began_at + self._timing.repeat_s
        return not (peer.left or peer.differs) and peer.heard_at >= self._detector.fresh_since(now)

    def targets(self, now: float) -> list[str]:
        """Return the daemons of other sites to which this one speaks, by name.

        If it is a relay, that is one of each site, which is heard or was in the view that has
        ended, if any is. And it speaks to those that hear no daemon of its site before it.
        """
        rank, names = self.rank(now), self._detector.listed
        found = [] if rank is None else self._opposite(rank, now, None)
        me = self._detector.key[0]
        served = [peer.number for peer in self._heard(now) if self._reached(peer)[1] == me]
        return [names[number] for number in dict.fromkeys([*found, *served])]

    def seek(self, now: float, absent: Collection[int], beacons: int) -> list[str]:
        """Return the daemons outside the view to which the next beacon goes, by name.

        A relay speaks to one of each site. The others try each other once in a while, in turn, and
        go on with those that they hear: one path that works is enough to find each other.

        Args:
            now: seconds.
            absent: those of other sites outside the view, by number.
            beacons: the number of beacons so far.
        """
        if not absent:
            return []
        rank, me = self.rank(now), self._detector.key[0]
        found = [
            peer.number
            for peer in self._heard(now)
            if peer.number in absent and self._reached(peer)[1] in (me, None)
        ]
        if rank is not None:
            found += self._opposite(rank, now, absent)
        elif beacons % RARE == 0:
            place = len(self._before) + beacons // RARE
            sites = [[number for number in site if number in absent] for site in self._far]
            found += [site[place % len(site)] for site in sites if site]
        return [self._detector.listed[number] for number in dict.fromkeys(found)]

    def _opposite(self, rank: int, now: float, among: Collection[int] | None) -> list[int]:
        """Return a daemon of each other site, by number; of those in `among`, if it is not None."""
        since, peers = self._detector.fresh_since(now), self._detector.peers
        turn = int((now - self._began_at) / self._timing.answer_wait_s)
        found: list[int] = []
        for site in self._far:
            numbers = site if among is None else [number for number in site if number in among]
            there: list[int] = []
            for number in numbers:
                peer = peers.get(number)
                if peer is None or peer.left or peer.differs:
                    continue
                if self._detector.vouched.sign_at(peer, now) >= since:
                    there.append(number)
                    if len(there) > rank:
                        break
            if there:
                found.append(there[-1])
            elif numbers:
                found.append(numbers[(rank + RELAYS * turn) % len(numbers)])
        return found

    def note_heard(self, number: int) -> None:
        """Note a message of a daemon itself."""
        if not self._detector.is_near(number):
            self._detector.contacts.add(number)

    def _heard(self, now: float) -> list[PeerDaemon]:
        """Return the daemons of other sites that are heard."""
        detector, peers = self._detector, self._detector.peers
        since = detector.fresh_since(now)
        contacts = detector.contacts = {n for n in detector.contacts if peers[n].heard_at >= since}
        found = [peers[number] for number in sorted(contacts)]
        listed = detector.listed
        return [p for p in found if p.number in listed and not (p.left or p.differs)]

    def _reached(self, peer: PeerDaemon) -> tuple[frozenset[int | None], int | None]:
        """Return the sites of which a daemon hears somebody, with its own, and the first daemon of
        this site that it hears."""
        row = peer.row if peer.join is not None else peer.beacon_row
        known = self._reach.get(peer.number)
        if known is None or known[0] is not row:
            site_of, heard = self._detector.site_of, {number for number, _ in row}
            near = next((number for number in self._site if number in heard), None)
            sites = frozenset(site_of(number) for number in (*heard, peer.number))
            known = self._reach[peer.number] = row, sites, near
        return known[1:]

    # ---- passing on ----

    def note_passed_on(self, packet: ControlPacket, sender: int) -> None:
        """Note a packet that was passed on by another daemon of this site, which all of it get."""
        if self._detector.is_near(sender):
            self._inward.drop(packet)

    def pass_on(self, packet: ControlPacket, sender: int, now: float) -> None:
        """Pass on a packet that has come for the first time, soon."""
        detector, hold_s = self._detector, HOLD_S if packet.kind in _HELD else 0.0
        rank = self.rank(now)
        is_near = detector.is_near(packet.origin)
        if is_near and (rank is not None or detector.contacts):
            self._outward.add(packet)
            self._outward_due = min(self._outward_due, now + hold_s)
        if is_near:
            return
        if not detector.is_near(sender):
            wait_s = hold_s / 2 if rank == 0 else hold_s + self._timing.repeat_s / 2
            self._inward.add(packet)
            self._inward_due = min(self._inward_due, now + wait_s)
        if detector.contacts:
            self._around.add(packet)
            around_s = hold_s if len(detector.contacts) > FEW_CONTACTS else 0.0
            self._around_due = min(self._around_due, now + around_s)

    def step(self, now: float) -> None:
        """Pass on what has waited long enough."""
        self.now = now
        if now >= self._outward_due:
            self._outward_due = inf
            for message in _together(self._outward.pop()):
                self._flood.send_near(message, self.targets(now), site=False)
        if now >= self._around_due:
            self._around_due = inf
            self._pass_around(self._around.pop(), now)
        if now >= self._inward_due:
            self._inward_due = inf
            for message in _together(self._inward.pop()):
                self._flood.send_near(message, ())

    def _pass_around(self, packets: list[ControlPacket], now: float) -> None:
        """Pass on to the daemons that hear nobody of the sites from which packets are."""
        detector = self._detector
        since = now - detector.say_s - self._timing.longest_delay_s
        sites = {packet.origin: detector.site_of(packet.origin) for packet in packets}
        for peer in self._heard(now) if packets else ():
            if peer.heard_from > since or not peer.name:
                continue  # it has not had the time to say whom it hears
            reached, _ = self._reached(peer)
            lacking = [packet for packet in packets if sites[packet.origin] not in reached]
            for message in _together(lacking):
                self._flood.send_to(peer.name, message)

    # ---- pairs that are expected ----

    def connect(self, rows: Mapping[int, tuple[Row, Key]]) -> bool:
        """Return whether all of these daemons hear each other that are expected to.

        These are the daemons of each site, and between two sites the first ones of both, and the
        second ones.

        Args:
            rows: of each daemon, by number, whom it hears, and its own entry in such rows.
        """
        sites = [[number for number in site if number in rows] for site in self._sites]
        if sum(map(len, sites)) != len(rows):
            return False
        for site in sites:
            keys = frozenset(rows[number][1] for number in site)
            if any(len(keys - rows[number][0]) > 1 for number in site):  # all but its own
                return False
        return all(self._connects(sites, rank, rows) for rank in range(RELAYS))

    def _connects(
        self, sites: list[list[int]], rank: int, rows: Mapping[int, tuple[Row, Key]]
    ) -> bool:
        """Return whether the relays of one rank hear each other."""
        heads = {at: rows[site[rank]] for at, site in enumerate(sites) if len(site) > rank}
        everyone = frozenset(key for _, key in heads.values())
        for at, (row, _) in heads.items():
            linked = self._detector.linked_sites(at)
            if linked is None:
                lacks = len(everyone - row) - 1
            else:
                lacks = sum(s in heads and heads[s][1] not in row for s in linked)
            if lacks > 0:
                return False
        return True


def _together(packets: Iterable[ControlPacket]) -> list[Relayed]:
    """Return messages with these packets, none of them too large."""
    found: list[Relayed] = []
    batch: list[bytes] = []
    size = 0
    for packet in packets:
        if batch and size + len(packet.raw) > MOST_TOGETHER:
            found.append(Relayed(deflate_packets(batch)))
            batch, size = [], 0
        batch.append(packet.raw)
        size += len(packet.raw)
    if batch:
        found.append(Relayed(deflate_packets(batch)))
    return found
