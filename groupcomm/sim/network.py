"""Datagrams between daemons: one path per ordered pair, multicast within a ring, unicast.

Without faults a path delivers everything, in order, after about 0.1 ms within a ring or the
configured one-way delay between two. With faults, see path_faults.py.
"""

from collections.abc import Callable, Sequence
from random import Random

from groupcomm.sim.faults import Faults
from groupcomm.sim.loop import Loop, microseconds, random_for
from groupcomm.sim.path_faults import PathFaults

LAN_DELAY_US = 80
"""Least delay of a datagram within a ring."""

LAN_JITTER_US = 40
"""How much longer it may take."""

WAN_JITTER = 0.05
"""The same between rings, as a share of the delay."""

Observer = Callable[[int, int, bytes, bool], None]
"""Is told (source, target, datagram, whether anything of it goes on) of every datagram sent."""


class Path:
    """The way of datagrams from one daemon to another.

    Attributes:
        faults: what befalls them; None while nothing does.
        sent: datagrams given to this path.
    """

    __slots__ = ("_delay", "_deliver", "_jitter", "_last", "_loop", "_random", "faults", "sent")

    def __init__(
        self,
        loop: Loop,
        rng: Random,
        delay_us: int,
        jitter_us: int,
        deliver: Callable[[bytes], None],
    ) -> None:
        self._loop = loop
        self._random = rng.random
        self._delay = delay_us
        self._jitter = jitter_us
        self._deliver = deliver
        self._last = 0  # arrival of the latest datagram; a later one does not overtake it
        self.faults: PathFaults | None = None
        self.sent = 0

    def send(self, datagram: bytes) -> bool:
        """Put one datagram on its way; False if it is lost at once."""
        self.sent += 1
        if self.faults is not None:
            return self.faults.send(datagram)
        self.transfer(datagram, 0, False)
        return True

    def transfer(self, datagram: bytes, extra_us: int, overtake: bool) -> int:
        """Let a datagram arrive, `extra_us` later than usual; return the time of its arrival."""
        loop = self._loop
        arrival = loop.now + self._delay + int(self._random() * self._jitter) + extra_us
        if not overtake:
            arrival = max(arrival, self._last)
            self._last = arrival
        loop.at(arrival, self._deliver, datagram)
        return arrival


class Network:
    """All paths between the daemons of one cluster.

    Args:
        loop: virtual time.
        seed: of the run.
        rings: per ring the indices of its daemons.
        delays_s: one-way delay in seconds from each ring (first index) to each other.
        receivers: per daemon what takes an arriving datagram.

    Attributes:
        observers: are told of every datagram sent.
        paths: by (source, target).
    """

    def __init__(
        self,
        loop: Loop,
        seed: int,
        rings: Sequence[Sequence[int]],
        delays_s: Sequence[Sequence[float]],
        receivers: Sequence[Callable[[bytes], None]],
    ) -> None:
        self._loop = loop
        self._seed = seed
        self.observers: list[Observer] = []
        self.paths: dict[tuple[int, int], Path] = {}
        self._fellows: dict[int, list[tuple[int, Path]]] = {}
        places = sorted((daemon, ring) for ring, members in enumerate(rings) for daemon in members)
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

    def unicast(self, source: int, target: int, datagram: bytes) -> None:
        """Send to one daemon."""
        goes_on = self.paths[source, target].send(datagram)
        for observer in self.observers:
            observer(source, target, datagram, goes_on)

    def multicast(self, source: int, datagram: bytes) -> None:
        """Send to all other daemons of the source's ring."""
        for target, path in self._fellows[source]:
            goes_on = path.send(datagram)
            for observer in self.observers:
                observer(source, target, datagram, goes_on)

    def start_faults(self, faults: Faults) -> None:
        """Let datagrams suffer from now on."""
        if not faults.on_paths:
            return
        for (source, target), path in self.paths.items():
            rng = random_for(self._seed, f"faults {source} {target}")
            path.faults = PathFaults(self._loop, rng, faults, path.transfer)

    def end_faults(self) -> None:
        """From now on nothing goes wrong; what is held goes on, copies still come."""
        for path in self.paths.values():
            if path.faults is not None:
                path.faults.flush()
                path.faults = None

    def jam(self, daemon: int, until: int) -> None:
        """Hold everything on its way to a daemon until a time, then let it go in order."""
        for (_, target), path in self.paths.items():
            if target == daemon and path.faults is not None:
                path.faults.jammed_until = until
