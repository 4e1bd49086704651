"""Traffic by place, counted datagram by datagram, and the least that a plan's messages need."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

import attrs

from groupcomm.security.layout import SEAL_BYTES
from groupcomm.sim.cluster.host import SimulatedHost
from groupcomm.sim.network.links import UDP_HEADER_BYTES, SimulatedLink, SitePair
from groupcomm.sim.virtual_time import SECOND, Loop
from groupcomm_tools.plan.kinds import kind_of
from groupcomm_tools.plan.topology import Topology

_CHECKSUM_BYTES: Final = 4
OVERHEAD_BYTES: Final = UDP_HEADER_BYTES + SEAL_BYTES - _CHECKSUM_BYTES
"""The bytes by which an encrypted datagram is longer than the simulator's with a checksum."""


@attrs.define(kw_only=True)
class TrafficCount:
    """Datagrams, and their bytes with all headers of IP, UDP and encryption."""

    datagrams: int = 0
    bytes: int = 0

    def add(self, size: int) -> None:
        """Count one more datagram."""
        self.datagrams += 1
        self.bytes += size


@attrs.define(kw_only=True)
class LinkTraffic:
    """The traffic of one direction of a link.

    Attributes:
        sent: what was given to it.
        lost: datagrams of these that did not arrive.
        kinds: bytes by what the datagrams carry: data, join, horizon and so on.
    """

    sent: TrafficCount = attrs.field(factory=TrafficCount)
    lost: int = 0
    kinds: Counter[str] = attrs.field(factory=Counter)


@attrs.frozen(kw_only=True)
class TrafficPhase:
    """The traffic in a span of time.

    Attributes:
        seconds: the length of the span.
        ways: the traffic of each link, by its sites (from, to).
        sent, received: the traffic of each daemon, within its site and over links.
        unheard: datagrams to sites that are no neighbours of the sender's, which nobody hears.
        steps: for each daemon the number of its steps with work.
    """

    seconds: float
    ways: dict[SitePair, LinkTraffic]
    sent: Sequence[TrafficCount]
    received: Sequence[TrafficCount]
    unheard: int
    steps: Sequence[int]


class Meter:
    """A counter of a cluster's traffic, in phases.

    Args:
        loop: virtual time.
        hosts: the hosts of the cluster.
        links: the pairs of neighbouring sites.
    """

    def __init__(
        self, loop: Loop, hosts: Sequence[SimulatedHost], links: Sequence[SitePair]
    ) -> None:
        self._loop = loop
        self._hosts = hosts
        self._sites = [host.site for host in hosts]
        self._links = links
        self._last: bytes | None = None
        self.begin()

    def begin(self) -> None:
        """Count from now on."""
        self._since = self._loop.now
        self._ways = {
            way: LinkTraffic() for near, far in self._links for way in ((near, far), (far, near))
        }
        self._sent = [TrafficCount() for _ in self._hosts]
        self._received = [TrafficCount() for _ in self._hosts]
        self._unheard = 0
        self._steps = self._steps_so_far()

    def end(self) -> TrafficPhase:
        """Return the counts since `begin`; the next phase begins."""
        before, now = self._steps, self._steps_so_far()
        phase = TrafficPhase(
            seconds=(self._loop.now - self._since) / SECOND,
            ways=self._ways,
            sent=self._sent,
            received=self._received,
            unheard=self._unheard,
            steps=[late - early for early, late in zip(before, now, strict=True)],
        )
        self.begin()
        return phase

    def observe(self, source: int, target: int, datagram: bytes, goes_on: bool) -> None:
        """Count a datagram; for `Network.observers`."""
        size = len(datagram) + OVERHEAD_BYTES
        if datagram is not self._last:  # a multicast is reported once for each of its receivers
            self._last = datagram
            self._sent[source].add(size)
        if goes_on:
            self._received[target].add(size)
        near, far = self._sites[source], self._sites[target]
        if near != far:
            way = self._ways.get((near, far))
            if way is None:
                self._unheard += 1
                return
            way.sent.add(size)
            way.lost += not goes_on
            way.kinds[kind_of(datagram)] += size

    def _steps_so_far(self) -> list[int]:
        return [0 if host.process is None else host.process.steps for host in self._hosts]


def bodies_per_s(plan: Topology) -> dict[SitePair, float]:
    """Return the bytes a second that messages' bodies alone put on each direction of a link.

    That is the least that any protocol needs: a body goes once over each link on the ways with the
    fewest links, the shortest of these, from the sender's site to those of the members.
    """
    found = {way: 0.0 for link in plan.links for way in (link.sites, link.sites[::-1])}
    for load in plan.loads:
        before = _tree(plan.links, load.sender)
        used: set[SitePair] = set()
        for site in load.members:
            at = site
            while at != load.sender:
                used.add((before[at], at))
                at = before[at]
        for way in used:
            found[way] += load.rate * load.bytes
    return found


def _tree(links: Sequence[SimulatedLink], root: int) -> dict[int, int]:
    """Return per site the one before it on the way from `root`."""
    ways = {root: (0, 0.0)}
    before: dict[int, int] = {}
    again = True
    while again:
        again = False
        for link in links:
            for near, far in (link.sites, link.sites[::-1]):
                if near not in ways:
                    continue
                way = (ways[near][0] + 1, ways[near][1] + link.delay_s)
                if far not in ways or way < ways[far]:
                    ways[far], before[far], again = way, near, True
    return before
