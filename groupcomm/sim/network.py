"""Datagrams between hosts: one path per ordered pair, multicast within a site, unicast.

Without faults a path delivers everything, in order, after about 0.1 ms within a site or the
configured one-way delay between two. With faults, see path_faults.py. A path that is cut delivers
nothing of what is sent from then on; what is under way still comes.
"""

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Protocol, TypeAlias

from groupcomm.sim.faults import Faults
from groupcomm.sim.loop import Loop, microseconds, random_for
from groupcomm.sim.path_faults import PathFaults

LAN_DELAY_US = 80
"""Least delay of a datagram within a site."""

LAN_JITTER_US = 40
"""How much longer it may take."""

WAN_JITTER = 0.05
"""The same between sites, as a share of the delay."""

Observer = Callable[[int, int, bytes, bool], None]
"""Is told (source, target, datagram, whether anything of it goes on) of every datagram sent."""

Put = Callable[[int, bytes], None]
"""Takes a datagram and the time of its arrival, which is yet to come."""


class Receiver(Protocol):
    """Whoever is at the end of paths; what `put` is may change with time."""

    put: Put


Pair: TypeAlias = tuple[int, int]
"""Source and target of a path, by index."""


class Path:
    """The way of datagrams from one host to another.

    Attributes:
        faults: what befalls them; None while nothing does.
        sent: datagrams given to this path.
        loss: chance that one is lost, besides `faults`; 1 while the path is cut.
        under_way_until: when the last of those sent so far arrives.
    """

    __slots__ = (
        "_burst_at",
        "_burst_us",
        "_cuts",
        "_delay",
        "_jitter",
        "_last",
        "_loop",
        "_random",
        "_receiver",
        "_thinned",
        "faults",
        "loss",
        "sent",
        "under_way_until",
    )

    def __init__(
        self, loop: Loop, rng: Random, delay_us: int, jitter_us: int, receiver: Receiver
    ) -> None:
        self._loop = loop
        self._random = rng.random
        self._delay = delay_us
        self._jitter = jitter_us
        self._receiver = receiver
        self._last = 0  # arrival of the latest datagram; a later one does not overtake it
        self._burst_at = -1
        self._burst_us = delay_us  # what is sent at one moment is under way for the same time
        self._cuts = 0
        self._thinned = 0.0
        self.faults: PathFaults | None = None
        self.sent = 0
        self.loss = 0.0
        self.under_way_until = 0

    def send(self, datagram: bytes) -> bool:
        """Put one datagram on its way; False if it is lost at once."""
        self.sent += 1
        if self.loss and self._random() < self.loss:
            return False
        if self.faults is not None:
            return self.faults.send(datagram)
        self.transfer(datagram, 0, False)
        return True

    def transfer(self, datagram: bytes, extra_us: int, overtake: bool) -> int:
        """Let a datagram arrive, `extra_us` later than usual; return the time of its arrival."""
        now = self._loop.now
        if now != self._burst_at:
            self._burst_at = now
            self._burst_us = self._delay + int(self._random() * self._jitter)
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
        """Lose this share of what is sent from now on."""
        self._thinned = loss
        self._set_loss()

    def _set_loss(self) -> None:
        self.loss = 1.0 if self._cuts else self._thinned


class Network:
    """All paths between the hosts of one cluster.

    Args:
        loop: virtual time.
        seed: of the run.
        names: of the hosts, by index.
        sites: per site the indices of its hosts.
        delays_s: one-way delay in seconds from each site (first index) to each other.
        receivers: the hosts.

    Attributes:
        observers: are told of every datagram sent.
        paths: by (source, target).
    """

    def __init__(
        self,
        loop: Loop,
        seed: int,
        names: Sequence[str],
        sites: Sequence[Sequence[int]],
        delays_s: Sequence[Sequence[float]],
        receivers: Sequence[Receiver],
    ) -> None:
        self._loop = loop
        self._seed = seed
        self._receivers = receivers
        self._indices = {name: index for index, name in enumerate(names)}
        self.observers: list[Observer] = []
        self.paths: dict[Pair, Path] = {}
        self._fellows: dict[int, list[tuple[int, Path]]] = {}
        places = sorted((host, site) for site, members in enumerate(sites) for host in members)
        for source, near in places:
            self._fellows[source] = []
            for target, far in places:
                if source == target:
                    continue
                delay, jitter = LAN_DELAY_US, LAN_JITTER_US
                if near != far:
                    delay = microseconds(delays_s[near][far])
                    jitter = int(delay * WAN_JITTER)
                rng = random_for(seed, f"path {source} {target}")
                path = Path(loop, rng, delay, jitter, receivers[target])
                self.paths[source, target] = path
                if near == far:
                    self._fellows[source].append((target, path))

    def unicast(self, source: int, target: str, datagram: bytes) -> None:
        """Send to one host, by its name."""
        index = self._indices[target]
        if index == source:  # its own address: an earlier start of it, or a clone, was heard
            self._receivers[index].put(self._loop.now + LAN_DELAY_US, datagram)
            return
        goes_on = self.paths[source, index].send(datagram)
        for observer in self.observers:
            observer(source, index, datagram, goes_on)

    def multicast(self, source: int, datagram: bytes) -> None:
        """Send to all other hosts of the source's site."""
        observers = self.observers
        for target, path in self._fellows[source]:
            goes_on = path.send(datagram)
            if observers:
                for observer in observers:
                    observer(source, target, datagram, goes_on)

    # ---- faults ----

    def start_faults(self, faults: Faults) -> None:
        """Let datagrams suffer from now on."""
        if not faults.on_paths:
            return
        for (source, target), path in self.paths.items():
            rng = random_for(self._seed, f"faults {source} {target}")
            path.faults = PathFaults(self._loop, rng, faults, path.transfer)

    def end_faults(self) -> None:
        """From now on nothing goes wrong but cuts; what is held goes on, copies still come."""
        for path in self.paths.values():
            path.thin(0.0)
            if path.faults is not None:
                path.faults.flush()
                path.faults = None

    def jam(self, host: int, until: int) -> None:
        """Hold everything on its way to a host until a time, then let it go in order."""
        for (_, target), path in self.paths.items():
            if target == host and path.faults is not None:
                path.faults.jam(until)

    def cut(self, pairs: Iterable[Pair]) -> None:
        """Cut paths; each cut lasts until it is mended, also beside others of the same path."""
        for pair in pairs:
            self.paths[pair].cut(1)

    def mend(self, pairs: Iterable[Pair]) -> None:
        """Take back one cut of each of these paths."""
        for pair in pairs:
            self.paths[pair].cut(-1)
