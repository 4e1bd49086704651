"""The operational phase: beacons, and the watch over the ring and the links of a view.

Pure. ``now`` is in seconds. A member of the ring that falls silent ends the view. So does the other
end of a link, unless the remaining links still join all rings: then all are told, and route around
that link until its end is heard again. So it is with a link over which a packet is sent in vain,
though its other end is heard (link/in_vain.py).

Each daemon tells all others over which of its own links it hears nothing (`LinkStates`). A link is
used only if neither end reports it.
"""

from collections.abc import Iterable
from math import inf
from typing import Final, TypeAlias

from groupcomm.config.core import Timing
from groupcomm.config.view import View
from groupcomm.membership.context import RunningView
from groupcomm.membership.failure_detector import FailureDetector
from groupcomm.membership.flood import Flood
from groupcomm.membership.peer import PeerDaemon
from groupcomm.membership.proposal import joins_all
from groupcomm.membership.relays import RARE, Relays
from groupcomm.membership.reservation import SLOW_S
from groupcomm.membership.short_forms import ShortForms
from groupcomm.names import daemon_number
from groupcomm.wire.membership import Links

Pair: TypeAlias = tuple[int, int]
"""A link, by the indices of its ends in the view, the lower one first."""


class LinkStates:
    """The links of one view, as one daemon knows them.

    Attributes:
        own: its own links that it cannot use.
    """

    __slots__ = ("_links", "_me", "_reports", "_view", "own")

    def __init__(self, view: View, me: int) -> None:
        self._view = view
        self._links = frozenset(view.links)
        self._me = me
        self.own: frozenset[Pair] = frozenset()
        self._reports: dict[int, frozenset[Pair]] = {}

    def link_to(self, daemon: int) -> Pair | None:
        """Return the link from here to a daemon, if there is one."""
        pair = (min(self._me, daemon), max(self._me, daemon))
        return pair if pair in self._links else None

    def lose(self, pair: Pair) -> None:
        """Note that an own link carries nothing any more."""
        self.own |= {pair}

    def regain(self, pair: Pair) -> None:
        """Note that an own link carries something again, both ways."""
        self.own -= {pair}

    def receive_report(self, daemon: int, lost: frozenset[Pair]) -> bool:
        """Note the report of a daemon about its links; return whether it is news."""
        told = frozenset(pair for pair in lost if daemon in pair and pair in self._links)
        if told == self._reports.get(daemon, frozenset()):
            return False
        self._reports[daemon] = told
        return True

    @property
    def usable(self) -> tuple[Pair, ...]:
        """Return the links that both ends can use."""
        lost = self.own.union(*self._reports.values())
        return tuple(pair for pair in self._view.links if pair not in lost)

    @property
    def join_all(self) -> bool:
        """Return whether the usable links still join all rings."""
        return joins_all(self._view, self.usable)


STEADY_BEACONS: Final = 4
"""After this many beacons in a row, all saying that this daemon is heard, a path works again."""

REPEATS: Final = 5
"""The repetitions of a change of links; while a link is lost it goes with every beacon. As many
beacons with another roster go to all."""


WAITED_TIMEOUTS: Final = 16
"""The token timeouts from the beginning of a view on for which a member is waited for that says
that it still delivers the rest of the view before."""

GATHERED_S: Final = 0.05
"""Where there are many daemons, reports of lost links that come within this time change the routes
together: each of a hundred gateways that miss a site reports it, and routes take a while."""


