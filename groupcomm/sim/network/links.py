"""Links between sites: which sites each joins, its delay, loss and width.

The sites may form any connected graph. A link of limited width has a queue of limited size.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import inf
from typing import Final, TypeAlias

import attrs

from groupcomm.config.core import shortest_paths
from groupcomm.errors import ConfigError
from groupcomm.sim.virtual_time import SECOND, microseconds

UDP_HEADER_BYTES: Final = 28
"""The headers of IPv4 and UDP before each datagram, which a link carries, too."""


class Bottleneck:
    """A sender of limited bandwidth, shared by all paths through it.

    Args:
        bytes_per_s: above 0, headers of IP and UDP included.
        queue_s: the longest wait in seconds; a datagram that would wait longer is dropped, as at
            the tail of a router's queue.

    Attributes:
        dropped: datagrams that met a full queue.
    """

    __slots__ = ("_free_at", "_queue_us", "_us_per_byte", "dropped")

    def __init__(self, bytes_per_s: float, queue_s: float) -> None:
        assert bytes_per_s > 0, "a way that passes nothing is cut, not narrow"
        self._us_per_byte = SECOND / bytes_per_s
        self._queue_us = microseconds(queue_s)
        self._free_at = 0.0
        self.dropped = 0

    def passed_at(self, now: int, size: int) -> int | None:
        """Return the time at which a datagram that comes now has passed; None if it is dropped."""
        begin = max(self._free_at, now)
        if begin - now > self._queue_us:
            self.dropped += 1
            return None
        self._free_at = begin + (size + UDP_HEADER_BYTES) * self._us_per_byte
        return int(self._free_at)


SitePair: TypeAlias = tuple[int, int]
"""Two sites by index, the lower first."""

USUAL_JITTER: Final = 0.05
"""The usual jitter of a link, as a share of its delay."""

QUEUE_S: Final = 0.1
"""The usual queue of a router before a link that is too narrow."""


@attrs.frozen(kw_only=True)
class SimulatedLink:
    """A link between two neighbouring sites, the same in both directions.

    Attributes:
        sites: the two, the lower first.
        delay_s: the delay one way.
        jitter_s: the largest additional delay, drawn for each burst of datagrams.
        loss: chance that a datagram is lost, 0 to 1, as long as a run has faults.
        bytes_per_s: the bandwidth of each direction; None for no limit.
        queue_s: the longest time for which datagrams wait for their turn; others are dropped.
        largest_bytes: the longest datagram; longer ones are lost silently; None: no limit.

    Raises:
        ConfigError: the sites are not in order, or a number is outside its range.
    """

    sites: SitePair
    delay_s: float
    jitter_s: float = 0.0
    loss: float = 0.0
    bytes_per_s: float | None = None
    queue_s: float = QUEUE_S
    largest_bytes: int | None = None

    def __attrs_post_init__(self) -> None:
        near, far = self.sites
        name = f"link {near}-{far}"
        if not 0 <= near < far:
            raise ConfigError(f"{name} does not join two sites, the lower one first")
        for what, value in (("delay_s", self.delay_s), ("jitter_s", self.jitter_s)):
            if not 0 <= value < inf:
                raise ConfigError(f"{name}: {what} is {value}; it must be at least 0")
        if not 0 <= self.loss < 1:
            raise ConfigError(f"{name}: loss is {self.loss}; it must be at least 0 and below 1")
        if self.bytes_per_s is not None and not self.bytes_per_s > 0:
            raise ConfigError(f"{name}: bytes_per_s is {self.bytes_per_s}; it must be above 0")
        if not self.queue_s > 0:
            raise ConfigError(f"{name}: queue_s is {self.queue_s}; it must be above 0")


# ---- shapes ----


def mesh(sites: int) -> set[SitePair]:
    """Return links between all pairs of sites."""
    return {(near, far) for far in range(sites) for near in range(far)}


def chain(sites: int) -> set[SitePair]:
    """Return links between each site and the next one."""
    return {(site, site + 1) for site in range(sites - 1)}


def star(sites: int) -> set[SitePair]:
    """Return links between all sites and the first one."""
    return {(0, site) for site in range(1, sites)}


def ring(sites: int) -> set[SitePair]:
    """Return a chain whose ends are neighbours, too."""
    return chain(sites) | ({(0, sites - 1)} if sites > 2 else set())


TOPOLOGIES: Final[Mapping[str, Callable[[int], set[SitePair]]]] = {
    "mesh": mesh,
    "chain": chain,
    "star": star,
    "ring": ring,
}


def equal_links(
    sites: int, delay_s: float, topology: Callable[[int], set[SitePair]] = mesh
) -> tuple[SimulatedLink, ...]:
    """Return links that are all alike: without loss, of any bandwidth, with the usual jitter."""
    jitter_s = USUAL_JITTER * delay_s
    return tuple(
        SimulatedLink(sites=pair, delay_s=delay_s, jitter_s=jitter_s)
        for pair in sorted(topology(sites))
    )


# ---- ways over several links ----


def longest_way_s(sites: int, links: Iterable[SimulatedLink]) -> float:
    """Return the longest delay over the shortest way between any two sites; inf if there is none.

    It is the delay of a datagram of the two sites farthest apart when all links jitter at their
    most.
    """
    lengths = {link.sites: link.delay_s + link.jitter_s for link in links}
    return max(shortest_paths(range(sites), lengths).values(), default=0.0)


def joined(among: Collection[int], pairs: Iterable[SitePair], start: int) -> set[int]:
    """Return the sites that `start` reaches over neighbours within `among`."""
    near = list(pairs)
    found, edge = {start}, [start]
    while edge:
        site = edge.pop()
        for pair in near:
            if site in pair:
                other = pair[0] + pair[1] - site
                if other in among and other not in found:
                    found.add(other)
                    edge.append(other)
    return found


def check_links(names: Sequence[str], links: Sequence[SimulatedLink]) -> None:
    """Raise ConfigError unless links join known sites, one for each pair, and reach all of these.

    Args:
        names: the names of the sites, for people.
        links: the links between them.
    """
    pairs = [link.sites for link in links]
    for near, far in pairs:
        if far >= len(names):
            raise ConfigError(f"link {near}-{far}: there are only {len(names)} sites, from 0")
        if pairs.count((near, far)) > 1:
            raise ConfigError(f"there are two links between {names[near]} and {names[far]}")
    apart = set(range(len(names))) - joined(range(len(names)), pairs, 0)
    if apart:
        lost = ", ".join(names[site] for site in sorted(apart))
        raise ConfigError(f"no links lead from {names[0]} to {lost}")
