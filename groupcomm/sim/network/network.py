"""Datagrams between hosts: one path per ordered pair, multicast within a site, unicast.

Paths lead within sites and over links, from each host of a site to each of a neighbouring one; a
datagram to any other host is lost. Without faults a path delivers everything, in order, after about
0.1 ms within a site or the link's delay. All paths over a link share its bandwidth, each direction
by itself. With faults, see faults/paths.py. A path that is cut loses all datagrams that are sent
from then on; those in flight still arrive.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import inf
from random import Random
from typing import Protocol, TypeAlias

import attrs

from groupcomm.sim.faults.faults import Faults
from groupcomm.sim.faults.paths import PathFaults
from groupcomm.sim.network.links import Bottleneck, SimulatedLink
from groupcomm.sim.virtual_time import Loop, microseconds, random_for

LAN_DELAY_US = 80
"""Least delay of a datagram within a site."""

LAN_JITTER_US = 40
"""The jitter: the most time that a datagram takes longer."""

Observer = Callable[[int, int, bytes, bool], None]
"""Called with (source, target, datagram, whether any copy of it is sent) for every datagram
sent."""

Put = Callable[[int, bytes], None]
"""Takes a datagram and the time of its arrival, which is yet to come."""


class Receiver(Protocol):
    """The receiver at the end of paths; its `put` may change with time."""

    put: Put


Pair: TypeAlias = tuple[int, int]
"""Source and target of a path, by index."""


@attrs.define(eq=False, repr=False)
class Path:
    """The way of datagrams from one host to another.

    Args:
        loop: virtual time.
        rng: this path's own source of random numbers.
        delay_us: the least delay, in microseconds.
        jitter_us: the most time that a datagram takes longer, in microseconds.
        receiver: the receiver at its end.
        loss: the probability that a datagram is lost while there is no other fault.
        bottleneck: the bottleneck that all paths over the same link share; None without a limit.

    Attributes:
        faults: the faults of datagrams; None while there are none.
        ruled: the treatment of chosen packets, which comes first; None for none.
        sent: the number of datagrams given to this path.
        loss: the probability that one is lost, besides `faults`; 1 while the path is cut.
        under_way_until: the time at which the last datagram sent so far arrives.
    """

    _loop: Loop
    _make_random: Callable[[], Random]
    _delay_us: int
    _jitter_us: int
    _receiver: Receiver
    loss: float = 0.0
    _bottleneck: Bottleneck | None = None
    _random: Callable[[], float] = attrs.field(init=False)
    _lossy: float = attrs.field(init=False)
    _last: int = 0  # the arrival of the latest datagram; a later one does not overtake it
    _burst_at: int = -1
    _burst_us: int = attrs.field(init=False)  # for all datagrams that are sent at one time
    _cuts: int = 0
    _thinned: float = 0.0
    faults: PathFaults | None = None
    ruled: PathFaults | None = None
    largest_bytes: float = inf
    sent: int = 0
    under_way_until: int = 0

    def __attrs_post_init__(self) -> None:
        self._random, self._lossy, self._burst_us = self._draw_first, self.loss, self._delay_us

    def _draw_first(self) -> float:
        """Draw for the first time: of the paths of many hosts most are never used."""
        self._random = self._make_random().random
        return self._random()

    def send(self, datagram: bytes) -> bool:
        """Send one datagram; return False if it is lost at once."""
        self.sent += 1
        if self.loss and self._random() < self.loss:
            return False
        if len(datagram) > self.largest_bytes:
            return False
        if self.ruled is not None:
            return self.ruled.send(datagram)
        return self.go_on(datagram, 0, False) > 0

    def go_on(self, datagram: bytes, extra_us: int, overtake: bool) -> int:
        """Let a datagram meet the faults of the path; see `transfer`, which they call."""
        if self.faults is None or extra_us:
            return self.transfer(datagram, extra_us, overtake)
        return int(self.faults.send(datagram))

    def transfer(self, datagram: bytes, extra_us: int, overtake: bool) -> int:
        """Let a datagram arrive, `extra_us` later than usual; return its arrival.

        The arrival is 0 if the way is narrow and has no room for it.
        """
        now = self._loop.now
        if self._bottleneck is not None:
            passed = self._bottleneck.passed_at(now, len(datagram))
            if passed is None:
                return 0
            extra_us += passed - now
        if now != self._burst_at:
            self._burst_at = now
            self._burst_us = self._delay_us + int(self._random() * self._jitter_us)
        arrival = now + self._burst_us + extra_us
        if not overtake:
            if arrival < self._last:
                arrival = self._last
            else:
                self._last = arrival
        if arrival > self.under_way_until:
            self.under_way_until = arrival
        self._receiver.put(arrival, datagram)
        return arrival

    def cut(self, count: int) -> None:
        """Cut it once more (1), or mend one cut (-1); it delivers again once all are mended."""
        self._cuts += count
        self._set_loss()

    def thin(self, loss: float) -> None:
        """Lose this share of the datagrams from now on."""
        self._thinned = loss
        self._set_loss()

    def end_loss(self) -> None:
        """Lose no more datagrams, except while the path is cut, or for lack of room."""
        self._lossy = self._thinned = 0.0
        self._set_loss()

    def _set_loss(self) -> None:
        passes = (1.0 - self._lossy) * (1.0 - self._thinned)
        self.loss = 1.0 if self._cuts else 1.0 - passes


class Network:
    """All paths between the hosts of one cluster.

    Args:
        loop: virtual time.
        seed: the seed of the run.
        names: the names of the hosts, by index.
        sites: for each site the indices of its hosts.
        links: the neighbouring sites, and the links between them.
        receivers: the hosts.

    Attributes:
        observers: called for every datagram sent.
        paths: the paths by (source, target), sorted.
        bottlenecks: the bottlenecks of links with limited bandwidth, by the sites (from, to).
    """

    def __init__(
        self,
        loop: Loop,
        seed: int,
        names: Sequence[str],
        sites: Sequence[Sequence[int]],
        links: Sequence[SimulatedLink],
        receivers: Sequence[Receiver],
    ) -> None:
        self._loop = loop
        self._seed = seed
        self._receivers = receivers
        self._indices = {name: index for index, name in enumerate(names)}
        self.observers: list[Observer] = []
        self.paths: dict[Pair, Path] = {}
        self.bottlenecks: dict[Pair, Bottleneck] = {}
        self._site_paths: dict[int, list[tuple[int, Path]]] = {}
        between = {pair: link for link in links for pair in (link.sites, link.sites[::-1])}
        for pair, link in between.items():
            if link.bytes_per_s is not None:
                self.bottlenecks[pair] = Bottleneck(link.bytes_per_s, link.queue_s)
        places = sorted((host, site) for site, members in enumerate(sites) for host in members)
        for source, near in places:
            self._site_paths[source] = []
            for target, far in places:
                if source == target:
                    continue
                over, bottleneck = between.get((near, far)), self.bottlenecks.get((near, far))
                if near == far or over is not None:
                    path = self.paths[source, target] = self._make_path(
                        f"path {source} {target}", receivers[target], over, bottleneck
                    )
                    if near == far:
                        self._site_paths[source].append((target, path))

    def _make_path(
        self,
        name: str,
        receiver: Receiver,
        link: SimulatedLink | None,
        bottleneck: Bottleneck | None,
    ) -> Path:
        rng = partial(random_for, self._seed, name)
        if link is None:
            return Path(self._loop, rng, LAN_DELAY_US, LAN_JITTER_US, receiver)
        delay_us, jitter_us = microseconds(link.delay_s), microseconds(link.jitter_s)
        path = Path(self._loop, rng, delay_us, jitter_us, receiver, link.loss, bottleneck)
        path.largest_bytes = inf if link.largest_bytes is None else link.largest_bytes
        return path

    def unicast(self, source: int, target: str, datagram: bytes) -> None:
        """Send to one host, by its name; a datagram to an unknown host is lost."""
        index = self._indices.get(target)
        if index is None:
            return
        if index == source:  # an earlier start, or a clone, was heard at its address
            self._receivers[index].put(self._loop.now + LAN_DELAY_US, datagram)
            return
        path = self.paths.get((source, index))
        goes_on = path is not None and path.send(datagram)
        for observer in self.observers:
            observer(source, index, datagram, goes_on)

    def multicast(self, source: int, datagram: bytes) -> None:
        """Send to all other hosts of the source's site."""
        observers = self.observers
        for target, path in self._site_paths[source]:
            goes_on = path.send(datagram)
            if observers:
                for observer in observers:
                    observer(source, target, datagram, goes_on)

    # ---- faults ----

    def start_faults(self, faults: Faults, part: str = "") -> None:
        """Start the faults of datagrams.

        Args:
            faults: the faults, and how strong they are.
            part: the part of the run; each has its own random sources.
        """
        if not faults.on_paths:
            return
        for (source, target), path in self.paths.items():
            rng = random_for(self._seed, f"faults {source} {target}{part}")
            path.faults = PathFaults(self._loop, rng, faults, path.transfer)

    def end_faults(self) -> None:
        """End all faults but cuts; held datagrams are released, copies still come.

        Links keep their delays and bandwidths; their own losses end.
        """
        for path in self.paths.values():
            path.end_loss()
            if path.faults is not None:
                path.faults.flush()
                path.faults = None

    def jam(self, host: int, until: int) -> None:
        """Hold all datagrams to a host until a time, then release them in order."""
        for (_, target), path in self.paths.items():
            if target == host and path.faults is not None:
                path.faults.jam(until)

    def cut(self, pairs: Iterable[Pair]) -> None:
        """Cut paths; each cut lasts until it is mended, also beside others of the same path."""
        self._cut(pairs, 1)

    def mend(self, pairs: Iterable[Pair]) -> None:
        """Take back one cut of each of these paths."""
        self._cut(pairs, -1)

    def narrow(self, pairs: Iterable[Pair], largest_bytes: float) -> None:
        """Lose longer datagrams on these paths silently; inf ends that."""
        for pair in pairs:
            path = self.paths.get(pair)
            if path is not None:
                path.largest_bytes = largest_bytes

    def _cut(self, pairs: Iterable[Pair], count: int) -> None:
        for pair in pairs:
            path = self.paths.get(pair)
            if path is not None:  # there is no path to hosts of a site that is no neighbour
                path.cut(count)
