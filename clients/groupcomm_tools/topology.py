"""Several sites on one host: their daemons, and the links between them.

The links are those of a relay (relay.py), which delays and loses datagrams as real networks do.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from math import ceil
from typing import Final, Self

import attrs

from groupcomm.config.core import shortest_paths
from groupcomm.errors import ConfigError
from groupcomm_tools.relay import Line, Pair

SITE_NAMES: Final = ("north", "south", "east", "west", "hill", "lake", "port", "wood")
MAX_SITES: Final = len(SITE_NAMES)
SHAPES: Final = ("mesh", "chain", "ring", "star")
LINK_PACKET_BYTES: Final = 1340
BYTES_PER_S: Final = 125_000
"""Bytes a second of one megabit a second."""

NO_WAY: Final = Line(loss=1.0)
"""The line between sites that do not hear each other."""


def make_line(
    *, delay_ms: float = 0.0, jitter_ms: float = 0.0, mbit: float | None = None, loss: float = 0.0
) -> Line:
    """Return a line, from the units that people use.

    Args:
        delay_ms: the delay of one way, milliseconds.
        jitter_ms: the most additional delay, milliseconds.
        mbit: bandwidth, megabits a second; None for unlimited.
        loss: probability that a datagram is lost.

    Raises:
        ConfigError: an argument is out of its range.
    """
    if min(delay_ms, jitter_ms) < 0 or not 0 <= loss <= 1 or (mbit is not None and mbit <= 0):
        raise ConfigError(
            f"a line with delay-ms {delay_ms:g}, jitter-ms {jitter_ms:g}, loss {loss:g}"
            + (f", mbit {mbit:g}" if mbit is not None else "")
            + " is invalid: delays must be at least 0, loss 0 to 1, mbit above 0"
        )
    return Line(
        delay_s=delay_ms / 1000,
        jitter_s=jitter_ms / 1000,
        bytes_per_s=None if mbit is None else mbit * BYTES_PER_S,
        loss=loss,
    )


@attrs.frozen(kw_only=True)
class Topology:
    """Sites of daemons, and the links between them.

    Attributes:
        sites: names of the daemons, by site.
        links: lines by the names of two sites; sites without a link do not hear each other.
    """

    sites: Mapping[str, tuple[str, ...]]
    links: Mapping[tuple[str, str], Line]

    @classmethod
    def of(cls, names: Sequence[str], sites: int, line: Line, shape: str = "mesh") -> Self:
        """Return a topology that shares daemons among sites, as evenly as possible and in order.

        Args:
            names: names of the daemons.
            sites: number of sites, 1 to MAX_SITES.
            line: the line between two sites that have a link, in both directions.
            shape: the sites that have a link: each two (mesh), neighbours in a line (chain) or on a
                circle (ring), or the first and each other one (star).

        Raises:
            ConfigError: the number of sites is impossible, or there is no such shape.
        """
        if not 1 <= sites <= min(MAX_SITES, len(names)):
            most = min(MAX_SITES, len(names))
            raise ConfigError(f"sites is {sites}; {len(names)} daemons can be in 1 to {most}")
        bounds = [len(names) * site // sites for site in range(sites + 1)]
        chosen = SITE_NAMES[:sites]
        return cls(
            sites={
                site: tuple(names[first:end])
                for site, (first, end) in zip(chosen, pairwise(bounds), strict=True)
            },
            links=dict.fromkeys(_pairs(chosen, shape), line),
        )

    @property
    def daemons(self) -> tuple[str, ...]:
        """Return the names of all daemons, by site."""
        return tuple(name for names in self.sites.values() for name in names)

    def site_of(self, daemon: str) -> str:
        """Return the site of a daemon."""
        return next(site for site, names in self.sites.items() if daemon in names)

    def link(self, one: str, other: str) -> Line:
        """Return the line between two sites."""
        return self.links.get((one, other)) or self.links.get((other, one)) or NO_WAY

    def lines(self, within: Line | None = None) -> dict[Pair, Line | None]:
        """Return the lines of a relay, by ordered pair of daemons.

        Args:
            within: the line between daemons of one site; None if they communicate directly.
        """
        return {
            (source, target): within if near == far else self.link(near, far)
            for near, sources in self.sites.items()
            for far, targets in self.sites.items()
            for source in sources
            for target in targets
            if source != target
        }

    def between(self, *sites: str) -> Iterator[Pair]:
        """Yield all ordered pairs of daemons of two sites; with one site, of this and all
        others.
        """
        one, *others = sites
        for other in others or [site for site in self.sites if site != one]:
            for near in self.sites[one]:
                for far in self.sites[other]:
                    yield near, far
                    yield far, near

    @property
    def longest_delay_s(self) -> float:
        """Return the longest way between two sites, in seconds, along the shortest links."""
        lengths = {pair: line.delay_s + line.jitter_s for pair, line in self.links.items()}
        return max(shortest_paths(self.sites, lengths).values(), default=0.0)

    def settings(self, packet_bytes: int = LINK_PACKET_BYTES) -> str:
        """Return the links as TOML, for the head of the daemons' configuration."""
        return "".join(
            f"links.{one}-{other} = {{ delay_ms = {ceil((line.delay_s + line.jitter_s) * 1000)},"
            f" packet_bytes = {packet_bytes} }}\n"
            for (one, other), line in self.links.items()
        )


def _pairs(sites: Sequence[str], shape: str) -> list[tuple[str, str]]:
    if shape not in SHAPES:
        raise ConfigError(f"shape is {shape!r}; it must be one of {', '.join(SHAPES)}")
    if shape == "mesh" or len(sites) < 3:
        return list(combinations(sites, 2))
    if shape == "star":
        return [(sites[0], site) for site in sites[1:]]
    around = [(sites[-1], sites[0])] if shape == "ring" else []
    return [*pairwise(sites), *around]