class OperationalPhase:
    """The duties of one daemon in its operational views.

    Attributes:
        deadline: the time at which `step` is due.
    """

    __slots__ = (
        "_absent",
        "_beacon_due",
        "_beacons",
        "_beside",
        "_detector",
        "_flood",
        "_for_all",
        "_indices",
        "_links",
        "_partners",
        "_relays",
        "_remote",
        "_repeats",
        "_reroute_due",
        "_rerouted_at",
        "_running",
        "_short",
        "_timing",
        "_view",
        "_waits_until",
        "announced_mark",
        "deadline",
    )

    def __init__(
        self,
        timing: Timing,
        flood: Flood,
        detector: FailureDetector,
        relays: Relays,
        short: ShortForms,
    ) -> None:
        self._short = short
        self._relays = relays
        self._timing = timing
        self._flood = flood
        self._detector = detector
        self._running: RunningView | None = None
        self._view: View | None = None
        self._links: LinkStates | None = None
        self._indices: dict[int, int] = {}
        self._remote: list[str] = []  # the daemons of other sites for which these were made:
        self._partners: list[str] = []
        self._absent: list[str] = []
        self._beside: list[str] = []
        self._repeats = self._beacons = self._for_all = 0
        self.announced_mark = 0  # the mark in the last beacon
        self._waits_until = self._rerouted_at = -inf
        self._reroute_due = inf
        self._beacon_due = inf
        self.deadline = inf

    def begin(self, view: View, running: RunningView, gathered_at: float, now: float) -> None:
        """Begin a view that was sought since `gathered_at`."""
        self._view, self._running = view, running
        self._indices = {daemon.number: index for index, daemon in enumerate(view.daemons)}
        self._links = LinkStates(view, self._indices[self._detector.key[0]])
        self._repeats = self._beacons = self._for_all = 0
        self._rerouted_at, self._reroute_due = -inf, inf
        self._remote = []
        self._detector.watch(view, gathered_at, now)
        self._beacon_due = self.deadline = now
        self._waits_until = now + WAITED_TIMEOUTS * self._timing.token_timeout_s

    def tell_settings(self) -> None:
        """Send the next beacons to all: they have new settings, another roster."""
        self._for_all = REPEATS

    def excuse(self, number: int, now: float) -> None:
        """Wait for a member that says that it still delivers the rest of the view before."""
        if self._running is not None and now < self._waits_until:
            self._running.excuse(number, now)

    # ---- links ----

    def on_links(self, peer: PeerDaemon, links: Links, now: float) -> bool:
        """Process a report of links; return False if the remaining ones do not join all rings."""
        states, view = self._links, self._view
        if states is None or view is None or links.view != view.key:
            return True
        index = self._indices.get(peer.number)
        if index is None or not states.receive_report(index, frozenset(links.lost)):
            return True
        if self._relays.is_used and now < self._rerouted_at + GATHERED_S:
            self._reroute_due = self._rerouted_at + GATHERED_S
            self.deadline = min(self.deadline, self._reroute_due)
            return True
        return self._reroute(states, now)

    def on_beacon(self, peer: PeerDaemon, now: float) -> None:
        """Process a beacon of another member: a lost link may be usable again."""
        pair = self._link_to(peer)
        if pair is None or self._links is None or pair not in self._links.own:
            return
        if peer.streak >= STEADY_BEACONS:
            self._links.regain(pair)
            self._detector.watch_again(peer, now)
            self.deadline = min(self.deadline, self._detector.silence_due)
            self._announce_links()
            self._reroute(self._links, now)

    def _link_to(self, peer: PeerDaemon) -> Pair | None:
        index = self._indices.get(peer.number)
        return self._links.link_to(index) if self._links is not None and index is not None else None

    def lose_link(self, peer: PeerDaemon, now: float) -> bool:
        """Route around a daemon that packets do not reach; return False if the view cannot."""
        self._detector.watch_no_more(peer)
        self.deadline = min(self.deadline, self._detector.silence_due)
        return self._lose([peer], now)

    def _lose(self, peers: list[PeerDaemon], now: float) -> bool:
        """Route around these daemons; return False if the view cannot continue without them."""
        states = self._links
        assert states is not None
        for peer in peers:
            pair = self._link_to(peer)
            if pair is None:  # the daemon is a member of the ring
                return False
            states.lose(pair)
            peer.streak = 0
        if not self._reroute(states, now):
            return False
        self._announce_links()
        return True

    def _reroute(self, states: LinkStates, now: float) -> bool:
        if not states.join_all:
            return False
        assert self._running is not None
        self._running.reroute(states.usable, now)
        self._rerouted_at, self._reroute_due = now, inf
        return True

    def _announce_links(self) -> None:
        self._repeats = REPEATS
        self._send_links()

    def _send_links(self) -> None:
        assert self._view is not None
        assert self._links is not None
        self._flood.send_all(Links(self._view.key, tuple(sorted(self._links.own))))

    # ---- one step ----

    @property
    def owes_mark(self) -> bool:
        """Return whether the disk has reserved a mark that others need and do not know."""
        disk = self._detector.reservation
        return self.announced_mark < disk.needed <= disk.mark

    def _send_beacon(self, now: float) -> None:
        """Send a beacon to all, or in a large cluster to those that expect one.

        Of a slow disk all have to know, as they wait for it before they seek a view with others.
        """
        detector, view = self._detector, self._view
        assert view is not None
        owes_mark, disk = self.owes_mark, detector.reservation
        self._beacon_due = now + self._timing.beacon_interval_s
        self.announced_mark = disk.mark
        beacon = self._short.shorten(detector.make_beacon(view, now), now)
        vouched = detector.vouched
        if not self._relays.is_used and (
            not vouched.is_used or owes_mark or self._for_all or disk.write_s > SLOW_S
        ):
            self._for_all = max(self._for_all - 1, 0)
            self._flood.send_all(beacon)
            return
        if self._remote is not self._flood.remote:
            self._remote = self._flood.remote
            far = {name: daemon_number(name) for name in self._remote}
            self._absent = [name for name in far if far[name] not in view.numbers]
            self._partners = [
                name
                for name in far
                if far[name] in view.numbers and not vouched.needs_no_beacon(far[name])
            ]
            self._beside = [
                daemon.name for daemon in view.daemons if daemon.number in vouched.beside
            ]
        names = list(self._partners)
        names += self._seek(now)
        for_site = self._beacons % vouched.rounds == 0
        if not for_site:
            names += self._beside
        self._beacons += 1
        self._flood.send_near(beacon, names, site=for_site)

    def _seek(self, now: float) -> Iterable[str]:
        """Return the daemons outside the view that get the next beacon."""
        if self._relays.is_used:
            absent = {daemon_number(name) for name in self._absent}
            return self._relays.seek(now, absent, self._beacons)
        view = self._view
        assert view is not None
        me = self._indices[self._detector.key[0]]
        is_first = me == view.rings[view.ring_of[me]][0]
        return self._absent if is_first or self._beacons % RARE == 0 else ()

    def step(self, now: float) -> bool:
        """Act as the time requires; return False if the view cannot continue."""
        detector = self._detector
        if now >= self._beacon_due or self.owes_mark:
            self._send_beacon(now)
            if self._repeats or (self._links is not None and self._links.own):
                self._repeats = max(self._repeats - 1, 0)
                self._send_links()
        if now >= detector.silence_due:
            silent = detector.pop_silent(now)
            if silent and not self._lose(silent, now):
                return False
        states = self._links if now >= self._reroute_due else None
        if states is not None and not self._reroute(states, now):
            return False
        self.deadline = min(self._beacon_due, detector.silence_due, self._reroute_due)
        return True
